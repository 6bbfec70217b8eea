"""Consume queue units: fixed 20-byte pointers into the commitlog.

A consume queue file is a bare array of units, without header or trailer. Its
name is the byte position of its first unit in the queue, so unit ``i`` of file
``base`` has queue offset ``base // UNIT.itemsize + i``.

Source: ``org.apache.rocketmq.store.ConsumeQueue`` of RocketMQ 5.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import LayoutError

Units = npt.NDArray[np.void]  # shape (n,), dtype UNIT
Mask = npt.NDArray[np.bool_]  # shape (n,), one verdict per unit

UNIT: Final = np.dtype(
    [
        ("physical_offset", ">i8"),  # byte 0: where the record starts, in bytes
        ("size", ">i4"),  # byte 8: the whole record in bytes, not only its body
        ("tags_code", ">i8"),  # byte 12: tag hash, deliver time or ext address
    ]
)
UNIT_BYTES: Final = UNIT.itemsize
RECOVERED_FILES: Final = 3  # of a queue, the last ones, are read when a broker starts; of a batch queue, too
PRE_BLANK_SIZE: Final = 2**31 - 1
PRE_BLANK: Final = np.array((0, PRE_BLANK_SIZE, 0), dtype=UNIT)  # filler before the first unit


def decode(data: bytes | memoryview) -> Units:
    """View bytes of a consume queue file as units, without copying them.

    Args:
        data: Whole units; may be empty.

    Returns:
        Read-only array, shape ``(n,)``, dtype ``UNIT``, big-endian as on disk.

    Raises:
        LayoutError: The length is not a multiple of ``UNIT.itemsize``. Cutting
            off and reporting a ragged tail is the scanner's duty.
    """
    view = memoryview(data).toreadonly()
    if view.nbytes % UNIT.itemsize:
        raise LayoutError(f"{view.nbytes} bytes are not whole {UNIT.itemsize}-byte units")
    return np.frombuffer(view, dtype=UNIT)


def encode(
    physical_offset: npt.NDArray[np.int64], size: npt.NDArray[np.int64], tags_code: npt.NDArray[np.int64]
) -> Units:
    """Return units with these fields, all of shape ``(n,)``; sizes must fit 31 bits."""
    units = np.empty(len(physical_offset), dtype=UNIT)
    units["physical_offset"] = physical_offset
    units["size"] = size
    units["tags_code"] = tags_code
    return units


def is_written(units: Units) -> Mask:
    """Tell which units the broker's own recovery accepts, filler included."""
    return (units["physical_offset"] >= 0) & (units["size"] > 0)


def is_pre_blank(units: Units) -> Mask:
    """Tell which units are filler, written when a queue starts above offset 0."""
    return units == PRE_BLANK


def is_zero(units: Units) -> Mask:
    """Tell which units are all zero bytes: never written, or erased."""
    return (units["physical_offset"] == 0) & (units["size"] == 0) & (units["tags_code"] == 0)


def is_inside(units: Units, *, start: int, stop: int) -> Mask:
    """Tell which units point at a record the commitlog still holds.

    Args:
        units: Shape ``(n,)``; any values, damaged ones included.
        start: Lowest physical offset kept, in bytes, inclusive.
        stop: End of the commitlog, in bytes, exclusive; at most ``2**62``.

    Returns:
        Mask of shape ``(n,)``; False for filler and for unwritten units.
    """
    offset = units["physical_offset"]
    size = units["size"].astype(np.int64)  # a stop past 2**31 overflows int32
    # Subtract from stop: a damaged offset plus size may wrap to a good value.
    fits = (offset >= start) & (offset <= stop - size)
    return is_written(units) & ~is_pre_blank(units) & fits

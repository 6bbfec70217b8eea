"""Batch consume queue units: 46 bytes, one per record, which may hold many messages.

Files are named by the running byte position of the index, not by queue offset; the queue
offsets that unit covers are ``[base_offset, base_offset + batch_size)``.

Source: ``org.apache.rocketmq.store.queue.BatchConsumeQueue`` of RocketMQ 5.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import LayoutError

Units = npt.NDArray[np.void]  # shape (n,), dtype UNIT
Mask = npt.NDArray[np.bool_]

UNIT: Final = np.dtype(
    [
        ("physical_offset", ">i8"),  # byte 0
        ("size", ">i4"),  # byte 8
        ("tags_code", ">i8"),  # byte 12
        ("store_timestamp_ms", ">i8"),  # byte 20
        ("base_queue_offset", ">i8"),  # byte 28: INNER_BASE, else the record's queue offset
        ("batch_size", ">i2"),  # byte 36: INNER_NUM, else 1
        ("compacted_offset", ">i4"),  # byte 38: -1
        ("reserved", ">i4"),  # byte 42: 0
    ]
)
UNIT_BYTES: Final = UNIT.itemsize
MOST_MESSAGES: Final = 2**15 - 1  # of one unit and its record: the field is a short


def decode(data: bytes | memoryview) -> Units:
    """View bytes of a batch queue file as units, without copying them.

    Raises:
        LayoutError: The length is not a multiple of ``UNIT.itemsize``.
    """
    view = memoryview(data).toreadonly()
    if view.nbytes % UNIT.itemsize:
        raise LayoutError(f"{view.nbytes} bytes are not whole {UNIT.itemsize}-byte units")
    return np.frombuffer(view, dtype=UNIT)


def is_written(units: Units) -> Mask:
    """Tell which units the broker's own recovery accepts."""
    return (
        (units["physical_offset"] >= 0)
        & (units["size"] > 0)
        & (units["base_queue_offset"] >= 0)
        & (units["batch_size"] > 0)
    )


def is_zero(units: Units) -> Mask:
    """Tell which units are all zero bytes."""
    raw = np.ascontiguousarray(units).view(np.uint8).reshape(len(units), UNIT_BYTES)
    return np.asarray(~raw.any(axis=1), dtype=np.bool_)

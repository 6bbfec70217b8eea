"""Index files: a 40-byte header, hash slots, and 20-byte units in order of arrival.

Unit 0 is never used. A slot holds the number of its newest unit, each unit the number of the
one before it in the same slot, so both follow from the key hashes alone.

Source: ``org.apache.rocketmq.store.index.IndexFile`` and ``IndexHeader``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import LayoutError
from storeio.paths import INDEX

Units = npt.NDArray[np.void]  # shape (n,), dtype UNIT

HEADER: Final = np.dtype(
    [
        ("begin_timestamp_ms", ">i8"),  # byte 0: store time of the first unit
        ("end_timestamp_ms", ">i8"),  # byte 8: store time of the last unit
        ("begin_physical_offset", ">i8"),  # byte 16
        ("end_physical_offset", ">i8"),  # byte 24
        ("slots_used", ">i4"),  # byte 32: hashSlotCount; before 4.7.1 one more per unit
        ("unit_count", ">i4"),  # byte 36: indexCount, units plus one
    ]
)
UNIT: Final = np.dtype(
    [
        ("key_hash", ">i4"),  # byte 0: absolute Java hash of topic#key
        ("physical_offset", ">i8"),  # byte 4
        ("seconds", ">i4"),  # byte 12: store time less the file's begin, in seconds
        ("previous", ">i4"),  # byte 16: unit before in the same slot, 0 none
    ]
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999: a name has four digits for it
HEADER_BYTES: Final = HEADER.itemsize
SLOT_BYTES: Final = 4
UNIT_BYTES: Final = UNIT.itemsize
DEFAULT_SLOTS: Final = 5_000_000
DEFAULT_UNITS: Final = 20_000_000


def file_length(slots: int, units: int) -> int:
    """Return the bytes of an index file with so many slots and units, unit 0 included."""
    return HEADER_BYTES + slots * SLOT_BYTES + units * UNIT_BYTES


def units_start(slots: int) -> int:
    """Return the position of unit 0 in a file with so many slots."""
    return HEADER_BYTES + slots * SLOT_BYTES


def decode_header(data: bytes | memoryview) -> np.void:
    """Return the header of an index file; ``data`` holds at least its 40 bytes.

    Raises:
        LayoutError: Fewer than 40 bytes.
    """
    if memoryview(data).nbytes < HEADER_BYTES:
        raise LayoutError(f"{memoryview(data).nbytes} bytes are less than an index header")
    header: np.void = np.frombuffer(data, dtype=HEADER, count=1)[0]
    return header


def decode_units(data: bytes | memoryview) -> Units:
    """View bytes as index units.

    Raises:
        LayoutError: The length is not a multiple of ``UNIT.itemsize``.
    """
    view = memoryview(data).toreadonly()
    if view.nbytes % UNIT_BYTES:
        raise LayoutError(f"{view.nbytes} bytes are not whole {UNIT_BYTES}-byte index units")
    return np.frombuffer(view, dtype=UNIT)


def named_at(moment_ms: int) -> int:
    """Return the name, as a number of 17 digits, of a file that was begun at a moment."""
    moment = EPOCH + timedelta(milliseconds=min(max(moment_ms, 0), LATEST_MS))
    return int(f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}")


def file_path(name: int) -> str:
    """Return the path of a file with a number as name."""
    return f"{INDEX}/{name:017d}"

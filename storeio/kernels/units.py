"""Compiled passes over queue files: where their units end, and whether they are in order."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.search import first_nonzero
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Places in a summary of a queue file.
(USED_BYTES, FIRST_REAL, LAST_REAL, ORDERED, FIRST_PHYSICAL, LAST_PHYSICAL) = range(6)
SUMMARY_PLACES: Final = 6
PRE_BLANK_SIZE: Final = 2**31 - 1
BLOCK: Final = 4096


@compiled("int64(readonly(uint8[::1]))")
def used_bytes(data: Bytes) -> int:
    """Return the position behind the last byte that is not zero, 0 if all are."""
    stop = len(data)
    while stop > 0:
        start = max(stop - BLOCK, 0)
        if first_nonzero(data, start, stop) < stop:
            while data[stop - 1] == 0:
                stop -= 1
            return stop
        stop = start
    return np.int64(0)


@compiled("void(readonly(uint8[::1]), int64, int64[::1])")
def summarize(data: Bytes, unit_bytes: int, summary: Numbers) -> None:
    """Fill the summary of a file of units that begin with physical offset and size.

    Real units have an offset of at least 0, a size above 0, and are no filler. FIRST_REAL and
    LAST_REAL are their numbers in the file, -1 without any; ORDERED is 1 where no real unit
    points below the one before it and nothing but filler precedes or interrupts them.
    """
    used = used_bytes(data)
    summary[USED_BYTES] = used
    summary[FIRST_REAL], summary[LAST_REAL], summary[ORDERED] = -1, -1, 1
    summary[FIRST_PHYSICAL], summary[LAST_PHYSICAL] = -1, -1
    last = np.int64(-1)
    for k in range(min(used + unit_bytes - 1, len(data)) // unit_bytes):
        physical = int64_at(data, k * unit_bytes)
        size = int32_at(data, k * unit_bytes + 8)
        if size == PRE_BLANK_SIZE and physical == 0:
            continue
        if physical < 0 or size <= 0:
            summary[ORDERED] = 0
            continue
        if physical < last:
            summary[ORDERED] = 0
        last = physical
        summary[LAST_REAL] = k
        summary[LAST_PHYSICAL] = physical
        if summary[FIRST_REAL] < 0:
            summary[FIRST_REAL] = k
            summary[FIRST_PHYSICAL] = physical

"""Compiled search: the next place where a record or a blank record can start, and zero bytes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]

STEP: Final = 64  # bytes looked at in one vector comparison


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def first_nonzero(data: Bytes, i: int, stop: int) -> int:
    """Return the index of the first byte that is not zero in ``[i, stop)``, ``stop`` if there is none."""
    while i + STEP <= stop:
        seen = np.uint8(0)
        for k in range(STEP):
            seen |= data[i + k]
        if seen != 0:
            break
        i += STEP
    while i < stop and data[i] == 0:
        i += 1
    return i


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def next_magic(data: Bytes, i: int, stop: int) -> int:
    """Return the first index in ``[i, stop - 3)`` where a magic code stands, ``stop`` if there is none."""
    last = stop - 4
    while i <= last:
        if i + STEP <= stop:
            hits = np.uint8(0)
            for k in range(STEP):
                byte = data[i + k]
                hits |= np.uint8(byte == 0xDA) | np.uint8(byte == 0xCB)
            if hits == 0:
                i += STEP
                continue
        end = min(i + STEP, last + 1)
        while i < end:
            byte = data[i]
            if byte == 0xDA or byte == 0xCB:
                magic = int32_at(data, i)
                if magic == log.MAGIC_V1 or magic == log.MAGIC_V2 or magic == log.MAGIC_BLANK:
                    return i
            i += 1
    return stop


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64)")
def boundary(data: Bytes, origin: int, base: int, file_size: int, position: int) -> int:
    """Return how well ``position`` looks like a start: 2 a head or the true blank, 1 zeros, 0 neither.

    NEED where the window ends before it can be told.
    """
    if position < 0 or position > file_size - log.BLANK_HEAD_BYTES:
        return np.int64(0)
    if h.lacks(data, origin, file_size, position, log.BORN_HOST_AT):
        return np.int64(h.NEED)
    i = position - origin
    size = int32_at(data, i)
    magic = int32_at(data, i + log.MAGIC_AT)
    if magic == log.MAGIC_BLANK:
        return np.int64(2 if size == file_size - position else 0)
    stop = min(i + log.BORN_HOST_AT, file_size - origin)
    if size == 0 and first_nonzero(data, i, stop) == stop:
        return np.int64(1)
    if (magic != log.MAGIC_V1 and magic != log.MAGIC_V2) or file_size - position < log.MIN_RECORD_BYTES:
        return np.int64(0)
    return np.int64(2 if int64_at(data, i + log.PHYSICAL_OFFSET_AT) == base + position else 0)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64, int64[::1])")
def extent(data: Bytes, origin: int, base: int, file_size: int, position: int, head: npt.NDArray[np.int64]) -> int:
    """Return where the bad record at ``position`` ends, 0 where nothing proves it, or NEED.

    Its TOTALSIZE and the sum of its own lengths are two witnesses; one that leads to a start is
    believed, so that bytes in a damaged record's body are never taken for records.
    """
    best = np.int64(0)
    strength = np.int64(0)
    for attempt in range(2):
        size = head[h.SIZE] if attempt == 0 else head[h.FORMULA]
        if size < log.MIN_RECORD_BYTES or size > file_size - position or size > h.MAX_RECORD_BYTES:
            continue
        found = boundary(data, origin, base, file_size, position + size)
        if found == h.NEED:
            return np.int64(h.NEED)
        if found > strength:
            strength = found
            best = position + size
    return best

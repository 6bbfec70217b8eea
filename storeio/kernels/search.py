"""Compiled search: the next place where a record or a blank record can start, and zero bytes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels.raw import LANES, equal_mask, int32_at, int64_at, trailing_zeros

Bytes = npt.NDArray[np.uint8]

ALL_LANES: Final = 2**LANES - 1


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def first_nonzero(data: Bytes, i: int, stop: int) -> int:
    """Return the index of the first byte that is not zero in ``[i, stop)``, ``stop`` if there is none."""
    while i + LANES <= stop:
        others = equal_mask(data, i, 0) ^ ALL_LANES
        if others != 0:
            return i + trailing_zeros(others)
        i += LANES
    while i < stop and data[i] == 0:
        i += 1
    return i


@compiled("int64(readonly(uint8[::1]), int64)", forceinline=True)
def magic_mask(data: Bytes, i: int) -> int:
    """Return bit ``k`` set where the first two bytes of a magic code stand at ``i + k``; reads a byte more."""
    message = equal_mask(data, i, 0xDA) & equal_mask(data, i + 1, 0xA3)
    return message | (equal_mask(data, i, 0xCB) & equal_mask(data, i + 1, 0xD4))


@compiled("boolean(readonly(uint8[::1]), int64)", forceinline=True)
def is_magic(data: Bytes, i: int) -> bool:
    """Tell whether a magic code stands at ``i``."""
    magic = int32_at(data, i)
    return magic == log.MAGIC_V1 or magic == log.MAGIC_V2 or magic == log.MAGIC_BLANK


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def next_magic(data: Bytes, i: int, stop: int) -> int:
    """Return the first index in ``[i, stop - 3)`` where a magic code stands, ``stop`` if there is none."""
    last = stop - 4
    while i + LANES < stop:
        hits = magic_mask(data, i)
        while hits != 0:
            at = i + trailing_zeros(hits)
            if at <= last and is_magic(data, at):
                return at
            hits &= hits - 1
        i += LANES
    while i <= last:
        if is_magic(data, i):
            return i
        i += 1
    return stop


@compiled("int64(readonly(uint8[::1]), int64, int64, int64[::1])")
def self_named(data: Bytes, physical: int, count: int, places: npt.NDArray[np.int64]) -> int:
    """Return how many of the first ``count`` bytes may begin a record: the eight for its physical offset say so.

    Args:
        data: At least 36 bytes more than ``count``, or there is none at its end.
        physical: Physical offset of the first byte.
        count: Bytes that are looked at.
        places: Room for their indexes; what has none is counted all the same.
    """
    found = np.int64(0)
    last = log.PHYSICAL_OFFSET_AT + 7
    for i in range(min(count, len(data) - last)):
        if data[i + last] == (physical + i) & 0xFF and int64_at(data, i + log.PHYSICAL_OFFSET_AT) == physical + i:
            if found < len(places):
                places[found] = i
            found += 1
    return found


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


@compiled("boolean(int64[::1])", forceinline=True)
def is_named(head: npt.NDArray[np.int64]) -> bool:
    """Tell whether a bad record says that it is one: by its magic code, or by two lengths that agree."""
    return head[h.MAGIC] == log.MAGIC_V1 or head[h.MAGIC] == log.MAGIC_V2 or head[h.SIZE] == head[h.FORMULA]


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64, int64[::1])")
def extent(data: Bytes, origin: int, base: int, file_size: int, position: int, head: npt.NDArray[np.int64]) -> int:
    """Return where the bad record at ``position`` ends, 0 where nothing proves it, or NEED.

    Its TOTALSIZE and the sum of its own lengths are two witnesses; one that leads to a start is
    believed, so that bytes in a damaged record's body are never taken for records. Of what has no magic
    code one alone is not believed if it leads to zeros: it may be any number, and there may be many.
    """
    best = np.int64(0)
    strength = np.int64(0)
    named = is_named(head)
    for attempt in range(2):
        size = head[h.SIZE] if attempt == 0 else head[h.FORMULA]
        if size < log.MIN_RECORD_BYTES or size > file_size - position or size > h.MAX_RECORD_BYTES:
            continue
        found = boundary(data, origin, base, file_size, position + size)
        if found == h.NEED:
            return np.int64(h.NEED)
        if found > strength and (found > 1 or named):
            strength = found
            best = position + size
    return best

"""Compiled replay of one index file: slots and units as a broker would have filled them.

No chain is followed: a unit's previous number must be what the replay holds for its slot, so a
cycle is a wrong number like any other. ``index_damage`` says what is wrong where this finds something.

Source: ``IndexFile.putKey``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.memory import fetch_ahead
from storeio.kernels.search import first_nonzero
from storeio.kernels.text import int32_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Small = npt.NDArray[np.int32]

SLOTS_AT: Final = 40
UNIT: Final = 20  # bytes of a unit; its fields:
OFFSET_AT: Final = 4
SECONDS_AT: Final = 12
PREVIOUS_AT: Final = 16
BATCH: Final = 128  # units whose slots are computed ahead, and asked of the memory all at once


@compiled("int64(int64, int64)", forceinline=True)
def slot_of(key_hash: int, slots: int) -> int:
    """Return the slot of a unit with this hash, -1 where it is one that no broker writes."""
    return key_hash % slots if key_hash >= 0 else np.int64(-1)


@compiled("int64(readonly(uint32[::1]), int64)", inline="always")
def word_at(words: Words, i: int) -> int:
    """Return the signed big-endian number that a little-endian machine reads as ``words[i]``; ``i`` is not negative."""
    x = np.int64(words[np.uint64(i)])  # an unsigned index needs no check for one counted from the end
    value = (x & 0xFF) << 24 | (x & 0xFF00) << 8 | (x >> 8) & 0xFF00 | x >> 24
    return (value ^ 0x80000000) - 0x80000000


@compiled("int64(readonly(uint32[::1]), int64, int64, int64, int32[::1], int64[::1])", forceinline=True)
def slots_of(words: Words, at: int, count: int, slots: int, last: Small, found: Numbers) -> int:
    """Return the least hash of ``count`` units from word ``at`` on; fills ``found`` with their slots in ``last``."""
    least = np.int64(0)
    inverse = 1.0 / slots
    for j in range(count):
        value = word_at(words, at + 5 * j)
        slot = value - np.int64(value * inverse) * slots  # a division takes longer than all the rest
        slot += slots if slot < 0 else 0
        found[j] = slot - (slots if slot >= slots else 0)
        fetch_ahead(last, found[j])
        least = min(least, value)
    return least


@compiled("boolean(readonly(uint32[::1]), int64, int64, int64, int32[::1], int64[::1])", _nrt=True)
def replay(words: Words, slots: int, unit: int, stop: int, last: Small, order: Numbers) -> bool:
    """Tell whether the previous numbers of units ``[unit, stop)`` are right; ``words`` begin with the first of them.

    ``last`` has the last unit of each slot, before and afterwards. ``order[0]`` becomes the first unit whose physical
    offset is negative or below that of the unit before it, ``order[1]`` is the offset of the last one.
    """
    found = np.empty(BATCH, np.int64)
    before = order[1]
    for first in range(unit, stop, BATCH):
        count = min(BATCH, stop - first)
        at = 5 * (first - unit)
        if slots_of(words, at, count, slots, last, found) < 0:
            return False
        differs = np.int64(0)
        for j in range(count):
            slot = np.uint64(found[j])
            differs |= last[slot] ^ word_at(words, at + 5 * j + 4)
            last[slot] = first + j
            offset = word_at(words, at + 5 * j + 1) << 32 | (word_at(words, at + 5 * j + 2) & 0xFFFFFFFF)
            if offset < before and order[0] == 0:
                order[0] = first + j
            before = offset
        if differs != 0:
            return False
    order[1] = before
    return True


@compiled("UniTuple(int64, 2)(readonly(uint8[::1]))")
def bounds(data: Bytes) -> tuple[int, int]:
    """Return how many units come before the first that is all zero, and up to the last that is not.

    ``data`` are whole units.
    """
    stop = len(data)
    leading = np.int64(0)
    while leading < stop and first_nonzero(data, leading, leading + UNIT) < leading + UNIT:
        leading += UNIT
    last = leading
    at = first_nonzero(data, leading, stop)
    while at < stop:
        last = (at // UNIT + 1) * UNIT
        at = first_nonzero(data, last, stop)
    return leading // UNIT, last // UNIT


@compiled("int64(readonly(uint8[::1]), int64, int32[::1], int64[::1])")
def compare_heads(heads: Bytes, first: int, last: Small, counts: Numbers) -> int:
    """Return how many of these slots, the first of which is slot ``first``, differ from ``last``.

    To ``counts`` are added the slots that are not empty in the file, in ``last``, and those that are
    right and not empty.
    """
    wrong = np.int64(0)
    for k in range(len(heads) // 4):
        head, slot = int32_at(heads, 4 * k), first + k
        wrong += head != last[slot]
        counts[0] += head != 0
        counts[1] += last[slot] != 0
        counts[2] += (head != 0) & (head == last[slot])
    return wrong

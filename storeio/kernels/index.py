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
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

SLOTS_AT: Final = 40
UNIT: Final = 20  # bytes of a unit; its fields:
OFFSET_AT: Final = 4
SECONDS_AT: Final = 12
PREVIOUS_AT: Final = 16


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def slot_of(data: Bytes, at: int, slots: int) -> int:
    """Return the slot of the unit at ``at``, -1 where its hash is one that no broker writes."""
    value = int32_at(data, at)
    return value % slots if value >= 0 else np.int64(-1)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int32[::1], int64[::1])")
def replay(data: Bytes, units_at: int, slots: int, entries: int, last: Small, order: Numbers) -> int:
    """Return the first unit whose previous number is wrong, 0 if all are right.

    Fills ``last`` with the last unit of each slot; ``order[0]`` becomes the first unit whose
    physical offset is negative or below that of the unit before it.
    """
    before = np.int64(0)
    order[0] = 0
    at = units_at
    for i in range(1, entries + 1):
        at += UNIT
        value = int32_at(data, at)
        if value < 0:
            return np.int64(i)
        slot = np.uint32(value) % np.uint32(slots)
        if last[slot] != int32_at(data, at + PREVIOUS_AT):
            return np.int64(i)
        last[slot] = i
        offset = int64_at(data, at + OFFSET_AT)
        if offset < before and order[0] == 0:
            order[0] = i
        before = offset
    return np.int64(0)


@compiled("int64(readonly(uint8[::1]), int64, int32[::1], int64[::1])")
def compare_heads(data: Bytes, present: int, last: Small, counts: Numbers) -> int:
    """Return how many of the slots in the file differ from ``last``.

    ``counts`` becomes the slots that are not empty in the file, in ``last``, and those that are
    right and not empty.
    """
    wrong = np.int64(0)
    counts[:3] = 0
    for slot in range(present):
        head = int32_at(data, SLOTS_AT + 4 * slot)
        wrong += head != last[slot]
        counts[0] += head != 0
        counts[1] += last[slot] != 0
        counts[2] += (head != 0) & (head == last[slot])
    return wrong

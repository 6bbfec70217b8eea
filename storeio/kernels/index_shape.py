"""Compiled measures of an index file: units out of order, and how well a number of slots fits."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format.commitlog import MOST_LOG_BYTES
from storeio.kernels.index import OFFSET_AT, PREVIOUS_AT, SLOTS_AT, UNIT, slot_of
from storeio.kernels.search import first_nonzero
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

LOOKED_AT: Final = 48  # units by which a number of slots is judged
TOLERATED: Final = 4  # of them may be damaged


@compiled("int64(readonly(uint8[::1]), int64, int64, int32[::1], int64[::1], int64)")
def rank_offsets(data: Bytes, first: int, lowest: int, ranks: Small, tops: Numbers, longest: int) -> int:
    """Return the length of the longest run of offsets that do not decrease, units between left out.

    ``data`` are units from number ``first`` on, ``longest`` is what those before them gave. ``ranks[i]``
    becomes the length of the longest that ends in unit i, 0 for one that is zero or points below ``lowest``, which
    is not negative. ``tops`` is room for a number a unit, to be kept from one call to the next.
    """
    for k in range(len(data) // UNIT):
        at = k * UNIT
        offset = int64_at(data, at + OFFSET_AT)
        if offset < lowest or (offset == 0 and first_nonzero(data, at, at + UNIT) == at + UNIT):
            continue
        low = longest
        if longest > 0 and tops[longest - 1] > offset:
            low = np.int64(np.searchsorted(tops[:longest], offset, side="right"))
        tops[low] = offset
        ranks[first + k] = low + 1
        longest = max(longest, low + 1)
    return longest


# Places in what ``name_outliers`` keeps from one call to the next.
(O_LONGEST, O_ABOVE, O_RUNS) = range(3)


@compiled("boolean(readonly(uint8[::1]), int64, int32[::1], int64[::1], int64[:, ::1])")
def name_outliers(data: Bytes, first: int, ranks: Small, state: Numbers, runs: Numbers) -> bool:
    """Add the runs of units that are out of order, the last run first; False where ``runs`` has no room.

    ``data`` are units from number ``first`` on; those behind them come first. Each row becomes a half-open run of
    unit numbers.
    """
    n = state[O_RUNS]
    for k in range(len(data) // UNIT - 1, -1, -1):
        i = first + k
        offset = int64_at(data, k * UNIT + OFFSET_AT)
        if state[O_LONGEST] > 0 and ranks[i] == state[O_LONGEST] and offset <= state[O_ABOVE]:
            state[O_ABOVE] = offset
            state[O_LONGEST] -= 1
        elif n > 0 and runs[n - 1, 0] == i + 1:
            runs[n - 1, 0] = i
        else:
            if n == len(runs):
                return False
            runs[n, 0], runs[n, 1] = i, i + 1
            n += 1
    state[O_RUNS] = n
    return True


# What a unit says of a number of slots.
(MISSES, HOLE, CHAINED, FITS) = range(4)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64)")
def judge_unit(data: Bytes, slots: int, lost: int, i: int) -> int:
    """Return whether unit ``i`` is where a file with so many slots has it.

    ``FITS`` if its slot leads to it or to a later unit of the same slot, and its previous number to an earlier one;
    ``HOLE`` if zeros stand where that would show, ``CHAINED`` if only its slot does not, and the earlier unit
    has another hash; else ``MISSES``. What points farther than any log reaches has a hash there: the unit begins
    elsewhere. A slot may lead to a unit below ``lost`` that the file has not any more.
    """
    units_at = SLOTS_AT + 4 * slots
    at = units_at + i * UNIT
    slot = slot_of(int32_at(data, at), slots)
    before = int32_at(data, at + PREVIOUS_AT)
    if slot < 0 or not 0 <= int64_at(data, at + OFFSET_AT) < MOST_LOG_BYTES or not 0 <= before < i:
        return np.int64(MISSES)
    chained = False
    if before > 0:
        there = units_at + before * UNIT
        earlier = int32_at(data, there)
        if slot_of(earlier, slots) != slot:
            return np.int64(HOLE if first_nonzero(data, there, there + UNIT) == there + UNIT else MISSES)
        chained = earlier != int32_at(data, at)
    head = int32_at(data, SLOTS_AT + 4 * slot)
    capacity = (len(data) - units_at) // UNIT
    hole = head == 0
    if i <= head < capacity:
        there = units_at + head * UNIT
        if slot_of(int32_at(data, there), slots) == slot:
            return np.int64(FITS)
        hole = first_nonzero(data, there, there + UNIT) == there + UNIT
    elif capacity <= head < lost:
        return np.int64(FITS)
    if hole:
        return np.int64(CHAINED if chained else HOLE)
    return np.int64(MISSES)


@compiled("int64(readonly(uint8[::1]), int64, int64, boolean, boolean)")
def fit_of(data: Bytes, slots: int, lost: int, strict: bool, holed: bool) -> int:
    """Return how many of the first units are where a file with so many slots has them, 0 if it cannot be.

    ``lost`` is as of ``judge_unit``, 0 where the file was not cut off. ``strict`` demands that unit 0 is unused. In a
    ``holed`` file zeros speak neither for nor against a number of slots. Where it is that, or not strict, more units
    have to fit than may be damaged.
    """
    units_at = SLOTS_AT + 4 * slots
    capacity = (len(data) - units_at) // UNIT
    if strict and first_nonzero(data, units_at, units_at + UNIT) < units_at + UNIT:
        return np.int64(0)
    fits = np.int64(0)
    misses = np.int64(0)
    for i in range(1, min(capacity, LOOKED_AT + 1)):
        at = units_at + i * UNIT
        if first_nonzero(data, at, at + UNIT) == at + UNIT:
            break
        said = judge_unit(data, slots, lost, i)
        if said == FITS or (holed and said == CHAINED):
            fits += 1
        elif said == MISSES or not holed:
            misses += 1
        if misses > TOLERATED:
            return np.int64(0)
    if (holed or not strict) and fits <= misses + TOLERATED:
        return np.int64(0)
    return max(fits - misses, 0)


@compiled("void(readonly(uint8[::1]), int64, int64, int64, boolean, boolean, int64[::1])")
def best_fit(data: Bytes, first: int, step: int, lost: int, strict: bool, holed: bool, best: Numbers) -> None:
    """Fill ``best`` with the number of slots that fits best among ``first``, ``first + step`` ..., and its fit."""
    best[:2] = 0
    for slots in range(first, (len(data) - SLOTS_AT - 2 * UNIT) // 4 + 1, step):
        fit = fit_of(data, slots, lost, strict, holed)
        if fit > best[1]:
            best[0] = slots
            best[1] = fit

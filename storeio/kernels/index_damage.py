"""Compiled replay of a damaged index file: which hash, previous number or slot is wrong.

A wrong hash puts a unit into the wrong slot, a wrong previous number breaks the chain of the right
one, and both look alike at first. So a unit that disagrees is only doubted; who names it later, the
next unit of its slot or the slot itself, tells where it was put.

Source: ``IndexFile.putKey``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.index import OFFSET_AT, PREVIOUS_AT, SLOTS_AT, UNIT, slot_of
from storeio.kernels.search import first_nonzero
from storeio.kernels.text import int32_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

# What the replay of a damaged file thinks of a unit.
FINE: Final = 0
BAD: Final = 1  # hash or previous number is wrong; who names it will tell
HASH: Final = 2  # its hash is wrong
DOUBTED: Final = 3  # another disagrees with it: its hash is wrong if its slot does not name it, else the other is
HOLE: Final = 4  # all zero

# Rows of the table of wrong places.
(E_START, E_STOP, E_COUNT) = range(3)


@compiled("void(readonly(uint8[::1]), int64, int64, int64, int64, int64, int64[::1])")
def survey(
    data: Bytes, units_at: int, slots: int, present_slots: int, present: int, capacity: int, found: Numbers
) -> None:
    """Fill ``found`` with what the content says of the number of units, ``present`` of them in the file.

    First zero unit less one; last unit that is not zero; largest head whose unit is of its slot;
    largest head of all that is at most ``capacity``.
    """
    found[:4] = 0
    stop = units_at + (present + 1) * UNIT
    for i in range(1, present + 1):
        at = units_at + i * UNIT
        if first_nonzero(data, at, at + UNIT) == at + UNIT:
            break
        found[0] = i
    if present > 0:
        at = units_at + found[0] * UNIT
        last = np.int64(0)
        at = first_nonzero(data, at, stop)
        while at < stop:
            last = (at - units_at) // UNIT
            at = first_nonzero(data, min(units_at + (last + 1) * UNIT, stop), stop)
        found[1] = last
    for slot in range(present_slots):
        head = int32_at(data, SLOTS_AT + 4 * slot)
        if head > found[2] and head <= present and slot_of(data, units_at + head * UNIT, slots) == slot:
            found[2] = head
        if head > found[3] and head <= capacity:
            found[3] = head


@compiled("void(readonly(uint8[::1]), int64, int64, int64, int64, uint8[::1], int32[::1], int32[::1])")
def claim(
    data: Bytes, units_at: int, slots: int, slot: int, named: int, flags: Bytes, claims: Small, skippers: Small
) -> None:
    """Keep that ``slot`` names a unit that is in doubt: it says what slot the unit was put in."""
    if named < 1 or flags[named] == FINE:
        return
    claims[named] = slot + 1
    doubter = skippers[named]
    if doubter > 0 and flags[doubter] == FINE and slot_of(data, units_at + named * UNIT, slots) == slot:
        flags[doubter] = BAD  # the unit's own slot names it after all


@compiled(
    "boolean(readonly(uint8[::1]), int64, int64, int64, int64, int64, int64, int32[::1], uint8[::1], int32[::1],"
    " int32[::1])"
)
def accepts(
    data: Bytes, units_at: int, slots: int, slot: int, named: int, entries: int, who: int, last: Small, flags: Bytes,
    claims: Small, skippers: Small,
) -> bool:  # fmt: skip
    """Tell whether ``who`` may name another unit than the last of its slot: one in doubt, or past the last."""
    if 1 <= named <= entries and flags[named] != FINE:
        claim(data, units_at, slots, slot, named, flags, claims, skippers)
        return True
    top = last[slot]
    if top < 1 or top > entries or int32_at(data, units_at + top * UNIT + PREVIOUS_AT) != named:
        return False
    if flags[top] == FINE:
        flags[top] = DOUBTED
        skippers[top] = who
    return flags[top] == DOUBTED


@compiled(
    "boolean(readonly(uint8[::1]), int64, int64, int64, int64, int64, int64, int32[::1], uint8[::1], int32[::1],"
    " int32[::1])"
)
def doubts(
    data: Bytes, units_at: int, slots: int, slot: int, named: int, entries: int, who: int, last: Small, flags: Bytes,
    claims: Small, skippers: Small,
) -> bool:  # fmt: skip
    """Tell whether ``who`` would be right if the unit that it names has a wrong hash and belongs to ``slot``."""
    if named < 1 or named > entries or flags[named] != FINE:
        return False
    at = units_at + named * UNIT
    other = slot_of(data, at, slots)
    if other == slot or last[other] != named or int32_at(data, at + PREVIOUS_AT) != last[slot]:
        return False
    flags[named] = DOUBTED
    claims[named] = slot + 1
    skippers[named] = who
    return True


@compiled("void(readonly(uint8[::1]), int64, int64, int64, int32[::1], uint8[::1], int32[::1], int32[::1])")
def replay_damaged(
    data: Bytes, units_at: int, slots: int, entries: int, last: Small, flags: Bytes, claims: Small, skippers: Small
) -> None:
    """Replay units of which some are damaged; fills ``last``, ``flags``, ``claims`` and ``skippers``."""
    for i in range(1, entries + 1):
        at = units_at + i * UNIT
        if first_nonzero(data, at, at + UNIT) == at + UNIT:
            flags[i] = HOLE
            continue
        slot = slot_of(data, at, slots)
        if slot < 0:
            flags[i] = HASH
            continue
        named = int32_at(data, at + PREVIOUS_AT)
        if named == last[slot]:
            claim(data, units_at, slots, slot, named, flags, claims, skippers)
            last[slot] = i
        elif accepts(data, units_at, slots, slot, named, i - 1, i, last, flags, claims, skippers):
            last[slot] = i
        else:
            doubts(data, units_at, slots, slot, named, i - 1, i, last, flags, claims, skippers)
            flags[i] = BAD


@compiled(
    "void(readonly(uint8[::1]), int64, int64, int64, int64, int64, int32[::1], uint8[::1], int32[::1], int32[::1])"
)
def judge_heads(
    data: Bytes, units_at: int, slots: int, present: int, entries: int, cut: int, last: Small, flags: Bytes,
    claims: Small, skippers: Small,
) -> None:  # fmt: skip
    """Let the slots say what units they hold; ``last`` becomes what each slot should be.

    A head above ``entries`` and up to ``cut`` names a unit that the file is too short for.
    """
    for slot in range(present):
        head = int32_at(data, SLOTS_AT + 4 * slot)
        who = -1 - slot
        if head == last[slot]:
            claim(data, units_at, slots, slot, head if head <= entries else 0, flags, claims, skippers)
        elif (
            entries < head <= cut
            or accepts(data, units_at, slots, slot, head, entries, who, last, flags, claims, skippers)
            or doubts(data, units_at, slots, slot, head, entries, who, last, flags, claims, skippers)
        ):
            last[slot] = head


@compiled("boolean(readonly(uint8[::1]), int64, int64, int64, int32[::1])")
def is_elsewhere(data: Bytes, units_at: int, slots: int, unit: int, claims: Small) -> bool:
    """Tell whether a unit is named by another slot than that of its hash."""
    return claims[unit] > 0 and claims[unit] - 1 != slot_of(data, units_at + unit * UNIT, slots)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, uint8[::1], int32[::1], int32[::1])")
def verdict_on(data: Bytes, units_at: int, slots: int, unit: int, flags: Bytes, claims: Small, skippers: Small) -> int:
    """Return what is wrong about a unit in doubt: HOLE, HASH, BAD for the rest of it, DOUBTED for its doubter, FINE."""
    flag = np.int64(flags[unit])
    elsewhere = is_elsewhere(data, units_at, slots, unit, claims)
    if flag == BAD:
        if elsewhere:
            return np.int64(HASH)
        named = int32_at(data, units_at + unit * UNIT + PREVIOUS_AT)
        slot = slot_of(data, units_at + unit * UNIT, slots)
        # Right if the unit that it names was put into this slot by all that is known, against its hash.
        right = 1 <= named < unit and flags[named] == DOUBTED and skippers[named] == unit
        return np.int64(FINE if right and claims[unit] and claims[named] - 1 == slot else BAD)
    if flag == DOUBTED:
        doubter = skippers[unit]
        if doubter < 0 or flags[doubter] == FINE:
            return np.int64(HASH if elsewhere else DOUBTED)
        if elsewhere and not is_elsewhere(data, units_at, slots, doubter, claims):
            return np.int64(HASH)
        return np.int64(FINE)
    return flag


@compiled("void(int64[:, ::1], int64[::1], int64, int64)")
def add_wrong(wrong: Numbers, count: Numbers, start: int, stop: int) -> None:
    """Add a wrong place, joined to the last one if they touch; beyond the room all go into the last row."""
    n = count[0]
    if n > 0 and (wrong[n - 1, E_STOP] == start or n == len(wrong)):
        wrong[n - 1, E_START] = min(wrong[n - 1, E_START], start)
        wrong[n - 1, E_STOP] = max(wrong[n - 1, E_STOP], stop)
        wrong[n - 1, E_COUNT] += 1
        return
    wrong[n, E_START], wrong[n, E_STOP], wrong[n, E_COUNT] = start, stop, 1
    count[0] = n + 1


@compiled(
    "int64(readonly(uint8[::1]), int64, int64, int64, int32[::1], uint8[::1], int32[::1], int32[::1],"
    " int64[:, ::1], int64[::1])"
)
def name_wrong(
    data: Bytes, units_at: int, slots: int, entries: int, last: Small, flags: Bytes, claims: Small, skippers: Small,
    wrong: Numbers, count: Numbers,
) -> int:  # fmt: skip
    """Return the number of units with a wrong field, the fields in ``wrong``, holes counted in ``count[1]``.

    A slot found wrong by what the units say gets its true unit back in ``last``.
    """
    units = np.int64(0)
    for i in range(1, entries + 1):
        if flags[i] == FINE:
            continue
        at = units_at + i * UNIT
        verdict = verdict_on(data, units_at, slots, i, flags, claims, skippers)
        if verdict == HOLE:
            count[1] += 1
            add_wrong(wrong, count, at, at + UNIT)
        elif verdict == HASH:
            units += 1
            add_wrong(wrong, count, at, at + OFFSET_AT)
        elif verdict == BAD:
            units += 1
            add_wrong(wrong, count, at + (PREVIOUS_AT if claims[i] else 0), at + UNIT)
        elif verdict == DOUBTED and skippers[i] > 0:
            units += 1
            other = units_at + skippers[i] * UNIT
            add_wrong(wrong, count, other + PREVIOUS_AT, other + UNIT)
        elif verdict == DOUBTED:
            slot = -1 - skippers[i]
            named = int32_at(data, SLOTS_AT + 4 * slot) == i
            last[slot] = int32_at(data, at + PREVIOUS_AT) if named else i
    return units


@compiled("void(readonly(uint8[::1]), int64, int32[::1], int64[:, ::1], int64[::1])")
def name_wrong_heads(data: Bytes, present: int, last: Small, wrong: Numbers, count: Numbers) -> None:
    """Add the slots that are not what they should be to ``wrong``."""
    for slot in range(present):
        if int32_at(data, SLOTS_AT + 4 * slot) != last[slot]:
            add_wrong(wrong, count, SLOTS_AT + 4 * slot, SLOTS_AT + 4 * slot + 4)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64[:, ::1], int64[::1])")
def name_dirty(data: Bytes, start: int, stop: int, wrong: Numbers, count: Numbers) -> int:
    """Return the bytes of all-zero units in ``[start, stop)``; the others go into ``wrong``."""
    zero = np.int64(0)
    at = start
    while at < stop:
        dirty = first_nonzero(data, at, stop)
        dirty -= (dirty - at) % UNIT if dirty < stop else 0
        zero += dirty - at
        at = min(dirty + UNIT, stop)
        if at > dirty:
            add_wrong(wrong, count, dirty, at)
    return zero

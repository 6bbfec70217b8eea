"""Compiled replay of a damaged index file: which hash, previous number or slot is wrong.

A wrong hash puts a unit into the wrong slot, a wrong previous number breaks the chain of the right
one, and both look alike at first. So a unit that disagrees is only doubted; who names it later, the
next unit of its slot or the slot itself, tells where it was put.

Any unit may be asked for again, so of each its hash and its previous number are kept, and no more of
the file than that: ``load`` takes them from stretches of it. ``heads`` are the bytes of header and slots.

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


@compiled("void(readonly(uint8[::1]), int64, int32[::1], int32[::1], uint8[::1])")
def load(data: Bytes, first: int, hashes: Small, previous: Small, flags: Bytes) -> None:
    """Keep hash and previous number of these units, the first of which has the number ``first``, and which are zero."""
    for k in range(len(data) // UNIT):
        at = k * UNIT
        hashes[first + k] = int32_at(data, at)
        previous[first + k] = int32_at(data, at + PREVIOUS_AT)
        if first_nonzero(data, at, at + UNIT) == at + UNIT:
            flags[first + k] = HOLE


@compiled("UniTuple(int64, 2)(readonly(uint8[::1]), int64, int64, int64, int64, readonly(int32[::1]))")
def highest_heads(
    heads: Bytes, slots: int, present_slots: int, present: int, capacity: int, hashes: Small
) -> tuple[int, int]:
    """Return the largest head whose unit is of its slot, and the largest of all that is at most ``capacity``.

    Units up to ``present`` are in the file; those behind ``hashes`` are zero.
    """
    own = highest = np.int64(0)
    for slot in range(present_slots):
        head = int32_at(heads, SLOTS_AT + 4 * slot)
        if head > own and head <= present:
            key_hash = np.int64(hashes[head]) if head < len(hashes) else np.int64(0)
            own = head if slot_of(key_hash, slots) == slot else own
        if head > highest and head <= capacity:
            highest = head
    return own, highest


@compiled("void(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, uint8[::1], int32[::1], int32[::1])")
def claim(
    hashes: Small, previous: Small, slots: int, slot: int, named: int, flags: Bytes, claims: Small, skippers: Small
) -> None:
    """Keep that ``slot`` names a unit that is in doubt: it says what slot the unit was put in."""
    if named < 1 or flags[named] == FINE:
        return
    claims[named] = slot + 1
    doubter = skippers[named]
    if doubter > 0 and flags[doubter] == FINE and slot_of(hashes[named], slots) == slot:
        flags[doubter] = BAD  # the unit's own slot names it after all


@compiled(
    "boolean(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, int64, int64, int32[::1], uint8[::1],"
    " int32[::1], int32[::1])"
)
def accepts(
    hashes: Small, previous: Small, slots: int, slot: int, named: int, entries: int, who: int, last: Small,
    flags: Bytes, claims: Small, skippers: Small,
) -> bool:  # fmt: skip
    """Tell whether ``who`` may name another unit than the last of its slot: one in doubt, or past the last."""
    if 1 <= named <= entries and flags[named] != FINE:
        claim(hashes, previous, slots, slot, named, flags, claims, skippers)
        return True
    top = last[slot]
    if top < 1 or top > entries or previous[top] != named:
        return False
    if flags[top] == FINE:
        flags[top] = DOUBTED
        skippers[top] = who
    return flags[top] == DOUBTED


@compiled(
    "boolean(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, int64, int64, int32[::1], uint8[::1],"
    " int32[::1], int32[::1])"
)
def doubts(
    hashes: Small, previous: Small, slots: int, slot: int, named: int, entries: int, who: int, last: Small,
    flags: Bytes, claims: Small, skippers: Small,
) -> bool:  # fmt: skip
    """Tell whether ``who`` would be right if the unit that it names has a wrong hash and belongs to ``slot``."""
    if named < 1 or named > entries or flags[named] != FINE:
        return False
    other = slot_of(hashes[named], slots)
    if other == slot or last[other] != named or previous[named] != last[slot]:
        return False
    flags[named] = DOUBTED
    claims[named] = slot + 1
    skippers[named] = who
    return True


@compiled(
    "void(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int32[::1], uint8[::1], int32[::1], int32[::1])"
)
def replay_damaged(
    hashes: Small, previous: Small, slots: int, entries: int, last: Small, flags: Bytes, claims: Small, skippers: Small
) -> None:
    """Replay units of which some are damaged; fills all but the holes."""
    for i in range(1, entries + 1):
        if flags[i] == HOLE:
            continue
        slot = slot_of(hashes[i], slots)
        if slot < 0:
            flags[i] = HASH
            continue
        named = np.int64(previous[i])
        if named == last[slot]:
            claim(hashes, previous, slots, slot, named, flags, claims, skippers)
            last[slot] = i
        elif accepts(hashes, previous, slots, slot, named, i - 1, i, last, flags, claims, skippers):
            last[slot] = i
        else:
            doubts(hashes, previous, slots, slot, named, i - 1, i, last, flags, claims, skippers)
            flags[i] = BAD


@compiled(
    "void(readonly(uint8[::1]), readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, int64, int32[::1],"
    " uint8[::1], int32[::1], int32[::1])"
)
def judge_heads(
    heads: Bytes, hashes: Small, previous: Small, slots: int, present: int, entries: int, cut: int, last: Small,
    flags: Bytes, claims: Small, skippers: Small,
) -> None:  # fmt: skip
    """Let the slots say what units they hold; ``last`` becomes what each slot should be.

    A head above ``entries`` and up to ``cut`` names a unit that the file is too short for.
    """
    for slot in range(present):
        head = int32_at(heads, SLOTS_AT + 4 * slot)
        who = -1 - slot
        if head == last[slot]:
            claim(hashes, previous, slots, slot, head if head <= entries else 0, flags, claims, skippers)
        elif (
            entries < head <= cut
            or accepts(hashes, previous, slots, slot, head, entries, who, last, flags, claims, skippers)
            or doubts(hashes, previous, slots, slot, head, entries, who, last, flags, claims, skippers)
        ):
            last[slot] = head


@compiled("boolean(readonly(int32[::1]), int64, int64, int32[::1])")
def is_elsewhere(hashes: Small, slots: int, unit: int, claims: Small) -> bool:
    """Tell whether a unit is named by another slot than that of its hash."""
    return claims[unit] > 0 and claims[unit] - 1 != slot_of(hashes[unit], slots)


@compiled("int64(readonly(int32[::1]), readonly(int32[::1]), int64, int64, uint8[::1], int32[::1], int32[::1])")
def verdict_on(
    hashes: Small, previous: Small, slots: int, unit: int, flags: Bytes, claims: Small, skippers: Small
) -> int:
    """Return what is wrong about a unit in doubt: HOLE, HASH, BAD for the rest of it, DOUBTED for its doubter, FINE."""
    flag = np.int64(flags[unit])
    elsewhere = is_elsewhere(hashes, slots, unit, claims)
    if flag == BAD:
        if elsewhere:
            return np.int64(HASH)
        named = np.int64(previous[unit])
        slot = slot_of(hashes[unit], slots)
        # Right if the unit that it names was put into this slot by all that is known, against its hash.
        right = 1 <= named < unit and flags[named] == DOUBTED and skippers[named] == unit
        return np.int64(FINE if right and claims[unit] and claims[named] - 1 == slot else BAD)
    if flag == DOUBTED:
        doubter = skippers[unit]
        if doubter < 0 or flags[doubter] == FINE:
            return np.int64(HASH if elsewhere else DOUBTED)
        if elsewhere and not is_elsewhere(hashes, slots, doubter, claims):
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
    "int64(readonly(uint8[::1]), int64, readonly(int32[::1]), readonly(int32[::1]), int64, int64, int32[::1],"
    " uint8[::1], int32[::1], int32[::1], int64[:, ::1], int64[::1])"
)
def name_wrong(
    heads: Bytes, units_at: int, hashes: Small, previous: Small, slots: int, entries: int, last: Small, flags: Bytes,
    claims: Small, skippers: Small, wrong: Numbers, count: Numbers,
) -> int:  # fmt: skip
    """Return the number of units with a wrong field, the fields in ``wrong``, holes counted in ``count[1]``.

    A slot found wrong by what the units say gets its true unit back in ``last``.
    """
    units = np.int64(0)
    for i in range(1, entries + 1):
        if flags[i] == FINE:
            continue
        at = units_at + i * UNIT
        verdict = verdict_on(hashes, previous, slots, i, flags, claims, skippers)
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
            named = int32_at(heads, SLOTS_AT + 4 * slot) == i
            last[slot] = previous[i] if named else i
    return units


@compiled("void(readonly(uint8[::1]), int64, int32[::1], int64[:, ::1], int64[::1])")
def name_wrong_heads(heads: Bytes, present: int, last: Small, wrong: Numbers, count: Numbers) -> None:
    """Add the slots that are not what they should be to ``wrong``."""
    for slot in range(present):
        if int32_at(heads, SLOTS_AT + 4 * slot) != last[slot]:
            add_wrong(wrong, count, SLOTS_AT + 4 * slot, SLOTS_AT + 4 * slot + 4)


@compiled("int64(readonly(uint8[::1]), int64, int64[:, ::1], int64[::1])")
def name_dirty(data: Bytes, position: int, wrong: Numbers, count: Numbers) -> int:
    """Return the bytes of all-zero units of a stretch that begins at ``position``; the others go into ``wrong``."""
    zero = np.int64(0)
    stop = len(data)
    at = np.int64(0)
    while at < stop:
        dirty = first_nonzero(data, at, stop)
        dirty -= (dirty - at) % UNIT if dirty < stop else 0
        zero += dirty - at
        at = min(dirty + UNIT, stop)
        if at > dirty:
            add_wrong(wrong, count, position + dirty, position + at)
    return zero

"""Compiled replay of a damaged index file: which hash, previous number or slot is wrong.

A wrong hash puts a unit into the wrong slot, a wrong previous number breaks the chain of the right
one, and both look alike at first. So a unit that disagrees is only doubted; who names it later, the
next unit of its slot or the slot itself, tells where it was put.

Any unit may be asked for again, so of each its hash and its previous number are kept, and no more of
the file than that: ``load`` takes them from stretches of it. Slots come in stretches, too: the bytes
``heads``, the first of which is that of the slot ``first``.

What is thought of a unit is in these numbers and two more, because a byte more each were 20 MB of a
full file: ``hashes[i]`` is negative for HOLE and HASH; ``claims[i]`` has in its low bits 1 and the slot
that names the unit, 0 for none, and is negative for BAD; ``skippers[i]`` is who made it DOUBTED, a unit or
-1 and a slot below zero, else 0.

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

NO_UNIT: Final = -(2**31)  # hash of a HOLE
NO_HASH: Final = -1  # of a unit whose hash no broker writes
CLAIMED: Final = 2**31 - 1  # the bits of ``claims`` that are a slot and 1
NOT_CLAIMED: Final = ~CLAIMED  # its other bit: BAD

# Rows of the table of wrong places.
(E_START, E_STOP, E_COUNT) = range(3)


@compiled("void(readonly(uint8[::1]), int64, int32[::1], int32[::1])")
def load(data: Bytes, first: int, hashes: Small, previous: Small) -> None:
    """Keep hash and previous number of these units, the first of which has the number ``first``."""
    for k in range(len(data) // UNIT):
        at = k * UNIT
        hole = first_nonzero(data, at, at + UNIT) == at + UNIT
        hashes[first + k] = NO_UNIT if hole else max(int32_at(data, at), np.int64(NO_HASH))
        previous[first + k] = int32_at(data, at + PREVIOUS_AT)


@compiled("int64(readonly(int32[::1]), readonly(int32[::1]), readonly(int32[::1]), int64)", forceinline=True)
def flag_of(hashes: Small, claims: Small, skippers: Small, unit: int) -> int:
    """Return what is thought of a unit."""
    if hashes[unit] < 0:
        return np.int64(HOLE if hashes[unit] == NO_UNIT else HASH)
    if claims[unit] < 0:
        return np.int64(BAD)
    return np.int64(DOUBTED if skippers[unit] != 0 else FINE)


@compiled("void(int32[::1], int64)", forceinline=True)
def mark_bad(claims: Small, unit: int) -> None:
    """Make a unit BAD that was FINE."""
    claims[unit] = np.int64(claims[unit]) | NOT_CLAIMED


@compiled("int64(readonly(int32[::1]), int64)", forceinline=True)
def claimed_by(claims: Small, unit: int) -> int:
    """Return the slot that names a unit in doubt, -1 for none."""
    return (np.int64(claims[unit]) & CLAIMED) - 1


@compiled("void(readonly(uint8[::1]), int64, int64, int64, int64, readonly(int32[::1]), int64[::1])")
def highest_heads(
    heads: Bytes, first: int, slots: int, present: int, capacity: int, hashes: Small, highest: Numbers
) -> None:
    """Raise ``highest[0]`` to the largest head whose unit is of its slot, ``highest[1]`` to that of all.

    Units up to ``present`` are in the file; those behind ``hashes`` are zero. No head is above ``capacity``.
    """
    for k in range(len(heads) // 4):
        head = int32_at(heads, 4 * k)
        if head > highest[0] and head <= present:
            key_hash = np.int64(hashes[head]) if head < len(hashes) else np.int64(NO_UNIT)
            key_hash = np.int64(0) if key_hash == NO_UNIT else key_hash
            if slot_of(key_hash, slots) == first + k:
                highest[0] = head
        if head > highest[1] and head <= capacity:
            highest[1] = head


@compiled("void(readonly(int32[::1]), int64, int64, int64, int32[::1], int32[::1])")
def claim(hashes: Small, slots: int, slot: int, named: int, claims: Small, skippers: Small) -> None:
    """Keep that ``slot`` names a unit that is in doubt: it says what slot the unit was put in."""
    if named < 1 or flag_of(hashes, claims, skippers, named) == FINE:
        return
    claims[named] = (np.int64(claims[named]) & NOT_CLAIMED) | (slot + 1)
    doubter = skippers[named]
    if doubter > 0 and flag_of(hashes, claims, skippers, doubter) == FINE and slot_of(hashes[named], slots) == slot:
        mark_bad(claims, doubter)  # the unit's own slot names it after all


@compiled(
    "boolean(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, int64, int64, int32[::1],"
    " int32[::1], int32[::1])"
)
def accepts(
    hashes: Small, previous: Small, slots: int, slot: int, named: int, entries: int, who: int, last: Small,
    claims: Small, skippers: Small,
) -> bool:  # fmt: skip
    """Tell whether ``who`` may name another unit than the last of its slot: one in doubt, or past the last."""
    if 1 <= named <= entries and flag_of(hashes, claims, skippers, named) != FINE:
        claim(hashes, slots, slot, named, claims, skippers)
        return True
    top = last[slot]
    if top < 1 or top > entries or previous[top] != named:
        return False
    if flag_of(hashes, claims, skippers, top) == FINE:
        skippers[top] = who  # makes it DOUBTED
    return flag_of(hashes, claims, skippers, top) == DOUBTED


@compiled(
    "boolean(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, int64, int64, int32[::1],"
    " int32[::1], int32[::1])"
)
def doubts(
    hashes: Small, previous: Small, slots: int, slot: int, named: int, entries: int, who: int, last: Small,
    claims: Small, skippers: Small,
) -> bool:  # fmt: skip
    """Tell whether ``who`` would be right if the unit that it names has a wrong hash and belongs to ``slot``."""
    if named < 1 or named > entries or flag_of(hashes, claims, skippers, named) != FINE:
        return False
    other = slot_of(hashes[named], slots)
    if other == slot or last[other] != named or previous[named] != last[slot]:
        return False
    claims[named] = slot + 1
    skippers[named] = who  # makes it DOUBTED
    return True


@compiled("void(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int32[::1], int32[::1], int32[::1])")
def replay_damaged(
    hashes: Small, previous: Small, slots: int, entries: int, last: Small, claims: Small, skippers: Small
) -> None:
    """Replay units of which some are damaged."""
    for i in range(1, entries + 1):
        slot = slot_of(hashes[i], slots)
        if slot < 0:  # HOLE or HASH
            continue
        named = np.int64(previous[i])
        if named == last[slot]:
            claim(hashes, slots, slot, named, claims, skippers)
            last[slot] = i
        elif accepts(hashes, previous, slots, slot, named, i - 1, i, last, claims, skippers):
            last[slot] = i
        else:
            doubts(hashes, previous, slots, slot, named, i - 1, i, last, claims, skippers)
            mark_bad(claims, i)


@compiled(
    "void(readonly(uint8[::1]), int64, readonly(int32[::1]), readonly(int32[::1]), int64, int64, int64, int32[::1],"
    " int32[::1], int32[::1])"
)
def judge_heads(
    heads: Bytes, first: int, hashes: Small, previous: Small, slots: int, entries: int, cut: int, last: Small,
    claims: Small, skippers: Small,
) -> None:  # fmt: skip
    """Let the slots say what units they hold; ``last`` becomes what each slot should be.

    A head above ``entries`` and up to ``cut`` names a unit that the file is too short for.
    """
    for k in range(len(heads) // 4):
        head, slot = int32_at(heads, 4 * k), first + k
        who = -1 - slot
        if head == last[slot]:
            claim(hashes, slots, slot, head if head <= entries else 0, claims, skippers)
        elif (
            entries < head <= cut
            or accepts(hashes, previous, slots, slot, head, entries, who, last, claims, skippers)
            or doubts(hashes, previous, slots, slot, head, entries, who, last, claims, skippers)
        ):
            last[slot] = head


@compiled("boolean(readonly(int32[::1]), int64, int64, int32[::1])")
def is_elsewhere(hashes: Small, slots: int, unit: int, claims: Small) -> bool:
    """Tell whether a unit is named by another slot than that of its hash."""
    return claimed_by(claims, unit) >= 0 and claimed_by(claims, unit) != slot_of(hashes[unit], slots)


@compiled("int64(readonly(int32[::1]), readonly(int32[::1]), int64, int64, int32[::1], int32[::1])")
def verdict_on(hashes: Small, previous: Small, slots: int, unit: int, claims: Small, skippers: Small) -> int:
    """Return what is wrong about a unit in doubt: HOLE, HASH, BAD for the rest of it, DOUBTED for its doubter, FINE."""
    flag = flag_of(hashes, claims, skippers, unit)
    elsewhere = is_elsewhere(hashes, slots, unit, claims)
    if flag == BAD:
        if elsewhere:
            return np.int64(HASH)
        named = np.int64(previous[unit])
        slot = slot_of(hashes[unit], slots)
        # Right if the unit that it names was put into this slot by all that is known, against its hash.
        right = 1 <= named < unit and flag_of(hashes, claims, skippers, named) == DOUBTED and skippers[named] == unit
        return np.int64(FINE if right and claimed_by(claims, unit) >= 0 and claimed_by(claims, named) == slot else BAD)
    if flag == DOUBTED:
        doubter = skippers[unit]
        if doubter < 0 or flag_of(hashes, claims, skippers, doubter) == FINE:
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
    "int64(int64, readonly(int32[::1]), readonly(int32[::1]), int64, int64, int32[::1], int32[::1], int32[::1],"
    " int64[:, ::1], int64[::1])"
)
def name_wrong(
    units_at: int, hashes: Small, previous: Small, slots: int, entries: int, last: Small, claims: Small,
    skippers: Small, wrong: Numbers, count: Numbers,
) -> int:  # fmt: skip
    """Return the number of units with a wrong field, the fields in ``wrong``, holes counted in ``count[1]``.

    A slot found wrong by what the units say gets its true unit back in ``last``.
    """
    units = np.int64(0)
    for i in range(1, entries + 1):
        if flag_of(hashes, claims, skippers, i) == FINE:
            continue
        at = units_at + i * UNIT
        verdict = verdict_on(hashes, previous, slots, i, claims, skippers)
        if verdict == HOLE:
            count[1] += 1
            add_wrong(wrong, count, at, at + UNIT)
        elif verdict == HASH:
            units += 1
            add_wrong(wrong, count, at, at + OFFSET_AT)
        elif verdict == BAD:
            units += 1
            add_wrong(wrong, count, at + (PREVIOUS_AT if claimed_by(claims, i) >= 0 else 0), at + UNIT)
        elif verdict == DOUBTED and skippers[i] > 0:
            units += 1
            other = units_at + skippers[i] * UNIT
            add_wrong(wrong, count, other + PREVIOUS_AT, other + UNIT)
        elif verdict == DOUBTED:
            slot = -1 - skippers[i]
            # What the slot said was taken for its last unit: this one, or one that passes this one over.
            last[slot] = previous[i] if last[slot] == i else i
    return units


@compiled("void(readonly(uint8[::1]), int64, int32[::1], int64[:, ::1], int64[::1])")
def name_wrong_heads(heads: Bytes, first: int, last: Small, wrong: Numbers, count: Numbers) -> None:
    """Add the slots that are not what they should be to ``wrong``."""
    for k in range(len(heads) // 4):
        if int32_at(heads, 4 * k) != last[first + k]:
            at = SLOTS_AT + 4 * (first + k)
            add_wrong(wrong, count, at, at + 4)


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

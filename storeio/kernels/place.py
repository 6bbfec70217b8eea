"""Compiled ends of queues, and dispatch of a block: which units a queue takes, keys into an index file.

Source: ``ConsumeQueue.putMessagePositionInfo``, ``IndexFile.putKey``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.kernels.memory import fetch_bytes
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

HEADER_BYTES: Final = 40
UNIT: Final = 20
MAX_INT: Final = 2**31 - 1
OFFSET_AT: Final = 4  # of a record's physical offset, in a unit of an index file
SECONDS_AT: Final = 12
KEYS_AHEAD: Final = 16  # slots lie anywhere in 20 MB; what is asked for early is there when it is needed

# A key on its way into an index file: a unit that has its record's store time where a file has seconds and unit before.
KEY: Final = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("store_timestamp_ms", ">i8")])

# Places in what ``put_keys`` knows of an index file.
(I_BEGIN_MS, I_END_MS, I_BEGIN_OFFSET, I_END_OFFSET, I_USED_SLOTS, I_COUNT, I_SLOTS, I_UNITS) = range(8)

# Places in what ``take_units`` counts.
(T_TAKEN, T_SHIFTED) = range(2)


@compiled("UniTuple(int64, 2)(readonly(uint8[::1]), int64, int64)")
def leading_units(data: Bytes, first: int, most: int) -> tuple[int, int]:
    """Return where the first unit from ``first`` on is that is not written or points above ``most``, and the highest.

    Numbers of units; the highest physical offset is that of the units before, -1 without any.
    """
    count = len(data) // UNIT
    highest = np.int64(-1)
    i = first
    while i < count:
        offset = int64_at(data, i * UNIT)
        if offset < 0 or offset > most or int32_at(data, i * UNIT + 8) <= 0:
            break
        highest = max(highest, offset)
        i += 1
    return i, highest


@compiled("int64(readonly(int64[:]), readonly(int64[:]), int64, int64, int64, boolean[::1], int64[::1])")
def take_units(
    queue_offset: Numbers, expected: Numbers, first: int, end: int, room: int, taken: Mask, counts: Numbers
) -> int:
    """Return the first record that is not looked at, since the file is full, and mark those that get a unit.

    Args:
        queue_offset: Of each record.
        expected: Position of each in its queue, as a broker reckons it: of a huge number it wraps around. Compiled code
            would take it for granted that products do not.
        first: The record to begin with.
        end: Queue offset at which the queue ends.
        room: Units that its last file still takes.
        taken: A mark a record.
        counts: Afterwards how many get a unit, and how many of these stand below their own number.
    """
    counts[T_TAKEN] = counts[T_SHIFTED] = 0
    i = first
    while i < len(queue_offset) and counts[T_TAKEN] < room:
        position = (end + counts[T_TAKEN]) * UNIT
        taken[i] = queue_offset[i] == 0 or expected[i] >= position
        if taken[i]:
            counts[T_TAKEN] += 1
            counts[T_SHIFTED] += queue_offset[i] != 0 and expected[i] > position
        i += 1
    return i


@compiled("void(uint8[::1], int64, int64)", forceinline=True)
def put_int32(data: Bytes, at: int, value: int) -> None:
    """Write the low 32 bits of a number, big-endian; the caller knows that they fit."""
    i = np.uint64(at)  # an index without sign needs no test for one below zero, so that the bytes become one store
    for k in range(4):
        data[i + np.uint64(k)] = (value >> (24 - 8 * k)) & 0xFF


@compiled("void(uint8[::1], int64, int64)", forceinline=True)
def put_int64(data: Bytes, at: int, value: int) -> None:
    """Write a number, big-endian; the caller knows that it fits."""
    i = np.uint64(at)
    for k in range(8):
        data[i + np.uint64(k)] = (value >> (56 - 8 * k)) & 0xFF


@compiled("int64(int64, int64)", forceinline=True)
def slot_of(key_hash: int, slots: int) -> int:
    """Return the position of a key's slot in an index file; neither number is negative or needs more than 31 bits."""
    return HEADER_BYTES + 4 * np.int64(np.uint32(key_hash) % np.uint32(slots))


@compiled("int64(uint8[::1], int64, int64[::1], uint8[::1])", _nrt=True)
def put_keys(units: Bytes, first: int, file: Numbers, head: Bytes) -> int:
    """Return the first key that has no room in the file, after entering those before it.

    Args:
        units: Keys, each a ``KEY``; those that are entered become the file's units.
        first: The key to begin with.
        file: What is known of the file; updated.
        head: The file's header and slots; the slots are updated.
    """
    stop = min(first + max(file[I_UNITS] - file[I_COUNT], np.int64(0)), len(units) // UNIT)
    if first >= stop:
        return first
    # What changes with every key is kept out of arrays: the compiler would write it to memory every time.
    slots, count, used = file[I_SLOTS], file[I_COUNT], file[I_USED_SLOTS]
    begin_ms, begin_offset = file[I_BEGIN_MS], file[I_BEGIN_OFFSET]
    end_ms = np.int64(0)
    soon = np.empty(KEYS_AHEAD, np.int64)  # slots of the next keys
    for i in range(first, min(first + KEYS_AHEAD, stop)):
        soon[i % KEYS_AHEAD] = slot_of(int32_at(units, UNIT * i), slots)
    for i in range(first, stop):
        at = UNIT * i
        slot_at = soon[i % KEYS_AHEAD]
        if i + KEYS_AHEAD < stop:
            slot = slot_of(int32_at(units, at + KEYS_AHEAD * UNIT), slots)
            soon[i % KEYS_AHEAD] = slot
            fetch_bytes(head, slot)
        previous = int32_at(head, slot_at)
        if previous <= 0 or previous > count:
            previous = np.int64(0)
        end_ms = int64_at(units, at + SECONDS_AT)
        passed = end_ms - begin_ms
        seconds = min(passed // 1000, MAX_INT) if begin_ms > 0 and passed > 0 else np.int64(0)
        put_int64(units, at + SECONDS_AT, seconds << 32 | previous)
        put_int32(head, slot_at, count)
        if count <= 1:
            begin_ms, begin_offset = end_ms, int64_at(units, at + OFFSET_AT)
        used += previous == 0
        count += 1
    file[I_COUNT], file[I_USED_SLOTS] = count, used
    file[I_BEGIN_MS], file[I_BEGIN_OFFSET] = begin_ms, begin_offset
    file[I_END_OFFSET], file[I_END_MS] = int64_at(units, UNIT * (stop - 1) + OFFSET_AT), end_ms
    return stop


@compiled("int64(readonly(int64[:, :]), readonly(int64[:, :]), int64, int64, uint8[::1])")
def pick_keys(keys: Numbers, records: Numbers, base: int, untagged: int, units: Bytes) -> int:
    """Return how many keys an index takes of a split's, after writing a ``KEY`` for each.

    Args:
        keys: The key table.
        records: The record table.
        base: Physical offset of the segment.
        untagged: Records before this one have their tags not indexed.
        units: Room for all keys.
    """
    n = np.int64(0)
    for i in range(keys.shape[1]):
        record = keys[1, i]
        if keys[2, i] != t.TAGS or record >= untagged:
            put_int32(units, UNIT * n, keys[0, i])
            put_int64(units, UNIT * n + OFFSET_AT, records[w.R_POSITION, record] + base)
            put_int64(units, UNIT * n + SECONDS_AT, records[w.R_STORE_MS, record])
            n += 1
    return n

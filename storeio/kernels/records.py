"""Compiled records: the queue, what dispatch derives, and the table row of one that a broker accepts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.kernels.memory import LINE
from storeio.kernels.raw import LANES, POWERS, int64_at, tail_hash
from storeio.kernels.text import java_hash, java_number

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

QUEUE_FACTOR = 0x9E3779B1  # spreads queue ids over the slots
SCHEDULE_BYTES = np.frombuffer(log.SCHEDULE_TOPIC.encode(), dtype=np.uint8)


@compiled("boolean(readonly(uint8[::1]), int64, int64)", forceinline=True)
def is_schedule_topic(data: Bytes, start: int, count: int) -> bool:
    """Tell whether ``count`` bytes at ``start`` are the topic of delayed messages."""
    if count != len(SCHEDULE_BYTES):
        return False
    for k in range(count):
        if data[start + k] != SCHEDULE_BYTES[k]:
            return False
    return True


@compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
def topic_hash(data: Bytes, stop: int, count: int) -> int:
    """Return 32 bits that equal topics share, of the ``count`` bytes before ``stop``."""
    value = np.int64(0)
    while count > LANES:
        value = (value * POWERS[LANES] + tail_hash(data, stop - count + LANES, LANES)) & 0xFFFFFFFF
        count -= LANES
    # A topic lies behind a record's head, which is longer than a block.
    return (value * POWERS[count] + tail_hash(data, stop, count)) & 0xFFFFFFFF


@compiled("boolean(readonly(uint8[::1]), int64, uint8[::1], int64, int64)", forceinline=True)
def same_topic(data: Bytes, one: int, names: Bytes, other: int, count: int) -> bool:
    """Tell whether the ``count`` bytes before ``one`` and before ``other`` of the names are equal; each has 8 there."""
    while count > 8:
        if int64_at(data, one - count) != int64_at(names, other - count):
            return False
        count -= 8
    mask = ~np.int64(0) if count == 8 else (np.int64(1) << np.int64(8 * count)) - 1
    return (int64_at(data, one - 8) ^ int64_at(names, other - 8)) & mask == 0


@compiled("int64(readonly(uint8[::1]), int64, int64[::1], int64, int64[:, ::1], uint8[::1], int64[::1])")
def add_queue(
    data: Bytes, origin: int, head: Numbers, value: int, queues: Numbers, names: Bytes, state: Numbers
) -> int:
    """Return the number of a new queue, -FULL_QUEUES or -FULL_NAMES where these have no room."""
    start = head[h.TOPIC_AT] - origin
    count = head[h.TOPIC_BYTES]
    q = state[w.S_QUEUES]
    if q >= queues.shape[1]:
        return np.int64(-w.FULL_QUEUES)
    at = queues[w.Q_TOPIC_AT, q - 1] + queues[w.Q_TOPIC_BYTES, q - 1] if q > 0 else np.int64(w.NAMES_FROM)
    if at + count > len(names):
        return np.int64(-w.FULL_NAMES)
    for k in range(count):
        names[at + k] = data[start + k]
    queues[w.Q_TOPIC_AT, q], queues[w.Q_TOPIC_BYTES, q] = at, count
    queues[w.Q_QUEUE_ID, q], queues[w.Q_HASH, q] = head[h.QUEUE_ID], value
    queues[w.Q_SEED, q] = (java_hash(data, start, start + count, 0) * 31 + 35) & 0xFFFFFFFF
    queues[w.Q_SCHEDULED, q] = 1 if is_schedule_topic(data, start, count) else 0
    state[w.S_QUEUES] = q + 1
    return q


@compiled(
    "int64(readonly(uint8[::1]), int64, int64[::1], int64[:, ::1], uint8[::1], int64[::1], int64[::1])",
    forceinline=True,
)
def queue_of(
    data: Bytes, origin: int, head: Numbers, queues: Numbers, names: Bytes, slots: Numbers, state: Numbers
) -> int:
    """Return the number of the record's (topic, queue id) in this split, or what ``add_queue`` does.

    ``slots`` is an open hash table over ``queues``, a power of two long and at least twice as large.
    """
    count = head[h.TOPIC_BYTES]
    stop = head[h.TOPIC_AT] - origin + count
    value = (topic_hash(data, stop, count) + (head[h.QUEUE_ID] & 0xFFFFFF) * QUEUE_FACTOR) & w.HASH_MASK
    mask = np.uint64(len(slots) - 1)
    slot = np.uint64(value ^ (value >> 29)) & mask
    while slots[slot] > 0:
        q = np.uint64(slots[slot] - 1)
        if (
            queues[w.Q_HASH, q] == value
            and queues[w.Q_QUEUE_ID, q] == head[h.QUEUE_ID]
            and queues[w.Q_TOPIC_BYTES, q] == count
            and same_topic(data, stop, names, queues[w.Q_TOPIC_AT, q] + count, count)
        ):
            return np.int64(q)
        slot = (slot + np.uint64(1)) & mask
    added = add_queue(data, origin, head, value, queues, names, state)
    if added >= 0:
        slots[slot] = added + 1
    return added


@compiled(
    "int64(readonly(uint8[::1]), int64, int64[::1], int64[::1], boolean, readonly(int64[::1]), int64[::1])",
    forceinline=True,
)
def derive(
    data: Bytes, origin: int, head: Numbers, places: Numbers, scheduled: bool, delays_ms: Numbers, derived: Numbers
) -> int:
    """Return OK with tags code, batch base and batch size in ``derived``, or WHY_PROPERTY.

    Fills ``places``. A number that Java cannot parse ends the log for every broker.
    """
    start = head[h.PROPERTIES_AT] - origin
    t.find_properties(data, start, start + max(head[h.PROPERTIES_BYTES], 0), places)
    derived[0], fine = t.tags_code_of(data, places, scheduled, head[h.STORE_MS], delays_ms)
    base_fine = size_fine = np.int64(1)
    derived[1] = head[h.QUEUE_OFFSET]
    derived[2] = 1
    if places[2 * t.INNER_NUM + 1] > 0 and places[2 * t.INNER_BASE + 1] > 0:
        base, size = 2 * t.INNER_BASE, 2 * t.INNER_NUM
        derived[1], base_fine = java_number(data, places[base], places[base + 1], t.LONG_LIMIT)
        derived[2], size_fine = java_number(data, places[size], places[size + 1], t.SHORT_LIMIT)
    return np.int64(h.OK if fine & base_fine & size_fine else h.WHY_PROPERTY)


@compiled("void(int64[::1], int64, int64, int64[::1], int64, int64, int64[::1])", forceinline=True)
def put_record(
    stage: Numbers, number: int, position: int, head: Numbers, queue: int, marks: int, derived: Numbers
) -> None:
    """Write record ``number`` into the stage of ``staged``."""
    column = stage[number % LINE :]  # behind it all places are constants, of which none is counted from the end
    column[LINE * w.R_POSITION] = position
    column[LINE * w.R_SIZE] = head[h.SIZE]
    column[LINE * w.R_QUEUE] = queue
    column[LINE * w.R_QUEUE_OFFSET] = head[h.QUEUE_OFFSET]
    column[LINE * w.R_TAGS_CODE] = derived[0]
    column[LINE * w.R_STORE_MS] = head[h.STORE_MS]
    column[LINE * w.R_SYS_FLAG] = head[h.SYS_FLAG]
    column[LINE * w.R_MARKS] = marks
    column[LINE * w.R_PHYSICAL] = head[h.PHYSICAL_OFFSET]
    column[LINE * w.R_BODY_BYTES] = head[h.BODY_BYTES]
    column[LINE * w.R_PROPERTIES_AT] = head[h.PROPERTIES_AT]
    column[LINE * w.R_PROPERTIES_BYTES] = head[h.PROPERTIES_BYTES]
    column[LINE * w.R_BATCH_BASE] = derived[1]
    column[LINE * w.R_BATCH_SIZE] = derived[2]
    column[LINE * w.R_BORN_MS] = head[h.BORN_MS]
    column[LINE * w.R_STORE_HOST] = head[h.STORE_HOST]
    column[LINE * w.R_BORN_HOST] = head[h.BORN_HOST]
    column[LINE * w.R_FLAG] = head[h.FLAG]

"""The walk's usual case: intact records, one behind the other, appended to the tables.

Apart from the rest of the walk so that the compiler keeps no registers for the rare cases.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.kernels.ahead import fetch_record
from storeio.kernels.marks import marks_of, marks_of_batch, marks_of_level, marks_of_properties
from storeio.kernels.records import derive, is_schedule_topic, put_record, queue_of
from storeio.kernels.spans import add_span
from storeio.kernels.staged import STAGE_PLACES, leave_line
from storeio.kernels.text import int32_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Places in the array that says where the window lies and how to check it, all int64.
(V_ORIGIN, V_BASE, V_FILE_SIZE, V_STOP, V_CRC_ADDRESS, V_CRC_KIND) = range(6)

# Places in the array that kernels work in: places of properties, what is derived of them, a start that was found, if
# records are written in whole lines, and their stage; last, what is known of the CRCs of the window.
DERIVED: Final = t.PLACES
FOUND: Final = DERIVED + 3
WHOLE: Final = FOUND + 3
STAGE: Final = WHOLE + 1
BLOCKS: Final = STAGE + STAGE_PLACES


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64, int64[::1], readonly(int64[::1]), int64[::1])",
    forceinline=True,
)
def check_whole(data: Bytes, view: Numbers, position: int, head: Numbers, delays_ms: Numbers, work: Numbers) -> int:
    """Return OK for a record that brokers accept, properties included; NEED, or why it is none.

    ``work`` receives the places of properties and then what ``derive`` derives.
    """
    why = h.check_record(
        data, view[V_ORIGIN], view[V_FILE_SIZE], position, view[V_CRC_ADDRESS], view[V_CRC_KIND], head, work[BLOCKS:]
    )
    if why != h.OK:
        return why
    scheduled = is_schedule_topic(data, head[h.TOPIC_AT] - view[V_ORIGIN], head[h.TOPIC_BYTES])
    return derive(data, view[V_ORIGIN], head, work[:DERIVED], scheduled, delays_ms, work[DERIVED:])


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1])",
    forceinline=True,
)
def take_record(
    data: Bytes, view: Numbers, state: Numbers, head: Numbers, work: Numbers, records: Numbers, keys: Numbers,
    spans: Numbers, queues: Numbers, names: Bytes, slots: Numbers,
) -> int:  # fmt: skip
    """Append the checked record at the state's position to all tables; DONE, or which one is full.

    Nothing of it is kept where one is full, so that the caller can make room and come again.
    """
    n = state[w.S_RECORDS]
    position = state[w.S_POSITION]
    if n >= records.shape[1]:
        return np.int64(w.FULL_RECORDS)
    queue = queue_of(data, view[V_ORIGIN], head, queues, names, slots, state)
    if queue < 0:
        return -queue
    marks = marks_of(head, view[V_BASE], position)
    marks |= marks_of_properties(
        data, view[V_ORIGIN], position, view[V_CRC_ADDRESS], view[V_CRC_KIND], head, work[:DERIVED]
    )
    if marks & w.MARK_INNER_BATCH:
        marks |= marks_of_batch(data, view[V_ORIGIN], head, work[DERIVED + 1], work[DERIVED + 2])
    if queues[w.Q_SCHEDULED, queue]:
        marks |= marks_of_level(data, view[V_ORIGIN], head, work[:DERIVED])
    after = state[w.S_KEYS]
    if head[h.SYS_FLAG] & log.SYS_TRANSACTION != log.SYS_ROLLBACK:
        after = t.add_keys(data, work[:DERIVED], queues[w.Q_SEED, queue], n, after, keys)
        if after < 0:
            return np.int64(w.FULL_KEYS)
    if not add_span(spans, state, position, position + head[h.SIZE], w.RECORD, h.OK):
        return np.int64(w.FULL_SPANS)
    stage = work[STAGE:BLOCKS]
    put_record(stage, n, position, head, queue, marks, work[DERIVED:])
    leave_line(records, n, stage, work[WHOLE])
    state[w.S_RECORDS] = n + 1
    state[w.S_KEYS] = after
    state[w.S_TIME_2] = state[w.S_TIME_1]
    state[w.S_TIME_1] = max(head[h.STORE_MS], w.UNKNOWN + 1)
    state[w.S_POSITION] = position + head[h.SIZE]
    state[w.S_MODE] = w.CHAIN
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], int64[::1], readonly(int64[::1]), int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1])"
)
def take_chain(
    data: Bytes, view: Numbers, state: Numbers, head: Numbers, delays_ms: Numbers, work: Numbers, records: Numbers,
    keys: Numbers, spans: Numbers, queues: Numbers, names: Bytes, slots: Numbers,
) -> int:  # fmt: skip
    """Take records as long as they are intact and in their places: DONE, or which table is full.

    Whatever else stands there, or is not all in the window, is left for the caller to look at.
    """
    stop = min(view[V_STOP], view[V_FILE_SIZE] - log.MIN_RECORD_BYTES)
    while state[w.S_POSITION] < stop:
        i = state[w.S_POSITION] - view[V_ORIGIN]
        if i + 4 <= len(data):
            fetch_record(data, i, np.int64(int32_at(data, i)))
        if check_whole(data, view, state[w.S_POSITION], head, delays_ms, work) != h.OK:
            break
        if head[h.PHYSICAL_OFFSET] != view[V_BASE] + state[w.S_POSITION]:
            break
        answer = take_record(data, view, state, head, work, records, keys, spans, queues, names, slots)
        if answer != w.DONE:
            return answer
    return np.int64(w.DONE)

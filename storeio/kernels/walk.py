"""The walk over one split of a segment: records, index keys, queues and byte classes.

The only loop whose next step depends on the one before. Its state is a position, a mode and the
store times just before, so a split that begins in the middle can be stitched to the one before
it: equal states give equal results.

Source: ``CommitLog.recoverNormally`` for the chain; the search behind damage is ours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels.chain import (
    BLOCKS,
    FOUND,
    STAGE,
    V_BASE,
    V_FILE_SIZE,
    V_ORIGIN,
    V_STOP,
    WHOLE,
    check_whole,
    take_chain,
    take_record,
)  # fmt: skip
from storeio.kernels.longcrc import places_for
from storeio.kernels.memory import all_put
from storeio.kernels.search import boundary, extent, first_nonzero
from storeio.kernels.spans import add_gap, add_span, undo_spans
from storeio.kernels.staged import close_line, has_whole_lines, open_line
from storeio.kernels.starts import FOUND_AT, FOUND_KIND, FOUND_STOP, find_start, hides_start, is_cut
from storeio.kernels.text import int32_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@compiled("int64(int64[::1], int64)")
def reference_time(state: Numbers, place: int) -> int:
    """Return a store time that a newer record does not fall below, UNKNOWN without any before.

    The smaller of the last two, so that one damaged time in the far future judges nobody. Where two are
    not known the question is remembered with its place: a split that began with a guess may be wrong there.
    """
    if state[w.S_TIME_2] == w.UNKNOWN:
        state[w.S_ASKED] = max(state[w.S_ASKED], place)
        return state[w.S_TIME_1]
    return min(state[w.S_TIME_1], state[w.S_TIME_2])


@compiled("int64(readonly(uint8[::1]), readonly(int64[::1]), int64, int64[::1])")
def class_of_misplaced(data: Bytes, view: Numbers, position: int, head: Numbers) -> int:
    """Return RECORD for one record in the chain whose offset field is wrong, STALE for moved ones, or NEED.

    A single wrong field is followed by a record in its place; a moved file or a reused tail is not.
    """
    after = position + head[h.SIZE]
    found = boundary(data, view[V_ORIGIN], view[V_BASE], view[V_FILE_SIZE], after)
    if found == h.NEED or found == 0:
        return np.int64(h.NEED if found == h.NEED else w.STALE)
    last = found == 1 or int32_at(data, after + 4 - view[V_ORIGIN]) == log.MAGIC_BLANK
    # The file's name may be the one that is wrong: then its records name the places of a true segment.
    place = head[h.PHYSICAL_OFFSET] - position
    if last and (place % view[V_FILE_SIZE] == 0 or (place - view[V_BASE]) % view[V_FILE_SIZE] == 0):
        return np.int64(w.STALE)
    return np.int64(w.RECORD)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], int64, int64[::1], readonly(int64[::1]),"
    " int64[::1], int64[:, ::1])"
)
def search(
    data: Bytes, view: Numbers, state: Numbers, why: int, head: Numbers, delays_ms: Numbers, work: Numbers,
    spans: Numbers,
) -> int:  # fmt: skip
    """Move the state to the next start or to the split's end; the bytes between become a gap."""
    position = state[w.S_POSITION]
    limit = min(view[V_STOP], view[V_FILE_SIZE])
    first = position if why == w.WHY_SEARCHED else position + 1
    found = work[FOUND:]
    answer = find_start(data, view, min(first, limit), limit, head, delays_ms, work, found)
    if answer != w.DONE:
        return answer
    before = state[w.S_SPANS]
    old_stop = spans[w.SPAN_STOP, max(before - 1, 0)]
    old_mode = state[w.S_MODE]
    start = found[FOUND_AT]
    if not add_gap(data, view[V_ORIGIN], spans, state, position, start, why):
        return np.int64(w.FULL_SPANS)
    state[w.S_POSITION] = start
    state[w.S_MODE] = w.SEARCH if start >= limit else w.RESUMED
    if found[FOUND_KIND] == w.STALE:
        if not add_span(spans, state, start, found[FOUND_STOP], w.STALE, w.WHY_MISPLACED):
            state[w.S_POSITION] = position
            state[w.S_MODE] = old_mode
            undo_spans(spans, state, before, old_stop)
            return np.int64(w.FULL_SPANS)
        state[w.S_POSITION] = found[FOUND_STOP]
        state[w.S_MODE] = w.SEARCH
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], int64[::1], readonly(int64[::1]), int64[::1],"
    " int64[:, ::1])"
)
def take_blank(
    data: Bytes, view: Numbers, state: Numbers, head: Numbers, delays_ms: Numbers, work: Numbers, spans: Numbers
) -> int:
    """Pass the blank magic at the state's position: to the segment's end, or on to newer records behind it."""
    position = state[w.S_POSITION]
    file_size = view[V_FILE_SIZE]
    i = position - view[V_ORIGIN]
    if h.lacks(data, view[V_ORIGIN], file_size, position, file_size - position):
        return np.int64(w.NEED_BYTES)
    end = file_size - view[V_ORIGIN]
    clean = first_nonzero(data, i + log.BLANK_HEAD_BYTES, end) == end
    true_size = int32_at(data, i) == file_size - position
    why = h.OK if true_size else w.WHY_BLANK_SIZE
    if not clean:
        if not true_size:
            return search(data, view, state, w.WHY_BLANK_SIZE, head, delays_ms, work, spans)
        found = work[FOUND:]
        answer = find_start(data, view, position + 8, file_size, head, delays_ms, work, found)
        if answer != w.DONE:
            return answer
        why = w.WHY_BLANK_DIRTY
        if found[FOUND_KIND] == w.RECORD:
            # Nothing starts at the blank's second byte: this question counts wherever the walk came from.
            reference = reference_time(state, position + 1)
            # No broker begins a segment with one: there is nothing that it could close.
            if position == 0 or (reference != w.UNKNOWN and head[h.STORE_MS] >= reference):
                return search(data, view, state, w.WHY_BLANK_EARLY, head, delays_ms, work, spans)
    if not add_span(spans, state, position, file_size, w.BLANK, why):
        return np.int64(w.FULL_SPANS)
    state[w.S_POSITION] = file_size
    state[w.S_MODE] = w.CHAIN
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], int64[::1], readonly(int64[::1]), int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1])"
)
def take_good(
    data: Bytes, view: Numbers, state: Numbers, head: Numbers, delays_ms: Numbers, work: Numbers, records: Numbers,
    keys: Numbers, spans: Numbers, queues: Numbers, names: Bytes, slots: Numbers,
) -> int:  # fmt: skip
    """Append an intact record as a record or as stale bytes, as its place and time tell."""
    position = state[w.S_POSITION]
    stop = position + head[h.SIZE]
    kind = np.int64(w.RECORD)
    why = np.int64(w.WHY_MISPLACED)
    if head[h.PHYSICAL_OFFSET] != view[V_BASE] + position:
        kind = class_of_misplaced(data, view, position, head)
        cut = is_cut(data, view, position, head, delays_ms, work)
        if kind == h.NEED or cut == h.NEED:
            return np.int64(w.NEED_BYTES)
        if cut != 0:
            return search(data, view, state, w.WHY_SEARCHED, head, delays_ms, work, spans)
        if kind == w.RECORD:
            check_whole(
                data, view, position, head, delays_ms, work
            )  # ``head`` may be that of what seemed to cut it off
    elif state[w.S_MODE] == w.RESUMED:
        reference = reference_time(state, position)
        if reference != w.UNKNOWN and head[h.STORE_MS] < reference:
            kind = np.int64(w.STALE)
            why = np.int64(w.WHY_OLDER)
    if kind == w.RECORD:
        return take_record(data, view, state, head, work, records, keys, spans, queues, names, slots)
    if not add_span(spans, state, position, stop, w.STALE, why):
        return np.int64(w.FULL_SPANS)
    state[w.S_POSITION] = stop
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], int64, int64[::1], readonly(int64[::1]),"
    " int64[::1], int64[:, ::1])"
)
def take_bad(
    data: Bytes, view: Numbers, state: Numbers, why: int, head: Numbers, delays_ms: Numbers, work: Numbers,
    spans: Numbers,
) -> int:  # fmt: skip
    """Pass a bad record: to its end where that is proven, else by searching."""
    position = state[w.S_POSITION]
    end = np.int64(0)
    if head[h.SIZE] != 0 or head[h.MAGIC] != 0:
        end = extent(data, view[V_ORIGIN], view[V_BASE], view[V_FILE_SIZE], position, head)
    if end > 0 and head[h.SIZE] != head[h.FORMULA]:
        hides = hides_start(data, view, position, end, head, delays_ms, work)
        end = end if hides == 0 else np.int64(h.NEED if hides == h.NEED else 0)
    if end == h.NEED:
        return np.int64(w.NEED_BYTES)
    if end == 0:
        return search(data, view, state, why, head, delays_ms, work, spans)
    if not add_span(spans, state, position, end, w.TORN, why):
        return np.int64(w.FULL_SPANS)
    state[w.S_POSITION] = end
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], readonly(int64[::1]), int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1], int64[::1], int64[::1])"
)
def walk_on(
    data: Bytes, view: Numbers, state: Numbers, delays_ms: Numbers, records: Numbers, keys: Numbers, spans: Numbers,
    queues: Numbers, names: Bytes, slots: Numbers, head: Numbers, work: Numbers,
) -> int:  # fmt: skip
    """Return what ``walk`` returns; ``head`` and ``work`` are room to work in."""
    file_size = view[V_FILE_SIZE]
    while state[w.S_POSITION] < view[V_STOP] and state[w.S_POSITION] < file_size:
        if state[w.S_MODE] == w.CHAIN:
            full = take_chain(data, view, state, head, delays_ms, work, records, keys, spans, queues, names, slots)
            if full != w.DONE:
                return full
        position = state[w.S_POSITION]
        if position >= view[V_STOP] or position >= file_size:
            break
        answer = np.int64(w.DONE)
        if state[w.S_MODE] == w.SEARCH or file_size - position < log.BLANK_HEAD_BYTES:
            answer = search(data, view, state, w.WHY_SEARCHED, head, delays_ms, work, spans)
        elif h.lacks(data, view[V_ORIGIN], file_size, position, log.BLANK_HEAD_BYTES):
            answer = np.int64(w.NEED_BYTES)
        elif int32_at(data, position + log.MAGIC_AT - view[V_ORIGIN]) == log.MAGIC_BLANK:
            answer = take_blank(data, view, state, head, delays_ms, work, spans)
        else:
            why = check_whole(data, view, position, head, delays_ms, work)
            if why == h.NEED:
                return np.int64(w.NEED_BYTES)
            if why == h.OK:
                answer = take_good(data, view, state, head, delays_ms, work, records, keys, spans, queues, names, slots)
            else:
                answer = take_bad(data, view, state, why, head, delays_ms, work, spans)
        if answer != w.DONE:
            return answer
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64[::1], readonly(int64[::1]), int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1])",
    _nrt=True,
)
def walk(
    data: Bytes, view: Numbers, state: Numbers, delays_ms: Numbers, records: Numbers, keys: Numbers, spans: Numbers,
    queues: Numbers, names: Bytes, slots: Numbers,
) -> int:  # fmt: skip
    """Fill the tables with what starts before the split's stop; DONE, NEED_BYTES or which table is full.

    Whatever the answer, ``state`` and the tables are consistent, and calling again goes on.
    """
    head = np.zeros(h.HEAD_COLUMNS, dtype=np.int64)
    work = np.zeros(BLOCKS + places_for(len(data)), dtype=np.int64)
    stage = work[STAGE:BLOCKS]
    work[WHOLE] = has_whole_lines(records)
    open_line(records, state[w.S_RECORDS], stage)
    answer = walk_on(data, view, state, delays_ms, records, keys, spans, queues, names, slots, head, work)
    close_line(records, state[w.S_RECORDS], stage)
    all_put()
    return answer

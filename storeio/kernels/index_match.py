"""Compiled comparison of a stretch of index units with the keys that a split's records have.

Both are in log order, so one pass with one place in each will do. A record's tag key comes last
and may be absent: brokers before 5.4.0 do not write it. What does not agree becomes an event.

Source: ``IndexService.buildIndex``, ``IndexFile.putKey``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels import tables as w
from storeio.kernels.index import OFFSET_AT, SECONDS_AT, UNIT
from storeio.kernels.tags import TAGS
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Kinds of events.
(HASH, OFFSET, SECONDS, EXTRA, FOREIGN, ORPHAN, DUPLICATE, MISSING) = range(8)
KINDS: Final = 8
# Columns of an event: units first to last of the stretch, how many, records first to last.
(E_KIND, E_FIRST, E_LAST, E_COUNT, E_RECORD, E_LAST_RECORD) = range(6)
EVENT_COLUMNS: Final = 6

# Places in the state; the last four are the first and the last unit that is its key's, and those keys.
(S_KEY, S_PENDING, S_PENDING_COUNT, S_EVENTS, S_LATE, S_TIMED, S_FIRST, S_FIRST_KEY, S_LAST, S_LAST_KEY) = range(10)
STATE_PLACES: Final = 10
# Columns of the table of files: first unit of the stretch, begin time, place of the file's unit 1.
(F_FIRST, F_BEGIN_MS, F_UNIT_1) = range(3)

WINDOW: Final = 256  # keys of one record that are looked through for one unit
MAX_SECONDS: Final = 2**31 - 1


@compiled("int64(int64, int64)")
def seconds_since(store_ms: int, begin_ms: int) -> int:
    """Return the ``seconds`` that a broker writes for a record of this time into a file that begins then."""
    if begin_ms <= 0 or store_ms <= begin_ms:
        return np.int64(0)
    return min(np.int64((store_ms - begin_ms) // 1000), np.int64(MAX_SECONDS))


@compiled("void(int64[:, ::1], int64[::1], int64, int64, int64, int64, int64, int64)")
def add_event(
    events: Numbers, state: Numbers, kind: int, first: int, last: int, count: int, record: int, last_record: int
) -> None:
    """Append an event, or lengthen the last one; where there is no room, those of one kind share a row."""
    place = S_LATE if kind == SECONDS else S_EVENTS
    n = state[place]
    room = len(events) - KINDS
    joins = n > 0 and kind in (ORPHAN, DUPLICATE) and events[n - 1, E_KIND] == kind
    if joins and events[n - 1, E_LAST] + 1 == first:
        n -= 1
    elif n < room:
        state[place] = n + 1
    else:
        n = room + kind
    if events[n, E_COUNT] == 0:
        events[n, E_FIRST], events[n, E_RECORD] = first, record
    events[n, E_KIND], events[n, E_LAST], events[n, E_LAST_RECORD] = kind, last, last_record
    events[n, E_COUNT] += count


@compiled("void(int64[:, :], int64[:, ::1], int64[::1], int64, int64)")
def close_gap(keys: Numbers, events: Numbers, state: Numbers, stop: int, i: int) -> None:
    """Settle the keys before ``stop`` that no unit had, with the units before ``i`` that no key had."""
    key = state[S_KEY]
    pending = state[S_PENDING_COUNT]
    first = state[S_PENDING]
    if pending > 0:
        kind = FOREIGN if stop > key else ORPHAN
        record = keys[1, key] if stop > key else np.int64(-1)
        add_event(events, state, kind, first, first + pending - 1, pending, record, record)
    state[S_PENDING_COUNT] = 0
    missing = -pending
    record = np.int64(-1)
    for k in range(key, stop):
        if keys[2, k] != TAGS:
            missing += 1
            if missing > 0 and record < 0:
                record = keys[1, k]
    if missing > 0:
        add_event(events, state, MISSING, i, i, missing, record, keys[1, stop - 1])
    state[S_KEY] = stop


@compiled("int64(int64[:, :], int64, int64, int64)")
def find_key(keys: Numbers, value: int, start: int, stop: int) -> int:
    """Return the first key in ``[start, stop)`` with this hash, -1 if there is none near."""
    for k in range(start, min(stop, start + WINDOW, keys.shape[1])):
        if keys[0, k] == value:
            return np.int64(k)
    return np.int64(-1)


@compiled("int64(int64[:, :], int64)")
def record_at(records: Numbers, position: int) -> int:
    """Return the record that starts at ``position``, -1 if none does."""
    r = np.int64(np.searchsorted(records[w.R_POSITION], position))
    if r < records.shape[1] and records[w.R_POSITION, r] == position:
        return r
    return np.int64(-1)


@compiled("int64(int64[:, :], int64, int64, int64)")
def find_next(keys: Numbers, value: int, start: int, skip: int) -> int:
    """Return the first key from ``start`` on with this hash, at most ``skip`` keys but those of tags before it."""
    for k in range(start, min(start + WINDOW, keys.shape[1])):
        if keys[0, k] == value:
            return np.int64(k)
        skip -= keys[2, k] != TAGS
        if skip < 0:
            break
    return np.int64(-1)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64[:, :], int64[:, :], int64[:, ::1], int64[::1])")
def take_displaced(
    data: Bytes, i: int, position: int, keys: Numbers, records: Numbers, events: Numbers, state: Numbers
) -> int:
    """Take a unit whose offset is not believed as one of the next keys, else as pending; return as ``take_other``."""
    value = int32_at(data, i * UNIT)
    pending = state[S_PENDING_COUNT]
    key = find_next(keys, value, state[S_KEY], 1 + 2 * pending)
    if key >= 0:
        close_gap(keys, events, state, key, i)
        state[S_KEY] = key + 1
        if records[w.R_POSITION, keys[1, key]] == position:
            return keys[1, key]
        add_event(events, state, OFFSET, i, i, 1, keys[1, key], keys[1, key])
        return np.int64(-1)
    if pending > 0 and state[S_PENDING] + pending != i:
        close_gap(keys, events, state, state[S_KEY], i)
        pending = np.int64(0)
    if pending == 0:
        state[S_PENDING] = i
    state[S_PENDING_COUNT] = pending + 1
    return np.int64(-1)


@compiled("boolean(readonly(uint8[::1]), int64, int64[:, :], int64, int64, int64)")
def again(data: Bytes, i: int, keys: Numbers, group: int, start: int, stop: int) -> bool:
    """Tell whether a record's keys, of which units had those up to ``start``, begin again at a unit.

    A broker that starts where the index ends indexes the last message once more, from its first key on; the index may
    end amid its keys, since a file was full, or the broker was killed there.
    """
    if start == group or int32_at(data, i * UNIT) != keys[0, group]:
        return False
    after = (i + 1) * UNIT
    if group + 1 == stop or after >= len(data):
        return True
    same = int64_at(data, after + OFFSET_AT) == int64_at(data, after - UNIT + OFFSET_AT)
    return same and int32_at(data, after) == keys[0, group + 1]


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64[:, :], int64[:, :], int64[:, ::1], int64[::1])")
def take_other(
    data: Bytes, i: int, position: int, odd: int, keys: Numbers, records: Numbers, events: Numbers, state: Numbers
) -> int:
    """Take a unit that is not the next key's; return its record if it is a later key's, else -1."""
    value = int32_at(data, i * UNIT)
    r = np.int64(-1) if odd else record_at(records, position)
    if r < 0:
        return take_displaced(data, i, position, keys, records, events, state)
    key = state[S_KEY]
    group = np.int64(np.searchsorted(keys[1], r))
    stop = np.int64(np.searchsorted(keys[1], r, side="right"))
    start = max(group, key)
    if start >= stop:
        known = find_key(keys, value, group, stop) >= 0
        if not known and find_next(keys, value, key, 0) >= 0:
            return take_displaced(data, i, position, keys, records, events, state)
        add_event(events, state, DUPLICATE if known else EXTRA, i, i, 1, r, r)
        return np.int64(-1)
    found = find_key(keys, value, start, stop)
    if found >= 0:
        close_gap(keys, events, state, found, i)
        state[S_KEY] = found + 1
        return r
    if group > key and find_next(keys, value, key, 1) >= 0:
        return take_displaced(data, i, position, keys, records, events, state)
    close_gap(keys, events, state, start, i)
    if start == stop - 1 and keys[2, start] == TAGS and find_key(keys, value, group, start) >= 0:
        add_event(events, state, DUPLICATE, i, i, 1, r, r)
        return np.int64(-1)
    if again(data, i, keys, group, start, stop):
        count = min(start - group, np.int64(len(data) // UNIT) - i)
        add_event(events, state, DUPLICATE, i, i + count - 1, count, r, r)
        state[S_KEY] = group + 1
        return r
    after = (i + 1) * UNIT
    # One unit more than the record has keys, if the next unit is the one that was expected.
    more = after < len(data) and int32_at(data, after) == keys[0, start]
    more = more and int64_at(data, after + OFFSET_AT) == int64_at(data, after - UNIT + OFFSET_AT)
    add_event(events, state, EXTRA if more else HASH, i, i, 1, r, r)
    state[S_KEY] = start if more else start + 1
    return np.int64(-1)


@compiled(
    "void(readonly(uint8[::1]), int64, int64[:, :], int64[:, :], int64[:, ::1], int64[:, ::1], int64[:, ::1],"
    " int64[:, ::1], int64[::1])"
)
def match(
    data: Bytes, base: int, keys: Numbers, records: Numbers, files: Numbers, odd: Numbers, events: Numbers,
    late: Numbers, state: Numbers,
) -> None:  # fmt: skip
    """Compare a stretch of units with keys; ``events`` receives what does not agree, ``late`` wrong seconds.

    ``keys`` and ``records`` are the walk's tables of a segment at ``base``, ``files`` the files
    that the stretch comes from, ``odd`` half-open runs of its units whose offset is not to be believed. The next key
    is what ``state`` says.
    """
    state[S_FIRST], state[S_LAST] = -1, -1
    total = keys.shape[1]
    f = np.int64(0)
    o = np.int64(0)
    for i in range(len(data) // UNIT):
        at = i * UNIT
        while f + 1 < len(files) and i >= files[f + 1, F_FIRST]:
            f += 1
        while o < len(odd) and i >= odd[o, 1]:
            o += 1
        value = int32_at(data, at)
        position = int64_at(data, at + OFFSET_AT) - base
        k = state[S_KEY]
        r = np.int64(-1)
        if k + 1 < total and keys[2, k] == TAGS and keys[0, k] != value:
            k += 1
        if k < total and keys[0, k] == value and state[S_PENDING_COUNT] == 0:
            r = keys[1, k]
            if records[w.R_POSITION, r] != position:
                r = np.int64(-1)
        if r >= 0:
            state[S_KEY] = k + 1
        else:
            is_odd = o < len(odd) and i >= odd[o, 0]
            r = take_other(data, i, position, np.int64(is_odd), keys, records, events, state)
        if r < 0:
            continue
        if state[S_FIRST] < 0:
            state[S_FIRST], state[S_FIRST_KEY] = i, state[S_KEY] - 1
        state[S_LAST], state[S_LAST_KEY] = i, state[S_KEY] - 1
        if i != files[f, F_UNIT_1]:
            state[S_TIMED] += 1
            if int32_at(data, at + SECONDS_AT) != seconds_since(records[w.R_STORE_MS, r], files[f, F_BEGIN_MS]):
                add_event(late, state, SECONDS, i, i, 1, r, r)
    close_gap(keys, events, state, total, len(data) // UNIT)

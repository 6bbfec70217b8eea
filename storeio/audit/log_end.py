"""Where the log of a store ends while a broker writes to it, and whether all before that is dispatched.

Source: ``ReputMessageService`` dispatches in the order of the log, to queues first.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from storeio.audit.store_now import StoreNow
from storeio.dispatch import all_units, grouped_units
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.format import consumequeue
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, file_name, is_legal_topic, queue_directory
from storeio.scan import Listing
from storeio.splits import Split, WalkState, cut
from storeio.walk import Walked, walk_split
from storeio.window import PIECE_BYTES

PATIENCE_SECONDS: Final = 5.0  # while nothing more is dispatched
MOST_SECONDS: Final = 60.0  # for a broker that dispatches on and on
LOOK_AGAIN_SECONDS: Final = 0.02
GRACE_SECONDS: Final = 0.1  # for batch queues, where no record says which unit is its own


@dataclass(frozen=True, slots=True)
class _Row:
    """A record that is to have a unit: its queue and number there."""

    topic: str
    queue_id: int
    number: int
    physical: int


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the log ends, the last records of queues before that, and where the last one with a key begins or -1."""

    log_stop: int
    last: tuple[_Row, ...]
    last_keyed: int


def log_end(store: StoreNow, listing: Listing) -> LogEnd | None:
    """Return the end of the log behind its last whole record; None without any."""
    for file in reversed(listing.of_kind(COMMITLOG)):
        size = min(file.size, store.config.commitlog_file_bytes)
        if size < log.MIN_RECORD_BYTES or not store.read(file.path, 0, 8).any():
            continue
        state, last, stop = WalkState(0), None, -1
        for split in cut(replace(file, size=size)):
            if state.position >= split.stop:
                continue
            begin, walked = state, _walked(store, split, state)
            state = walked.end
            good = np.isin(walked.spans[w.SPAN_CLASS], (w.RECORD, w.BLANK))
            stop = max(stop, int(walked.spans[w.SPAN_STOP, good].max(initial=-1)))
            last = (split, begin) if walked.count else last
        if last is not None:
            return _last_records(store, *last, (file.base_offset or 0) + stop)
    return None


def _walked(store: StoreNow, split: Split, begin: WalkState) -> Walked:
    read = partial(store.read, split.path)
    delays = np.array(store.config.delays_ms, np.int64)
    return walk_split(read, split, begin, delays_ms=delays, reuse=True, piece_bytes=PIECE_BYTES)


def _last_records(store: StoreNow, split: Split, begin: WalkState, log_stop: int) -> LogEnd:
    walked = _walked(store, split, begin)
    grouped = grouped_units(walked)
    rows = []
    for units in all_units(grouped, grouped.present(), {}):
        before = np.flatnonzero(units.physical() + units.column(w.R_SIZE) <= log_stop)
        if units.placed and len(before) and units.queue_id >= 0 and is_legal_topic(units.topic):
            number, physical = int(units.queue_offset[before[-1]]), units.physical_at(int(before[-1]))
            rows.append(_Row(units.topic, units.queue_id, max(number, 0), physical))
    keys = walked.keys[1, walked.keys[2] != t.TAGS]
    keyed = walked.records[w.R_POSITION, keys] + split.base_offset
    keyed = keyed[keyed < log_stop]
    return LogEnd(log_stop, tuple(rows), int(keyed[-1]) if len(keyed) else -1)


def wait_for(store: StoreNow, end: LogEnd) -> None:
    """Wait until the broker has dispatched the log up to its end, as long as it goes on with that, or too long."""
    started = seen_at = time.monotonic()
    left = [row for row in end.last if not os.path.isdir(f"{store.root}/{BATCHQUEUE}/{row.topic}")]
    if len(left) < len(end.last):
        time.sleep(GRACE_SECONDS)
    seen: tuple[int, int] | None = None
    while (now := time.monotonic()) < min(seen_at + PATIENCE_SECONDS, started + MOST_SECONDS):
        left = [row for row in left if not _has_unit(store, row)]
        indexed = _indexed(store, end.last_keyed)
        if not left and indexed >= end.last_keyed:
            return
        if (len(left), indexed) != seen:
            seen, seen_at = (len(left), indexed), now
        time.sleep(LOOK_AGAIN_SECONDS)


def _has_unit(store: StoreNow, row: _Row) -> bool:
    place, size = row.number * consumequeue.UNIT_BYTES, store.config.queue_file_bytes
    base = place - place % size
    path = f"{queue_directory(CONSUMEQUEUE, row.topic, row.queue_id)}/{file_name(base)}"
    try:
        found = store.read(path, place - base, place - base + 8).tobytes()
    except UnreadableError:
        return False
    return int.from_bytes(found, "big") == row.physical


def _indexed(store: StoreNow, last_keyed: int) -> int:
    """Return the physical offset of the record that was indexed last; ``last_keyed`` where nothing tells."""
    if last_keyed < 0 or store.shape is None or not store.config.index_enabled:
        return last_keyed
    files = store.index_files()
    return store.last_indexed(files[-1], store.index_units(files[-1])) if files else last_keyed

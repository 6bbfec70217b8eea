"""What of a store's queues and index was there when its log ended at a place.

Source: ``IndexFile.putKey`` for the header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from storeio.audit.moment import IndexThen, walked_back
from storeio.audit.peek import record_in
from storeio.audit.store_now import StoreNow
from storeio.checks.ranges import whole_units
from storeio.errors import UnreadableError
from storeio.format import batchqueue, consumequeue, queueext
from storeio.format import index as layout
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, INDEX, QUEUE_EXT, StoreFile, file_name
from storeio.scan import Listing, long_stretches

FORMS: Final = {CONSUMEQUEUE: consumequeue.UNIT, BATCHQUEUE: batchqueue.UNIT}
CHUNK_UNITS: Final = 4096


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """Where a queue ended, or its ext files did; of its files those that hold later units only are ``newer``."""

    stop: int
    files: tuple[StoreFile, ...]
    newer: frozenset[str] = frozenset()
    tags_code: int = 0  # of the last unit


def queue_ends(store: StoreNow, listing: Listing, log_stop: int) -> Iterator[QueueEnd]:
    """Yield where queues end whose units point before ``log_stop``; the same of ext files."""
    ext = {key: tuple(files) for key, files in groupby(listing.of_kind(QUEUE_EXT), _queue_of)}
    for kind, form in FORMS.items():
        for key, found in groupby(listing.of_kind(kind), _queue_of):
            try:
                end = _queue_end(store, tuple(found), form, log_stop)
            except UnreadableError:
                continue  # the audit says so
            if end is None:
                continue
            yield end
            if kind == CONSUMEQUEUE and key in ext and end.tags_code <= queueext.MAX_ADDRESS:
                position = int(queueext.position_of(np.array([end.tags_code], np.int64))[0])
                yield QueueEnd(position + _ext_size(store, ext[key], position), ext[key])


def _ext_size(store: StoreNow, files: Iterable[StoreFile], position: int) -> int:
    for file in files:
        at = position - (file.base_offset or 0)
        if 0 <= at <= file.size - 2:
            return int.from_bytes(store.read(file.path, at, at + 2).tobytes(), "big")
    return 0


def _queue_end(
    store: StoreNow, files: tuple[StoreFile, ...], form: np.dtype[np.void], log_stop: int
) -> QueueEnd | None:
    """Return the end of a queue behind its last unit that points before ``log_stop``; None for one without units."""
    newer: set[str] = set()
    for file in reversed(files):
        for start, stop in _backwards(store, file, form.itemsize):
            units = store.read(file.path, start * form.itemsize, stop * form.itemsize).view(form)
            written = (units["size"] > 0) & (units["physical_offset"] >= 0)
            then = np.flatnonzero(written & (units["physical_offset"] < log_stop))
            if len(then):
                end = (file.base_offset or 0) + (start + int(then[-1]) + 1) * form.itemsize
                return QueueEnd(end, files, frozenset(newer - {file.path}), int(units["tags_code"][then[-1]]))
            newer |= {file.path} if written.any() else set()
    return QueueEnd(0, files, frozenset(newer)) if newer else None


def _backwards(store: StoreNow, file: StoreFile, unit_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the units of a file that are no holes in pieces, the last one first."""
    stretches = long_stretches(store.root, file.path, file.size)
    for low, high in reversed(whole_units(stretches, 0, file.size // unit_bytes * unit_bytes, unit_bytes)):
        stop = high // unit_bytes
        while stop > low // unit_bytes:
            start = max(stop - CHUNK_UNITS, low // unit_bytes)
            yield start, stop
            stop = start


def index_then(store: StoreNow, listing: Listing, log_stop: int) -> tuple[IndexThen | None, set[str]]:
    """Return the index file that keys were entered into, and the paths of those that were made later."""
    new: set[str] = set()
    for file in reversed(listing.of_kind(INDEX)) if store.shape is not None else ():
        count = _units_then(store, file, log_stop)
        if count > 1:
            return _then(store, file, count), new
        new.add(file.path)
    return None, new


def _units_then(store: StoreNow, file: StoreFile, log_stop: int) -> int:
    """Return how many units an index file has up to the last that points before ``log_stop``, unit 0 included."""
    assert store.shape is not None
    start, stop = layout.units_start(store.shape[0]), store.index_units(file)
    while stop > 1:
        first = max(stop - CHUNK_UNITS, 1)
        units = store.read(file.path, start + first * layout.UNIT_BYTES, start + stop * layout.UNIT_BYTES)
        then = np.flatnonzero(units.view(layout.UNIT)["physical_offset"] < log_stop)
        if len(then):
            return first + int(then[-1]) + 1
        stop = first
    return 1


def _then(store: StoreNow, file: StoreFile, count: int) -> IndexThen:
    assert store.shape is not None
    room = (file.size - layout.units_start(store.shape[0])) // layout.UNIT_BYTES
    index = IndexThen(file.path, b"", store.shape[0], count, room)
    header = store.read(file.path, 0, layout.HEADER_BYTES).view(layout.HEADER).copy()
    last = store.last_indexed(file, count)
    header["end_physical_offset"] = last
    stored = _stored_ms(store, last)
    header["end_timestamp_ms"] = stored if stored is not None else header["end_timestamp_ms"]
    header["unit_count"] = count
    read = partial(store.read, file.path)
    heads = walked_back(read, index, read(layout.HEADER_BYTES, layout.units_start(index.slots)))
    header["slots_used"] = np.count_nonzero(heads.view(">i4"))
    return replace(index, header=header.tobytes())


def _stored_ms(store: StoreNow, physical: int) -> int | None:
    """Return when the record was stored that an index unit names; None where its head does not say that it is there."""
    size = store.config.commitlog_file_bytes
    at = physical % size
    record = record_in(store.read, f"{COMMITLOG}/{file_name(physical - at)}", at, size)
    return record.store_timestamp_ms if record is not None and record.physical_offset == physical else None


def _queue_of(file: StoreFile) -> tuple[str | None, int | None]:
    return file.topic, file.queue_id

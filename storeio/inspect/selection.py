"""Records by what is asked for, each way of asking by its cheapest access; a look-up that fails becomes a scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from storeio.errors import UnreadableError, UsageError
from storeio.format import properties as props
from storeio.inspect.indexunits import entries_of, index_files
from storeio.inspect.logwalk import entries, walk_log
from storeio.inspect.lookup import parse_message_id, record_at, records_around
from storeio.inspect.matching import Filter, is_queued, places_of
from storeio.inspect.queueunits import STATES, chunks, queue_files, states_of
from storeio.inspect.reader import Reader
from storeio.inspect.recordviews import view_of
from storeio.inspect.views import WRITTEN, RecordView
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_KINDS, StoreFile
from storeio.safe import OPEN_END, printable


def select(reader: Reader, wanted: Filter, *, scan: bool = False, stale: bool = False) -> Iterator[RecordView]:
    """Yield the records that match, in physical order; by queue or index where they can answer, unless ``scan``."""
    found: list[RecordView] | None = None
    if not scan and not stale:
        if wanted.queue_offsets is not None and wanted.topic is not None and wanted.queue_id is not None:
            found = by_queue(reader, wanted)
        elif wanted.key is not None or wanted.unique_key is not None:
            found = by_index(reader, wanted)
    if found is None:
        yield from by_scan(reader, wanted, stale=stale)
    else:
        yield from found


def by_scan(reader: Reader, wanted: Filter, *, stale: bool = False) -> Iterator[RecordView]:
    """Yield the records of the whole log that match, damaged ones included, stale ones on request."""
    for stretch in walk_log(reader):
        table = entries(stretch, wanted.rows(stretch.walked), damaged=True, stale=stale)
        for column in table.T.tolist():
            view = view_of(reader, stretch, *column)
            if wanted.matches(view):
                yield view


def by_message_id(reader: Reader, message_id: str) -> Iterator[RecordView]:
    """Yield the record that a broker's message id names; where it names none, what has it as its unique key.

    Clients hand out unique keys as message ids, too, and many of those are 32 hex digits long.

    Raises:
        UsageError: Neither form.
    """
    parsed = parse_message_id(message_id)
    if parsed is None:
        reader.note("not an offset message id (32 or 56 hex digits): looked up as a unique key")
    else:
        record = record_at(reader, parsed.physical_offset)
        if record is not None:
            if record.store_host != parsed.host:
                reader.note(f"the id names host {parsed.host}, the record was stored by {record.store_host}")
            yield record
            return
        if reader.holding(parsed.physical_offset):
            shown = list(records_around(reader, parsed.physical_offset))
            if shown and not shown[0].valid and shown[0].physical_offset == parsed.physical_offset:
                yield shown[0]
                return
        reader.note(f"no record starts at physical offset {parsed.physical_offset}: looked up as a unique key")
    yield from select(reader, Filter(unique_key=message_id))


def by_queue(reader: Reader, wanted: Filter) -> list[RecordView] | None:
    """Return the records that the queue's units lead to, None where the queue does not answer for every offset."""
    first, last = wanted.queue_offsets or (0, OPEN_END)
    last_unit, places = _units_between(reader, wanted, first, last)
    name = f"{printable(wanted.topic or '')}/{wanted.queue_id}"
    if last == OPEN_END:
        last = max(last_unit, first)
    found: list[RecordView] = []
    covered = first
    for offset, count, physical in sorted(places):
        view = record_at(reader, physical)
        if view is None or not _is_of_queue(view, wanted, offset):
            reader.note(f"queue {name}: the unit at {offset} leads to no such record; scanning the log")
            return None
        if offset > covered:
            break
        covered = max(covered, offset + count)
        found.append(view)
    if covered <= last:
        reader.note(f"queue {name}: no units for all of {first} to {last}; scanning the log")
        return None
    others = replace(wanted, topic=None, queue_id=None, queue_offsets=None)
    unique = {view.physical_offset: view for view in found if others.matches(view)}
    return [unique[offset] for offset in sorted(unique)]


def _units_between(reader: Reader, wanted: Filter, first: int, last: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the queue's last written offset, and (queue offset, count, physical offset) of its units in a range."""
    found: list[tuple[int, int, int]] = []
    last_unit = -1
    for file in queue_files(reader, (CONSUMEQUEUE, BATCHQUEUE), wanted.topic, wanted.queue_id):
        try:
            for offset, count, physical in _written(reader, file, first, last):
                last_unit = max(last_unit, offset + count - 1)
                if offset <= last and offset + count > first:
                    found.append((offset, count, physical))
        except UnreadableError as error:
            reader.failed(error)
    return last_unit, found


def _written(reader: Reader, file: StoreFile, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield (queue offset, count, physical offset) of a file's written units that may lie in the range."""
    batch = file.kind == BATCHQUEUE
    base = 0 if batch else (file.base_offset or 0) // 20
    start = 0 if batch else max(first - base, 0)
    for number, units in chunks(reader, file, start):
        if not batch and base + number > last:
            return
        for k in np.flatnonzero(states_of(file.kind, units) == STATES.index(WRITTEN)).tolist():
            offset = int(units["base_queue_offset"][k]) if batch else base + number + k
            yield offset, int(units["batch_size"][k]) if batch else 1, int(units["physical_offset"][k])


def _is_of_queue(view: RecordView, wanted: Filter, offset: int) -> bool:
    """Tell whether a record belongs at a queue's offset; light queues do not keep to the record's number."""
    if not is_queued(view):
        return False
    for topic, queue_id, base, _ in places_of(view, light=wanted.is_light):
        if (topic, queue_id) == (wanted.topic, wanted.queue_id) and (base == offset or wanted.is_light):
            return True
    return False


def by_index(reader: Reader, wanted: Filter) -> list[RecordView] | None:
    """Return the records that the index files lead to, None where they have none."""
    if not index_files(reader):
        reader.note("there are no index files; scanning the log")
        return None
    topics = [wanted.topic] if wanted.topic is not None and not wanted.is_light else known_topics(reader)
    key = wanted.unique_key if wanted.unique_key is not None else wanted.key
    hashes = np.array(sorted({props.key_hash(f"{topic}#{key}") for topic in topics}), np.int64)
    places = {entry.physical_offset for entry in entries_of(reader, hashes=hashes, with_record=False)}
    views = [record_at(reader, place) for place in sorted(places)]
    found = [view for view in views if view is not None and wanted.matches(view)]
    if not found:
        reader.note("the index files lead to no such record; scanning the log")
        return None
    reader.note(f"found through {len(index_files(reader))} index files; what was never indexed needs --scan")
    return found


def known_topics(reader: Reader) -> list[str]:
    """Return the topics that have a queue directory, or messages in one of another kind."""
    return sorted({f.topic for f in reader.listing.files if f.kind in QUEUE_KINDS and f.topic})


def check_wanted(wanted: Filter) -> None:
    """Refuse questions that make no sense.

    Raises:
        UsageError: A queue offset without topic and queue, or a range that ends before it starts.
    """
    if wanted.queue_offsets is not None:
        if wanted.topic is None or wanted.queue_id is None:
            raise UsageError("a queue offset needs a topic and a queue id")
        check_range(wanted.queue_offsets)
    if wanted.since_ms is not None and wanted.until_ms is not None and wanted.since_ms > wanted.until_ms:
        raise UsageError("the time range ends before it starts")


def check_range(offsets: tuple[int, int]) -> None:
    """Refuse a range of queue offsets that ends before it starts.

    Raises:
        UsageError: It does.
    """
    if offsets[0] > offsets[1]:
        raise UsageError("the range of queue offsets ends before it starts")

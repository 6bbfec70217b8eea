"""Units of consume queues and batch queues: where each lies, what it is, and the record it points at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError
from storeio.format import batchqueue, consumequeue, queueext
from storeio.inspect.lookup import record_at
from storeio.inspect.matching import places_of
from storeio.inspect.reader import Reader
from storeio.inspect.views import INVALID, PRE_BLANK, RAGGED, WRITTEN, ZERO, ExtView, RecordView, UnitView
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT, StoreFile

Units = npt.NDArray[np.void]

CHUNK_UNITS: Final = 1 << 16
STATES: Final = (WRITTEN, PRE_BLANK, ZERO, INVALID)


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring units of a file: ``units`` are the written and invalid ones, one unit for many empty ones."""

    file: StoreFile
    position: int
    state: str
    units: Units
    count: int


def unit_dtype(kind: str) -> np.dtype[np.void]:
    """Return the layout of a queue kind's units."""
    return batchqueue.UNIT if kind == BATCHQUEUE else consumequeue.UNIT


def states_of(kind: str, units: Units) -> npt.NDArray[np.int64]:
    """Return for each unit the number of its state in ``STATES``."""
    if kind == BATCHQUEUE:
        written, zero = batchqueue.is_written(units), batchqueue.is_zero(units)
        blank = np.zeros(len(units), dtype=np.bool_)
    else:
        written, zero = consumequeue.is_written(units), consumequeue.is_zero(units)
        blank = consumequeue.is_pre_blank(units)
    return np.select([blank, zero, written], [1, 2, 0], default=3)


def queue_files(reader: Reader, kinds: tuple[str, ...], topic: str | None, queue_id: int | None) -> list[StoreFile]:
    """Return the files of the queues wanted, each queue's by base offset."""
    return [
        file
        for kind in kinds
        for file in reader.listing.of_kind(kind)
        if topic in (None, file.topic) and queue_id in (None, file.queue_id)
    ]


def chunks(reader: Reader, file: StoreFile, start: int = 0) -> Iterator[tuple[int, Units]]:
    """Yield a queue file's whole units with the number of the first, from unit ``start`` on, a chunk at a time.

    Units in holes are left out: they are zero, and a sparse file may claim more of them than anybody could read.
    """
    dtype = unit_dtype(file.kind)
    size = dtype.itemsize
    for low, high in reader.data_stretches(file):
        stop = min(-(-high // size), file.size // size)
        for first in range(max(low // size, start), stop, CHUNK_UNITS):
            start = min(first + CHUNK_UNITS, stop)
            raw = reader.read(file.path, first * size, start * size)
            yield first, np.frombuffer(raw.data, dtype=dtype)


def runs(reader: Reader, file: StoreFile) -> Iterator[Run]:
    """Yield a queue file as runs; empty units are counted, not listed."""
    size = unit_dtype(file.kind).itemsize
    empty: Run | None = None
    for run in _short_runs(reader, file):
        if empty is not None and empty.state == run.state:
            empty = replace(empty, count=empty.count + run.count)
            continue
        if empty is not None:
            yield empty
        empty = replace(run, units=run.units[:1].copy()) if run.state in (PRE_BLANK, ZERO) else None
        if empty is None:
            yield run
    if empty is not None:
        yield empty
    if ragged := file.size % size:
        yield Run(file, file.size - ragged, RAGGED, np.empty(0, unit_dtype(file.kind)), 1)


def _short_runs(reader: Reader, file: StoreFile) -> Iterator[Run]:
    """Yield the runs of each chunk, and those that are holes; neighbours may be in the same state."""
    dtype = unit_dtype(file.kind)
    size, stop = dtype.itemsize, 0
    for first, units in chunks(reader, file):
        if first > stop:
            yield Run(file, stop * size, ZERO, np.zeros(1, dtype), first - stop)
        stop = first + len(units)
        states = states_of(file.kind, units)
        cuts = [0, *(np.flatnonzero(np.diff(states)) + 1).tolist(), len(units)]
        for low, high in pairwise(cuts):
            yield Run(file, (first + low) * size, STATES[states[low]], units[low:high], high - low)
    if stop < file.size // size:
        yield Run(file, stop * size, ZERO, np.zeros(1, dtype), file.size // size - stop)


def units(
    reader: Reader,
    *,
    topic: str | None = None,
    queue_id: int | None = None,
    queue_offsets: tuple[int, int] | None = None,
) -> Iterator[UnitView]:
    """Yield the units of the queues wanted, file by file; the offsets are inclusive at both ends."""
    for file in queue_files(reader, (CONSUMEQUEUE, BATCHQUEUE), topic, queue_id):
        try:
            for run in runs(reader, file):
                yield from _views(reader, run, queue_offsets)
        except UnreadableError as error:
            reader.failed(error)


def _views(reader: Reader, run: Run, wanted: tuple[int, int] | None) -> Iterator[UnitView]:
    """Yield the views of a run: one for each unit with content, one for all without."""
    size = unit_dtype(run.file.kind).itemsize
    base = (run.file.base_offset or 0) // size
    if run.state in (PRE_BLANK, ZERO, RAGGED):
        offset = base + run.position // size if run.file.kind == CONSUMEQUEUE and run.state != RAGGED else None
        in_range = wanted is None or (offset is not None and offset <= wanted[1] and offset + run.count > wanted[0])
        if in_range:
            yield _bare(run, run.position, run.state, offset, run.count)
        return
    for i in range(run.count):
        position = run.position + i * size
        if run.file.kind == BATCHQUEUE:
            first, count = int(run.units["base_queue_offset"][i]), max(int(run.units["batch_size"][i]), 1)
        else:
            first, count = base + position // size, 1
        if wanted is None or (first <= wanted[1] and first + count > wanted[0]):
            yield _full(reader, _bare(run, position, run.state, first, 1), run.units[i])


def _bare(run: Run, position: int, state: str, offset: int | None, count: int) -> UnitView:
    file = run.file
    return UnitView(file.kind, file.topic or "", file.queue_id or 0, file.path, position, state, offset, count)


def _full(reader: Reader, view: UnitView, unit: np.void) -> UnitView:
    """Return the view with the unit's fields, its ext unit, its record, and what does not agree."""
    batch = view.kind == BATCHQUEUE
    view = replace(
        view,
        physical_offset=int(unit["physical_offset"]),
        size=int(unit["size"]),
        tags_code=int(unit["tags_code"]),
        store_timestamp_ms=int(unit["store_timestamp_ms"]) if batch else None,
        batch_size=int(unit["batch_size"]) if batch else None,
    )
    if view.state == INVALID:
        return replace(view, why="negative offset or size, which ends the queue for a broker")
    record = record_at(reader, view.physical_offset or 0)
    ext = None
    if (view.tags_code or 0) <= queueext.MAX_ADDRESS:
        ext = _ext_unit(reader, view)
    return replace(view, record=record, ext=ext, why=_disagreement(view, record, ext))


def _disagreement(view: UnitView, record: RecordView | None, ext: ExtView | None) -> str | None:
    """Return in words where a unit and its record differ, None where they agree."""
    if record is None:
        return f"no intact record at physical offset {view.physical_offset}"
    found = []
    light = view.topic != record.topic or view.queue_id != record.queue_id
    if light and (view.topic, view.queue_id) not in [place[:2] for place in places_of(record, light=True)]:
        found.append(f"the record is of another queue: {record.topic}/{record.queue_id}")
    elif not light and record.base_queue_offset != view.queue_offset:
        found.append(f"the record's queue offset is {record.base_queue_offset}")
    if record.size != view.size:
        found.append(f"the record's size is {record.size}")
    code = ext.tags_code if ext else view.tags_code
    if code != record.tags_code:
        found.append(f"the record's tags code is {record.tags_code}")
    return "; ".join(found) or None


def _ext_unit(reader: Reader, view: UnitView) -> ExtView | None:
    """Return the ext unit that a tags code is the address of, None if it cannot be read."""
    place = int(queueext.position_of(np.array([view.tags_code], np.int64))[0])
    for file in queue_files(reader, (QUEUE_EXT,), view.topic, view.queue_id):
        position = place - (file.base_offset or 0)
        if 0 <= position <= file.size - queueext.HEAD_BYTES:
            raw = reader.read(file.path, position, position + queueext.HEAD_BYTES)
            size, code, time_ms, bits = queueext.decode_head(raw.data)[0].tolist()
            bitmap = reader.read(file.path, position + 20, position + 20 + max(min(bits, file.size - position - 20), 0))
            return ExtView(file.path, position, size, code, time_ms, bitmap.tobytes().hex())
    return None

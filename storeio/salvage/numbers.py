"""Which queue offsets are missing once damaged records were restored and false ones taken away."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from storeio.checks.numbering import BETWEEN_RECORDS, Numbering, between_units, number_queue
from storeio.checks.ranges import Bounds, Ranges, merged, subtract
from storeio.checks.runs import runs_of
from storeio.checks.segments import LogView
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_ROWS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.results import LostRange
from storeio.salvage.evidence import Unit, enters_queue
from storeio.simulate.java import as_long

Numbers = npt.NDArray[np.int64]
Run = list[int]
Place = tuple[int, log.Record]
"""A record and its physical offset."""


def lost_after(
    lost: Sequence[LostRange], runs: Mapping[tuple[str, int], Sequence[Numbers]], view: LogView,
    changes: tuple[Sequence[Place], Sequence[Place]], units: Sequence[Unit],
) -> list[LostRange]:  # fmt: skip
    """Return what is lost.

    Args:
        lost: What the audit says is.
        runs: Tables of ``kernels.group`` by topic and queue id, in log order: what it says so from.
        view: The log.
        changes: Records as they were read that are none any more, and records as they are now instead.
        units: Surviving units of lost records.
    """
    gone: dict[tuple[str, int], list[Place]] = {}
    new: dict[tuple[str, int], list[Place]] = {}
    for found, places in ((gone, changes[0]), (new, changes[1])):
        for place, record in places:
            if enters_queue(record):
                found.setdefault((p.java_decode(record.topic), record.queue_id), []).append((place, record))
    restored = {place for place, _ in changes[1]}
    touched = {*gone, *new, *((unit.topic, unit.queue_id) for unit in units)}
    result = [part for part in lost if (part.topic, part.queue_id) not in touched]
    for queue, tables in sorted(runs.items()):
        if queue not in touched:
            first = tables[0][:, 0].tolist()
            result += _beginning(queue, first, view.min_physical_offset, view.holes)
    by_queue: dict[tuple[str, int], tuple[list[Unit], list[LostRange]]] = {queue: ([], []) for queue in touched}
    for unit in units:
        by_queue[unit.topic, unit.queue_id][0].append(unit)
    for part in lost:
        if (part.topic, part.queue_id) in touched:
            by_queue[part.topic, part.queue_id][1].append(part)
    for queue in sorted(touched):
        stops = {place: _hole_before(view, place) for place, _ in gone.get(queue, ()) if place in restored}
        table = without(runs_of(runs.get(queue, ())), gone.get(queue, ()), stops)
        table += [_run(place, record) for place, record in new.get(queue, ())]
        own, said = by_queue[queue]
        dropped = [(place, place + record.size) for place, record in gone.get(queue, ()) if place not in restored]
        if all(place in restored for place, _ in gone.get(queue, ())):
            # Without a record left, none ever was of this queue: what was missed between them is none of its numbers.
            said = [part for part in said if part.evidence not in BETWEEN_RECORDS]
        result += _lost(queue, sorted(table, key=lambda run: run[RUN_START_AT]), said, own, view, dropped)
    return result


def _beginning(queue: tuple[str, int], first: Run, log_start: int, holes: Ranges) -> list[LostRange]:
    """Return the numbers before a queue's first run, in a log of which retention has deleted nothing yet."""
    number, place = first[RUN_FIRST], first[RUN_START_AT]
    room = sum(min(high, place) - low for low, high in holes if low < place) if not log_start else 0
    if not 0 < number <= room // log.MIN_RECORD_BYTES:
        return []
    return [LostRange(*queue, 0, number, 0, place, "a queue begins at 0")]


def _lost(
    queue: tuple[str, int], table: list[Run], said: list[LostRange], units: Sequence[Unit], view: LogView,
    dropped: Ranges,
) -> list[LostRange]:  # fmt: skip
    lost = [] if table else said
    numbering = Numbering()
    if table:
        numbering = number_queue(*queue, [np.array(table, np.int64).T], view)
        holes = merged([*view.holes, *dropped])
        lost += [*_beginning(queue, table[0], view.min_physical_offset, holes), *numbering.lost]
    units = sorted(units, key=lambda unit: unit.number)
    if all(unit.messages == 1 for unit in units):
        rows = [(unit.number, unit.physical_offset, unit.size) for unit in units]
        lost += between_units(*queue, numbering.end, rows)
    ranges = merged([(part.first_queue_offset, part.stop_queue_offset) for part in lost] + numbering.runs)
    for unit in units:
        stop_at = unit.number + unit.messages
        for first, stop in subtract((unit.number, stop_at), ranges):
            behind = unit.physical_offset + unit.size
            lost.append(LostRange(*queue, first, stop, unit.physical_offset, behind, "its queue unit"))
    return lost


def _run(place: int, record: log.Record) -> Run:
    run = [0] * RUN_ROWS
    first, count = numbers_of(record)
    run[RUN_FIRST], run[RUN_STOP] = first, as_long(first + count)  # as the walk counts, and brokers
    run[RUN_START_AT], run[RUN_STOP_AT], run[RUN_RECORDS] = place, place + record.size, 1
    return run


def numbers_of(record: log.Record) -> tuple[int, int]:
    """Return the first number that a record takes, and how many: those of an inner batch, else its queue offset.

    Properties tell which it is, as they do brokers: a system flag may be damaged.
    Source: ``CommitLog.checkMessageAndReturnSize``.
    """
    said = p.parse(record.properties)
    first, count = p.java_long(said.get(p.INNER_BASE, "")), p.java_int(said.get(p.INNER_NUM, ""))
    if first is None or count is None or count < 1:
        return record.queue_offset, 1
    return first, count


def has_number_twice(record: log.Record) -> bool:
    """Tell whether a record is an inner batch whose head and properties say the same number."""
    said = p.parse(record.properties)
    return p.INNER_NUM in said and p.java_long(said.get(p.INNER_BASE, "")) == record.queue_offset


def _hole_before(view: LogView, place: int) -> int:
    """Return where the last hole in front of a place begins, the place itself without one.

    There may lie what has the number that the record at the place has not any more.
    """
    i = bisect_left(view.holes, place, key=lambda hole: hole[0]) - 1
    return view.holes[i][0] if i >= 0 else place


def without(table: Sequence[Run], gone: Iterable[Place], stops: Mapping[int, int] | None = None) -> list[Run]:
    """Return runs without some of their records; what one of these cuts in two is bounded by its place.

    The part in front of one ends at the latest where ``stops`` says of its place, if that lies in the run.
    """
    bounds = Bounds([(run[RUN_START_AT], run[RUN_STOP_AT]) for run in table])
    inside: dict[int, list[Place]] = {}
    for place, record in sorted(gone, key=lambda row: row[0]):
        for i in bounds.meeting(place, place + 1).tolist():
            inside.setdefault(i, []).append((place, record))
    return [part for i, run in enumerate(table) for part in _cut(run, inside.get(i, ()), stops or {})]


def _cut(run: Run, gone: Iterable[Place], stops: Mapping[int, int]) -> Iterator[Run]:
    """Yield what is left of a run, in which places and numbers rise together, without records in order of place."""
    for place, record in gone:
        number, count = numbers_of(record)
        if not (run[RUN_START_AT] <= place < run[RUN_STOP_AT] and run[RUN_FIRST] <= number < run[RUN_STOP]):
            continue
        before, after, stop = list(run), list(run), number + count
        stop_at = stops.get(place, place)
        before[RUN_STOP], before[RUN_STOP_AT] = number, stop_at if stop_at > run[RUN_START_AT] else place
        after[RUN_FIRST], after[RUN_START_AT] = stop, place + record.size
        before[RUN_RECORDS], after[RUN_RECORDS] = _records(number - run[RUN_FIRST]), _records(run[RUN_STOP] - stop)
        if before[RUN_FIRST] < before[RUN_STOP]:
            yield before
        run = after
    if run[RUN_FIRST] < run[RUN_STOP]:
        yield run


def _records(numbers: int) -> int:
    """Return how many records a run of so many numbers has: one at least, and no more than 64 bits count."""
    return min(max(numbers, 1), 2**63 - 1)

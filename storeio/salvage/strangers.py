"""Records that seem to be of another queue than they say: what speaks for it, and what against it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from storeio.audit import Concluded
from storeio.checks.astray import MOST_ASTRAY
from storeio.checks.numbering import JUMP, STRANGER, place_of
from storeio.checks.runs import own_runs_of
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.results import LostRange
from storeio.salvage.evidence import Unit, has_fitting_level
from storeio.salvage.in_a_row import places_of
from storeio.salvage.numbers import numbers_of


class Surveyed(Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""

    @property
    def concluded(self) -> Concluded: ...
    @property
    def units(self) -> Sequence[Unit]: ...
    @property
    def lost(self) -> Sequence[LostRange]: ...
    def units_in(self, start: int, stop: int) -> list[Unit]: ...
    def lacks(self, unit: Unit) -> bool: ...
    def record(self, physical_offset: int) -> log.Record | None: ...
    def unit_of(self, topic: str, queue_id: int, number: int) -> Unit | None: ...
    def number_of(self, topic: str, queue_id: int, physical_offset: int, said: int = -1) -> int: ...
    def batch_units(self, topic: str, queue_id: int, physical_offset: int) -> list[Unit]: ...


def repeated(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield records whose number another one has, where something gives them one that nobody has.

    That is a unit, or another queue of the topic that lacks just this number here, though nothing else is lost; not
    where the record is vouched for, a unit gives the number that is lacking to another record, or the record that took
    the number first may be meant as well.
    """
    jumps = [part for part in found.lost if part.evidence == JUMP]
    for finding in found.concluded.audit.findings:
        at, number, topic, queue_id = finding.physical_offset, finding.queue_offset, finding.topic, finding.queue_id
        if finding.code != "LOG_QUEUE_OFFSET_REPEATED":
            continue
        if at is None or number is None or topic is None or queue_id is None:
            continue
        if any(found.lacks(unit) for unit in found.units_in(at, at + 1)):
            yield at, finding
        for part in jumps:
            lies = part.physical_start <= at < part.physical_stop
            lacks = part.first_queue_offset <= number < part.stop_queue_offset
            if not (lies and lacks and part.topic == topic and part.queue_id != queue_id):
                continue
            if _is_vouched_for(found, (topic, queue_id), number, at) or _is_told(found, part, number, at):
                continue
            if not _fits_before(found.concluded, part, finding):
                yield at, _stranger(found.concluded, part, at, queue_id)


def pointed_at(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield records of which nothing of their own queue knows, where a unit of another has their place, but not size.

    An audit names those whose unit is as it was but for the queue.
    """
    view = found.concluded.view
    units = [unit for unit in found.units if not view.is_damaged(unit.physical_offset, unit.physical_offset + 1)]
    for unit in units:
        said, place = (unit.topic, unit.queue_id, unit.number), unit.physical_offset
        as_read = found.unit_of(*said)
        if (as_read is not None and as_read.size == unit.size) or not found.lacks(unit):
            continue
        record = found.record(place)
        queue = (p.java_decode(record.topic), record.queue_id) if record is not None else said[:2]
        if record is None or queue == said[:2] or _is_vouched_for(found, queue, numbers_of(record)[0], place):
            continue
        path, position = place_of(view, place)
        detail = f"unit {unit.number} of {unit.topic}/{unit.queue_id} points at it, with another size"
        yield place, Finding("LOG_UNIT_DISAGREES", path, position, unit.size, *said, place, 1, detail)


def behind_the_first(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield records of number 0 right behind a queue's first one, whose unit is still the first's: they have none.

    A broker that began the queue again would have put the later one's unit there.
    """
    view = found.concluded.view
    for queue, tables in found.concluded.runs.items():
        if len(runs := own_runs_of(tables)) < 2:
            continue
        first, again = runs[0], runs[1]
        unit = found.unit_of(*queue, 0) if (first[RUN_FIRST], first[RUN_STOP], again[RUN_FIRST]) == (0, 1, 0) else None
        place = again[RUN_START_AT]
        if unit is None or unit.physical_offset != first[RUN_START_AT] or again[RUN_RECORDS] == 1:
            continue
        if found.number_of(*queue, place) < 0:
            path, position = place_of(view, place)
            detail = f"{STRANGER}; its number's unit is that of the one before it"
            yield place, Finding("LOG_FIELD", path, position, 0, *queue, None, place, 1, detail)


def _is_vouched_for(found: Surveyed, queue: tuple[str, int], number: int, at: int) -> bool:
    """Tell whether a record's own queue has a unit for it at its number, or its delay level names the queue."""
    record = found.record(at)
    by_level = record is not None and has_fitting_level(record) is True
    return by_level or has_unit(found, queue, number, at)


def has_unit(found: Surveyed, queue: tuple[str, int], number: int, at: int) -> bool:
    """Tell whether a queue has a unit for the record at a place at its number."""
    if found.number_of(*queue, at, number) == number:
        return True
    return any(unit.number == number for unit in found.batch_units(*queue, at))


def _fits_before(concluded: Concluded, part: LostRange, finding: Finding) -> bool:
    """Tell whether a record before, which took the number first, may as well be the one that the other queue lacks."""
    at, number = finding.physical_offset or 0, finding.queue_offset or 0
    tables = concluded.runs.get((finding.topic or "", finding.queue_id or 0), ())
    runs = [run for table in tables for run in table.T.tolist() if run[RUN_START_AT] < at]
    return any(run[RUN_STOP] == number + 1 and run[RUN_STOP_AT] > part.physical_start for run in runs)


def _is_told(found: Surveyed, part: LostRange, number: int, at: int) -> bool:
    """Tell whether a unit says of a number that it belongs to another record than the one at a place.

    It is damaged itself if that one has a unit that says the same as it, or if no record begins there, nor is one lost.
    """
    said, view = (part.topic, part.queue_id, number), found.concluded.view
    for unit in found.units:
        place = unit.physical_offset
        if (unit.topic, unit.queue_id, unit.number) != said or place == at:
            continue
        record = found.record(place)
        if record is None:
            if place >= view.max_physical_offset or view.is_damaged(place, place + unit.size):
                return True
            continue
        own = numbers_of(record)[0]
        if own == number or not has_unit(found, (p.java_decode(record.topic), record.queue_id), own, place):
            return True
    return False


def _stranger(concluded: Concluded, part: LostRange, at: int, queue_id: int | None) -> Finding:
    """Return that the record at a place seems to be the one that another queue of its topic lacks."""
    path, position = place_of(concluded.view, at)
    detail = f"{STRANGER}; {part.topic}/{part.queue_id} lacks its number"
    return Finding("LOG_FIELD", path, position, 0, part.topic, queue_id, None, at, 1, detail)


def lone(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield the only record of a queue, or few in a row, where another queue of the topic lacks just their numbers.

    Where nothing else is lost, that may lack a few more, and be of a topic whose name differs in one byte; several are
    looked for only there. Not where a record is vouched for, nor where a unit gives its number to another record.
    """
    single: dict[str, list[Lone]] = {}
    named: dict[tuple[int, int], list[Lone]] = {}
    for (topic, queue_id), tables in found.concluded.runs.items():
        rows = own_runs_of(tables)
        if len(rows) == 1 and rows[0][RUN_RECORDS] <= MOST_ASTRAY:
            row = Lone(rows[0][RUN_FIRST], queue_id, topic, rows[0])
            single.setdefault(topic, []).append(row)
            named.setdefault((queue_id, row.first), []).append(row)
    for rows_of_topic in single.values():
        rows_of_topic.sort()
    for part in found.lost:
        few = part.evidence == JUMP and part.stop_queue_offset - part.first_queue_offset <= MOST_ASTRAY
        stop = part.stop_queue_offset if few else part.first_queue_offset + 1
        same = single.get(part.topic, [])
        low = bisect_left(same, (part.first_queue_offset,))
        same = same[low : bisect_left(same, (stop,), low)]
        numbers = range(part.first_queue_offset, stop) if few else ()
        like = [
            row for number in numbers for row in named.get((part.queue_id, number), ())
            if _is_one_byte_off(row.topic, part.topic)
        ]  # fmt: skip
        for row in same + like:
            if row.run[RUN_STOP] <= stop and (row.topic, row.queue_id) != (part.topic, part.queue_id):
                yield from _lone_of(found, part, row)


class Lone(NamedTuple):
    """All records of a queue: one, or few in a row."""

    first: int
    queue_id: int
    topic: str
    run: list[int]


def _lone_of(found: Surveyed, part: LostRange, row: Lone) -> Iterator[tuple[int, Finding]]:
    """Yield a queue's only records if they lie where what another one lacks did, and nothing speaks for them."""
    queue = row.topic, row.queue_id
    if not part.physical_start <= row.run[RUN_START_AT] < part.physical_stop:
        return
    rows = list(enumerate(places_of(found.concluded.plan, queue, row.run), row.first))
    if (
        len(rows) == row.run[RUN_RECORDS]
        and rows[-1][1] < part.physical_stop
        and not any(
            _is_vouched_for(found, queue, number, at) or _is_told(found, part, number, at) for number, at in rows
        )
    ):
        yield from ((at, _stranger(found.concluded, part, at, row.queue_id)) for _, at in rows)


def _is_one_byte_off(topic: str, other: str) -> bool:
    """Tell whether two names differ in one byte."""
    a, b = topic.encode(errors="replace"), other.encode(errors="replace")
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1

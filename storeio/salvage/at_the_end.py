"""Records whose numbers do not go on while the units that point at them do: the last of queues, and amid others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final, Protocol

from storeio.audit import Concluded
from storeio.audit.shifts import SHIFTED
from storeio.checks.astray import MOST_ASTRAY, astray
from storeio.checks.numbering import MISFIT, place_of
from storeio.checks.runs import own_runs_of
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format.consumequeue import UNIT_BYTES
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.rebuild.placement import FEW
from storeio.salvage.evidence import Unit
from storeio.salvage.in_a_row import Queue, places_of
from storeio.salvage.numbers import numbers_of

Place = tuple[int, int]
"""Physical offset of a record, and its number."""

MOST_BETWEEN: Final = 1 << 12  # units of records in a hole that are asked one by one
GOES_ON: Final = f"{MISFIT}, its queue goes on with"


class Surveyed(Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""

    @property
    def concluded(self) -> Concluded: ...
    def unit_of(self, topic: str, queue_id: int, number: int) -> Unit | None: ...
    def number_of(self, topic: str, queue_id: int, physical_offset: int, said: int = -1) -> int: ...
    def record(self, physical_offset: int) -> log.Record | None: ...


def at_the_end(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield the few last records of queues that stand at numbers which follow on, and have others; and those numbers.

    Brokers append units behind a jump of numbers, too, so records that follow on from one another behind one are as
    they were. But no broker appends a unit to records whose numbers go back, and numbers jump once, not time and again.
    """
    view = found.concluded.view
    for queue, tables in found.concluded.runs.items():
        runs = own_runs_of(tables)
        if runs and (last := _in_anothers_place(found, queue, runs[-1])) is not None:
            place, own = last.physical_offset, runs[-1][RUN_STOP] - 1
            yield place, _misfit(found.concluded, queue, place, own, last.number)
            continue
        if len(runs) == 1 and (view.min_physical_offset or not runs[0][RUN_FIRST]):
            continue
        for before, tail in _tails(runs, is_whole=not view.min_physical_offset):
            expected = _next_number(found, queue, before, tail)
            if expected is None:
                continue
            rows = [row for run in tail for row in _rows(found.concluded, queue, run)]
            if not _stand(found, queue, expected, rows):
                continue
            for number, (place, own) in enumerate(rows, expected):
                if own != number:
                    yield place, _misfit(found.concluded, queue, place, own, number)
            break
        else:
            for place, own, number in _going_back(found, queue, runs):
                yield place, _misfit(found.concluded, queue, place, own, number)


def amid_others(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield records that may be strangers or have wrong numbers, where their units tell that it is the numbers."""
    view = found.concluded.view
    for queue, tables in found.concluded.runs.items():
        runs = own_runs_of(tables)
        for i in range(1 if view.min_physical_offset else 0, len(runs)):
            first, start_at = (runs[i - 1][RUN_STOP], runs[i - 1][RUN_STOP_AT]) if i else (0, 0)
            doubtful = astray(runs, i, (first, start_at), view)
            if doubtful is None or not doubtful.instead:
                continue
            rows = [row for run in runs[i : i + doubtful.instead] for row in _rows(found.concluded, queue, run)]
            if _stand(found, queue, first, rows):
                for number, (place, own) in enumerate(rows, first):
                    if own != number:
                        yield place, _misfit(found.concluded, queue, place, own, number)


def off_by_no_file(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield the only records of queues whose units give them other numbers, off by less or more than whole files.

    Then the file has its own name, as those of ordinary queues have: it is the record's number that is damaged.
    """
    units_per_file = found.concluded.plan.config.queue_file_bytes // UNIT_BYTES
    for row in found.concluded.audit.findings:
        place, number, topic, queue_id = row.physical_offset, row.queue_offset, row.topic, row.queue_id
        if row.code != SHIFTED or place is None or number is None or topic is None or queue_id is None:
            continue
        runs = own_runs_of(found.concluded.runs.get((topic, queue_id), ()))
        if len(runs) != 1 or runs[0][RUN_RECORDS] != 1 or topic.startswith(log.LMQ_PREFIX):
            continue
        own = runs[0][RUN_FIRST]
        if runs[0][RUN_START_AT] == place and (own - number) % units_per_file:
            misfit = _misfit(found.concluded, (topic, queue_id), place, own, number)
            yield place, replace(misfit, code="LOG_UNIT_DISAGREES")


def _tails(runs: Sequence[Sequence[int]], *, is_whole: bool) -> Iterator[tuple[Sequence[int] | None, list[list[int]]]]:
    """Yield the run before the last ones of a queue, None where these are all, and the last ones; the longest first."""
    for i in range(max(len(runs) - MOST_ASTRAY, 0 if is_whole else 1), len(runs)):
        before, tail = runs[i - 1] if i else None, [list(run) for run in runs[i:]]
        number, odd = before[RUN_STOP] if before is not None else 0, False
        for run in tail:
            if run[RUN_RECORDS] > 1 and run[RUN_FIRST] > number:
                break
            odd |= run[RUN_FIRST] != number
            number += run[RUN_STOP] - run[RUN_FIRST]
        else:
            if odd and sum(run[RUN_RECORDS] for run in tail) <= MOST_ASTRAY:
                yield before, tail


def _next_number(
    found: Surveyed, queue: Queue, before: Sequence[int] | None, tail: Sequence[Sequence[int]]
) -> int | None:
    """Return which number the first of the last records should have, None where nothing tells.

    The next one, if the one before has its unit; behind a hole that of its unit, if those between are of records that
    lay there. One run alone may have been appended behind lost units, if the hole has room for all their records.
    """
    view = found.concluded.view
    stop, stop_at = (before[RUN_STOP], before[RUN_STOP_AT]) if before is not None else (0, 0)
    start_at = tail[0][RUN_START_AT]
    if not _is_unit_of(found, queue, stop - 1, before) or view.is_damaged(start_at, tail[-1][RUN_STOP_AT]):
        return None
    if not view.is_damaged(stop_at, start_at):
        return stop
    number, own = found.number_of(*queue, start_at, tail[0][RUN_FIRST]), tail[0][RUN_FIRST]
    if len(tail) == 1 and number <= own <= stop + (start_at - stop_at) // log.MIN_RECORD_BYTES:
        return None
    between = [found.unit_of(*queue, n) for n in range(stop, min(number, stop + MOST_BETWEEN))]
    lay_there = all(unit is not None and stop_at <= unit.physical_offset < start_at for unit in between)
    return number if between and lay_there and len(between) == number - stop else None


def _in_anothers_place(found: Surveyed, queue: Queue, run: Sequence[int]) -> Unit | None:
    """Return the unit of a queue's last record if it has the number of one that a hole before it held, else None.

    The units from that number on are of records that lay there, up to its own.
    """
    number = run[RUN_STOP] - 1
    for more in range(MOST_BETWEEN if run[RUN_RECORDS] > 1 else 0):
        unit = found.unit_of(*queue, number + more)
        if unit is None:
            return None
        stop = unit.physical_offset + unit.size
        if stop >= run[RUN_STOP_AT]:
            return unit if more and stop == run[RUN_STOP_AT] else None
        if not found.concluded.view.is_damaged(unit.physical_offset, stop):
            return None
    return None


def _going_back(found: Surveyed, queue: Queue, runs: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the few last records of a queue of which one goes back: place, number, and the one that follows on.

    That is the number that a rebuild gives them: no more than two follow on from one another, and then all their
    numbers were given out before. One in front that jumps is as it was if its unit stands there, or what lies around it
    is damaged.
    """
    first = len(runs) - 1
    if first < 1 or not (runs[first][RUN_RECORDS] == 1 or _is_odd(found, queue, runs[: first + 1])):
        return
    while first > 1 and len(runs) - first < MOST_ASTRAY and _is_odd(found, queue, runs[:first]):
        first -= 1
    if any(found.number_of(*queue, run[RUN_START_AT], run[RUN_FIRST]) == run[RUN_FIRST] for run in runs[first:]):
        return  # no broker appends a unit to what goes back: it is the one in front that is of no number of the queue
    if any(run[RUN_FIRST] < before[RUN_STOP] for before, run in pairwise(runs[first - 1 :])):
        number = runs[first - 1][RUN_STOP]
        for place in chain.from_iterable(places_of(found.concluded.plan, queue, run) for run in runs[first:]):
            record = found.record(place)
            own, count = (number, 1) if record is None else numbers_of(record)
            if own != number:
                yield place, own, number
            number += count


def _is_odd(found: Surveyed, queue: Queue, runs: Sequence[Sequence[int]]) -> bool:
    """Tell whether the last of some runs is few records whose numbers nothing but themselves speaks for."""
    before, run = runs[-2:]
    is_few = run[RUN_RECORDS] <= FEW and run[RUN_STOP] <= max(other[RUN_STOP] for other in runs[:-1])
    if not (run[RUN_RECORDS] == 1 or is_few) or found.concluded.view.is_damaged(before[RUN_STOP_AT], run[RUN_STOP_AT]):
        return False
    return found.number_of(*queue, run[RUN_START_AT], run[RUN_FIRST]) != run[RUN_FIRST]


def _rows(concluded: Concluded, queue: Queue, run: list[int]) -> Iterator[Place]:
    """Yield the records of a run."""
    for k, place in enumerate(places_of(concluded.plan, queue, run)):
        yield place, run[RUN_FIRST] + k


def _is_unit_of(found: Surveyed, queue: Queue, number: int, run: Sequence[int] | None) -> bool:
    """Tell whether the unit of the last record of a run stands at its number; of no record it does."""
    if run is None:
        return True
    unit = found.unit_of(*queue, number)
    record = None if unit is None else found.record(unit.physical_offset)
    return unit is not None and record is not None and record.queue_offset == number and record.size == unit.size


def _stand(found: Surveyed, queue: Queue, first: int, rows: Sequence[Place]) -> bool:
    """Tell whether the units from a number on are those of records, one behind the other."""
    for number, (place, _) in enumerate(rows, first):
        unit = found.unit_of(*queue, number)
        record = found.record(place)
        if unit is None or record is None or (unit.physical_offset, unit.size) != (place, record.size):
            return False
    return bool(rows)


def _misfit(concluded: Concluded, queue: Queue, place: int, own: int, number: int) -> Finding:
    """Return that a record has another number than its unit."""
    path, position = place_of(concluded.view, place)
    detail = f"queue offset {own} {GOES_ON} {number}"
    return Finding("LOG_FIELD", path, position + log.QUEUE_OFFSET_AT, 8, *queue, number, place, 1, detail)

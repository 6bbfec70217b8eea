"""Records that are copies of others, but for the place that they name: found by their numbers, without any queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from storeio.audit import Concluded
from storeio.checks.astray import MOST_ASTRAY
from storeio.checks.numbering import place_of
from storeio.checks.runs import joined_runs
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP
from storeio.salvage.in_a_row import Queue, places_of

COPY: Final = "differs in its place alone from the record of its number"


class Surveyed(Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""

    @property
    def concluded(self) -> Concluded: ...
    def size_at(self, place: int) -> int: ...
    def read(self, start: int, stop: int) -> bytes: ...


def copies(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield the single records of a queue whose number another one has, and whose bytes, all but those of the place."""
    for queue, tables in found.concluded.runs.items():
        rows = [run for table in tables for run in table.T.tolist()]
        joined = joined_runs(rows)
        single = [run for run in joined if run[RUN_RECORDS] == 1] if len(joined) > 1 else []
        for run in single if len(single) <= MOST_ASTRAY else ():
            place, number = run[RUN_START_AT], run[RUN_FIRST]
            if any(_are_alike(found, place, other) for other in _others(found.concluded, queue, rows, number, single)):
                yield place, _told(found.concluded, queue, place)


def _others(
    concluded: Concluded, queue: Queue, rows: Sequence[Sequence[int]], number: int, single: Sequence[Sequence[int]]
) -> Iterator[int]:
    """Yield where the records of a number lie that have one of their queue in front of or behind them."""
    alone = {run[RUN_START_AT] for run in single}
    for run in rows:
        is_dense = run[RUN_RECORDS] == run[RUN_STOP] - run[RUN_FIRST]
        if run[RUN_START_AT] in alone or not is_dense or not run[RUN_FIRST] <= number < run[RUN_STOP]:
            continue
        places = list(places_of(concluded.plan, queue, run))
        if len(places) == run[RUN_RECORDS]:
            yield places[number - run[RUN_FIRST]]


def _are_alike(found: Surveyed, place: int, other: int) -> bool:
    """Tell whether two records differ in their place alone."""
    size = found.size_at(place)
    if not size or found.size_at(other) != size:
        return False
    raw, there = (found.read(at, at + size) for at in (place, other))
    behind = log.PHYSICAL_OFFSET_AT + 8
    return raw[: log.PHYSICAL_OFFSET_AT] == there[: log.PHYSICAL_OFFSET_AT] and raw[behind:] == there[behind:]


def _told(concluded: Concluded, queue: Queue, place: int) -> Finding:
    path, position = place_of(concluded.view, place)
    return Finding("LOG_PHYSICAL_OFFSET", path, position, 0, *queue, None, place, 1, COPY)

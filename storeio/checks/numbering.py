"""Queue offsets over the whole log: dense per queue, so a gap names lost messages.

Source: ``QueueOffsetOperator``; exceptions as brokers make them (restart, re-issue after a lost tail).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.segments import LogView
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.results import LostRange

Numbers = npt.NDArray[np.int64]

UnitRow = tuple[int, int, int]
"""Unit number, physical offset and size."""

LONG_JUMP: Final = 2**40  # no queue loses so many messages; such a number is damaged


@dataclass(slots=True)
class Numbering:
    """What the runs of one queue say. Ranges are half-open queue offsets.

    ``end`` is the record of the highest number, told as a unit of no bytes at its end; None without records.
    ``expected`` are the numbers that records with wrong ones should have, by physical offset.
    """

    runs: list[tuple[int, int]] = field(default_factory=list)
    lost: list[LostRange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    end: UnitRow | None = None
    expected: dict[int, int] = field(default_factory=dict)


def number_queue(topic: str, queue_id: int, tables: Sequence[Numbers], view: LogView) -> Numbering:
    """Return gaps, repeats and single wrong numbers of one queue from its splits' runs in log order."""
    result = Numbering()
    runs = joined_runs(np.concatenate(list(tables), axis=1).T.tolist())
    result.records = sum(run[RUN_RECORDS] for run in runs)
    runs = _without_outliers(topic, queue_id, runs, view, result)
    expected = runs[0][RUN_FIRST] if runs else 0
    before_at = runs[0][RUN_START_AT] if runs else 0
    for first, stop, start_at, stop_at, _ in runs:
        if first > expected:
            _gap(topic, queue_id, expected, first, before_at, start_at, view, result)
        elif first < expected:
            detail = f"numbers {first} to {min(stop, expected) - 1} were issued before"
            result.findings.append(
                _at(view, "LOG_QUEUE_OFFSET_REPEATED", start_at, stop_at - start_at, topic, queue_id, first, detail)
            )
        result.runs.append((first, stop))
        if result.end is None or stop > result.end[0]:
            result.end = stop - 1, stop_at, 0
        expected, before_at = stop, stop_at
    return result


def joined_runs(runs: list[list[int]]) -> list[list[int]]:
    """Return runs with those joined that follow on from one split to the next."""
    joined: list[list[int]] = []
    for run in runs:
        if joined and joined[-1][RUN_STOP] == run[RUN_FIRST]:
            joined[-1][RUN_STOP] = run[RUN_STOP]
            joined[-1][RUN_STOP_AT] = run[RUN_STOP_AT]
            joined[-1][RUN_RECORDS] += run[RUN_RECORDS]
        else:
            joined.append(list(run))
    return joined


STRANGER: Final = "no record of this queue"
IN_A_HOLE: Final = "a hole in the log lies between its neighbours"
JUMP: Final = "the numbers jump in an intact log"
BETWEEN_UNITS: Final = "its unit is damaged, those before and behind it point behind the log or into damage"
BETWEEN_RECORDS: Final = (IN_A_HOLE, JUMP)
"""Evidence of losses that stands and falls with the records before and behind them."""


def fits_nowhere(run: Sequence[int], before: int | None, after: int | None) -> bool:
    """Tell whether a run is one record whose number its neighbours contradict: they follow on from each other.

    ``before`` is where the run before it stops, ``after`` where the next one begins; None at the ends.
    """
    if run[RUN_RECORDS] != 1:
        return False
    between = before is not None and after == before + run[RUN_STOP] - run[RUN_FIRST]
    if before is not None:
        wild = abs(run[RUN_FIRST] - before) > LONG_JUMP
    else:  # of the first two numbers the greater one is wild
        wild = run[RUN_FIRST] - (after or 0) > LONG_JUMP
    return between or wild or run[RUN_FIRST] < 0


def _without_outliers(
    topic: str, queue_id: int, runs: list[list[int]], view: LogView, result: Numbering
) -> list[list[int]]:
    """Return the runs without single records whose number fits nowhere; the field is reported instead."""
    kept: list[list[int]] = []
    skip = False
    for i, run in enumerate(runs):
        if skip:
            skip = False
            continue
        before = kept[-1][RUN_STOP] if kept else None
        after = runs[i + 1][RUN_FIRST] if i + 1 < len(runs) else None
        width = run[RUN_STOP] - run[RUN_FIRST]
        if run[RUN_RECORDS] == 1 and before is not None and after == before != run[RUN_FIRST]:
            detail = f"{STRANGER}: its numbers go on behind this record as if it were not there"
            at = run[RUN_START_AT] + log.QUEUE_ID_AT
            found = replace(_at(view, "LOG_FIELD", at, 4, topic, queue_id, 0, detail), queue_offset=None)
            result.findings.append(replace(found, physical_offset=run[RUN_START_AT]))
            continue
        if len(runs) > 1 and fits_nowhere(run, before, after):
            expected = before if before is not None else (after or width) - width
            detail = f"queue offset {run[RUN_FIRST]} does not fit its neighbours, expected {expected}"
            at = run[RUN_START_AT] + log.QUEUE_OFFSET_AT
            found = _at(view, "LOG_FIELD", at, 8, topic, queue_id, expected, detail)
            result.findings.append(replace(found, physical_offset=run[RUN_START_AT]))
            result.expected[run[RUN_START_AT]] = expected
            run = [expected, expected + width, *run[2:]]
        if kept and kept[-1][RUN_STOP] == run[RUN_FIRST]:
            kept[-1] = [kept[-1][RUN_FIRST], run[RUN_STOP], kept[-1][RUN_START_AT], run[RUN_STOP_AT], 0]
        else:
            kept.append(run)
    return kept


def _gap(
    topic: str, queue_id: int, first: int, stop: int, start_at: int, stop_at: int, view: LogView, result: Numbering
) -> None:
    """Record lost numbers; a finding only where no hole in the log explains them."""
    explained = view.is_damaged(start_at, stop_at)
    evidence = IN_A_HOLE if explained else JUMP
    result.lost.append(LostRange(topic, queue_id, first, stop, start_at, stop_at, evidence))
    if not explained:
        finding = _at(view, "LOG_QUEUE_OFFSET_GAP", stop_at, 0, topic, queue_id, first, f"next is {stop}")
        result.findings.append(
            Finding(
                finding.code, finding.path, finding.position, 1, topic, queue_id, first, stop_at, stop - first,
                f"numbers {first} to {stop - 1} are missing before this record",
            )
        )  # fmt: skip


def between_units(topic: str, queue_id: int, end: UnitRow | None, units: Sequence[UnitRow]) -> Iterator[LostRange]:
    """Yield the numbers between units whose records are lost, where these leave room: their own units are damaged.

    Args:
        topic: Of the queue.
        queue_id: Of the queue.
        end: ``Numbering.end`` of the queue.
        units: Its units of lost records, by number; only those behind its last record are looked at.
    """
    known = units if end is None else [end, *(unit for unit in units if unit[0] > end[0])]
    for (number, physical, size), (ahead, place, length) in pairwise(known):
        if 0 < ahead - number - 1 <= (place - physical - size) // log.MIN_RECORD_BYTES:
            yield LostRange(topic, queue_id, number + 1, ahead, physical, place + length, BETWEEN_UNITS)


def place_of(view: LogView, physical: int) -> tuple[str, int]:
    """Return the segment and the position in it of a physical offset; the log's first one as a last resort."""
    bases = [segment.base for segment in view.segments]
    i = max(bisect_right(bases, physical) - 1, 0)
    return view.segments[i].file.path, physical - bases[i]


def _at(
    view: LogView, code: str, physical: int, length: int, topic: str, queue_id: int, queue_offset: int, detail: str
) -> Finding:
    path, position = place_of(view, physical)
    return Finding(code, path, position, length, topic, queue_id, queue_offset, physical, 1, detail)

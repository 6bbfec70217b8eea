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

from storeio.checks.astray import astray, before_next, is_out_of_reach
from storeio.checks.begun_again import BegunAgain, begun_again
from storeio.checks.ranges import Ranges, add, subtract
from storeio.checks.runs import copies_among, runs_of, without
from storeio.checks.segments import LogView
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format.batchqueue import MOST_MESSAGES
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.results import LostRange
from storeio.simulate.java import as_long

Numbers = npt.NDArray[np.int64]

UnitRow = tuple[int, int, int]
"""Unit number, physical offset and size."""


@dataclass(slots=True)
class Numbering:
    """What the runs of one queue say. Ranges are half-open queue offsets.

    ``begun_again`` tells where numbers go back. ``end`` is the record of the highest number, told as a unit of no bytes
    at its end; None without records. ``expected`` are the numbers that records with wrong ones should have, by physical
    offset.
    """

    runs: list[tuple[int, int]] = field(default_factory=list)
    lost: list[LostRange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    begun_again: list[BegunAgain] = field(default_factory=list)
    end: UnitRow | None = None
    expected: dict[int, int] = field(default_factory=dict)


def number_queue(topic: str, queue_id: int, tables: Sequence[Numbers], view: LogView) -> Numbering:
    """Return gaps, repeats and single wrong numbers of one queue from its splits' runs in log order."""
    result = Numbering()
    runs = runs_of(tables)
    result.records = sum(run[RUN_RECORDS] for run in runs)
    if copies := copies_among(runs):
        result.findings += [_copy(view, topic, queue_id, runs[i]) for i in copies]
        runs = without(runs, copies)
    runs = _without_outliers(topic, queue_id, runs, view, result)
    expected = runs[0][RUN_FIRST] if runs else 0
    before_at = runs[0][RUN_START_AT] if runs else 0
    told: Ranges = []
    for first, stop, start_at, stop_at, *_ in runs:
        if first > expected:
            _gap(topic, queue_id, expected, first, before_at, start_at, view, result, told)
        elif first < expected:
            detail = f"numbers {first} to {min(stop, expected) - 1} were issued before"
            result.findings.append(
                _at(view, "LOG_QUEUE_OFFSET_REPEATED", start_at, stop_at - start_at, topic, queue_id, first, detail)
            )
        result.runs.append((first, stop))
        if result.end is None or stop > result.end[0]:
            result.end = stop - 1, stop_at, 0
        expected, before_at = stop, stop_at
    result.begun_again = begun_again(runs)
    return result


STRANGER: Final = "no record of this queue"
COPY: Final = "a copy of another record"
UNREAD: Final = "what could not be read may hold it"
"""Evidence of messages of which nobody knows whether they are lost."""
MISFIT: Final = "does not fit its neighbours"
IN_A_HOLE: Final = "a hole in the log lies between its neighbours"
JUMP: Final = "the numbers jump in an intact log"
BETWEEN_UNITS: Final = "its unit is damaged, those before and behind it point behind the log or into damage"
BETWEEN_RECORDS: Final = (IN_A_HOLE, JUMP)
"""Evidence of losses that stands and falls with the records before and behind them."""


def _without_outliers(
    topic: str, queue_id: int, runs: list[list[int]], view: LogView, result: Numbering
) -> list[list[int]]:
    """Return the runs without the few records whose numbers fit nowhere; the field is reported instead."""
    kept: list[list[int]] = []
    is_whole = not view.min_physical_offset  # then a queue begins at 0
    each = MOST_MESSAGES if any(run[RUN_STOP] - run[RUN_FIRST] > run[RUN_RECORDS] for run in runs) else 1
    i = 0
    while i < len(runs):
        before = kept[-1][RUN_STOP] if kept else None
        after = runs[i + 1][RUN_FIRST] if i + 1 < len(runs) else None
        stopped = (kept[-1][RUN_STOP], kept[-1][RUN_STOP_AT]) if kept else (0, 0) if is_whole else None
        found = astray(runs, i, stopped, view)
        group = runs[i : i + (found.runs if found else 1)]
        i += len(group)
        if found and found.strangers:
            result.findings += [_stranger(view, topic, queue_id, run) for run in group]
            continue
        for run in group:
            width = as_long(run[RUN_STOP] - run[RUN_FIRST])  # behind the last number of 64 bits is the lowest one
            expected = before if before is not None else 0 if found else before_next(after, width)
            expected = found.number if found and found.number >= 0 else expected
            between = (run[RUN_START_AT] - (kept[-1][RUN_STOP_AT] if kept else 0)) * each
            is_wrong = found or ((len(runs) > 1 or is_whole) and is_out_of_reach(run, before, after, between))
            if is_wrong and run[RUN_FIRST] != expected:  # of those that are mixed up some may stand where they belong
                result.findings.append(_misfit(view, topic, queue_id, run, expected))
                if run[RUN_RECORDS] == 1:
                    result.expected[run[RUN_START_AT]] = expected
                run = [expected, expected + width, *run[2:]]
            before = run[RUN_STOP]
            if kept and kept[-1][RUN_STOP] == run[RUN_FIRST]:
                kept[-1] = [kept[-1][RUN_FIRST], run[RUN_STOP], kept[-1][RUN_START_AT], run[RUN_STOP_AT], 0, 0]
            else:
                kept.append(run)
    return kept


def _stranger(view: LogView, topic: str, queue_id: int, run: Sequence[int]) -> Finding:
    """Return that records are of another queue than they say: the first of them, and how many."""
    detail = f"{STRANGER}: its numbers go on behind this record as if it were not there"
    return _no_number(view, topic, queue_id, run, log.QUEUE_ID_AT, 4, detail)


def _copy(view: LogView, topic: str, queue_id: int, run: Sequence[int]) -> Finding:
    """Return that records are copies of others of their queue: the first of them, and how many."""
    detail = f"{COPY}: it says that it lies elsewhere, and another one has its number"
    return _no_number(view, topic, queue_id, run, log.PHYSICAL_OFFSET_AT, 8, detail)


def _no_number(
    view: LogView, topic: str, queue_id: int, run: Sequence[int], at: int, length: int, detail: str
) -> Finding:
    """Return that records have no number of their queue, as a field tells: of the first of them."""
    found = _at(view, "LOG_FIELD", run[RUN_START_AT] + at, length, topic, queue_id, 0, detail)
    return replace(found, queue_offset=None, physical_offset=run[RUN_START_AT], count=run[RUN_RECORDS])


def _misfit(view: LogView, topic: str, queue_id: int, run: Sequence[int], expected: int) -> Finding:
    """Return that records have other numbers than there is room for: the first of them, and how many."""
    count, at = run[RUN_RECORDS], run[RUN_START_AT] + log.QUEUE_OFFSET_AT
    detail = f"queue offset {run[RUN_FIRST]} {MISFIT}, expected {expected}"
    found = _at(view, "LOG_FIELD", at, 8, topic, queue_id, expected, detail)
    return replace(found, physical_offset=run[RUN_START_AT], count=count)


def _gap(
    topic: str, queue_id: int, first: int, stop: int, start_at: int, stop_at: int, view: LogView, result: Numbering,
    told: Ranges,
) -> None:  # fmt: skip
    """Record lost numbers; a finding only where no hole in the log explains them.

    Where numbers go back and jump again, nothing but holes tells that others are lost than those ``told`` before.
    """
    explained = view.is_damaged(start_at, stop_at)
    evidence = UNREAD if view.is_unread(start_at, stop_at) else IN_A_HOLE if explained else JUMP
    has_room = explained and stop - first <= (stop_at - start_at) // log.MIN_RECORD_BYTES
    parts = [(first, stop)] if has_room else subtract((first, stop), told)
    result.lost += [LostRange(topic, queue_id, low, high, start_at, stop_at, evidence) for low, high in parts]
    add(told, (first, stop))
    if not explained:
        detail = f"numbers {first} to {stop - 1} are missing before this record"
        found = _at(view, "LOG_QUEUE_OFFSET_GAP", stop_at, 1, topic, queue_id, first, detail)
        result.findings.append(replace(found, count=stop - first))


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
    i = max(bisect_right(view.segments, physical, key=lambda segment: segment.base) - 1, 0)
    return view.segments[i].file.path, physical - view.segments[i].base


def _at(
    view: LogView, code: str, physical: int, length: int, topic: str, queue_id: int, queue_offset: int, detail: str
) -> Finding:
    path, position = place_of(view, physical)
    return Finding(code, path, position, length, topic, queue_id, queue_offset, physical, 1, detail)

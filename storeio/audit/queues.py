"""Each queue over the whole store: numbering, coverage, what is left over, what is lost."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from storeio.audit.misnumbered import Record
from storeio.audit.misplaced import MISPLACED
from storeio.audit.one_queue import AllSaid, Judged, Said, judge_queue
from storeio.audit.plan import AuditPlan, QueueKey
from storeio.audit.shifts import NOBODY
from storeio.audit.split import SplitReport
from storeio.checks.begun_again import BegunAgain
from storeio.checks.leftover import Leftover
from storeio.checks.numbering import UNREAD, Numbering
from storeio.checks.queue_files import Queue, unwritten_files
from storeio.checks.segments import LogView
from storeio.findings import Finding
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE
from storeio.results import LostRange, QueueResult

_SHORT: Final = {BATCHQUEUE: "bcq"}


@dataclass(slots=True)
class QueueVerdicts:
    """All queues: results, what is wrong, and the class counts of their files.

    ``missing`` are the numbers without a record in its place, of the queues that have some.
    """

    queues: list[QueueResult] = field(default_factory=list)
    missing: dict[QueueKey, list[LostRange]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    begun_again: dict[tuple[str | None, int | None], list[BegunAgain]] = field(default_factory=dict)
    beside: set[Record] = field(default_factory=set)  # records whose numbers and units are others'
    failed: dict[str, str] = field(default_factory=dict)  # files that could not be read, with the reason
    beyond: list[tuple[int, int]] = field(default_factory=list)
    foreign: set[tuple[str, int]] = field(default_factory=set)  # topics and queue ids whose units are of other records
    checks: dict[str, int] = field(default_factory=lambda: {"queue_units_on_disk": 0, "queue_numbers": 0})

    @property
    def lost(self) -> list[LostRange]:
        """What no intact record holds."""
        return [part for parts in self.missing.values() for part in _lost(parts)]

    @property
    def misplaced(self) -> list[LostRange]:
        """What records elsewhere in the log hold."""
        return self._with(MISPLACED)

    @property
    def unread(self) -> list[LostRange]:
        """Of what nobody knows, as some could not be read."""
        return self._with(UNREAD)

    def _with(self, evidence: str) -> list[LostRange]:
        return [part for parts in self.missing.values() for part in parts if part.evidence == evidence]


def _lost(missing: Iterable[LostRange]) -> list[LostRange]:
    return [part for part in missing if part.evidence not in (MISPLACED, UNREAD)]


def judge_queues(plan: AuditPlan, reports: Sequence[SplitReport], view: LogView) -> QueueVerdicts:
    """Return the verdicts on every queue that the store or the log names."""
    verdicts, said = QueueVerdicts(), AllSaid(plan, reports)
    read = plan.nearby().read
    others: dict[QueueKey, list[Leftover]] = {}
    for key in said.queues():
        judged = judge_queue(plan, read, key, said, view)
        _add(plan, verdicts, key, judged, view)
        for owner, rows in judged.others.items():
            if owner != NOBODY:
                others.setdefault((CONSUMEQUEUE, owner.topic, owner.queue_id), []).append(rows)
    for key, parts in others.items():
        judged = judge_queue(plan, read, key, said, view)
        for part in parts:
            for own, more in zip(judged.leftover.gone, part.gone, strict=True):
                own += more
        verdicts.missing[key] = judged.missing(view, plan.segment_bytes)
    if others:
        verdicts.missing = dict(sorted(verdicts.missing.items()))
        verdicts.queues = [_with_lost(row, verdicts.missing, others) for row in verdicts.queues]
    return verdicts


def _with_lost(
    row: QueueResult, missing: Mapping[QueueKey, Sequence[LostRange]], keys: Container[QueueKey]
) -> QueueResult:
    key = (CONSUMEQUEUE, row.topic, row.queue_id)
    return replace(row, lost=_ranges(missing[key])) if row.kind == "cq" and key in keys else row


def _add(plan: AuditPlan, verdicts: QueueVerdicts, key: QueueKey, judged: Judged, view: LogView) -> None:
    """Add the verdict on one queue."""
    queue, numbering, leftover = judged.queue, judged.numbering, judged.leftover
    if judged.begun:
        verdicts.begun_again[key[1:]] = judged.begun
    verdicts.beside |= {(queue.topic, queue.queue_id, physical) for physical in judged.beside}
    if judged.failed:
        verdicts.findings.append(Finding("UNREADABLE", queue.directory, detail=judged.failed))
        verdicts.failed |= {file.path: judged.failed for file in queue.files}
    if queue.files:
        _classes(queue, judged.said, leftover, verdicts)
    has_records = numbering.records or judged.said.covered
    if not has_records and not queue.files:
        return
    if not view.unread and (queue.stop or not has_records):  # else it may hold its records
        verdicts.findings += unwritten_files(queue, max((stop for _, stop in numbering.runs), default=0))
    if missing := judged.missing(view, plan.segment_bytes):
        verdicts.missing[key] = missing
    verdicts.findings += numbering.findings + leftover.findings
    verdicts.beyond += judged.beyond
    verdicts.foreign |= {key[1:]} if judged.is_foreign else set()
    verdicts.checks["queue_units_on_disk"] += sum(b - a for a, b in judged.said.covered) + leftover.units
    verdicts.checks["queue_numbers"] += numbering.records
    verdicts.queues.append(_result(queue, judged.said, numbering, leftover, _ranges(missing)))


def _ranges(missing: Iterable[LostRange]) -> tuple[tuple[int, int], ...]:
    return tuple((part.first_queue_offset, part.stop_queue_offset) for part in _lost(missing))


def _result(
    queue: Queue, said: Said, numbering: Numbering, leftover: Leftover, lost: tuple[tuple[int, int], ...]
) -> QueueResult:
    covered = sum(high - low for low, high in said.covered)
    if queue.kind == BATCHQUEUE:
        numbers = [*numbering.runs, *leftover.spans.values()]
        first = min((low for low, _ in numbers), default=0)
        stop = max((high for _, high in numbers), default=0)
    else:
        starts = [low for low, _ in said.covered] + ([leftover.first_real] if leftover.first_real is not None else [])
        first = min(starts, default=0)
        stop = max([high for _, high in said.covered] + [leftover.stop], default=0)
    if not first and not stop:
        first = stop = leftover.dead_stop
    return QueueResult(
        queue.topic, queue.queue_id, _SHORT.get(queue.kind, "cq"), first, max(stop, first), covered + leftover.units,
        numbering.records, lost,
    )  # fmt: skip


def _classes(queue: Queue, said: Said, leftover: Leftover, verdicts: QueueVerdicts) -> None:
    """Add the byte classes of the queue's files: covered units, leftovers, and zeros behind the last."""
    size = queue.unit_bytes
    rows: dict[str, dict[str, int]] = {file.path: dict(leftover.classes.get(file.path, {})) for file in queue.files}

    def add(name: str, low: int, high: int, sign: int = 1) -> None:
        for file, a, b in queue.pieces(low * size, high * size):
            if file is not None:
                rows[file.path][name] = rows[file.path].get(name, 0) + sign * (b - a)

    for low, high in said.covered:
        add("record", low, high)
    claimed = 0  # up to here
    for name, low, high, _ in sorted(said.classed, key=lambda row: row[1:3]):
        if (start := max(low, claimed)) < high:
            add("record", start, high, -1)
            add(name, start, high)
            claimed = high
    stop = -(-queue.stop // size) * size
    if said.covered:
        stop = max(stop, said.covered[-1][1] * size)
    for file in queue.files:
        behind = file.base + file.size - max(stop, file.base)
        if behind > 0:
            rows[file.path]["zero"] = rows[file.path].get("zero", 0) + behind
    verdicts.classes.update(rows)

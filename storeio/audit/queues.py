"""Each queue over the whole store: numbering, coverage, what is left over, what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from storeio.audit.misnumbered import units_of
from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan, QueueKey
from storeio.audit.shifts import SHIFTED, as_recorded
from storeio.audit.split import SplitReport
from storeio.checks.columns import joined
from storeio.checks.numbering import Numbering, Numbers, between_units, number_queue
from storeio.checks.queue_files import Queue, Read, unwritten_files
from storeio.checks.ranges import merged, subtract
from storeio.checks.segments import LogView
from storeio.checks.uncovered import Leftover, Names, judge_uncovered
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties
from storeio.kernels.group import RUN_ROWS
from storeio.paths import BATCHQUEUE, QUEUE_EXT
from storeio.results import LostRange, QueueResult
from storeio.scan import data_stretches

_SHORT: Final = {BATCHQUEUE: "bcq"}
# Units that point farther behind the log, or at more, are no lost messages, but damaged themselves.
MOST_LOG_BYTES: Final = 1 << 50
MOST_UNIT_BYTES: Final = 1 << 29


@dataclass(slots=True)
class QueueVerdicts:
    """All queues: results, what is wrong, and the class counts of their files."""

    queues: list[QueueResult] = field(default_factory=list)
    lost: list[LostRange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # files that could not be read, with the reason
    beyond: list[tuple[int, int]] = field(default_factory=list)
    checks: dict[str, int] = field(default_factory=lambda: {"queue_units_on_disk": 0, "queue_numbers": 0})


@dataclass(slots=True)
class _Said:
    """What all splits said of one queue."""

    runs: Numbers | None
    covered: list[tuple[int, int]]
    classed: list[tuple[str, int, int]]
    unplaced: int
    is_shifted: bool  # some units stand at other numbers than their records say


def judge_queues(plan: AuditPlan, reports: Sequence[SplitReport], view: LogView) -> QueueVerdicts:
    """Return the verdicts on every queue that the store or the log names."""
    verdicts = QueueVerdicts()
    nearby = plan.nearby()
    for key, said in _said(plan, reports):
        _judge(plan, nearby.read, key, said, view, verdicts)
    return verdicts


def _said(plan: AuditPlan, reports: Sequence[SplitReport]) -> Iterator[tuple[QueueKey, _Said]]:
    """Yield what all splits said of each queue, sorted."""
    runs = dict(joined([report.runs for report in reports], RUN_ROWS).tables())
    covered = dict(joined([report.covered for report in reports], 2).ranges())
    classed: dict[QueueKey, list[tuple[str, int, int]]] = {}
    unplaced: dict[QueueKey, int] = {}
    shifted = {(f.topic, f.queue_id) for report in reports for f in report.findings if f.code == SHIFTED}
    for report in reports:
        for key, rows in report.classed.items():
            classed.setdefault(key, []).extend(rows)
        for key, count in report.unplaced.items():
            unplaced[key] = unplaced.get(key, 0) + count
    on_disk = (key for key in plan.queues if key[0] != QUEUE_EXT)
    for key in sorted({*on_disk, *runs, *covered, *classed, *unplaced}):
        is_shifted = (key[1], key[2]) in shifted
        ranges = merged(covered.get(key, []))  # a unit may be found by records of two splits
        yield key, _Said(runs.get(key), ranges, classed.get(key, []), unplaced.get(key, 0), is_shifted)


def _judge(plan: AuditPlan, read: Read, key: QueueKey, said: _Said, view: LogView, verdicts: QueueVerdicts) -> None:
    queue = plan.queue(*key)
    numbering = Numbering()
    if said.runs is not None:
        numbering = number_queue(queue.topic, queue.queue_id, [said.runs], view)
    numbering.records += said.unplaced
    leftover = Leftover()
    if queue.files:
        try:
            stretches = partial(data_stretches, plan.root)
            said.covered = merged([*said.covered, *units_of(queue, read, numbering.expected)])
            leftover = judge_uncovered(queue, said.covered, numbering.runs, view, read, _namer(plan), stretches)
        except UnreadableError as error:
            verdicts.findings.append(Finding("UNREADABLE", queue.directory, detail=str(error)))
            verdicts.failed |= {file.path: str(error) for file in queue.files}
        _classes(queue, said, leftover, verdicts)
        if said.is_shifted:
            leftover.beyond = list(as_recorded(plan, read, queue, leftover.beyond))
            leftover.damaged = list(as_recorded(plan, read, queue, leftover.damaged))
    if not numbering.records and not said.covered:
        if not queue.files:
            return
        verdicts.findings += unwritten_files(queue)
    lost = _lost(queue, numbering, leftover)
    verdicts.lost += lost
    verdicts.findings += numbering.findings + leftover.findings
    verdicts.beyond += [(physical, size) for _, physical, size in leftover.beyond]
    verdicts.checks["queue_units_on_disk"] += sum(b - a for a, b in said.covered) + leftover.units
    verdicts.checks["queue_numbers"] += numbering.records
    verdicts.queues.append(_result(queue, said, numbering, leftover, lost))


def _result(
    queue: Queue, said: _Said, numbering: Numbering, leftover: Leftover, lost: Sequence[LostRange]
) -> QueueResult:
    covered = sum(high - low for low, high in said.covered)
    ranges = tuple((part.first_queue_offset, part.stop_queue_offset) for part in lost)
    if queue.kind == BATCHQUEUE:
        first = min((a for a, _ in numbering.runs), default=0)
        stop = max((b for _, b in numbering.runs), default=0)
    else:
        starts = [low for low, _ in said.covered] + ([leftover.first_real] if leftover.first_real is not None else [])
        first = min(starts, default=0)
        stop = max([high for _, high in said.covered] + [leftover.stop], default=0)
    return QueueResult(
        queue.topic, queue.queue_id, _SHORT.get(queue.kind, "cq"), first, max(stop, first), covered + leftover.units,
        numbering.records, ranges,
    )  # fmt: skip


def _lost(queue: Queue, numbering: Numbering, leftover: Leftover) -> list[LostRange]:
    """Return the lost ranges: gaps in the log's numbers, and units whose records are gone, outside of those."""
    lost = list(numbering.lost)
    if queue.kind == BATCHQUEUE:
        return lost
    known = merged([(part.first_queue_offset, part.stop_queue_offset) for part in lost] + numbering.runs)
    last = max((stop for _, stop in numbering.runs), default=0)
    beyond = [row for row in leftover.beyond if row[0] >= last and row[1] < MOST_LOG_BYTES and row[2] < MOST_UNIT_BYTES]
    lost += between_units(queue.topic, queue.queue_id, numbering.end, sorted(beyond + leftover.damaged))
    for rows, evidence in (
        (leftover.damaged, "its unit points into damage"),
        (beyond, "its unit points behind the log"),
    ):
        at = {number: (physical, size) for number, physical, size in rows}
        for number in sorted(at):
            for first, stop in subtract((number, number + 1), known):
                physical, size = at[number]
                part = LostRange(queue.topic, queue.queue_id, first, stop, physical, physical + size, evidence)
                if lost and _follows(lost[-1], part):
                    before = lost.pop()
                    part = LostRange(
                        queue.topic, queue.queue_id, before.first_queue_offset, stop,
                        min(before.physical_start, physical), max(before.physical_stop, physical + size), evidence,
                    )  # fmt: skip
                lost.append(part)
    return sorted(lost, key=lambda part: part.first_queue_offset)


def _follows(last: LostRange, part: LostRange) -> bool:
    return last.stop_queue_offset == part.first_queue_offset and last.evidence == part.evidence


def _classes(queue: Queue, said: _Said, leftover: Leftover, verdicts: QueueVerdicts) -> None:
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
    for name, low, high in sorted(said.classed, key=lambda row: row[1:]):
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


def _namer(plan: AuditPlan) -> Names:
    """Return the function that tells what the record at a place says it is."""

    def names(physical: int, size: int) -> str:
        record = record_at(plan, physical)
        if record is None or record.size != size:
            return ""
        queue = f"{properties.java_decode(record.topic)}/{record.queue_id}"
        if record.sys_flag & log.SYS_UNNUMBERED:
            return f"no queue, but to be prepared or rolled back for {queue}"
        return f"{queue} queue offset {record.queue_offset}"

    return names

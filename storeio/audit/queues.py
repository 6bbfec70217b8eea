"""Each queue over the whole store: numbering, coverage, what is left over, what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from storeio.audit.misnumbered import units_of
from storeio.audit.misplaced import MISPLACED, told
from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan, QueueKey
from storeio.audit.shifts import SHIFTED, as_recorded
from storeio.audit.split import SplitReport
from storeio.checks.begun_again import ABOUT_UNITS, BegunAgain, believed, own_stop
from storeio.checks.columns import joined
from storeio.checks.numbering import UNREAD, Numbering, Numbers, between_units, number_queue
from storeio.checks.queue_files import Queue, Read, unwritten_files
from storeio.checks.queue_units import Classed
from storeio.checks.ranges import merged, subtract
from storeio.checks.segments import LogView
from storeio.checks.uncovered import Leftover, Names, judge_uncovered
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties
from storeio.kernels.group import RUN_ROWS
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT
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
    misplaced: list[LostRange] = field(default_factory=list)  # which records elsewhere in the log hold
    unread: list[LostRange] = field(default_factory=list)  # of which nobody knows, as some could not be read
    findings: list[Finding] = field(default_factory=list)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    begun_again: dict[tuple[str | None, int | None], list[BegunAgain]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # files that could not be read, with the reason
    beyond: list[tuple[int, int]] = field(default_factory=list)
    checks: dict[str, int] = field(default_factory=lambda: {"queue_units_on_disk": 0, "queue_numbers": 0})


@dataclass(slots=True)
class _Said:
    """What all splits said of one queue."""

    runs: Numbers | None
    misplaced: Numbers | None
    covered: list[tuple[int, int]]
    classed: list[Classed]
    unplaced: int
    findings: list[Finding]  # about its units

    @property
    def is_shifted(self) -> bool:
        """Some units stand at other numbers than their records say."""
        return any(finding.code == SHIFTED for finding in self.findings)

    def begin_again(self, numbering: Numbering) -> list[BegunAgain]:
        """Leave to later records the units whose number they have; return where the numbers begin again."""
        begun = believed(numbering.begun_again, {finding.physical_offset for finding in self.findings})
        own = [(name, a, own_stop(begun, a, b, at), b, at) for name, a, b, at in self.classed]
        self.classed = [(name, a, stop, at) for name, a, stop, _, at in own if a < stop]
        end = numbering.runs[-1][1]
        behind = merged([(max(stop, end), b) for _, _, stop, b, _ in own if max(stop, end) < b])
        for part in behind if begun else ():  # no record stands there any more
            self.covered = [rest for covered in self.covered for rest in subtract(covered, [part])]
        return begun


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
    misplaced = dict(joined([report.misplaced for report in reports], RUN_ROWS).tables())
    covered = dict(joined([report.covered for report in reports], 2).ranges())
    classed: dict[QueueKey, list[Classed]] = {}
    unplaced: dict[QueueKey, int] = {}
    about: dict[tuple[str | None, int | None], list[Finding]] = {}
    for report in reports:
        for finding in report.findings:
            if finding.code in ABOUT_UNITS:
                about.setdefault((finding.topic, finding.queue_id), []).append(finding)
        for key, rows in report.classed.items():
            classed.setdefault(key, []).extend(rows)
        for key, count in report.unplaced.items():
            unplaced[key] = unplaced.get(key, 0) + count
    on_disk = (key for key in plan.queues if key[0] != QUEUE_EXT)
    for key in sorted({*on_disk, *runs, *covered, *classed, *unplaced}):
        ranges = merged(covered.get(key, []))  # a unit may be found by records of two splits
        found = about.get(key[1:], [])
        yield key, _Said(runs.get(key), misplaced.get(key), ranges, classed.get(key, []), unplaced.get(key, 0), found)


def _judge(plan: AuditPlan, read: Read, key: QueueKey, said: _Said, view: LogView, verdicts: QueueVerdicts) -> None:
    queue = plan.queue(*key)
    numbering = Numbering()
    if said.runs is not None:
        numbering = number_queue(queue.topic, queue.queue_id, [said.runs], view)
        if numbering.begun_again and queue.kind == CONSUMEQUEUE:
            verdicts.begun_again[key[1:]] = said.begin_again(numbering)
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
        if not view.unread:  # which may hold its records
            verdicts.findings += unwritten_files(queue)
    missing = _missing(queue, numbering, leftover, view)
    if said.misplaced is not None:
        missing = list(told(missing, said.misplaced, is_placed=bool(numbering.runs)))
    lost = [part for part in missing if part.evidence not in (MISPLACED, UNREAD)]
    verdicts.lost += lost
    verdicts.misplaced += [part for part in missing if part.evidence == MISPLACED]
    verdicts.unread += [part for part in missing if part.evidence == UNREAD]
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


def _missing(queue: Queue, numbering: Numbering, leftover: Leftover, view: LogView) -> list[LostRange]:
    """Return the ranges without records: gaps in the log's numbers, and units whose records are gone, outside of those.

    They are lost, but for those that only could not be read, and those that lie elsewhere.
    """
    lost = list(numbering.lost)
    if queue.kind == BATCHQUEUE:
        return lost
    known = merged([(part.first_queue_offset, part.stop_queue_offset) for part in lost] + numbering.runs)
    last = max((stop for _, stop in numbering.runs), default=0)
    beyond = [row for row in leftover.beyond if row[0] >= last and row[1] < MOST_LOG_BYTES and row[2] < MOST_UNIT_BYTES]
    gone = sorted(beyond + leftover.damaged + leftover.unread)
    for part in between_units(queue.topic, queue.queue_id, numbering.end, gone):
        is_unread = view.is_unread(part.physical_start, part.physical_stop)
        lost.append(replace(part, evidence=UNREAD) if is_unread else part)
    for rows, evidence in (
        (leftover.damaged, "its unit points into damage"),
        (beyond, "its unit points behind the log"),
        (leftover.unread, UNREAD),
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

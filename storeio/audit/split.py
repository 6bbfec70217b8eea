"""One split of the log: its records, and all that they imply in queues and index."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from storeio.audit.facts import Told, told_by
from storeio.audit.misplaced import misplaced_runs
from storeio.audit.plan import AuditPlan, QueueKey
from storeio.audit.usual import usual_queues
from storeio.checks.columns import Columns, ColumnsBuilder, no_columns
from storeio.checks.glance import glance_at
from storeio.checks.index_content import IndexContent, check_content
from storeio.checks.index_stretch import ReadUnits
from storeio.checks.log_order import check_in_log_order
from storeio.checks.marks import TimedRecord, edge_records, list_findings, mark_findings, time_findings, topic_findings
from storeio.checks.queue_units import Checked, Classed, check_placed
from storeio.checks.ranges import Ranges, merged
from storeio.checks.rare import Rare, rare_values
from storeio.dispatch import Grouped, OddNumber, all_units, grouped_units, multi_dispatched
from storeio.errors import UnreadableError
from storeio.findings import Finding, condense
from storeio.format import index as index_format
from storeio.kernels import tables as w
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_ROWS, RUN_STOP
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT
from storeio.reading.around import Around
from storeio.splits import Split, WalkState
from storeio.turns import turn
from storeio.uris import is_remote
from storeio.walk import Walked, walk_split
from storeio.window import PIECE_BYTES, Read

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class SplitReport:
    """What one split says; small, and free of the split's bytes.

    ``runs`` are tables of ``kernels.group``, and ``misplaced`` those of records that lie elsewhere than they say;
    ``covered``, ``classed``, ``stretches`` and ``whole`` as in ``queue_units.Checked``. The first three are columns:
    every split may name a hundred thousand queues.
    ``unread``, ``bad`` and ``why`` are those of ``around.Around``.
    """

    split: Split
    begin: WalkState
    end: WalkState
    asked: int
    skipped_until: int | None
    spans: Numbers
    records: int = 0
    findings: list[Finding] = field(default_factory=list)
    runs: Columns = field(default_factory=lambda: no_columns(RUN_ROWS))
    misplaced: Columns = field(default_factory=lambda: no_columns(RUN_ROWS))
    covered: Columns = field(default_factory=lambda: no_columns(2))
    classed: dict[QueueKey, list[Classed]] = field(default_factory=dict)
    unplaced: dict[QueueKey, int] = field(default_factory=dict)
    index: IndexContent | None = None
    edges: list[TimedRecord] = field(default_factory=list)
    rare: Rare | None = None
    times: tuple[int, int] | None = None
    last_queued: tuple[int, int] | None = None  # physical offset and store time
    counts: dict[str, int] = field(default_factory=dict)
    stretches: dict[QueueKey, list[tuple[int, int]]] = field(default_factory=dict)
    whole: list[QueueKey] = field(default_factory=list)
    told: Told = field(default_factory=Told)
    unread: list[tuple[int, int]] = field(default_factory=list)
    bad: list[tuple[int, int]] = field(default_factory=list)
    why: str = ""


def empty_report(split: Split, end: WalkState) -> SplitReport:
    """Return the report of a split in which nothing starts, because what is before it reaches past it."""
    return SplitReport(split, end, end, -1, None, np.empty((4, 0), np.int64))


def audit_split(
    plan: AuditPlan, split: Split, begin: WalkState | None = None, *, piece_bytes: int = PIECE_BYTES
) -> SplitReport:
    """Return the audit of what starts in a split, from ``begin`` or from a guess, looked at in pieces.

    Where a disk does not give some blocks of the segment, the rest is looked at all the same.

    Raises:
        UnreadableError: The segment, or a file that its records imply, could not be read.
    """

    def read(start: int, stop: int) -> npt.NDArray[np.uint8]:
        return plan.read(split.path, start, stop)

    try:
        return _audited(plan, split, begin, read, piece_bytes)
    except UnreadableError as error:
        if not _is_of_disk(plan, split, error):
            raise
    around = Around(read, split.file_size)
    around.leave_out_cut_records(split, begin)
    report = _audited(plan, split, begin, around, piece_bytes, around.unread)
    report.unread, report.bad, report.why = around.unread, around.bad, around.why
    return report


def _is_of_disk(plan: AuditPlan, split: Split, error: UnreadableError) -> bool:
    """Tell whether a system could not give bytes of a split's segment; a file that became shorter has none to give."""
    of_segment = str(error).startswith(f"{split.path}: ") and isinstance(error.__cause__, OSError)
    return of_segment and not is_remote(plan.root)


def _audited(
    plan: AuditPlan, split: Split, begin: WalkState | None, read: Read, piece_bytes: int, unread: Ranges | None = None
) -> SplitReport:
    delays = np.array(plan.config.delays_ms, np.int64)
    walked = walk_split(read, split, begin, delays_ms=delays, reuse=True, piece_bytes=piece_bytes)
    report = SplitReport(
        split, walked.begin, walked.end, walked.asked, walked.skipped_until(), walked.spans, walked.count
    )
    apart: list[Finding] = []
    if walked.count:
        _look_at_records(walked, report)
        apart = _compare_queues(plan, walked, report)
    if plan.index:
        report.index = check_content(plan.index, index_reader(plan), walked, unread or (), is_guess=begin is None)
    report.findings = condense(report.findings, plan.kept) + apart
    report.misplaced = misplaced_runs(plan, walked, delays, piece_bytes)
    return report


def _look_at_records(walked: Walked, report: SplitReport) -> None:
    seen = glance_at(walked)
    report.findings += mark_findings(walked, seen) + topic_findings(walked) + time_findings(walked, seen)
    report.edges = edge_records(walked)
    report.rare = rare_values(walked, seen)
    report.times = seen.first_ms, seen.last_ms
    report.counts = {"body_crc": seen.bodies, "property_crc": seen.property_crcs, "index_keys": seen.keys}


def _compare_queues(plan: AuditPlan, walked: Walked, report: SplitReport) -> list[Finding]:
    """Add what the queues say; return the findings that are not to be joined with others."""
    apart: list[Finding] = []
    runs, covered = ColumnsBuilder(RUN_ROWS), ColumnsBuilder(2)
    whole: dict[QueueKey, None] = {}  # a set that keeps its order
    grouped = grouped_units(walked)
    report.told = told_by(grouped)
    odd: list[OddNumber] = []
    listed = multi_dispatched(walked, odd) if plan.multi_dispatch else {}
    report.findings += list_findings(walked, odd, plan.facts.batch_topics)
    usual = usual_queues(plan, grouped) & ~grouped.are_in(listed)
    _take_usual(grouped, np.flatnonzero(usual), runs, covered, report)
    others = grouped.present() & ~usual
    with turn(int(others.sum())):
        for units in all_units(grouped, others, listed):
            kind = BATCHQUEUE if units.topic in plan.facts.batch_topics else CONSUMEQUEUE
            key = (kind, units.topic, units.queue_id)
            queue = plan.queue(*key)
            ext = plan.queues.get((QUEUE_EXT, units.topic, units.queue_id)) if kind == CONSUMEQUEUE else None
            if plan.facts.elsewhere:
                checked = Checked(whole=True)
            elif units.placed and kind == CONSUMEQUEUE:
                checked = check_placed(queue, ext, units, walked, plan.read, plan.kept)
            else:
                checked = check_in_log_order(
                    queue, ext, units, walked, plan.read, optional=not units.placed and not plan.multi_dispatch
                )
            if units.placed:
                runs.add(key, units.runs())
            else:
                report.unplaced[key] = report.unplaced.get(key, 0) + len(units.record)
            _queued(report, units.physical_at(-1), int(walked.records[w.R_STORE_MS, units.record[-1]]))
            covered.add_ranges(key, merged(checked.covered))
            if checked.whole:
                whole[key] = None
            _add(report, key, checked, apart)
    report.runs, report.covered, report.whole = runs.columns(), covered.columns(), list(whole)
    return apart


def _take_usual(
    grouped: Grouped, numbers: Numbers, runs: ColumnsBuilder, covered: ColumnsBuilder, report: SplitReport
) -> None:
    """Take queues with one run whose units stand where they must: all that is said of them is their runs."""
    if not len(numbers):
        return
    found = grouped.runs[:, grouped.run_starts[numbers]]
    queues = grouped.names(numbers)
    runs.add_queues(CONSUMEQUEUE, queues, found)
    covered.add_queues(CONSUMEQUEUE, queues, found[[RUN_FIRST, RUN_STOP]])
    report.counts["queue_units"] = report.counts.get("queue_units", 0) + int(found[RUN_RECORDS].sum())
    _queued(report, *grouped.last_of(numbers))


def _queued(report: SplitReport, physical: int, store_ms: int) -> None:
    report.last_queued = max((physical, store_ms), report.last_queued or (physical, store_ms))


def _add(report: SplitReport, key: QueueKey, checked: Checked, apart: list[Finding]) -> None:
    report.findings += checked.findings
    apart += checked.apart
    if checked.classed:
        report.classed.setdefault(key, []).extend(checked.classed)
    if checked.stretches:
        report.stretches.setdefault(key, []).extend(checked.stretches)
    report.counts["queue_units"] = report.counts.get("queue_units", 0) + checked.compared


def why_unread(split: Split, error: UnreadableError) -> str:
    """Return why a split could not be audited, after its segment's path; the file at fault may be another."""
    return str(error) if str(error).startswith(f"{split.path}: ") else f"{split.path}: {error}"


def index_reader(plan: AuditPlan) -> ReadUnits:
    """Return the function by which the index check reads units of an index file."""

    def read_units(file_no: int, first: int, stop: int) -> index_format.Units:
        file = plan.index[file_no]
        start = index_format.units_start(file.slots)
        data = plan.read(file.path, start + first * index_format.UNIT_BYTES, start + stop * index_format.UNIT_BYTES)
        return data.view(index_format.UNIT)

    return read_units

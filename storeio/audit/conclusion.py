"""What all tasks said, joined into one audit: stitched, compared across the store, added up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from storeio import __version__, crc
from storeio.audit.bytes import byte_results
from storeio.audit.facts import type_findings, unfounded
from storeio.audit.misnumbered import without_follow_ups
from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan
from storeio.audit.queues import QueueVerdicts, judge_queues
from storeio.audit.split import SplitReport, index_reader
from storeio.audit.stitching import Again, stitch
from storeio.audit.unread import (
    bad_blocks,
    rests_on,
    unread_log,
    unread_of,
    unread_splits,
    unreadable,
    untold,
)
from storeio.checks.bands import bands_of
from storeio.checks.begun_again import without_replaced
from storeio.checks.checkpoint import Facts, check_checkpoint
from storeio.checks.columns import Columns
from storeio.checks.index_finish import finish_content
from storeio.checks.index_names import out_of_order
from storeio.checks.index_outside import IndexOutside, units_outside, unjudged
from storeio.checks.layout import check_layout
from storeio.checks.marks import edge_findings
from storeio.checks.numbering import Numbers
from storeio.checks.ranges import Ranges
from storeio.checks.rare import rare_findings
from storeio.checks.segments import LogView, Segment, view_log
from storeio.checks.tail import lost_tail, maybe_missing
from storeio.errors import UnreadableError
from storeio.findings import Finding, condense, merge
from storeio.format import checkpoint
from storeio.paths import (
    BATCHQUEUE,
    CHECKPOINT,
    COMMITLOG,
    CONSUMEQUEUE,
    INDEX,
    QUEUE_EXT,
    QUEUE_KINDS,
    file_name,
)
from storeio.results import Audit, IndexResult, LogResult
from storeio.scan import changed_since
from storeio.settings import not_read
from storeio.splits import merge_spans
from storeio.uris import shown


@dataclass(slots=True)
class _Gathered:
    """Findings and counts as they come in."""

    findings: list[Finding] = field(default_factory=list)
    checks: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def count(self, name: str, number: int) -> None:
        """Add to a check's count."""
        self.checks[name] = self.checks.get(name, 0) + number


@dataclass
class Concluded:
    """A finished audit, and what it was made of: the plan with what the files say, the log as the spans tell it, and
    the runs of queue offsets of each split; ``doubts`` are all findings of the codes that the plan has kept. Units of
    ``foreign`` queues, by topic and queue id, tell nothing of their messages."""

    plan: AuditPlan
    view: LogView
    audit: Audit
    split_runs: list[Columns]
    doubts: list[Finding]
    foreign: set[tuple[str, int]]

    @cached_property
    def runs(self) -> dict[tuple[str, int], list[Numbers]]:
        """Runs by topic and queue id, in log order: tables of ``kernels.group``."""
        runs: dict[tuple[str, int], list[Numbers]] = {}
        for columns in self.split_runs:
            for (_, topic, queue_id), table in columns.tables():
                runs.setdefault((topic, queue_id), []).append(table)
        return runs


def conclude(plan: AuditPlan, reports: Sequence[SplitReport], again: Again, *, failed: Sequence[str] = ()) -> Audit:
    """Return the audit alone of ``concluded``, which takes the same."""
    return concluded(plan, reports, again, failed=failed).audit


def concluded(
    plan: AuditPlan, reports: Sequence[SplitReport], again: Again, *, failed: Sequence[str] = ()
) -> Concluded:
    """Return the audit of the store from the reports of all its splits, in order.

    Args:
        plan: With the file reports in it (``with_files``).
        reports: One for each split of the plan, in its order; unreadable ones left out.
        again: Walks a split again from a given state.
        failed: What could not be read while the splits were audited.
    """
    gathered = _Gathered(failed=[*failed, *changed_since(plan.listing)])
    stitched = stitch(reports, again, gathered.failed)
    unread = unread_splits(plan, stitched)
    view = _view(plan, stitched, unread_log(plan, unread, stitched))
    for report in stitched:
        for name, count in report.counts.items():
            gathered.count(name, count)
    gathered.findings += view.findings
    _layout(plan, view, gathered)
    blocks = bad_blocks(stitched)
    gathered.findings += blocks
    gathered.failed += [f"{f.path}: bytes {f.position} to {f.position + f.length}: {f.detail}" for f in blocks]
    edges = [edge for report in stitched for edge in report.edges]
    gathered.findings += edge_findings(edges, plan.started_ms)
    rare = [report.rare for report in stitched if report.rare is not None]
    gathered.findings += rare_findings(rare, sum(report.records for report in stitched))
    verdicts = judge_queues(plan, stitched, view)
    gathered.findings += unfounded(plan, verdicts.queues) if not view.unread else ()
    gathered.findings += without_replaced((f for r in stitched for f in r.findings), verdicts.begun_again)
    gathered.findings = [*without_follow_ups(gathered.findings, verdicts.findings, verdicts.beside), *verdicts.findings]
    gathered.failed += verdicts.failed.values()
    gathered.checks.update(verdicts.checks)
    beyond = _index(plan, stitched, view, gathered)
    gathered.findings += lost_tail(view, verdicts.beyond, beyond, plan.segment_bytes)
    gathered.findings += maybe_missing(plan.queues.values(), view, verdicts.beyond)
    _checkpoint(plan, stitched, view, gathered)
    gathered.failed += (more := untold(plan, gathered.findings))
    gathered.findings += unreadable(more)
    if (unread_files := unread_of(plan)).paths:
        gathered.findings = [found for found in gathered.findings if not rests_on(found, unread_files)]
    unknown = {*verdicts.failed, *(split.path for split in unread), *(found.path for found in blocks)}
    audit = _audit(plan, stitched, view, verdicts, gathered, unknown)
    doubts = merge(found for found in gathered.findings if found.code in plan.kept)
    return Concluded(plan, view, audit, [report.runs for report in stitched], doubts, verdicts.foreign)


def _view(plan: AuditPlan, stitched: Sequence[SplitReport], unread: Ranges) -> LogView:
    parts: dict[str, list[SplitReport]] = {}
    for report in stitched:
        parts.setdefault(report.split.path, []).append(report)
    segments = [Segment(file, merge_spans([r.spans for r in parts.get(file.path, [])])) for file in plan.segments]
    return view_log(segments, plan.segment_bytes, unread)


def layout_findings(plan: AuditPlan) -> list[Finding]:
    """Return what the listing alone tells."""
    lengths = {
        COMMITLOG: plan.segment_bytes,
        CONSUMEQUEUE: plan.config.queue_file_bytes,
        BATCHQUEUE: plan.config.batch_file_bytes,
        QUEUE_EXT: plan.config.ext_file_bytes,
    }
    found = check_layout(plan.listing.files, lengths) + type_findings(plan)
    return found if plan.moment is None else plan.moment.told(found)


def log_missing(plan: AuditPlan, view: LogView) -> list[Finding]:
    """Return that there is no segment, where something was made of one."""
    derived = any(f.kind in (*QUEUE_KINDS, INDEX) and not f.is_dir for f in plan.listing.files)
    missing = not plan.segments and derived and not view.unread
    return [Finding("LOG_MISSING", COMMITLOG, detail="queues or indexes without a log")] if missing else []


def _layout(plan: AuditPlan, view: LogView, gathered: _Gathered) -> None:
    gathered.count("layout_entries", len(plan.listing.files))
    gathered.findings += layout_findings(plan)
    gathered.failed += [f"{path}: {why}" for path, why in plan.listing.unreadable]
    gathered.findings += unreadable(gathered.failed)
    if plan.log_directories:
        detail = not_read(plan.log_directories)
        gathered.findings.append(Finding("UNSUPPORTED_LAYOUT", COMMITLOG, detail=detail))
    for report in plan.file_reports:
        gathered.findings += report.findings
        if report.failed:
            gathered.failed.append(report.failed)
            gathered.findings.append(Finding("UNREADABLE", report.file.path, 0, report.file.size, detail=report.failed))
    gathered.findings += log_missing(plan, view)
    if view.min_physical_offset > 0:
        first = (view.min_physical_offset - 1) // plan.segment_bytes * plan.segment_bytes
        detail = f"the log starts at {view.min_physical_offset}"
        gathered.findings.append(
            Finding("LOG_STARTS_LATE", f"{COMMITLOG}/{file_name(first)}", physical_offset=first, detail=detail)
        )


def _index(plan: AuditPlan, stitched: Sequence[SplitReport], view: LogView, gathered: _Gathered) -> list[int]:
    """Add what the index says; return physical offsets of its units behind the end of the log."""
    contents = [report.index for report in stitched if report.index is not None]
    keys = gathered.checks.get("index_keys", 0)
    gathered.checks.setdefault("index_keys", 0)
    gathered.count("index_units", sum(content.units for content in contents))
    if not plan.index:
        files = [report for report in plan.file_reports if report.file.kind == INDEX]
        is_told = any(report.findings or report.failed for report in files)  # else no file holds anything but a header
        if keys and plan.config.index_enabled and not is_told:
            gathered.findings.append(Finding("INDEX_MISSING", INDEX, count=keys, detail=f"{keys} keys in the log"))
        return []
    gathered.findings += finish_content(plan.index, index_reader(plan), contents)
    gathered.findings += out_of_order(plan.index)
    covered = [content.covered for content in contents]
    gaps = unjudged(covered, view.min_physical_offset, view.end)
    beyond: list[int] = []
    for number in range(len(plan.index)):
        outside = _outside(plan, number, gaps, view, gathered)
        if outside is not None:
            gathered.count("index_units", outside.units)
            gathered.findings += outside.findings
            beyond += outside.beyond
    return beyond


def _outside(
    plan: AuditPlan, number: int, gaps: Sequence[tuple[int, int]], view: LogView, gathered: _Gathered
) -> IndexOutside | None:
    try:
        return units_outside(
            plan.index, number, index_reader(plan), gaps,
            min_physical_offset=view.min_physical_offset, max_physical_offset=view.end, unread=view.unread,
        )  # fmt: skip
    except UnreadableError as error:
        gathered.failed.append(str(error))
        return None


def _checkpoint(plan: AuditPlan, stitched: Sequence[SplitReport], view: LogView, gathered: _Gathered) -> None:
    entry = plan.listing.get(CHECKPOINT)
    edges = [edge for report in stitched for edge in report.edges]
    queued = [r.last_queued for r in stitched if r.last_queued is not None]
    if view.ends_unread:
        edges, queued = [], []  # what the log ends with is not known
    facts = Facts(
        edges[-1].store_ms if edges else None,
        queued[-1][1] if queued else None,
        None if unread_of(plan).of_index else (plan.rolled_index_ms, plan.last_index_ms),
        view.end,
        view.min_physical_offset,
        queued[-1][0] if queued else None,
        any(f.path == "rocksdbstore" for f in plan.listing.files),
        lambda offset: view.is_unread(offset, offset + 1) or record_at(plan, offset) is not None,
    )
    data = None
    if entry is not None and not entry.is_dir:
        try:
            data = plan.read(CHECKPOINT, 0, min(entry.size, checkpoint.FILE_BYTES))
        except UnreadableError as error:
            gathered.failed.append(str(error))
            gathered.findings.append(Finding("UNREADABLE", CHECKPOINT, 0, entry.size, detail=str(error)))
            return
    gathered.count("checkpoint_fields", len(checkpoint.CHECKPOINT.names or ()) if data is not None else 0)
    gathered.findings += check_checkpoint(data, entry.size if entry else 0, facts)


def _audit(
    plan: AuditPlan, stitched: Sequence[SplitReport], view: LogView, verdicts: QueueVerdicts, gathered: _Gathered,
    unread: set[str],
) -> Audit:  # fmt: skip
    records = sum(report.records for report in stitched)
    times = [report.times for report in stitched if report.times]
    gathered.count("records", records)
    files = byte_results(plan, view, verdicts, unread)
    gathered.count("bytes", sum(file.size for file in files))
    return Audit(
        store=shown(plan.root),
        version=__version__,
        crc_engine=crc.ENGINE,
        started_ms=plan.started_ms,
        seconds=(time.time_ns() // 1_000_000 - plan.started_ms) / 1000,
        settings=[*plan.settings],
        files=files,
        log=LogResult(
            view.min_physical_offset, view.max_physical_offset, records, len(view.segments),
            min((low for low, _ in times), default=None), max((high for _, high in times), default=None),
        ),
        queues=verdicts.queues,
        index=[IndexResult(s.path, s.entries, s.begin_physical_offset, s.end_physical_offset) for s in plan.index],
        checks=dict(sorted(gathered.checks.items())),
        findings=condense(gathered.findings),
        lost=verdicts.lost,
        misplaced=verdicts.misplaced,
        unread=verdicts.unread,
        failed=gathered.failed,
        bands=bands_of(view, plan.segment_bytes),
    )  # fmt: skip

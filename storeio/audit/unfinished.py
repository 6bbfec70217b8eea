"""An audit that ran out of time or was cancelled: what can be said of the parts that are known."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from storeio import __version__, crc
from storeio.audit.conclusion import layout_findings
from storeio.audit.facts import all_told, with_told
from storeio.audit.plan import AuditPlan, FileReport
from storeio.audit.split import SplitReport
from storeio.audit.stitching import stitch
from storeio.checks.segments import Segment, findings_so_far
from storeio.errors import UnreadableError
from storeio.findings import Finding, condense
from storeio.paths import CONSUMEQUEUE, StoreFile
from storeio.results import Reading, Unfinished
from storeio.splits import Split, WalkState, merge_spans
from storeio.uris import shown


def unfinished(
    plan: AuditPlan,
    files: list[FileReport],
    splits: Mapping[Split, SplitReport],
    reading: Reading,
    failed: list[str],
    *,
    cancelled: bool = False,
) -> Unfinished:
    """Return what the listing, whole files, and splits that surely are right say of themselves.

    A split that begins in the middle of a segment has guessed where its first record starts; that is proven by the
    splits before it, so only what follows from a segment's beginning without a gap counts.
    """
    findings = layout_findings(plan)
    findings += [finding for report in files for finding in report.findings]
    findings += [Finding("UNREADABLE", r.file.path, 0, r.file.size, detail=r.failed) for r in files if r.failed]
    for segment in plan.segments:
        known = _proven(plan, segment, splits)
        findings += [finding for report in known for finding in report.findings]
        findings += findings_so_far(Segment(segment, merge_spans([report.spans for report in known])))
    parted = [text.partition(": ") for text in failed]
    findings += [Finding("UNREADABLE", path, detail=why) for path, _, why in parted]
    return Unfinished(
        store=shown(plan.root),
        version=__version__,
        crc_engine=crc.ENGINE,
        started_ms=plan.started_ms,
        seconds=(time.time_ns() // 1_000_000 - plan.started_ms) / 1000,
        settings=list(plan.config.settings),
        findings=condense(findings),
        reading=reading,
        failed=[*failed, *(report.failed for report in files if report.failed)],
        cancelled=cancelled,
    )


def without_untold(plan: AuditPlan, splits: Mapping[Split, SplitReport]) -> dict[Split, SplitReport]:
    """Return reports without what they say of ordinary queues of topics that have others.

    That is so of topics of which no queue is left, and of which some records of the splits tell that they have batch
    queues: by then others were looked at.
    """
    taught = with_told(plan, all_told(report.told for report in splits.values()))
    topics = taught.facts.batch_topics - plan.facts.batch_topics
    if not topics:
        return dict(splits)

    def is_meant(finding: Finding) -> bool:
        return finding.topic not in topics or not finding.path.startswith(f"{CONSUMEQUEUE}/")

    return {s: replace(report, findings=[*filter(is_meant, report.findings)]) for s, report in splits.items()}


def _proven(plan: AuditPlan, segment: StoreFile, splits: Mapping[Split, SplitReport]) -> list[SplitReport]:
    proven: list[SplitReport] = []
    for split in (s for s in plan.splits if s.path == segment.path):
        if split not in splits:
            break
        try:
            proven.append(stitch([*proven[-1:], splits[split]], _not_now)[-1])
        except UnreadableError:
            break
    return proven


def _not_now(split: Split, begin: WalkState) -> SplitReport:
    """Refuse to walk a split again: there is no time."""
    raise UnreadableError(f"{split.path}: not looked at again from {begin.position}")

"""An audit that ran out of time: what can be said of the parts that are known."""

from __future__ import annotations

import time
from collections.abc import Mapping

from storeio import __version__, crc
from storeio.audit.conclusion import layout_findings, stitch
from storeio.audit.plan import AuditPlan, FileReport
from storeio.audit.split import SplitReport
from storeio.errors import UnreadableError
from storeio.findings import Finding, condense
from storeio.results import Reading, Unfinished
from storeio.splits import Split, WalkState


def unfinished(
    plan: AuditPlan,
    files: list[FileReport],
    splits: Mapping[Split, SplitReport],
    reading: Reading,
    failed: list[str],
) -> Unfinished:
    """Return what the listing, whole files, and splits that surely are right say of themselves.

    A split that begins in the middle of a segment has guessed where its first record starts; that is proven by the
    splits before it, so only what follows from a segment's beginning without a gap counts.
    """
    findings = layout_findings(plan)
    findings += [finding for report in files for finding in report.findings]
    findings += [Finding("UNREADABLE", r.file.path, 0, r.file.size, detail=r.failed) for r in files if r.failed]
    for report in _proven(plan, splits):
        findings += report.findings
    parted = [text.partition(": ") for text in failed]
    findings += [Finding("UNREADABLE", path, detail=why) for path, _, why in parted]
    return Unfinished(
        store=plan.root,
        version=__version__,
        crc_engine=crc.ENGINE,
        started_ms=plan.started_ms,
        seconds=(time.time_ns() // 1_000_000 - plan.started_ms) / 1000,
        settings=list(plan.config.settings),
        findings=condense(findings),
        reading=reading,
        failed=[*failed, *(report.failed for report in files if report.failed)],
    )


def _proven(plan: AuditPlan, splits: Mapping[Split, SplitReport]) -> list[SplitReport]:
    proven: list[SplitReport] = []
    for segment in plan.segments:
        known: list[SplitReport] = []
        for split in (s for s in plan.splits if s.path == segment.path):
            if split not in splits:
                break
            try:
                known = stitch([*known[-1:], splits[split]], _not_now) if known else [splits[split]]
            except UnreadableError:
                break
            proven.append(known[-1])
    return proven


def _not_now(split: Split, begin: WalkState) -> SplitReport:
    """Refuse to walk a split again: there is no time."""
    raise UnreadableError(f"{split.path}: not looked at again from {begin.position}")

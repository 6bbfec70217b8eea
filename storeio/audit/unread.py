"""What could not be read: of such parts of the log neither records nor damage are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storeio.audit.plan import AuditPlan
from storeio.audit.split import SplitReport
from storeio.checks.segments import LogView
from storeio.findings import Finding
from storeio.scan import failed_since
from storeio.splits import Split


def unread_splits(plan: AuditPlan, reports: Sequence[SplitReport]) -> list[Split]:
    """Return the splits of the plan that have no report."""
    known = {(report.split.path, report.split.start) for report in reports}
    return [split for split in plan.splits if (split.path, split.start) not in known]


def add_unread(view: LogView, unread: Sequence[Split]) -> None:
    """Have a view know of what was not read: nothing intact is known there, and no end of a segment is missed."""
    holes = [(split.base_offset + split.start, split.base_offset + split.stop) for split in unread]
    view.holes = sorted([*view.holes, *holes])
    paths = {split.path for split in unread}
    view.findings = [f for f in view.findings if f.code != "LOG_BLANK_MISSING" or f.path not in paths]


def unreadable(failed: Iterable[str]) -> list[Finding]:
    """Return findings of what could not be read, told as ``PATH: why``."""
    parted = [text.partition(": ") for text in failed]
    return [Finding("UNREADABLE", path, detail=why) for path, _, why in parted]


def untold(plan: AuditPlan, findings: Iterable[Finding]) -> list[str]:
    """Return what could not be read of files of which no finding tells that: something was judged without it."""
    told = {finding.path for finding in findings if finding.code == "UNREADABLE"}
    return [text for text in failed_since(plan.listing) if text.partition(": ")[0] not in told]

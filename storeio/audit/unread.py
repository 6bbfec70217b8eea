"""Parts of the log that could not be read: neither records nor damage are known of them."""

from __future__ import annotations

from collections.abc import Sequence

from storeio.audit.plan import AuditPlan
from storeio.audit.split import SplitReport
from storeio.checks.segments import LogView
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

"""What only records tell of queues that are gone, and that has to be known before they can be judged."""

from __future__ import annotations

from collections.abc import Sequence

from storeio.audit.facts import all_told, with_told
from storeio.audit.plan import AuditPlan
from storeio.audit.split import SplitReport, audit_split
from storeio.audit.stitching import stitch


def learned(plan: AuditPlan, reports: Sequence[SplitReport]) -> AuditPlan:
    """Return the plan by which a store must be audited again, or the same plan if the reports hold.

    Args:
        plan: By which the splits were audited.
        reports: Of the splits that could be read, in order.
    """
    if with_told(plan, all_told(report.told for report in reports)) is plan:
        return plan
    true = stitch(reports, lambda split, begin: audit_split(plan, split, begin), [])
    return with_told(plan, all_told(report.told for report in true))

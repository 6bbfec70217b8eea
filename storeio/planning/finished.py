"""The plan that a planner has made, as plain data: what it does, what of the store it leaves, and why."""

from __future__ import annotations

import time

from storeio import __version__
from storeio.errors import AuditError, UsageError
from storeio.plan import Plan
from storeio.plan.rules import check_plan
from storeio.planning.planner import Planner
from storeio.planning.summary import left_of, summary_of
from storeio.results import Audit
from storeio.simulate.predicted import Prediction


def finished(
    planner: Planner, store: str, broker: str, bytes_name: str, audits: tuple[Audit, Audit],
    starts: tuple[Prediction, Prediction], *, allow_log: bool,
) -> Plan:  # fmt: skip
    """Return the plan, after which its planner does nothing more.

    Args:
        planner: Has done its work.
        store: As it is shown.
        broker: Version that is to start.
        bytes_name: Of the file beside the plan that holds the new bytes.
        audits: Of the store as it is, and as the plan leaves it.
        starts: Of the broker, likewise.
        allow_log: Whether actions may touch the commitlog.

    Raises:
        AuditError: No apply would carry it out.
    """
    draft = planner.draft
    digest = draft.close()
    plan = Plan(
        store, __version__, time.time_ns() // 1_000_000, broker,
        bytes_name if draft.bytes_length else "", draft.bytes_length, digest,
        tuple(draft.actions), planner.settings,
        summary_of(audits[0], starts[0]), summary_of(audits[1], starts[1]),
        (
            *_withheld(planner, broker), *planner.in_place.problems, *draft.left_out.sentences(),
            *left_of(audits[1], starts[1], allow_log=allow_log),
        ),
    )  # fmt: skip
    try:
        check_plan(plan, allow_log=allow_log)
    except UsageError as error:
        raise AuditError(f"no apply would carry out what was planned: {error}") from error
    return plan


def _withheld(planner: Planner, broker: str) -> list[str]:
    """Return sentences on what was left out on purpose."""
    why = f"broker {broker} would then do more harm than it does now, because of damage that stays: salvage first"
    return [f"{what} is left as it is: {why}" for what in sorted(planner.withheld)]

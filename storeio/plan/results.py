"""What planning comes to: the plan, and the audits of the store before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from storeio.plan.model import Plan
from storeio.results import EXIT_DAMAGED, EXIT_FAILED, EXIT_SOUND, Audit

if TYPE_CHECKING:
    from storeio.simulate.predicted import Prediction

REPAIR: Final = "repair"
SALVAGE: Final = "salvage"
GOALS: Final = (REPAIR, SALVAGE)


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan. ``after`` and ``predicted_after`` look at the store as the plan would leave it; ``lost`` messages are
    in no record of it then, ``notes`` are sentences on what runs that were killed left beside it, and on donors.
    ``chosen`` tells that not all actions were wanted."""

    plan: Plan
    before: Audit
    after: Audit
    predicted_before: Prediction
    predicted_after: Prediction
    seconds: float
    goal: str = REPAIR
    allow_log: bool = False
    lost: int = 0
    notes: tuple[str, ...] = ()
    chosen: bool = False

    @property
    def cures(self) -> bool:
        """Whether the store is sound afterwards, and its broker starts without giving anything up."""
        return self.after.exit_code == EXIT_SOUND and not self.predicted_after.harms

    @property
    def exit_code(self) -> int:
        """0 where nothing has to be done; 4 where something has, or is left; 8 is added where files are unreadable."""
        if self.before.failed or self.after.failed:
            return EXIT_DAMAGED | EXIT_FAILED
        return EXIT_SOUND if not self.plan.actions and self.cures else EXIT_DAMAGED

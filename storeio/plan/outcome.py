"""What became of a plan, as plain data: the one source of text, JSON and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from storeio.plan.model import Action
from storeio.results import EXIT_CANCELLED, EXIT_REPAIRED, EXIT_SOUND

APPLIED: Final = "applied"
UNDONE: Final = "undone"
NOTHING: Final = "nothing"  # there was nothing to do
CANCELLED: Final = "cancelled"  # between two actions; can be resumed
_EXITS: Final = {APPLIED: EXIT_REPAIRED, UNDONE: EXIT_REPAIRED, NOTHING: EXIT_SOUND, CANCELLED: EXIT_CANCELLED}

DONE, LEFT = "done", "left"  # of one action


@dataclass(frozen=True, slots=True)
class Applied:
    """The first ``done`` actions are done, by this call or an earlier one that it resumed.

    ``name`` is the apply's, by which it can be undone; ``directory`` is where its backup lies; both are
    empty where nothing was to do. ``not_planned`` are the plan's sentences on what it leaves as it is.
    """

    store: str
    plan: str
    name: str
    directory: str
    outcome: str
    done: int
    actions: tuple[Action, ...]
    resumed: bool
    seconds: float
    not_planned: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The bits that the command line and the job end with."""
        return _EXITS[self.outcome]


@dataclass(frozen=True, slots=True)
class Undone:
    """The actions from ``left`` on are taken back; all of them if it is 0."""

    store: str
    name: str
    directory: str
    outcome: str
    left: int
    actions: tuple[Action, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """The bits that the command line and the job end with."""
        return _EXITS[self.outcome]

"""How a start can end before the broker serves: control flow inside the simulation, an outcome outside."""

from __future__ import annotations

from typing import Final

STARTS: Final = "starts"
REFUSES: Final = "refuses"
CRASHES: Final = "crashes"
HANGS: Final = "hangs"

# Where a start is when it ends.
CONFIG_STAGE: Final = "tables of config/"
WHEEL_STAGE: Final = "timer wheel"
LOAD_STAGE: Final = "files of log, queues and index"
RECOVERY_STAGE: Final = "recovery"
TIMER_STAGE: Final = "timer log"
DELAY_STAGE: Final = "progress of delay levels"
START_STAGE: Final = "start"


class EndError(Exception):
    """The start ends here. ``phrase`` is what the broker logs at this point, as far as it is fixed text.

    ``stage`` is empty where whoever calls knows it.
    """

    outcome = REFUSES

    def __init__(self, reason: str, phrase: str = "", path: str = "", stage: str = "") -> None:
        super().__init__(reason)
        self.reason, self.phrase, self.path, self.stage = reason, phrase, path, stage


class RefusesError(EndError):
    """``load`` answers false, and the process exits."""


class CrashesError(EndError):
    """An error leaves ``load`` or ``start``."""

    outcome = CRASHES


class HangsError(EndError):
    """``start`` never returns."""

    outcome = HANGS


class QueuesStopError(Exception):
    """A queue's file cannot be made or written. After half a minute the broker marks all queues as not writable.

    It starts, puts no unit into any queue until it is started anew, and takes no messages.
    Source: ``RunningFlags.makeLogicsQueueError``.
    """


class JavaError(Exception):
    """Where the broker's code would throw; whoever catches it there catches it here."""

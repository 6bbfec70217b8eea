"""How a start can end before the broker serves: control flow inside the simulation, an outcome outside."""

from __future__ import annotations

from typing import Final

STARTS: Final = "starts"
REFUSES: Final = "refuses"
CRASHES: Final = "crashes"
HANGS: Final = "hangs"


class EndError(Exception):
    """The start ends here. ``phrase`` is what the broker logs at this point, as far as it is fixed text."""

    outcome = REFUSES

    def __init__(self, reason: str, phrase: str = "", path: str = "") -> None:
        super().__init__(reason)
        self.reason, self.phrase, self.path = reason, phrase, path


class RefusesError(EndError):
    """``load`` answers false, and the process exits."""


class CrashesError(EndError):
    """An error leaves ``load`` or ``start``."""

    outcome = CRASHES


class HangsError(EndError):
    """``start`` never returns."""

    outcome = HANGS


class JavaError(Exception):
    """Where the broker's code would throw; whoever catches it there catches it here."""

"""What a comparison of two stores came to, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from storeio.results import EXIT_DAMAGED, EXIT_FAILED, EXIT_SOUND

DIVERGED: Final = "both are intact"
A_DAMAGED: Final = "the first is damaged"
B_DAMAGED: Final = "the second is damaged"
BOTH_DAMAGED: Final = "both are damaged"
A_ALONE: Final = "only the first has it"
B_ALONE: Final = "only the second has it"

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LogRange:
    """Physical offsets ``[start, stop)`` at which the logs differ, and why; ``first`` and ``second`` are the classes of
    the bytes there, as ``check`` has them."""

    start: int
    stop: int
    why: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class QueueDifference:
    """Queue offsets of records that one log alone has, of one queue; half-open ranges."""

    topic: str
    queue_id: int
    only_first: Ranges
    only_second: Ranges


@dataclass(frozen=True, slots=True)
class Side:
    """One of the stores: where its log begins and ends, its records, and what of its log could not be read, and why."""

    store: str
    min_physical_offset: int
    max_physical_offset: int
    records: int
    verdict: str
    unread: tuple[str, ...] = ()


@dataclass(slots=True)
class Difference:
    """A comparison. ``ranges`` are those in which the logs differ, where both should have bytes.

    ``first_difference`` is the first byte that differs, ``first_divergence`` the first one of records that are intact
    on both sides; None if there is none. ``aligned_to`` is the end of the last record that both hold, with everything
    before it where both logs have it: a slave cut there continues the other log.
    """

    version: str
    first: Side
    second: Side
    started_ms: int
    seconds: float
    compared_bytes: int
    first_difference: int | None
    first_divergence: int | None
    aligned_to: int
    ranges: list[LogRange] = field(default_factory=list)
    queues: list[QueueDifference] = field(default_factory=list)
    tool: str = "storeio"

    @property
    def verdict(self) -> str:
        """``equal``, ``prefix`` where one log goes on and nothing else differs, or ``different``."""
        if all(part.why in (A_ALONE, B_ALONE) for part in self.ranges):
            return "prefix" if self.ranges else "equal"
        return "different"

    @property
    def exit_code(self) -> int:
        """0 if the logs are equal, else 4; 8 is added where some of one could not be read."""
        code = EXIT_SOUND if self.verdict == "equal" else EXIT_DAMAGED
        return code | (EXIT_FAILED if self.first.unread or self.second.unread else EXIT_SOUND)

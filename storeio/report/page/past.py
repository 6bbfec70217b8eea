"""What earlier audits said of a store, as the tables ``runs`` and ``finding_history`` have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

RUN_COLUMNS: Final = ("run_id", "started_ms", "verdict", "errors", "warnings", "lost_messages")
SIGHTING_COLUMNS: Final = (
    "code", "severity", "path", "position", "topic", "queue_id", "first_seen_ms", "last_seen_ms", "cleared_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """One audit of the store; times in Unix ms."""

    run_id: str
    started_ms: int
    verdict: str
    errors: int
    warnings: int
    lost_messages: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding over time: ``cleared_ms`` is when it was first seen to be gone, None while it is open."""

    code: str
    severity: str
    path: str
    position: int
    topic: str | None
    queue_id: int | None
    first_seen_ms: int
    last_seen_ms: int
    cleared_ms: int | None


@dataclass(frozen=True, slots=True)
class Past:
    """Audits of one store in the order of time, and its findings: open ones first, of these the oldest."""

    runs: tuple[Run, ...]
    sightings: tuple[Sighting, ...]


def past_of(runs: Iterable[Mapping[str, Any]], sightings: Iterable[Mapping[str, Any]]) -> Past:
    """Return the history of one store from rows of both tables."""
    told = [Run(**{name: row[name] for name in RUN_COLUMNS}) for row in runs]
    seen = [Sighting(**{name: row[name] for name in SIGHTING_COLUMNS}) for row in sightings]
    seen.sort(key=lambda s: (s.cleared_ms is not None, s.severity, s.first_seen_ms, s.code, s.path, s.position))
    return Past(tuple(sorted(told, key=lambda run: (run.started_ms, run.run_id))), tuple(seen))

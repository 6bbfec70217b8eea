"""When a finding was first seen, when last, and since when it is gone: from the findings of runs, in any order.

A finding is the same one as long as code, file, position, queue and physical offset are. One that comes back is the
old row, open again. Folding the same runs once more, or in another order, changes nothing: what a run that was killed
has left out the next one adds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Moment = tuple[int, str]
"""Start of a run of the store, Unix ms, and the run's id."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run says of one store: its findings by id. Only a complete run says that there are no others."""

    moment: Moment
    is_complete: bool
    findings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """One finding over time; ``place`` are the columns that say what it is, as seen last."""

    place: Mapping[str, Any]
    first: Moment
    last: Moment
    cleared: Moment | None = None


PLACE = ("store", "code", "path", "position", "topic", "queue_id", "physical_offset")


def finding_id(row: Mapping[str, Any]) -> str:
    """Return the id of a finding, of a row of ``findings``."""
    text = json.dumps([row[name] for name in PLACE])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def folded(before: Mapping[str, History], runs: Iterable[Seen]) -> dict[str, History]:
    """Return the history of one store after the runs, each of which may be in it already."""
    runs = sorted(runs, key=lambda run: run.moment)
    known = dict(before)
    for run in runs:
        for name, place in run.findings.items():
            old = known.get(name)
            known[name] = _seen(old, place, run.moment) if old else History(place, run.moment, run.moment)
    return {name: _judged(name, row, runs) for name, row in known.items()}


def _seen(old: History, place: Mapping[str, Any], moment: Moment) -> History:
    newest = place if moment >= old.last else old.place
    return replace(old, place=newest, first=min(old.first, moment), last=max(old.last, moment))


def _judged(name: str, row: History, runs: Sequence[Seen]) -> History:
    """Return the row with the first complete run after its last sight."""
    after = [run.moment for run in runs if run.is_complete and name not in run.findings]
    after += [row.cleared] if row.cleared else []
    return replace(row, cleared=min((moment for moment in after if moment > row.last), default=None))

"""When a finding was first seen, when last, and since when it is gone: from the findings of runs, in any order.

A finding is the same one as long as code, file, position, queue and physical offset are. One that comes back is the
old row, open again. Folding the same runs once more, or in another order, changes nothing: what a run that was killed
has left out the next one adds.

A run that ran out of time may know only pieces of what is one finding of a complete run: neighbours are joined once
all is known. So what lies inside an open finding of its kind is that finding, seen again, and no new one.
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
    """One finding over time; ``place`` are the columns that say what it is, as seen last.

    Its ``length`` is that of the whole: what an incomplete run saw of it makes it no shorter.
    """

    place: Mapping[str, Any]
    first: Moment
    last: Moment
    cleared: Moment | None = None


LENGTH = "length"
KIND = ("code", "path", "topic", "queue_id")
PLACE = ("store", "code", "path", "position", "topic", "queue_id", "physical_offset")


def finding_id(row: Mapping[str, Any]) -> str:
    """Return the id of a finding, of a row of ``findings``."""
    text = json.dumps([row[name] for name in PLACE])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def folded(before: Mapping[str, History], runs: Iterable[Seen]) -> dict[str, History]:
    """Return the history of one store after the runs, each of which may be in it already."""
    runs = sorted(runs, key=lambda run: run.moment)
    known = dict(before)
    lengths = {name: _length(row.place) for name, row in known.items()}  # at the moment of the run that is looked at
    complete: Moment = (0, "")  # the last one so far: what it did not see is open no more
    for run in runs:
        if run.is_complete:
            complete = run.moment
            lengths.update((name, _length(place)) for name, place in run.findings.items())
        whole = {} if run.is_complete else _by_kind(known, lengths, run.moment, complete)
        for name, place in run.findings.items():
            old = known.get(name)
            is_new = old is None or old.first > run.moment  # what only later runs saw was not known then
            around = _around(place, whole.get(_kind(place), ())) if is_new else None
            if around is not None:
                known[around] = _seen(known[around], known[around].place, run.moment)
            else:
                known[name] = _found(old, place, run)
                lengths[name] = max(lengths.get(name, 0), _length(place))
    return {name: _judged(name, row, runs) for name, row in known.items()}


def _length(place: Mapping[str, Any]) -> int:
    return place.get(LENGTH) or 0


def _found(old: History | None, place: Mapping[str, Any], run: Seen) -> History:
    if old is None:
        return History(place, run.moment, run.moment)
    if not run.is_complete and _length(old.place) > _length(place):
        place = {**place, LENGTH: old.place[LENGTH]}  # it may be the first of the pieces
    return _seen(old, place, run.moment)


def _seen(old: History, place: Mapping[str, Any], moment: Moment) -> History:
    newest = place if moment >= old.last else old.place
    return replace(old, place=newest, first=min(old.first, moment), last=max(old.last, moment))


def _kind(place: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(place.get(name) for name in KIND)


def _by_kind(
    known: Mapping[str, History], lengths: Mapping[str, int], moment: Moment, complete: Moment
) -> dict[tuple[Any, ...], list[tuple[int, int, str]]]:
    """Return the ranges of the findings that are open when a run begins, and whose range is known."""
    found: dict[tuple[Any, ...], list[tuple[int, int, str]]] = {}
    for name, row in known.items():
        is_open = row.first <= moment and row.last >= complete and (row.cleared is None or row.cleared > moment)
        if is_open and lengths.get(name):
            start = row.place["position"]
            found.setdefault(_kind(row.place), []).append((start, start + lengths[name], name))
    return found


def _around(place: Mapping[str, Any], ranges: Iterable[tuple[int, int, str]]) -> str | None:
    """Return the id of the finding that a piece lies in."""
    if not place.get(LENGTH):
        return None
    low, high = place["position"], place["position"] + place[LENGTH]
    return next((name for start, stop, name in ranges if start <= low and high <= stop), None)


def _judged(name: str, row: History, runs: Sequence[Seen]) -> History:
    """Return the row with the first complete run after its last sight."""
    after = [run.moment for run in runs if run.is_complete and name not in run.findings]
    after += [row.cleared] if row.cleared else []
    return replace(row, cleared=min((moment for moment in after if moment > row.last), default=None))

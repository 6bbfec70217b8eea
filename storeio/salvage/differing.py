"""Records that two copies of a log hold differently, though both are intact: one is taken for the other's sake.

That is where the two say another topic, queue id or number, and a unit of its own queue says the same as the one copy's
record, and none as the other's. Of other fields units do not tell: that they differ is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from storeio.checks.ranges import Ranges
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.numbers import numbers_of
from storeio.salvage.strangers import has_unit
from storeio.salvage.survey import Survey

AT_ONCE: Final = 1 << 20  # bytes that are compared at a time
MOST_DIFFERING: Final = 1 << 10  # records; logs that part hold others from there on, and are no copies


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Intact records that another copy of the log holds with other bytes, none of which was taken."""

    copy: str
    count: int
    first: int

    @property
    def sentence(self) -> str:
        """What is to be said of it."""
        count = f"{self.count} or more" if self.count >= MOST_DIFFERING else str(self.count)
        return (
            f"{self.copy} holds intact records with other bytes, {count}, the first at {self.first}: nothing tells "
            "which copy is right, and they are as this store has them"
        )


def compared(known: Survey, theirs: Survey, both: Ranges) -> tuple[Ranges, list[int]]:
    """Return where records lie of which only the copy's are vouched for, and the places of those that nothing tells.

    Args:
        known: The log.
        theirs: Its copy.
        both: Where both hold intact bytes.
    """
    better: Ranges = []
    kept: list[int] = []
    for place in islice(_differing(known, theirs, both), MOST_DIFFERING):
        one, other = known.record(place), theirs.record(place)
        if _is_better(theirs, other, known, one, place):
            better.append((place, place + known.size_at(place)))
        elif not _is_better(known, one, theirs, other, place):
            kept.append(place)
    return better, kept


def _is_better(one: Survey, mine: log.Record | None, other: Survey, theirs: log.Record | None, place: int) -> bool:
    """Tell whether one log's record is vouched for, and the other's, which says otherwise, is not."""
    if mine is None or theirs is None or mine.size != theirs.size or _said(mine) == _said(theirs):
        return False
    return _is_vouched(one, place, mine) and not _is_vouched(other, place, theirs)


def _differing(known: Survey, theirs: Survey, both: Ranges) -> Iterator[int]:
    """Yield the places of records of which the copies hold other bytes, in order."""
    for low, high in both:
        at = low
        while at < high:
            stop = min(at + AT_ONCE, high)
            one, other = (np.frombuffer(each.read(at, stop), np.uint8) for each in (known, theirs))
            if np.array_equal(one, other):
                at = stop
                continue
            first = at + int((one != other).argmax())
            before = known.nearest.before(first)
            place = low if before is None or before.place < low else before.place + known.size_at(before.place)
            behind = place + known.size_at(place)
            if not place <= first < behind:
                break  # what lies there is no record that begins and ends where both are intact
            yield place
            at = behind


def _said(record: log.Record) -> tuple[str, int, int]:
    """Return topic, queue id and number that a record says."""
    return p.java_decode(record.topic), record.queue_id, numbers_of(record)[0]


def _is_vouched(survey: Survey, place: int, record: log.Record) -> bool:
    """Tell whether a unit of its own queue says the same as the record at a place."""
    topic, queue_id, number = _said(record)
    return has_unit(survey, (topic, queue_id), number, place)

"""Records that two copies of a log hold differently, though both are intact: one is taken for the other's sake.

That is where the two say another topic, queue id or number, and a unit of its own queue says the same as the one copy's
record, and none as the other's. Of other fields units do not tell.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def better_there(known: Survey, theirs: Survey, both: Ranges) -> Iterator[tuple[int, int]]:
    """Yield the places of records for which nothing vouches while the copy's are vouched for, and where they end.

    Args:
        known: The log.
        theirs: Its copy.
        both: Where both hold intact bytes.
    """
    for number, place in enumerate(_differing(known, theirs, both)):
        if number >= MOST_DIFFERING:
            return
        one, other = known.record(place), theirs.record(place)
        if one is None or other is None or one.size != other.size or _said(one) == _said(other):
            continue
        if _is_vouched(theirs, place, other) and not _is_vouched(known, place, one):
            yield place, place + one.size


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

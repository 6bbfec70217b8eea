"""Queue units that point behind the log's end: which of them tell that the log went on there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from storeio.audit import Concluded
from storeio.format import commitlog as log
from storeio.salvage.evidence import Unit


class Surveyed(Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""

    @property
    def concluded(self) -> Concluded: ...
    @property
    def segment_bytes(self) -> int: ...
    def units_in(self, start: int, stop: int) -> list[Unit]: ...
    def lacks(self, unit: Unit) -> bool: ...
    def read(self, start: int, stop: int) -> bytes: ...


def disbelieved(survey: Surveyed) -> Iterator[Unit]:
    """Yield the units behind the log's end that are damaged themselves.

    Those are units whose number a record has, and such that stand alone: nothing is left of what they point at, and
    more lies between them and all that is known than one lost record and the end of a segment.
    """
    size, end = survey.segment_bytes, survey.concluded.view.max_physical_offset
    units = survey.units_in(end, 2**62)
    neighbours = _in_a_row(units)
    for unit in units:
        at = unit.physical_offset
        is_near = at // size <= end // size + 1 or unit in neighbours
        is_told = (is_near and at <= end + log.MOST_RECORD_BYTES) or _holds(survey, at)
        if is_told and survey.lacks(unit):
            end = max(end, at + unit.size)
        else:
            yield unit


def _holds(survey: Surveyed, place: int) -> bool:
    """Tell whether there is something where a record's head belongs."""
    room = survey.segment_bytes - place % survey.segment_bytes
    return any(survey.read(place, place + min(log.MIN_RECORD_BYTES, room)))


def _in_a_row(units: Sequence[Unit]) -> set[Unit]:
    """Return the units next to which their queue has another one, on the same side in the log as in the queue."""
    known = {(unit.topic, unit.queue_id, unit.number): unit for unit in units}
    found: set[Unit] = set()
    for unit in units:
        after = known.get((unit.topic, unit.queue_id, unit.number + unit.messages))
        if after is not None and after.physical_offset >= unit.physical_offset + unit.size:
            found |= {unit, after}
    return found

"""Which hole of a log the tombstone of each lost message is written into."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.evidence import Unit
from storeio.salvage.fillers import Lost, least_tombstone
from storeio.salvage.holes import Hole, Want
from storeio.salvage.missing import NOWHERE, Missing, light_units, stands_for
from storeio.salvage.room import Room
from storeio.salvage.survey import Survey

NO_TIME_MS: Final = 0  # no tombstone is smaller than one without


class Tombstones:
    """The holes of a log, sorted and decided, and what each is to hold."""

    def __init__(
        self, survey: Survey, holes: Sequence[tuple[Hole, list[Unit]]], dropped: Mapping[int, log.Record]
    ) -> None:
        """Begin without tombstones.

        Args:
            survey: What is known of the damage.
            holes: Each with the units that tell what lay there.
            dropped: What the walk took for records and is none, or another one, by place.
        """
        self._survey, self._dropped = survey, dropped
        self._holes = [hole for hole, _ in holes]
        self._slots = {unit for _, slots in holes for unit in slots}
        self._rows: list[list[tuple[Want, Missing]]] = [[] for _ in holes]
        self._room = Room([
            hole.stop - hole.start - (log.BLANK_HEAD_BYTES if hole.closes else 0) for hole in self._holes
        ])  # fmt: skip
        self._batch_topics = frozenset(survey.plan.facts.batch_topics)

    def place(self, missing: Iterable[Missing]) -> list[Missing]:
        """Give all a hole, the most urgent ones first, and return those that find none."""
        return [each for each in sorted(missing, key=_urgency) if not self._place(each)]

    def place_light(self) -> None:
        """Give a hole to the lost messages of which only light queues have units: these tell where each lay.

        Which queue's own they were nothing tells, so they are in one that nobody has. Their numbers there count up.
        """
        taken = {queue.queue_id for queue in self._survey.audit.queues if queue.topic == NOWHERE}
        queue_id = next(number for number in count() if number not in taken)
        number = 0
        for unit in sorted(self._slots, key=lambda unit: unit.physical_offset):
            if unit.topic.startswith(log.LMQ_PREFIX) and self._survey.lacks(unit):
                place = unit.physical_offset
                own = unit._replace(topic=NOWHERE, queue_id=queue_id, number=number)
                missing = Missing(NOWHERE, queue_id, number, number + 1, place, place + 1, own)
                number += self._put(missing, light_only=True)

    def wants(self, number: int) -> list[Want]:
        """Return the tombstones that the hole of a number was given."""
        return [want for want, _ in self._rows[number]]

    def place_again(self, number: int) -> list[Missing]:
        """Give those another hole that found no place in one, and return those that find none; call it in order."""
        rows = _left(self._holes[number], self._rows[number])
        return [missing for missing, may_follow in rows if not may_follow or not self._place(missing, after=number)]

    def _place(self, missing: Missing, *, after: int = -1) -> bool:
        """Give a tombstone to the hole that its unit names, or to the first one that has room where it may lie.

        Only those behind the hole ``after`` are asked: its room was in pieces, and it has none left.
        """
        return (missing.unit is None or missing.unit in self._slots) and self._put(missing, after=after)

    def _put(self, missing: Missing, *, after: int = -1, light_only: bool = False) -> bool:
        unit = missing.unit
        low, high = max(missing.low, missing.behind), min(missing.high, missing.ahead)
        if unit is not None:
            low, high = unit.physical_offset, unit.physical_offset + 1
        light = self._light(unit)
        least = unit.size if unit is not None else least_tombstone(self._lost(missing, None, light))
        first = bisect_right(self._holes, low, key=lambda hole: hole.stop)
        i = self._room.following(max(first, after + 1), least)
        while i < len(self._holes) and self._holes[i].start < high:
            lost = self._lost(missing, self._holes[i], light)
            if light_only and p.MULTI_DISPATCH not in lost.properties:
                return False  # its lists have no room where it lay
            need = unit.size if unit is not None else least_tombstone(lost)
            if need <= self._room.free(i):
                place, size = (unit.physical_offset, unit.size) if unit is not None else (-1, 0)
                self._rows[i].append((Want(lost, place, size, missing.behind, missing.ahead), missing))
                self._room.take(i, need)
                return True
            i = self._room.following(i + 1, least)
        return False

    def _lost(self, missing: Missing, hole: Hole | None, light: Sequence[Unit]) -> Lost:
        """Return what a tombstone says in a hole, or, without one, the least that it can."""
        last_ms = hole.setting.store_ms if hole is not None else NO_TIME_MS
        is_delayed = hole is not None and missing.topic == log.SCHEDULE_TOPIC
        before = self._survey.nearest.before(hole.start) if hole is not None and is_delayed else None
        times_ms = (before.store_ms if before is not None else 0), last_ms
        return stands_for(missing, self._survey.plan.config.delays_ms, times_ms, self._batch_topics, light)

    def _light(self, unit: Unit | None) -> list[Unit]:
        """Return the units of light queues for the message of a unit."""
        if unit is None:
            return []
        found = self._survey.units_in(unit.physical_offset, unit.physical_offset + 1)
        light = [other for other in found if other.topic.startswith(log.LMQ_PREFIX) and other.size == unit.size]
        said = self._dropped.get(unit.physical_offset)
        if not light and said is not None:
            light = light_units(said, unit.physical_offset)
        return [other for other in light if other.queue_id == 0 and "," not in other.topic]


def _urgency(missing: Missing) -> tuple[bool, int]:
    """Tell which tombstones have to be placed first: those that have a place, then those that have to come soonest."""
    return missing.unit is None, min(missing.high, missing.ahead)


def _left(hole: Hole, rows: Sequence[tuple[Want, Missing]]) -> Iterator[tuple[Missing, bool]]:
    """Yield the tombstones for which a hole has no room, and whether none behind them in their queue lies in it."""
    unplaced = {(want.queue, want.lost.queue_offset) for want in hole.unplaced}
    last: dict[tuple[bytes, int], int] = {}
    for want, _ in rows:
        if (want.queue, want.lost.queue_offset) not in unplaced:
            last[want.queue] = max(last.get(want.queue, -1), want.lost.queue_offset)
    for want, missing in rows:
        if (want.queue, want.lost.queue_offset) in unplaced:
            yield missing, want.lost.queue_offset > last.get(want.queue, -1)

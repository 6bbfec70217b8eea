"""A damaged stretch of the log: what of it can be restored, where lost records lay, what is no record at all.

A stretch lies between intact records. Places in it at which a record may have begun are its first byte, those that
surviving queue units point at, and those whose eight bytes for the physical offset name the place itself. At each, in
order, a record is restored where one answer is left; else a unit tells how long the lost record was; else the next
place is tried.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels import search
from storeio.salvage.evidence import (
    Known,
    Restored,
    Unit,
    enters_queue,
    has_readable_numbers,
    is_likely,
    is_text,
    property_crc_agrees,
    whole_record,
)
from storeio.salvage.fillers import LEAST_BYTES
from storeio.salvage.going_on import GoingOn
from storeio.salvage.hypotheses import wrong_fields
from storeio.salvage.numbers import numbers_of
from storeio.salvage.restore import restored
from storeio.salvage.stretches import RECORD, Stretch
from storeio.salvage.survey import Survey
from storeio.salvage.tries import formula

AT_ONCE: Final = 4 << 20
# Bytes of records that are looked into, for each byte of a stretch and besides. Records that were there lay behind one
# another; what only looks like some, as in the body of another, may overlap as often as one likes.
TIMES_TRIED: Final = 4
BESIDES_TRIED: Final = 16 << 20
MOST_PLACES: Final = AT_ONCE // log.MIN_RECORD_BYTES


@dataclass(frozen=True, slots=True)
class Fixed:
    """A restored record and where it begins."""

    start: int
    restored: Restored

    @property
    def stop(self) -> int:
        """Behind its last byte."""
        return self.start + len(self.restored.raw)


@dataclass(slots=True)
class Judged:
    """What a stretch holds, in order. ``stop`` is where intact records go on: behind the stretch's own where records
    behind it turned out to lie in the body of a lost one, ``by_unit`` if nothing but a queue unit told its length."""

    stretch: Stretch
    stop: int
    fixed: list[Fixed] = field(default_factory=list)
    slots: list[Unit] = field(default_factory=list)
    forged: list[tuple[int, log.Record]] = field(default_factory=list)
    by_unit: bool = False


def judge(survey: Survey, stretch: Stretch) -> Judged:
    """Return what a stretch holds."""
    return _Judge(survey, stretch).run()


class _Judge:
    """One stretch while it is looked at."""

    def __init__(self, survey: Survey, stretch: Stretch) -> None:
        self.survey, self.stretch = survey, stretch
        self.limit = stretch.start - stretch.start % survey.segment_bytes + survey.segment_bytes
        self.units: dict[int, list[Unit]] = {}  # by the place at which they point
        for unit in survey.units_in(stretch.start, stretch.stop):
            self.units.setdefault(unit.physical_offset, []).append(unit)
        self.behind = GoingOn(survey, stretch.stop, self.limit)
        self.found = Judged(stretch, stretch.stop)
        self.lost = survey.lost_in(stretch.start, stretch.stop)
        last = survey.last_record()
        self.untried = dict.fromkeys((True, False), TIMES_TRIED * (stretch.stop - stretch.start) + BESIDES_TRIED)
        self.near_ms = last.store_timestamp_ms if last is not None else None

    def run(self) -> Judged:
        """Go through the places at which a record may begin."""
        places = self.places()
        at = self.stretch.start
        for i, place in enumerate(places):
            if place < at:
                continue
            follower = places[i + 1] if i + 1 < len(places) else self.stretch.stop
            units = self.units.get(place, [])
            fixed = self.fixed(place, follower, units)
            if fixed is not None:
                self.found.fixed.append(fixed)
                at = fixed.stop
            elif (slot := self.slot(units)) is not None:
                self.found.slots.append(slot)
                at = place + slot.size
        if at > self.stretch.stop:
            slot = self.found.slots[-1] if self.found.slots else None
            self.found.by_unit = slot is not None and slot.physical_offset + slot.size == at
            self.covered(at)
        elif at == self.stretch.start and self.stretch.behind == RECORD and self.is_false_start():
            self.covered(self.behind.stop())
        return self.found

    def is_false_start(self) -> bool:
        """Tell whether what seems to go on behind a hole lies in the body of a record that was lost in it.

        No record fits into a hole that is too small for one, and where all records have a property CRC, one without
        is none. But what a queue knows of is no body; and a hole that is only the rest of what a unit told is as small
        as that unit's size is wrong.
        """
        size = self.survey.size_at(self.stretch.stop)
        raw = self.survey.read(self.stretch.stop, self.stretch.stop + size)
        if self.with_property_crc(besides=1) and property_crc_agrees(raw) is None:
            return True
        is_small = self.stretch.stop - self.stretch.start < LEAST_BYTES
        return is_small and not self.behind.is_known(by_number=self.stretch.is_rest)

    def places(self) -> list[int]:
        """Return where records may begin, sorted."""
        start, stop = self.stretch.start, self.stretch.stop
        return sorted({start, *self.units, *self_named(self.survey, start, stop)})

    def fixed(self, place: int, follower: int, units: list[Unit]) -> Fixed | None:
        """Return the record that can be restored at a place."""
        head = self.survey.read(place, min(self.limit, place + log.BORN_HOST_AT))
        if not any(head) or len(head) < log.BORN_HOST_AT:
            return None
        asked: list[Unit | None] = [unit for unit in units if wrong_fields(head, unit.size, place, unit) <= 2]
        if not units:
            asked.append(None)
        elif not asked:
            return None
        ends = {unit: dict(self.ends(head, place, follower, unit)) for unit in asked}
        if not self.may_try(sum(size for sizes in ends.values() for size in sizes), pointed_at=bool(units)):
            return None
        reach = max((size for sizes in ends.values() for size in sizes), default=0)
        data = self.survey.read(place, min(self.limit, place + reach))
        answers, before = set(), self.survey.nearest.before(place)
        before_ms = before.store_ms if before is not None else None
        for unit, sizes in ends.items():
            known = Known(
                place, tuple(sizes.items()), unit, self.missing(place), property_crc=self.with_property_crc(),
                before_ms=before_ms, near_ms=self.near_ms,
            )  # fmt: skip
            found = restored(data, known)
            if found is None or not self.is_readable(found):
                continue
            if unit is None and self.is_whole(place):
                continue
            if not self.repeats(found) or (unit is not None and len(found.changes) == 1):
                answers.add(Fixed(place, found))
        return answers.pop() if len(answers) == 1 else None

    def is_readable(self, found: Restored) -> bool:
        """Tell whether a record's properties are such as clients write, or as they were: else two fields are lost."""
        is_habit = self.survey.damaged_properties is None
        return is_habit or is_text(found.record.properties) or property_crc_agrees(found.raw) is True

    def may_try(self, count: int, *, pointed_at: bool) -> bool:
        """Tell whether so many bytes more are looked into, of records that units point at or of all others.

        What only looks like records must not use up what those need that were there.
        """
        fits = count <= self.untried[pointed_at]
        self.untried[pointed_at] -= count if fits else 0
        return fits

    def repeats(self, found: Restored) -> bool:
        """Tell whether an intact record has the number of one that no unit points at, and no property CRC vouches for.

        It is what an earlier life of the log left there, or the copy of a record of another place.
        """
        record = found.record
        if not enters_queue(record) or property_crc_agrees(found.raw):
            return False
        number, queue = numbers_of(record)[0], (p.java_decode(record.topic), record.queue_id)
        return not self.survey.lacks(Unit(*queue, number, record.physical_offset, record.size, 0))

    def is_whole(self, place: int) -> bool:
        """Tell whether nothing is wrong with the record that stands at a place, but that it is older than those around.

        It is what an earlier life of the log left there. To give it the topic or the number of a lost message is to
        make one up.
        """
        size = self.survey.size_at(place)
        record = whole_record(self.survey.read(place, place + size)) if size <= log.MOST_RECORD_BYTES else None
        if record is None or record.physical_offset != place or not has_readable_numbers(record):
            return False
        return is_likely(record, self.near_ms)

    def ends(self, head: bytes, place: int, follower: int, unit: Unit | None) -> Iterator[tuple[int, str]]:
        """Yield the sizes that a record at a place may have: those that lead to where another one may begin.

        Without its body being read: in garbage any place may name itself, and sizes may be anything.
        """
        if unit is not None:
            yield unit.size, "queue unit"
            return
        yield follower - place, "start of what follows"
        room = min(self.limit - place, log.MOST_RECORD_BYTES)
        told = formula(lambda start, stop: self.survey.read(place + start, place + stop), room)
        for size in {int(struct.unpack_from(">i", head)[0]), told}:
            if log.MIN_RECORD_BYTES <= size <= room and self.is_start(place + size):
                yield size, "start of what follows"

    def is_start(self, place: int) -> bool:
        """Tell whether something begins at a place behind this one: a record, a blank one, or the log's free tail."""
        if place < self.stretch.stop:
            zeros = self.survey.read(place, min(self.limit, place + log.MIN_RECORD_BYTES))
            return self.stretch.tail and not any(zeros)
        return self.behind.has_start(place)

    def slot(self, units: list[Unit]) -> Unit | None:
        """Return the unit that tells of a lost record here; units that contradict each other tell nothing."""
        fitting = [unit for unit in units if unit.physical_offset + unit.size <= self.limit - log.BLANK_HEAD_BYTES]
        own = [unit for unit in fitting if not unit.topic.startswith(log.LMQ_PREFIX)] or fitting
        missing = [unit for unit in own if self.survey.lacks(unit)]
        best = missing or own
        return best[0] if len({unit.size for unit in best}) == 1 and self.behind.may_lie_in(best[0]) else None

    def missing(self, place: int) -> dict[tuple[str, int], range]:
        """Return the numbers that are missing where a place lies, by topic and queue id."""
        found: dict[tuple[str, int], range] = {}
        for part in self.lost:
            if part.physical_start <= place < part.physical_stop:
                known = found.get((part.topic, part.queue_id), range(part.first_queue_offset, part.stop_queue_offset))
                first = min(known.start, part.first_queue_offset)
                found[part.topic, part.queue_id] = range(first, max(known.stop, part.stop_queue_offset))
        return found

    def with_property_crc(self, besides: int = 0) -> bool:
        """Tell whether the records of this log have a property CRC, all of them, or all but so many."""
        checks = self.survey.audit.checks
        count = checks.get("property_crc", 0)
        return checks.get("records", 0) - besides <= count and count > besides

    def covered(self, stop: int) -> None:
        """Take the records away that lie in the body of one that was lost or restored."""
        for at, record in self.behind.until(stop):
            self.found.forged.append((at, record))
            stop = max(stop, at + record.size)
        self.found.stop = stop


def self_named(survey: Survey, start: int, stop: int) -> Iterator[int]:
    """Yield the places in a range of the log whose bytes for the physical offset name them."""
    room = np.empty(MOST_PLACES, np.int64)
    for low in range(start, stop, AT_ONCE):
        high = min(low + AT_ONCE, stop)
        limit = low - low % survey.segment_bytes + survey.segment_bytes
        data = np.frombuffer(survey.read(low, min(high + log.BORN_HOST_AT, limit)), np.uint8)
        count = int(search.self_named(data, low, high - low, room))
        yield from (room[:count] + low).tolist()

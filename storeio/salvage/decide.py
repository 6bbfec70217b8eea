"""All of a log decided: which bytes stay, which are restored, what is written where messages were lost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from storeio.checks.ranges import Ranges, meeting, merged
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels import tables as w
from storeio.salvage import holes
from storeio.salvage.doubts import ELSEWHERE, Doubts
from storeio.salvage.evidence import Unit, enters_queue, is_host
from storeio.salvage.fillers import LEAST_BYTES, NOBODY, Bytes, Setting
from storeio.salvage.holes import Hole, Patch, TooSmallError, filled, joined_holes
from storeio.salvage.missing import Missing, missing_of
from storeio.salvage.numbers import lost_after, numbers_of
from storeio.salvage.other_queue import in_its_queue
from storeio.salvage.regions import Fixed, Judged, judge
from storeio.salvage.stretches import END, RECORD, bases, beyond, stretches
from storeio.salvage.survey import Survey
from storeio.salvage.tombstones import Tombstones
from storeio.salvaged import TOMBSTONES, DroppedRecord

UNKNOWN: Final = Setting(0)  # of a hole, until everything around it is decided
IN_A_BODY: Final = "lies in the body of another message"
BESIDE_TOO_LITTLE: Final = "stands next to bytes that are too few for a record, and brokers cannot pass them"


@dataclass(slots=True)
class Decision:
    """What becomes of a log. Patches are sorted and do not overlap; everything else stays as it is.

    ``first`` and ``stop`` bound the log, ``segments`` are the physical offsets at which its files begin. ``tight`` are
    holes that no record fits into.
    """

    first: int = 0
    stop: int = 0
    segments: list[int] = field(default_factory=list)
    patches: list[Patch] = field(default_factory=list)
    fixed: list[Fixed] = field(default_factory=list)
    dropped: list[DroppedRecord] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    unplaced: list[Missing] = field(default_factory=list)
    tight: list[str] = field(default_factory=list)


def decide(survey: Survey, *, losses: str = TOMBSTONES) -> Decision:
    """Return what becomes of a log.

    Args:
        survey: What is known of its damage.
        losses: ``tombstones`` for records that take the numbers of lost messages, ``gaps`` for none.
    """
    return _Decider(survey, losses).run()


class _Decider:
    """One decision while it is made."""

    def __init__(self, survey: Survey, losses: str) -> None:
        self.survey, self.losses = survey, losses
        self.made = Decision()
        self.holes: list[tuple[Hole, list[Unit]]] = []
        self.covered: Ranges = []  # what was decided before records that something speaks against
        self.gone: list[tuple[int, log.Record]] = []  # what the walk took for records and is none, or another one
        self.doubts = Doubts(survey)
        self.batch_topics = frozenset(survey.plan.facts.batch_topics)

    def run(self) -> Decision:
        """Decide it all."""
        survey, made = self.survey, self.made
        if not survey.concluded.view.segments or not survey.audit.log.records:
            self._lost(survey.units)
            made.unplaced = made.missing  # there is no log in which records could stand in for them
            return made
        made.first = survey.concluded.view.min_physical_offset
        judged = list(self._judged())
        made.stop = max([survey.concluded.view.max_physical_offset, *(_content_stop(each) for each in judged)])
        for each in judged:
            made.fixed += each.fixed
            made.dropped += [self._forged(*one) for one in each.forged]
            self._free(each)
        self._doubted()
        self._blank_sizes()
        self._widen()
        self._lost([unit for _, slots in self.holes for unit in slots])
        self._fill()
        for fixed in made.fixed:
            made.patches.append(Patch(fixed.start, holes.RESTORED, Bytes(fixed.restored.raw, 0, b"")))
        made.patches.sort(key=lambda patch: patch.physical_offset)
        size = survey.segment_bytes
        there = len(survey.concluded.view.segments)
        made.segments = list(bases(made.first - made.first % size, made.stop, size, there=there))
        return made

    def _judged(self) -> Iterator[Judged]:
        """Yield what each stretch holds; what turned out to belong to the one before it is left out."""
        covered, by_unit = 0, False
        for stretch in (*stretches(self.survey), *beyond(self.survey)):
            if stretch.stop > covered:
                is_rest = by_unit and stretch.start < covered
                found = judge(self.survey, replace(stretch, start=max(stretch.start, covered), is_rest=is_rest))
                covered, by_unit = found.stop, found.by_unit
                found.fixed = [in_its_queue(self.survey, self.doubts.support, fixed) for fixed in found.fixed]
                yield found

    def _forged(self, at: int, record: log.Record) -> DroppedRecord:
        self.gone.append((at, record))
        return DroppedRecord(at, record.size, IN_A_BODY if record.physical_offset == at else ELSEWHERE)

    def _free(self, judged: Judged) -> None:
        """Remember the holes of a stretch: what lies between its restored records."""
        stretch, size = judged.stretch, self.survey.segment_bytes
        segment = stretch.start - stretch.start % size
        at = stretch.start
        for fixed in judged.fixed:
            if fixed.start > at:
                self._hole(at, fixed.start, segment, closes=False, slots=judged.slots)
            at = fixed.stop
        closes = stretch.behind != RECORD and judged.stop == stretch.stop
        stop = segment + size if closes else judged.stop
        if not stretch.tail or (stop < self.made.stop and closes):
            if at < stop or (closes and stretch.behind == END):
                self._hole(at, stop, segment, closes=closes, slots=judged.slots)
            return
        end = max(at, min(self.made.stop, segment + size))
        if end > at:
            self._hole(at, end, segment, closes=False, slots=judged.slots)
        if self.survey.holds_something(end, segment + size):
            self.made.patches.append(Patch(end, holes.ZEROS, Bytes(b"", segment + size - end, b"")))

    def _hole(self, start: int, stop: int, segment: int, *, closes: bool, slots: Sequence[Unit]) -> None:
        """Remember a hole and which of the slots, which are in order, lie in it."""
        if stop <= start and not closes:
            return
        low = bisect_left(slots, start, key=lambda slot: slot.physical_offset)
        inside = slots[low : bisect_left(slots, stop, low, key=lambda slot: slot.physical_offset)]
        inside = [slot for slot in inside if slot.physical_offset + slot.size <= stop]
        self.holes.append((Hole(start, stop, segment, segment + self.survey.segment_bytes, closes, UNKNOWN), inside))

    def _setting(self, hole: Hole, fixed: Sequence[Fixed], gone: Container[int]) -> Setting:
        """Return time and host of the next record behind a hole, intact or restored, else of the last one."""
        place = hole.stop
        record = self.survey.record_from(place)
        if place in self.survey.leaping and place not in gone:
            record = self._beside(hole, record) or record
        i = bisect_left(fixed, place, key=lambda one: one.start)
        if i < len(fixed) and (record is None or fixed[i].start <= record.physical_offset):
            record = fixed[i].restored.record
        crc = self.survey.audit.checks.get("property_crc", 0) > 0
        if (near := record or self.survey.last_record()) is None:
            return Setting(1, NOBODY, crc)
        if record is None and fixed and fixed[-1].start > near.physical_offset:
            near = fixed[-1].restored.record
        return Setting(max(near.store_timestamp_ms, 1), near.store_host, crc)

    def _beside(self, hole: Hole, behind: log.Record | None) -> log.Record | None:
        """Return the record right behind a hole if its time leaps only beside that of what lay there."""
        record, before = self.survey.record(hole.stop), self.survey.nearest.before(hole.start)
        if record is None or before is None or behind is None or not is_host(record.store_host):
            return None
        return record if before.store_ms <= record.store_timestamp_ms <= behind.store_timestamp_ms else None

    def _doubted(self) -> None:
        """Decide on accepted records that something speaks against: restored, dropped, or left as they are."""
        spans = [(hole.start, hole.stop) for hole, _ in self.holes]
        self.covered = merged(spans + [(fixed.start, fixed.stop) for fixed in self.made.fixed])
        stop = 0
        for place in sorted(self.survey.doubts):
            if place < stop or self._covers(place) or (answer := self.doubts.answer(place)) is None:
                continue
            stop = place + answer.record.size
            self.gone.append((place, answer.record))
            if answer.fixed is not None:
                self.made.fixed.append(answer.fixed)
                continue
            self.made.dropped.append(DroppedRecord(place, answer.record.size, answer.why))
            self._hole(place, stop, place - place % self.survey.segment_bytes, closes=False, slots=answer.units)

    def _blank_sizes(self) -> None:
        """Give blank records the true rest of their segments."""
        size = self.survey.segment_bytes
        for segment in self.survey.concluded.view.segments:
            spans = segment.spans
            if not spans.shape[1] or spans[w.SPAN_CLASS, -1] != w.BLANK or segment.base >= self.made.stop:
                continue
            place = segment.base + int(spans[w.SPAN_START, -1])
            head = log.encode_blank(segment.base + size - place)
            if self.survey.read(place, place + len(head)) != head and not self._covers(place):
                self.made.patches.append(Patch(place, holes.BLANK, Bytes(head, 0, b"")))

    def _widen(self) -> None:
        """Take the record behind a hole along that is too small for one: brokers end the log at what nothing covers.

        Instead of it the one in front, if that stands alone between holes, and no unit speaks for it.
        """
        fixed = {one.start for one in self.made.fixed}
        by_place = sorted((hole for hole, _ in self.holes), key=lambda hole: hole.start)
        joined = [hole for hole, _ in joined_holes((hole, []) for hole in by_place)]
        starts, stops = {hole.start for hole in joined}, {hole.stop for hole in joined}
        for hole in joined:
            place = hole.stop
            tight = not hole.closes and hole.stop - hole.start < LEAST_BYTES and place not in fixed
            record = self.survey.record(place) if tight else None
            if record is None:
                continue
            alone = self._alone_before(hole.start, stops) if place + record.size not in starts else None
            if alone is not None:
                place, record = alone.physical_offset, alone
            number, count = numbers_of(record)
            unit = Unit(p.java_decode(record.topic), record.queue_id, number, place, record.size, 0, count)
            self.gone.append((place, record))
            self.made.dropped.append(DroppedRecord(place, record.size, BESIDE_TOO_LITTLE))
            slots = [unit] if enters_queue(record) and alone is None else []
            self._hole(place, place + record.size, hole.segment_start, closes=False, slots=slots)

    def _alone_before(self, stop: int, stops: Container[int]) -> log.Record | None:
        """Return the record that ends at a place and begins where a hole ends, if no unit speaks for it."""
        before = self.survey.nearest.before(stop)
        record = self.survey.record(before.place) if before is not None and before.place in stops else None
        if record is None or record.physical_offset + record.size != stop:
            return None
        topic, number = p.java_decode(record.topic), numbers_of(record)[0]
        known = self.survey.number_of(topic, record.queue_id, record.physical_offset, number) == number
        return None if known else record

    def _covers(self, place: int) -> bool:
        return bool(meeting(self.covered, place, place + 1))

    def _lost(self, units: list[Unit]) -> None:
        """Tell which messages are missing; units are those of records that are not there."""
        made, survey = self.made, self.survey
        now = [(fixed.start, fixed.restored.record) for fixed in made.fixed]
        lost = lost_after(survey.lost, survey.concluded.runs, survey.concluded.view, (self.gone, now), units)
        made.missing = list(missing_of(lost, units, self.batch_topics))

    def _fill(self) -> None:
        """Cover all holes."""
        fixed, gone = sorted(self.made.fixed, key=lambda one: one.start), dict(self.gone)
        joined = joined_holes(sorted(self.holes, key=lambda row: row[0].start))
        self.holes = [(replace(hole, setting=self._setting(hole, fixed, gone)), slots) for hole, slots in joined]
        tombstones = Tombstones(self.survey, self.holes, gone)
        self.made.unplaced += tombstones.place(self.made.missing) if self.losses == TOMBSTONES else self.made.missing
        if self.losses == TOMBSTONES:
            tombstones.place_light()
        for i, (hole, _) in enumerate(self.holes):
            hole.wants = tombstones.wants(i)
            try:
                self.made.patches += filled(hole)
            except TooSmallError as error:
                self.made.tight.append(str(error))
            self.made.unplaced += tombstones.place_again(i)


def _content_stop(judged: Judged) -> int:
    """Return where what a stretch of the tail holds ends, 0 where it holds nothing or is not of the tail."""
    if not judged.stretch.tail:
        return 0
    stops = [fixed.stop for fixed in judged.fixed]
    stops += [slot.physical_offset + slot.size for slot in judged.slots]
    return max(stops, default=0)

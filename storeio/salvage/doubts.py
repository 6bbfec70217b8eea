"""Records that brokers accept and that something speaks against: is it the record, and can it be restored?

A queue unit that points at a record and says something else is only believed where the log has no other record of its
number and the record does not follow on from its neighbours: else it is the unit that is damaged, or its file lies in
a wrong place. A property CRC that agrees vouches for all of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from storeio.checks.marks import OTHER_LEVEL, TWO_NUMBERS
from storeio.checks.numbering import MISFIT, STRANGER
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.at_the_end import GOES_ON
from storeio.salvage.bare import WITHOUT_CRC
from storeio.salvage.batches import Batches
from storeio.salvage.copies import COPY
from storeio.salvage.evidence import (
    Known,
    Restored,
    Stored,
    Unit,
    agrees,
    enters_queue,
    has_fitting_level,
    is_host,
    is_name,
    is_text,
    property_crc_agrees,
    whole_record,
)
from storeio.salvage.key_words import KeyWords
from storeio.salvage.names import is_no_text, names_for
from storeio.salvage.numbers import numbers_of
from storeio.salvage.regions import Fixed
from storeio.salvage.restore import restored
from storeio.salvage.support import Support
from storeio.salvage.survey import Survey
from storeio.salvage.times import Times

HEAD_DAMAGED: Final = "its head is damaged, and nothing tells what stood there"
ELSEWHERE: Final = "is the copy of a message of another place"
MOST_IN_HOLES: Final = 1 << 12  # units that are asked for a number that nobody has


@dataclass(frozen=True, slots=True)
class Answer:
    """A record that is not as it was: as it was read, and restored, or lost; ``units`` tell its true number."""

    record: log.Record
    fixed: Fixed | None
    units: Sequence[Unit]
    why: str = HEAD_DAMAGED


class Doubts:
    """Judges the doubtful records of one survey."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self._key_words = KeyWords(survey, (*(survey.damaged_properties or ()), *survey.without_keys))
        self._times = Times(survey)
        self.support = Support(survey)
        self._batches = Batches(survey, self.support)

    def answer(self, place: int) -> Answer | None:
        """Return what became of the record at a place, None where it is to be left as it is.

        Args:
            place: Its physical offset.
        """
        raw = self.survey.read(place, place + self.survey.size_at(place))
        record = whole_record(raw)
        if record is None:
            return None
        if property_crc_agrees(raw):
            return None if record.physical_offset == place else self._copy(place, record)
        if self._is_copy(place, record, raw):
            return self._copy(place, record)
        numbers = self._numbers(place, record)
        mended = self._batches.mended(place, record, raw, numbers) or self._key_words.mended(place, record, raw)
        if mended is not None:
            return Answer(record, self._and_the_rest(mended, numbers), ())
        return None if self._batches.is_sound(place, record) else self._weighed(place, record, raw, numbers)

    def _and_the_rest(self, mended: Fixed, numbers: dict[tuple[str, int], range]) -> Fixed:
        """Return a record of which one field was given its bytes back with those of another one, if that is wrong too.

        What was found out about its properties, or its number, is over.
        """
        place, one = mended.start, mended.restored
        answer = self._weighed(place, one.record, one.raw, numbers, is_mended=True)
        if answer is None or answer.fixed is None:
            return mended
        both = answer.fixed.restored
        evidence = tuple(dict.fromkeys((*one.evidence, *both.evidence)))
        return Fixed(place, replace(both, changes=(*one.changes, *both.changes), evidence=evidence))

    def _weighed(
        self, place: int, record: log.Record, raw: bytes, numbers: dict[tuple[str, int], range], *,
        is_mended: bool = False,
    ) -> Answer | None:  # fmt: skip
        """Return what became of a record, by what was found out about its fields, and what its units say.

        Of one that ``is_mended`` already, the properties are as they were.
        """
        units, topic = self._units(place, record, numbers), p.java_decode(record.topic)
        own = self.survey.number_of(topic, record.queue_id, place, record.queue_offset)
        vouched = 0 <= own == record.queue_offset
        sure, plain = not is_mended and self._is_sure(place), self._is_plain(record, place, vouched=vouched)
        stored = self._times.of(place, record) if place in self.survey.leaping else None
        leaps = stored is not None and not stored.holds(record.store_timestamp_ms)
        good = plain and not sure and not leaps and is_name(topic) and not self._is_said(place, OTHER_LEVEL)
        has_own = vouched and not self._is_said(place, GOES_ON)
        if good and not units and (has_own or self.support.is_inner(record, place)):
            return None  # before its neighbours are looked for, which takes longer than all of this
        known = replace(self._known(place, record, units, numbers, stored if leaps else None), is_vouched=vouched)
        if (good or is_mended) and agrees(raw, known) is not None:
            return None
        harmless = plain and not sure and not units and not is_no_text(topic)
        found = _restored(raw, known, is_sure=sure, is_harmless=harmless)
        if found is not None:
            return Answer(record, Fixed(place, found), units)
        if harmless:
            return None
        return Answer(record, None, units[:1] or self._lost_with(place, record, own))

    def _known(
        self, place: int, record: log.Record, units: Sequence[Unit], numbers: dict[tuple[str, int], range],
        stored: Stored | None,
    ) -> Known:  # fmt: skip
        """Return what is known of the record at a place; ``stored`` is when it was, if it says otherwise."""
        before = self.survey.nearest.before(place)
        near = self.survey.record_from(place + record.size) or self.survey.last_record()
        topic = p.java_decode(record.topic)
        return Known(
            place, ((record.size, "its own size"),), units[0] if len(units) == 1 else None, numbers,
            before_ms=before.store_ms if before is not None else None,
            near_ms=near.store_timestamp_ms if near is not None else None, stored=stored,
            store_host=self._store_host(place, record.size), is_stranger=self._is_said(place, STRANGER),
            property_crc=self._is_said(place, WITHOUT_CRC),
            topics=names_for(self.survey, self.support, place, record) if not is_name(topic) else (),
        )  # fmt: skip

    def answers(self) -> Iterator[tuple[int, Answer]]:
        """Yield the records that are not as they were, in order: the physical offset, and what became of each."""
        for place in sorted(self.survey.doubts):
            if (answer := self.answer(place)) is not None:
                yield place, answer

    def _store_host(self, place: int, size: int) -> bytes | None:
        """Return the store host that the intact records before and behind a record name, None where they differ."""
        before = self.survey.nearest.before(place)
        near = (self.survey.record(before.place) if before is not None else None, self.survey.record_from(place + size))
        hosts = {record.store_host.encode() for record in near if record is not None and is_host(record.store_host)}
        return next(iter(hosts)) if len(hosts) == 1 else None

    def _lies_at(self, place: int, raw: bytes) -> bool:
        """Tell whether the same record lies at another place."""
        room = self.survey.segment_bytes - place % self.survey.segment_bytes
        return 0 <= place < 2**62 and len(raw) <= room and self.survey.read(place, place + len(raw)) == raw

    def _is_copy(self, place: int, record: log.Record, raw: bytes) -> bool:
        """Tell whether a record is one of another place, of which this one has a copy."""
        if record.physical_offset != place and self._lies_at(record.physical_offset, raw):
            return True
        return self._is_said(place, COPY) or self._stands_elsewhere(place, record, raw)

    def _stands_elsewhere(self, place: int, record: log.Record, raw: bytes) -> bool:
        """Tell whether the unit of a record's number points at another place, where the same record lies.

        It differs in its place alone: given another number, too, it would be a message that nobody sent.
        """
        if (unit := self.survey.unit_of(p.java_decode(record.topic), record.queue_id, record.queue_offset)) is None:
            return False
        other, size = unit.physical_offset, self.survey.segment_bytes
        if other == place or unit.size != len(raw) or other % size + len(raw) > size:
            return False
        there = self.survey.read(other, other + len(raw))
        behind = log.PHYSICAL_OFFSET_AT + 8
        return there[: log.PHYSICAL_OFFSET_AT] == raw[: log.PHYSICAL_OFFSET_AT] and there[behind:] == raw[behind:]

    def _copy(self, place: int, record: log.Record) -> Answer:
        """Return that an intact record, which belongs elsewhere, is not what lay at this place."""
        units = [unit for unit in self.survey.units_in(place, place + record.size) if self.survey.lacks(unit)]
        return Answer(record, None, units, ELSEWHERE)

    def _units(self, place: int, record: log.Record, numbers: dict[tuple[str, int], range]) -> list[Unit]:
        """Return the units that point at a record, have a number that no record has, and know better than the record.

        Those of light queues are none: a record says another topic than they, and has no number there. Nor is one of
        another queue than a delayed message's level and its queue id both say.
        """
        found = [unit for unit in self.survey.units_in(place, place + 1) if not unit.topic.startswith(log.LMQ_PREFIX)]
        if has_fitting_level(record):
            said = log.SCHEDULE_TOPIC, record.queue_id
            found = [unit for unit in found if (unit.topic, unit.queue_id) == said]
        units = [unit for unit in found if unit.size == record.size and self.survey.lacks(unit)]
        topic = p.java_decode(record.topic)
        own = self.survey.number_of(topic, record.queue_id, place, record.queue_offset)
        unit = Unit(topic, record.queue_id, own, place, record.size, 0)
        # Between units that agree with their records it is right, behind the queue's last record, too.
        fits = any(row.code == "LOG_UNIT_DISAGREES" for row in self.survey.doubts.get(place, ()))
        fits |= numbers_of(record)[0] < 0  # which no record has
        missing = own in numbers.get((topic, record.queue_id), ()) or (fits and self.survey.lacks(unit))
        if own >= 0 and own != record.queue_offset and missing:
            units.append(unit)
        number = numbers_of(record)[0]
        has_own = own == record.queue_offset or any(
            other.number == number for other in self.survey.batch_units(topic, record.queue_id, place)
        )
        has_own &= enters_queue(record)  # else the unit contradicts it
        believed = (one for one in units if self.support.is_believed(one, record, place, has_own=has_own))
        return list({(unit.topic, unit.queue_id, unit.number): unit for unit in believed}.values())

    def _lost_with(self, place: int, record: log.Record, own: int) -> list[Unit]:
        """Return the unit that says the same as a record that is lost; that of a batch says how many messages it had.

        ``own`` is the number of the unit in its queue that points at it, -1 for none.
        """
        said = p.java_decode(record.topic), record.queue_id, record.queue_offset
        for unit in self.survey.units_in(place, place + 1):
            if (unit.topic, unit.queue_id, unit.number) == said and unit.size == record.size:
                return [unit]
        if own == record.queue_offset:
            return [Unit(*said, place, record.size, 0)]
        return [unit for unit in self.survey.batch_units(*said[:2], place) if unit.size == record.size]

    def _is_said(self, place: int, words: str) -> bool:
        """Tell whether something was found out about the record at a place, told by these words."""
        return any(words in row.detail for row in self.survey.doubts[place])

    def _is_sure(self, place: int) -> bool:
        """Tell whether a record's properties are damaged beyond doubt: not where odd ones are somebody's habit."""
        codes = {finding.code for finding in self.survey.doubts[place]}
        return "LOG_PROPERTY_CRC" in codes or place in (self.survey.damaged_properties or ())

    def _is_plain(self, record: log.Record, place: int, *, vouched: bool) -> bool:
        """Tell whether a record's fields are all such as brokers write at a place; not whether its number fits.

        That it is none of its queue counts for nothing where a unit says the same as it, which is ``vouched`` for.
        """
        about_number = (MISFIT, TWO_NUMBERS, OTHER_LEVEL, *((STRANGER,) if vouched else ()))
        rows = (row for row in self.survey.doubts[place] if row.code == "LOG_FIELD")
        field = any(not any(words in row.detail for words in about_number) for row in rows)
        return record.physical_offset == place and not field

    def _numbers(self, place: int, record: log.Record) -> dict[tuple[str, int], range]:
        """Return the numbers that neighbours say belong here: missing ones, and those of records that fit nowhere.

        That of a record whose flag says that it has none is no chance if it is the next one of its queue, and nothing
        else says that it is of a transaction.
        """
        found = {
            (part.topic, part.queue_id): range(part.first_queue_offset, part.stop_queue_offset)
            for part in self.survey.lost_in(place, place + 1)
        }
        for row in self.survey.doubts.get(place, ()):
            number = row.queue_offset
            if MISFIT in row.detail and row.topic is not None and row.queue_id is not None and number is not None:
                number = self._free_number(row.topic, row.queue_id, number, place)
                found[row.topic, row.queue_id] = range(number, number + 1)
        queue, number = (p.java_decode(record.topic), record.queue_id), record.queue_offset
        is_plain = not record.prepared_transaction_offset and p.TRANSACTION not in p.parse(record.properties)
        if number and not enters_queue(record) and is_plain and self.support.ends_at(*queue, place) == number:
            found.setdefault(queue, range(number, number + 1))
        return found

    def _free_number(self, topic: str, queue_id: int, number: int, place: int) -> int:
        """Return a number, or the next one that no unit gives to what lay in a hole in front of a place."""
        for free in range(number, number + MOST_IN_HOLES):
            unit = self.survey.unit_of(topic, queue_id, free)
            at, stop = (unit.physical_offset, unit.physical_offset + unit.size) if unit is not None else (place, place)
            if stop > place or not self.survey.concluded.view.is_damaged(at, stop):
                return free
        return number


def _restored(raw: bytes, known: Known, *, is_sure: bool, is_harmless: bool) -> Restored | None:
    """Return a record with the fields that what is known of it tells, None where that fits no record.

    Args:
        raw: Its bytes.
        known: What is known of it.
        is_sure: Its properties are damaged beyond doubt: what is restored is to have readable ones.
        is_harmless: It may be left as it is.
    """
    crc = property_crc_agrees(raw)
    found = restored(raw, known)
    if found is not None and crc is None and is_sure and not is_text(found.record.properties):
        found = None  # it is not what is damaged beyond doubt
    if found is None and known.unit is not None and crc is False:
        found = restored(raw, replace(known, unit=None))  # the property CRC knows better
    if found is None and (crc is not None or not is_sure) and known.stored is not None and not is_harmless:
        found = restored(raw, replace(known, stored=None))  # another field may be damaged besides
    return found

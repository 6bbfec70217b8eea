"""Inner batches that brokers accept and that something speaks against: what they say twice tells which is damaged.

Their number stands in the head and in the properties, how many messages they have in these and in the body.

Source: ``CommitLog.asyncPutMessages``, ``MessageDecoder.countInnerMsgNum``.
"""

from __future__ import annotations

from collections.abc import Mapping

from storeio.checks.numbering import MISFIT, STRANGER
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.evidence import Change, Restored, body_messages, property_crc_agrees
from storeio.salvage.numbers import has_number_twice, numbers_of
from storeio.salvage.regions import Fixed
from storeio.salvage.support import Support
from storeio.salvage.survey import Survey


class Batches:
    """Judges the doubtful inner batches of one survey."""

    def __init__(self, survey: Survey, support: Support) -> None:
        self._survey, self._support = survey, support

    def is_sound(self, place: int, record: log.Record) -> bool:
        """Tell whether all that speaks against a batch, which says its number twice, is what others take.

        How many messages those have stands in each once. That it is no record of its queue its unit there denies.
        """
        if not has_number_twice(record):
            return False
        said = self._survey.batch_units(p.java_decode(record.topic), record.queue_id, place)
        has_unit = any((unit.number, unit.size) == (record.queue_offset, record.size) for unit in said)
        rows = self._survey.doubts[place]
        return all(MISFIT in row.detail or (has_unit and STRANGER in row.detail) for row in rows)

    def mended(
        self, place: int, record: log.Record, raw: bytes, missing: Mapping[tuple[str, int], range]
    ) -> Fixed | None:
        """Return a batch with the number or the count of messages that it had, None where nothing tells of another.

        A property CRC, which tells of each byte, is left to decide for itself.

        Args:
            place: Its physical offset.
            record: As it was read.
            raw: Its bytes.
            missing: The numbers that belong there, by topic and queue id.
        """
        if property_crc_agrees(raw) is not None:
            return None
        if record.queue_offset != numbers_of(record)[0]:
            return self._with_one_number(place, record, raw, missing)
        return self._with_its_count(place, record, raw)

    def _with_one_number(
        self, place: int, record: log.Record, raw: bytes, missing: Mapping[tuple[str, int], range]
    ) -> Fixed | None:
        """Return a batch with one number, whose head has another than its properties.

        It is the one that the unit has, or else that fits to the neighbours in the queue.
        """
        topic, number, in_head = p.java_decode(record.topic), numbers_of(record)[0], record.queue_offset
        said = self._survey.batch_units(topic, record.queue_id, place)
        units = {unit.number for unit in said if unit.size == record.size}
        expected = missing.get((topic, record.queue_id), range(0))
        told_by = "queue unit" if {number, in_head} & units else "queue offsets of its neighbours"
        follows_on = self._support.is_inner(record, place) or self._support.begins(record, place)
        if number in units or (in_head not in units and follows_on):
            new = number.to_bytes(8, "big", signed=True)
            return _changed(place, raw, "queue_offset", log.QUEUE_OFFSET_AT, new, "its other number", told_by)
        if in_head in units or expected == range(in_head, in_head + 1):
            return _with_property(place, record, raw, p.INNER_BASE, in_head, "its other number", told_by)
        return None

    def _with_its_count(self, place: int, record: log.Record, raw: bytes) -> Fixed | None:
        """Return a batch that says how many messages it has: as its body does, or its unit and who follows it."""
        first, count = record.queue_offset, p.java_short(p.parse(record.properties).get(p.INNER_NUM, ""))
        if count is None:
            return None
        if (held := body_messages(record)) is not None:
            return (
                _with_property(place, record, raw, p.INNER_NUM, held, "messages in its body") if held != count else None
            )
        topic = p.java_decode(record.topic)
        said = self._survey.batch_units(topic, record.queue_id, place)
        for unit in (unit for unit in said if (unit.number, unit.size) == (first, record.size)):
            if unit.messages != count and self._support.follows(topic, record.queue_id, place, first + unit.messages):
                told_by = "queue unit", "queue offsets of its neighbours"
                return _with_property(place, record, raw, p.INNER_NUM, unit.messages, *told_by)
        return None


def _with_property(place: int, record: log.Record, raw: bytes, name: str, number: int, *evidence: str) -> Fixed | None:
    """Return a record with another number in one of its properties, None where that is longer or shorter."""
    start, stop = p.value_place(record.properties, name)
    new, at = b"%d" % number, len(raw) - len(record.properties) + start
    return _changed(place, raw, "properties", at, new, *evidence) if 0 < stop - start == len(new) else None


def _changed(place: int, raw: bytes, field: str, at: int, new: bytes, *evidence: str) -> Fixed:
    whole = raw[:at] + new + raw[at + len(new) :]
    change = Change(field, at, raw[at : at + len(new)], new)
    return Fixed(place, Restored(whole, log.decode_record(whole), (change,), evidence))

"""What seems to go on behind a damaged stretch: intact records, or what lies in the body of one that was lost."""

from __future__ import annotations

from collections.abc import Iterator

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.evidence import Unit, whole_record
from storeio.salvage.numbers import numbers_of
from storeio.salvage.survey import Survey


class GoingOn:
    """The records from a place on, one behind the other; ``limit`` is where their segment ends."""

    def __init__(self, survey: Survey, start: int, limit: int) -> None:
        self.survey, self.start, self.limit = survey, start, limit
        self._starts = [start]  # of records, as far as they were asked for; the last is where they end, or may

    def until(self, stop: int) -> Iterator[tuple[int, log.Record]]:
        """Yield the records that begin before a place, and where."""
        at = self.start
        while at < stop and (record := self._record(at)) is not None:
            yield at, record
            at += record.size

    def has_start(self, place: int) -> bool:
        """Tell whether one of them begins at a place that is no more than a record behind the first, or they end."""
        while self._starts[-1] < place <= self.start + log.MOST_RECORD_BYTES:
            record = self.survey.record(self._starts[-1])
            if record is None:
                break
            self._starts.append(self._starts[-1] + record.size)
        return place in self._starts

    def stop(self) -> int:
        """Return where they end, the first one's start if they do not end amid damage soon."""
        at = self.start
        while at <= self.start + log.MOST_RECORD_BYTES:
            record = self.survey.record(at)
            if record is None:
                head = self.survey.read(at, min(at + log.BLANK_HEAD_BYTES, self.limit))
                return at if any(head) and head != log.encode_blank(self.limit - at) else self.start
            at += record.size
        return self.start

    def may_lie_in(self, unit: Unit) -> bool:
        """Tell whether a lost record may reach over those that begin in it: none has a unit, nor does it end amid one.

        What lies in a body ends in it.
        """
        stop = unit.physical_offset + unit.size
        if self.survey.nearest.start_from(stop) == stop and self.survey.record(stop) is None:
            return False
        return not any(self._has_unit(record, at) for at, record in self.until(stop))

    def is_known(self, *, by_number: bool) -> bool:
        """Tell whether one of them, up to where they end amid damage, has a unit.

        With ``by_number`` one that follows on from another in its queue will do.
        """
        for at, record in self.until(self.stop()):
            before = Unit(p.java_decode(record.topic), record.queue_id, numbers_of(record)[0] - 1, at, record.size, 0)
            if self._has_unit(record, at) or (by_number and not self.survey.lacks(before)):
                return True
        return False

    def _record(self, place: int) -> log.Record | None:
        """Return the record at a place, which may be an intact one that says another place."""
        if (record := self.survey.record(place)) is not None or (size := self.survey.size_at(place)) == 0:
            return record
        return whole_record(self.survey.read(place, place + min(size, log.MOST_RECORD_BYTES)))

    def _has_unit(self, record: log.Record, place: int) -> bool:
        """Tell whether the queue that a record names has its unit."""
        topic = p.java_decode(record.topic)
        if self.survey.number_of(topic, record.queue_id, place, record.queue_offset) == record.queue_offset:
            return True
        return bool(self.survey.batch_units(topic, record.queue_id, place))

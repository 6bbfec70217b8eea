"""When records were stored, by all but what they say themselves: neighbours, index, queues that keep times.

Source: ``IndexFile.putKey`` for seconds; ``BatchConsumeQueue`` and ``ConsumeQueueExt`` for units with store times.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit.split import index_reader
from storeio.checks.index_stretch import pieces_of
from storeio.checks.locate import decode
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.format import queueext
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT
from storeio.salvage.evidence import NEARBY_MS, Stored
from storeio.salvage.survey import Survey

STRETCH_BYTES: Final = 16 << 20  # of the log, of which the index units are looked at together
POINTING: Final = ("physical_offset", "key_hash", "seconds")
SECOND_MS: Final = 1000

Numbers = npt.NDArray[np.int64]
IndexUnit = tuple[int, int | None, int | None]
"""A key's hash, and the first and last millisecond of its second; None where they are not known.

No seconds at all also stand for a time before that of the file: they only tell the last one.
"""


def index_units(known: Survey, places: Numbers) -> dict[int, list[IndexUnit]]:
    """Return the index units that point at records, by the place of the record; ``places`` are sorted and unique."""
    found: dict[int, list[IndexUnit]] = {}
    files, read_units = known.plan.index, index_reader(known.plan)
    for near in np.split(places, np.flatnonzero(np.diff(places // STRETCH_BYTES)) + 1) if len(places) else ():
        for piece in pieces_of(files, read_units, int(near[0]), int(near[-1]) + 1):
            begin = files[piece.file_no].begin_timestamp_ms
            units = piece.units[np.isin(piece.units["physical_offset"].astype(np.int64), near)]
            for place, key, seconds in zip(*(units[name].tolist() for name in POINTING), strict=True):
                first = begin + SECOND_MS * seconds
                is_told = begin > 0 and seconds >= 0
                unit = key, first if is_told and seconds else None, first + SECOND_MS - 1 if is_told else None
                found.setdefault(place, []).append(unit)
    return found


class Times:
    """Bounds of the store times of records whose own leap out of those around them.

    Neighbours that leap themselves bound nothing: of two that contradict each other either may be right.
    """

    def __init__(self, known: Survey) -> None:
        self._known = known
        self._units = index_units(known, np.array(sorted(known.leaping), np.int64))

    def of(self, place: int, record: log.Record) -> Stored:
        """Return what bounds the store time of the record at a place; nothing is between bounds that contradict."""
        before = self._known.nearest.before(place)
        first_ms = before.store_ms if before is not None and before.place not in self._known.leaping else None
        bounds = Stored(first_ms, self._behind(place + record.size, first_ms), ("neighbours' times",))
        for _, first, last in self._units.get(place, ()):
            if last is not None:
                bounds = bounds.within(first, last, "seconds in the index")
        for told_ms in self._told(place, record):
            bounds = bounds.within(told_ms, told_ms, "time in its queue")
        return bounds

    def _behind(self, after: int, first_ms: int | None) -> int | None:
        """Return the store time of the record at a place; where a hole begins, of the one behind it if that is near."""
        if after in self._known.leaping:
            return None
        if (record := self._known.record(after)) is not None:
            return record.store_timestamp_ms
        far = self._known.record_from(after)
        is_near = far is not None and first_ms is not None and far.store_timestamp_ms - first_ms <= NEARBY_MS
        return far.store_timestamp_ms if far is not None and is_near else None

    def _told(self, place: int, record: log.Record) -> Iterator[int]:
        """Yield the times that a record's batch unit and its ext unit say; of files that cannot be read nothing."""
        for kind in (BATCHQUEUE, CONSUMEQUEUE):
            with contextlib.suppress(UnreadableError):
                yield from self._in_queue(kind, place, record)

    def _in_queue(self, kind: str, place: int, record: log.Record) -> Iterator[int]:
        topic, read = p.java_decode(record.topic), self._known.plan.read
        queue = self._known.plan.queue(kind, topic, record.queue_id)
        number = self._known.standing_at(topic, record.queue_id, place, kind)
        if number < 0:
            return
        data, _ = queue.read(read, number * queue.unit_bytes, (number + 1) * queue.unit_bytes)
        unit = decode(queue, data)
        if int(unit["size"][0]) != record.size:
            return
        if kind == BATCHQUEUE:
            yield int(unit["store_timestamp_ms"][0])
        elif queueext.is_address(unit["tags_code"])[0]:
            position = int(queueext.position_of(unit["tags_code"])[0])
            ext = self._known.plan.queue(QUEUE_EXT, topic, record.queue_id)
            data, absent = ext.read(read, position, position + queueext.HEAD_BYTES)
            head = data.view(queueext.HEAD)[0]
            if not absent and int(head["size"]) == int(head["bitmap_length"]) + queueext.HEAD_BYTES:
                yield int(head["store_timestamp_ms"])

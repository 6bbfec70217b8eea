"""Which records are wanted: whole-array tests over a walked split first, then the record itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.dispatch import enters_queue
from storeio.format import commitlog as log
from storeio.format import properties as props
from storeio.inspect.views import RecordView
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.walk import Walked

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

LIMIT: Final = 2**62  # bounds of offsets and times, so that sums with 32-bit numbers stay in 64 bits


@dataclass(frozen=True, slots=True)
class Filter:
    """What a record has to be; None asks for nothing. Ranges are inclusive at both ends.

    A topic that is a light queue's (``%LMQ%…``) stands for the records dispatched to it. Queue
    offsets ask for what a consumer sees there, so for no prepared or rolled-back records.
    """

    topic: str | None = None
    queue_id: int | None = None
    queue_offsets: tuple[int, int] | None = None
    tag: str | None = None
    key: str | None = None
    unique_key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_light(self) -> bool:
        """Whether the topic is a light queue."""
        return self.topic is not None and self.topic.startswith(log.LMQ_PREFIX)

    def rows(self, walked: Walked) -> Numbers:
        """Return the rows of a walked split that may match: none that does is missing."""
        table = walked.records
        mask = np.ones(table.shape[1], dtype=np.bool_)
        if self.since_ms is not None:
            mask &= table[w.R_STORE_MS] >= _clamped(self.since_ms)
        if self.until_ms is not None:
            mask &= table[w.R_STORE_MS] <= _clamped(self.until_ms)
        if self.topic is not None or self.queue_id is not None:
            mask &= self._in_queue(walked)
        if self.queue_offsets is not None:
            mask &= self._at_offsets(table)
        if self.tag is not None:
            is_tag = table[w.R_TAGS_CODE] == props.java_hash(self.tag)
            mask &= is_tag | ((table[w.R_MARKS] & w.MARK_SCHEDULED) != 0)
        for kind, key in ((t.KEYS, self.key), (t.UNIQUE_KEY, self.unique_key)):
            if key is not None:
                mask &= _has_key(walked, kind, key)
        return np.flatnonzero(mask)

    def _in_queue(self, walked: Walked) -> Mask:
        """Tell which records are of the topic and queue, or may be dispatched there."""
        table = walked.records
        wanted = np.array(
            [
                self.topic in (None, props.java_decode(topic)) and self.queue_id in (None, queue_id)
                for topic, queue_id in walked.queues
            ],
            dtype=np.bool_,
        )
        mask: Mask = wanted[table[w.R_QUEUE]] if len(wanted) else np.zeros(table.shape[1], dtype=np.bool_)
        if self.is_light:
            mask |= (table[w.R_MARKS] & w.MARK_MULTI) != 0
        return mask

    def _at_offsets(self, table: Numbers) -> Mask:
        """Tell which records take one of the queue offsets."""
        assert self.queue_offsets is not None
        mask: Mask = enters_queue(table[w.R_SYS_FLAG])
        if self.is_light:
            return mask
        first, last = (_clamped(offset) for offset in self.queue_offsets)
        base = table[w.R_BATCH_BASE]
        return mask & (base <= last) & (base > first - np.maximum(table[w.R_BATCH_SIZE], 1))

    def matches(self, view: RecordView) -> bool:
        """Tell whether a record is wanted; a field that could not be read matches nothing."""
        pairs = view.properties or {}
        return (
            (self.tag is None or pairs.get(props.TAGS) == self.tag)
            and (self.unique_key is None or pairs.get(props.UNIQUE_KEY) == self.unique_key)
            and (self.key is None or self.key in pairs.get(props.KEYS, "").split(" "))
            and self._in_time(view.store_timestamp_ms)
            and self._in_place(view)
        )

    def _in_time(self, store_ms: int | None) -> bool:
        if self.since_ms is None and self.until_ms is None:
            return True
        if store_ms is None:
            return False
        return (self.since_ms is None or store_ms >= self.since_ms) and (
            self.until_ms is None or store_ms <= self.until_ms
        )

    def _in_place(self, view: RecordView) -> bool:
        """Tell whether one of the queue places that the record takes is wanted."""
        if self.topic is None and self.queue_id is None and self.queue_offsets is None:
            return True
        if self.queue_offsets is not None and not is_queued(view):
            return False
        return any(self._is_place(*place) for place in places_of(view, light=self.is_light))

    def _is_place(self, topic: str | None, queue_id: int | None, base: int | None, count: int) -> bool:
        if self.topic not in (None, topic) or self.queue_id not in (None, queue_id):
            return False
        if self.queue_offsets is None:
            return True
        first, last = self.queue_offsets
        return base is not None and base <= last and base + max(count, 1) > first


def is_queued(view: RecordView) -> bool:
    """Tell whether a record enters a queue: it is neither prepared nor rolled back."""
    return view.sys_flag is not None and view.sys_flag & log.SYS_TRANSACTION in (0, log.SYS_COMMIT)


def places_of(view: RecordView, *, light: bool) -> list[tuple[str | None, int | None, int | None, int]]:
    """Return the queue places of a record: topic, queue id, first queue offset, count; light queues' on request."""
    base = view.queue_offset if view.base_queue_offset is None else view.base_queue_offset
    found = [(view.topic, view.queue_id, base, view.batch_size or 1)]
    if light:
        pairs = view.properties or {}
        names = props.java_split(pairs.get(props.MULTI_DISPATCH, ""), ",")
        items = props.java_split(pairs.get(props.MULTI_QUEUE_OFFSET, ""), ",")
        if len(names) == len(items) and props.MULTI_DISPATCH in pairs and props.MULTI_QUEUE_OFFSET in pairs:
            found += [(name, 0, _number(item), 1) for name, item in zip(names, items, strict=True)]
    return found


def _number(text: str) -> int | None:
    """Return an offset as the broker parses it; nothing that is longer than any offset is looked at."""
    return props.java_long(text) if len(text) <= 40 else None


def _has_key(walked: Walked, kind: int, key: str) -> Mask:
    """Tell by its hash which records may have a key; rolled-back ones have none listed, so all of them may."""
    mask: Mask = (walked.records[w.R_SYS_FLAG] & log.SYS_TRANSACTION) == log.SYS_ROLLBACK
    if not walked.keys.shape[1]:
        return mask
    hashes = np.array([props.key_hash(f"{props.java_decode(topic)}#{key}") for topic, _ in walked.queues], np.int64)
    of_record = hashes[walked.records[w.R_QUEUE, walked.keys[1]]]
    hit = (walked.keys[2] == kind) & (walked.keys[0] == of_record)
    mask[walked.keys[1, hit]] = True
    return mask


def _clamped(number: int) -> int:
    return max(-LIMIT, min(number, LIMIT))

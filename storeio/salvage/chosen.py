"""Messages chosen by queue, time and queue offset: what is not chosen becomes fillers in the new log.

A queue keeps everything between its first and its last chosen message, so that its numbers follow on from each other;
it begins at the first one, as a queue does whose older messages retention deleted. Prepared and rolled back messages,
which are in no queue, are chosen one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.audit.walks import walks
from storeio.dispatch import enters_queue
from storeio.format import properties as props
from storeio.kernels import tables as w
from storeio.paths import is_named
from storeio.safe import OPEN_END
from storeio.salvage.fillers import NOBODY, Setting
from storeio.salvage.holes import Patch, fillers_over
from storeio.walk import Walked

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

LIMIT: Final = 2**62  # of what is compared, so that sums with 32-bit numbers stay in 64 bits


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are wanted: all that meet every condition that is given. Ranges are inclusive at both ends.

    ``queues`` are topics, or topic and queue id, as the log has them; ``deleted`` asks for topics that were deleted.
    """

    queues: frozenset[tuple[str, int | None]] | None = None
    deleted: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    queue_offsets: tuple[int, int] | None = None

    def sentence(self) -> str:
        """Return what is asked for, in words; empty for everything."""
        words = [
            topic if number is None else f"{topic}/{number}" for topic, number in sorted(self.queues or (), key=str)
        ]
        found = [f"queues {', '.join(words) or 'none'}"] if self.queues is not None else []
        found += [f"stored at {self.since_ms} or later"] if self.since_ms is not None else []
        found += [f"stored at {self.until_ms} or earlier"] if self.until_ms is not None else []
        if self.queue_offsets is not None:
            first, last = self.queue_offsets
            found.append(f"queue offsets {first} to {last if last < OPEN_END else 'the end'}")
        return "; ".join(found)

    def names(self, topic: str, queue_id: int) -> bool:
        """Tell whether a queue is wanted, whatever its messages."""
        return is_named(self.queues, topic, queue_id)

    def rows(self, walked: Walked) -> Mask:
        """Tell which records of a walked split are wanted."""
        table = walked.records
        named = np.array([self.names(*name) for name in _names(walked)], np.bool_)
        mask: Mask = named[table[w.R_QUEUE]] if len(named) else np.zeros(walked.count, np.bool_)
        if self.since_ms is not None:
            mask &= table[w.R_STORE_MS] >= min(self.since_ms, LIMIT)
        if self.until_ms is not None:
            mask &= table[w.R_STORE_MS] <= min(self.until_ms, LIMIT)
        if self.queue_offsets is not None:
            first, last = (min(max(offset, -LIMIT), LIMIT) for offset in self.queue_offsets)
            mask &= (_stops(table) > first) & (table[w.R_BATCH_BASE] <= last)
        return mask


def _stops(table: Numbers) -> Numbers:
    """Return the queue offset behind each record."""
    found: Numbers = table[w.R_BATCH_BASE] + np.maximum(table[w.R_BATCH_SIZE], 1)
    return found


Kept = dict[tuple[str, int], tuple[int, int]]
"""First queue offset that is kept of each queue, by topic and queue id, and the one behind the last."""


def kept_of(plan: AuditPlan, choice: Choice) -> Kept:
    """Return what is kept of each queue of a sound log."""
    kept: Kept = {}
    for walked in walks(plan):
        _spread(kept, walked, choice.rows(walked) & enters_queue(walked.records[w.R_SYS_FLAG]))
    return kept


def covered(plan: AuditPlan, choice: Choice, kept: Kept) -> Iterator[tuple[Patch, Numbers]]:
    """Yield the fillers over what is not kept, in order, and the physical offsets of the records that each covers.

    Of a run that takes several, the first has them all. What was yielded may be written: it is not read again.
    """
    for walked in walks(plan):
        queued = enters_queue(walked.records[w.R_SYS_FLAG])
        yield from _covered(walked, ~np.where(queued, _between(walked, kept), choice.rows(walked)))


def _names(walked: Walked) -> list[tuple[str, int]]:
    return [(props.java_decode(topic), number) for topic, number in walked.queues]


def _spread(kept: Kept, walked: Walked, mask: Mask) -> None:
    """Widen what is kept of each queue by the chosen records of a split."""
    table, names = walked.records, _names(walked)
    for number in np.unique(table[w.R_QUEUE, mask]).tolist():
        rows = mask & (table[w.R_QUEUE] == number)
        low, high = int(table[w.R_BATCH_BASE, rows].min()), int(_stops(table)[rows].max())
        old = kept.get(names[number], (low, high))
        kept[names[number]] = min(old[0], low), max(old[1], high)


def _between(walked: Walked, kept: Kept) -> Mask:
    """Tell which records lie within what is kept of their queue."""
    bounds = np.array([kept.get(name, (0, 0)) for name in _names(walked)], np.int64).reshape(-1, 2)
    queue = walked.records[w.R_QUEUE]
    low, high = bounds[queue, 0], bounds[queue, 1]
    inside: Mask = (walked.records[w.R_BATCH_BASE] < high) & (_stops(walked.records) > low)
    return inside


def _covered(walked: Walked, out: Mask) -> Iterator[tuple[Patch, Numbers]]:
    """Yield what ``covered`` does, for one split."""
    table, base = walked.records, walked.split.base_offset
    rows = np.flatnonzero(out)
    if not len(rows):
        return
    starts = table[w.R_POSITION, rows]
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(starts) != table[w.R_SIZE, rows[:-1]])) + 1
    for run in np.split(rows, breaks):
        low = int(table[w.R_POSITION, run[0]])
        high = int(table[w.R_POSITION, run[-1]] + table[w.R_SIZE, run[-1]])
        crc = bool(table[w.R_MARKS, run[0]] & w.MARK_HAS_PROPERTY_CRC)
        setting = Setting(max(int(table[w.R_STORE_MS, run[0]]), 1), NOBODY, crc)
        offsets = base + table[w.R_POSITION, run]
        for i, patch in enumerate(fillers_over(base + low, base + high, setting)):
            yield patch, offsets if i == 0 else offsets[:0]

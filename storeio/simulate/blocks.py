"""Dispatch of many records at once: a block's units are appended to each queue, its keys to the index.

Does what ``Broker.dispatch`` does for one record after the other, for records in which nothing is
unusual: each lies where it says, in log order, and names a queue and numbers that need no second look.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.dispatch import Implied, implied_units
from storeio.format import commitlog as log
from storeio.kernels import place
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.paths import CONSUMEQUEUE
from storeio.simulate.broker import Broker
from storeio.simulate.consumequeue import UNIT, ConsumeQueue
from storeio.simulate.index import IndexFile
from storeio.simulate.java import MAX_LONG, quotient
from storeio.walk import Walked

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LATEST_MS: Final = 2**43  # the year 2248; later times are damage, and arithmetic with them may wrap
UNUSUAL: Final = (
    w.MARK_PHYSICAL | w.MARK_QUEUE_OFFSET | w.MARK_LENGTH | w.MARK_TIME | w.MARK_TEXT | w.MARK_INNER_BATCH
)  # fmt: skip
MOST_NAME_BYTES: Final = 200  # longer topics may be names that no file system takes
FEW: Final = 16  # records for which a block is not worth its setting up


class Blocks:
    """Dispatches blocks of records to one broker's queues and index."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._unusual = UNUSUAL | (w.MARK_MULTI if broker.setup.multi_dispatch else 0)
        self._free: dict[tuple[bytes, int], bool] = {}
        self._takes = broker.index.units > 1 and broker.index.slots > 0 and not broker.index.obstacle

    def runs(self, walked: Walked, first: int, stop: int) -> list[tuple[int, int, bool]]:
        """Return runs of records as (first, stop, whether ``dispatch`` takes them)."""
        if first >= stop:
            return []
        usual = (walked.records[w.R_MARKS, first:stop] & self._unusual) == 0
        usual &= walked.records[w.R_STORE_MS, first:stop] < LATEST_MS
        usual &= self._plain(walked, first, stop)[walked.records[w.R_QUEUE, first:stop]]
        edges = [0, *(np.flatnonzero(usual[1:] != usual[:-1]) + 1).tolist(), stop - first]
        return [(first + a, first + b, bool(usual[a]) and b - a >= FEW) for a, b in pairwise(edges)]

    def _plain(self, walked: Walked, first: int, stop: int) -> Mask:
        """Tell of each queue whether its units stand alone; those of a topic with inner batches may not."""
        flags = walked.records[w.R_SYS_FLAG, first:stop]
        batched = np.unique(walked.records[w.R_QUEUE, first:stop][(flags & log.SYS_INNER_BATCH) != 0])
        topics = {walked.queues[number][0] for number in batched.tolist()}
        return np.array([self._takes and q[0] not in topics and self._is_plain(q) for q in walked.queues], bool)

    def _is_plain(self, queue: tuple[bytes, int]) -> bool:
        if queue not in self._free:
            self._free[queue] = is_plain_name(queue[0]) and self._is_free(queue[0].decode(), queue[1])
        return self._free[queue] and self.broker.is_plain(queue[0].decode(), queue[1])

    def _is_free(self, topic: str, queue_id: int) -> bool:
        """Tell whether nothing is in the way of a queue's files."""
        disk, path = self.broker.disk, f"{CONSUMEQUEUE}/{topic}/{queue_id}"
        taken = any(disk.is_file(part) for part in (CONSUMEQUEUE, f"{CONSUMEQUEUE}/{topic}", path))
        return not taken and not any(entry.is_dir for entry in disk.entries(path))

    def dispatch(self, walked: Walked, first: int, stop: int) -> None:
        """Dispatch the records from ``first`` on."""
        part = replace(walked, records=walked.records[:, first:stop])
        for implied in implied_units(part):
            put_units(self.broker, implied)
        self.broker.dispatched.records += stop - first
        if self.broker.setup.index_enabled:
            self._add_keys(walked, first, stop)

    def _add_keys(self, walked: Walked, first: int, stop: int) -> None:
        """Add the keys of a block's records. Source: ``IndexService.buildIndex``."""
        index = self.broker.index
        offsets = walked.records[w.R_POSITION, first:stop] + walked.split.base_offset
        known = int(np.searchsorted(offsets, index.last().end_offset))
        start, end = np.searchsorted(walked.keys[1], (first + known, stop)).tolist()
        keys = walked.keys[:, start:end]
        if not index.rules.tag_keys:
            keys = keys[:, keys[2] != t.TAGS]
        rows = keys[1] - first
        waiting = np.empty(len(rows), place.KEY)
        waiting["key_hash"], waiting["physical_offset"] = keys[0], offsets[rows]
        waiting["store_timestamp_ms"] = walked.records[w.R_STORE_MS, first:stop][rows]
        at = 0
        while at < len(rows):
            at = self._fill(index.last(), waiting, at)
        if len(rows) and int(rows[-1]) < len(offsets) - 1:
            index.last()  # the next record makes a new file behind a full one, whether it has keys or not

    def _fill(self, file: IndexFile, keys: npt.NDArray[np.void], at: int) -> int:
        """Put keys into a file that has room, from the key ``at`` on; return the first that is left."""
        index = self.broker.index
        if not 0 <= file.begin_ms < LATEST_MS:
            index.put(file, *keys[at].tolist())
            return at + 1
        slots_end = place.HEADER_BYTES + 4 * index.slots
        head = index.disk.pin(file.path, slots_end)
        known = (file.begin_ms, file.end_ms, file.begin_offset, file.end_offset, file.slots, file.count)
        numbers = np.array((*known, index.slots, index.units), np.int64)
        after = int(place.put_keys(keys.view(np.uint8), at, numbers, head))
        index.disk.write(file.path, slots_end + place.UNIT * file.count, keys[at:after].view(np.uint8).data)
        file.begin_ms, file.end_ms, file.begin_offset, file.end_offset, file.slots, file.count = numbers[:6].tolist()
        index.write_header(file)
        return after


def is_plain_name(topic: bytes) -> bool:
    """Tell whether a topic is one name of a directory, read in one way only."""
    try:
        topic.decode()
    except UnicodeDecodeError:
        return False
    return len(topic) <= MOST_NAME_BYTES and not any(c in topic for c in b"/\0") and topic.strip(b".") != b""


def put_units(broker: Broker, implied: Implied) -> None:
    """Append a block's units to their queue as ``ConsumeQueue.put`` does one by one."""
    queue = broker.queue(implied.topic, implied.queue_id)
    assert type(queue) is ConsumeQueue
    if broker.queues_stopped:
        return
    physical = implied.physical()
    sizes, codes = implied.column(w.R_SIZE), implied.column(w.R_TAGS_CODE)
    ends = physical + sizes
    taken = np.zeros(len(ends), bool)
    i = int(np.searchsorted(ends, min(queue.max_physical, MAX_LONG), side="right"))
    written = 0
    while i < len(ends):
        room = _room(queue)
        if room:
            after, count = _append(queue, implied, ends, taken, i, room)
        else:
            number = int(implied.queue_offset[i])
            after, count = i + 1, int(queue.put_unit(int(physical[i]), int(sizes[i]), int(codes[i]), number))
        written += count
        i = after
    if written:
        broker.count(implied.topic, implied.queue_id, written)


def _room(queue: ConsumeQueue) -> int:
    """Return how many units the queue's last file takes, after making a new one behind a full one.

    0 where a unit has to be put by itself: no file yet, or positions that are no whole units.
    """
    files = queue.files.files
    if not files:
        return 0
    last = files[-1]
    if min(last.base, last.stop, last.wrote) < 0 or last.base % UNIT or last.wrote % UNIT or last.size % UNIT:
        return 0
    if last.first and not last.wrote:
        return 0  # made for a record that got no unit: the next one is still the queue's first
    if last.wrote >= last.size:
        last = queue.files.append_file(last.stop)
    return (last.size - last.wrote) // UNIT


def _append(queue: ConsumeQueue, implied: Implied, ends: Numbers, taken: Mask, i: int, room: int) -> tuple[int, int]:
    """Append units to the last file; return the first record that is left, and how many units were written."""
    file = queue.files.files[-1]
    counts = np.zeros(2, np.int64)
    number = quotient(file.base + file.wrote, UNIT)
    numbers = implied.queue_offset
    after = int(place.take_units(numbers, numbers * UNIT, i, number, room, taken, counts))
    count = int(counts[place.T_TAKEN])
    if count:
        rows = np.flatnonzero(taken[i:after]) + i
        units = implied.units()[i:after] if count == after - i else implied.units()[rows]
        queue.files.disk.write(file.path, file.wrote, units.view(np.uint8).data)
        file.wrote += count * UNIT
        queue.max_physical = int(ends[rows[-1]])
        queue.shifted += int(counts[place.T_SHIFTED])
    return after, count

"""Where the units of queues point once a broker has started, asked for each stretch of the log.

Of messages that are intact and that their unit names as they are, a bit is kept: consumers get them, and need not be
looked at one by one again. It takes a bit a unit, 125 MB for a thousand million messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.kernels.pulls import find_decodable, set_bits, units_pulled
from storeio.simulate.broker import Broker, QueueKey
from storeio.simulate.consumequeue import UNIT, ConsumeQueue
from storeio.simulate.mapped import Mapped, MappedQueue

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEPT_OFFSETS: Final = 1 << 24  # of whole queues in memory; one that has more is alone there
PULLED_UNITS: Final = 4096  # read at once of what consumers get


@dataclass(slots=True)
class Messages:
    """Intact messages of one queue in one segment: where they lie, and what a client can read of them."""

    path: str
    physical: Numbers
    sizes: Numbers
    decodable: Mask


def decodable(window: Bytes, origin: int, positions: Numbers, sizes: Numbers) -> Mask:
    """Return which records a client can read; the window begins at byte ``origin`` of the segment."""
    found = np.empty(len(positions), np.bool_)
    find_decodable(window, origin, positions, sizes, found)
    return found


class QueueUnits:
    """The units of a queue that does not change any more, and which of them are of messages that consumers get."""

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self.files = queue.files.files
        self.starts = np.array([max(file.base, queue.min_position) for file in self.files], np.int64)
        self.stops = np.array([file.base + min(file.wrote, queue.files.size) for file in self.files], np.int64)
        self.is_plain = type(queue) is ConsumeQueue and queue.ext is None and in_place(queue.files)
        self.good: dict[int, Bytes] = {}  # a bit a unit, by file

    def point_at(self, numbers: Numbers, messages: Messages, stop: int) -> Mask:
        """Tell whether the units at these numbers point at the messages; ``stop``: where their segment can be read."""
        found = np.zeros(len(numbers), np.bool_)
        if not len(numbers):
            return found
        unit = self.queue.unit_bytes
        positions = numbers * unit
        whole = messages.decodable & (messages.physical + messages.sizes <= stop)
        for i in np.flatnonzero((self.starts <= positions.max()) & (self.stops > positions.min())).tolist():
            inside = np.flatnonzero((positions >= self.starts[i]) & (positions < self.stops[i]))
            if not len(inside):
                continue
            places = (positions[inside] - self.files[i].base) // unit
            low = int(places.min())
            units = self.queue.units(self.files[i], low * unit, (int(places.max()) + 1) * unit)[places - low]
            found[inside] = units["physical_offset"] == messages.physical[inside]
            if self.is_plain:
                same = found[inside] & whole[inside] & (units["size"] == messages.sizes[inside])
                self._keep(i, places[same])
        return found

    def _keep(self, number: int, places: Numbers) -> None:
        if number not in self.good:
            self.good[number] = np.zeros((self.files[number].wrote // UNIT + 7) // 8, np.uint8)
        set_bits(self.good[number], places)

    def pulled(self, offset: int) -> int:
        """Return how many messages the next pulls get that find nothing odd, 0 if the next one may."""
        position = offset * UNIT
        number = int(np.searchsorted(self.starts, position, side="right")) - 1 if self.is_plain else -1
        if number not in self.good or position >= self.stops[number]:
            return 0
        file = self.files[number]
        at = position - file.base
        stop = min(at + PULLED_UNITS * UNIT, file.wrote)
        sizes = self.queue.units(file, at, stop)["size"].astype(np.int64)
        is_end = stop == file.wrote and file.wrote % UNIT == 0
        return int(units_pulled(sizes, self.good[number], at // UNIT, is_end))

    def offsets(self) -> Numbers:
        """Return the physical offsets of all units, sorted."""
        parts = [np.empty(0, np.int64)]
        for file in self.files:
            start = max(self.queue.min_position - file.base, 0)
            if start < file.wrote:
                parts.append(self.queue.units(file, start, file.wrote)["physical_offset"].astype(np.int64))
        return np.sort(np.concatenate(parts))


def in_place(files: MappedQueue) -> bool:
    """Tell whether each position lies in one file only, and where a broker looks for it."""
    bases = [file.base for file in files.files]
    rising = all(one < other for one, other in pairwise(bases))
    return rising and all(base >= 0 and base % files.size == 0 for base in bases)


class UnitsThere:
    """The units of all queues of a broker that has started."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[QueueKey, QueueUnits] = {}
        self._sorted: dict[QueueKey, Numbers] = {}
        self._segments: dict[str, Mapped] = {}
        if in_place(broker.log):
            self._segments = {file.path: file for file in broker.log.files if not broker.disk.changed(file.path)}

    def point_at(self, key: QueueKey, numbers: Numbers, messages: Messages) -> Mask:
        """Tell whether the units of a queue at these numbers point at the messages."""
        segment = self._segments.get(messages.path)
        stop = -1 if segment is None else segment.base + segment.wrote
        return self._of(key).point_at(numbers, messages, stop)

    def anywhere(self, key: QueueKey, physical: Numbers) -> Mask:
        """Tell to which physical offsets any unit of a queue points."""
        kept = self._sorted
        offsets = kept.pop(key) if key in kept else self._of(key).offsets()
        kept[key] = offsets  # the last that was asked for goes last
        while len(kept) > 1 and sum(map(len, kept.values())) > KEPT_OFFSETS:
            del kept[next(iter(kept))]
        places = np.searchsorted(offsets, physical)
        inside = places < len(offsets)
        found = np.zeros(len(physical), np.bool_)
        found[inside] = offsets[places[inside]] == physical[inside]
        return found

    def pulled(self, key: QueueKey, offset: int) -> int:
        """Return how many messages a consumer's next pulls get that find nothing odd, 0 if the next one may."""
        return self._queues[key].pulled(offset) if key in self._queues else 0

    def _of(self, key: QueueKey) -> QueueUnits:
        if key not in self._queues:
            self._queues[key] = QueueUnits(self._broker.queues[key])
        return self._queues[key]

"""Where the units of queues point once a broker has started, asked for each stretch of the log.

Of messages that are intact and that their unit names as they are, a bit is kept: consumers get them, and need not be
looked at one by one again. It takes a bit a unit, 125 MB for a thousand million messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.format.consumequeue import PRE_BLANK_SIZE
from storeio.kernels.pulls import find_decodable, set_bits, units_pulled
from storeio.paths import file_name
from storeio.recent import Recent
from storeio.simulate.broker import Broker, QueueKey
from storeio.simulate.consumequeue import UNIT, ConsumeQueue
from storeio.simulate.mapped import Mapped, MappedQueue

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEPT_UNITS: Final = 1 << 23  # of whole queues in memory; one that has more is alone there
SPREAD_UNITS: Final = 1 << 16  # looked at at once for such as repeat the one before
PULLED_UNITS: Final = 4096  # read at once of what consumers get


class SortedUnits(NamedTuple):
    """Units of a queue by where they point: that, their sizes, and their numbers in a queue in its usual places."""

    physical: Numbers
    sizes: npt.NDArray[np.int32]
    numbers: Numbers


@dataclass(slots=True)
class Messages:
    """Intact messages of one queue in one segment: where they lie, and what a client can read of them."""

    path: str
    physical: Numbers
    sizes: Numbers
    decodable: Mask

    def some(self, rows: Numbers) -> Messages:
        """Return those of some rows."""
        return Messages(self.path, self.physical[rows], self.sizes[rows], self.decodable[rows])


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
        self.stops = np.array([file.end for file in self.files], np.int64)
        self.is_plain = type(queue) is ConsumeQueue and queue.ext is None and in_place(queue.files)
        self._starts: list[int] = self.starts.tolist()
        self.good: dict[int, Bytes] = {}  # a bit a unit, by file
        self._spread: set[int] = set()  # files whose repeated units have been looked for

    def point_at(self, numbers: Numbers, messages: Messages, stop: int) -> Mask:
        """Tell whether the units at these numbers point at the messages; ``stop``: where their segment can be read."""
        found = np.zeros(len(numbers), np.bool_)
        if not len(numbers):
            return found
        unit = self.queue.unit_bytes
        positions = numbers * unit
        whole = messages.decodable & (messages.physical + messages.sizes <= stop)
        for i in np.flatnonzero((self.starts <= np.max(positions)) & (self.stops > np.min(positions))).tolist():
            inside = np.flatnonzero((positions >= self.starts[i]) & (positions < self.stops[i]))
            if not len(inside):
                continue
            places = (positions[inside] - self.files[i].base) // unit
            low = int(places.min())
            units = self.queue.units(self.files[i], low * unit, (int(places.max()) + 1) * unit)[places - low]
            found[inside] = (units["physical_offset"] == messages.physical[inside]) & _point_somewhere(units)
            if self.is_plain:
                same = found[inside] & whole[inside] & (units["size"] == messages.sizes[inside])
                self.keep(i, places[same])
        return found

    def unchanged_file(self, base: int, start: int, stop: int) -> int:
        """Return the number of the file that has these bytes as the store has them and readers get them, else -1."""
        i = bisect_right(self._starts, base + start) - 1 if self.is_plain else -1
        if i < 0 or self.files[i].base != base or base + stop > self.stops[i]:
            return -1
        path = f"{self.queue.files.directory}/{file_name(base)}"
        return i if self.files[i].path == path and not self.queue.files.disk.changed(path) else -1

    def keep(self, number: int, places: Numbers) -> None:
        """Take note of units of a file, by their number there, of messages that consumers get."""
        if number not in self.good:
            self.good[number] = np.zeros((self.files[number].wrote // UNIT + 7) // 8, np.uint8)
        set_bits(self.good[number], places)

    def pulled(self, offset: int) -> int:
        """Return how many messages the next pulls get that find nothing odd, 0 if the next one may."""
        position = offset * UNIT
        number = int(np.searchsorted(self.starts, position, side="right")) - 1 if self.is_plain else -1
        if number < 0 or position >= self.stops[number]:
            return 0
        file = self.files[number]
        at = position - file.base
        first = at // UNIT
        if self._is_good_behind(number, first) or (self._spread_good(number) and self._is_good_behind(number, first)):
            return file.wrote // UNIT - first
        if number not in self.good:
            return 0
        stop = min(at + PULLED_UNITS * UNIT, file.wrote)
        sizes = self.queue.units(file, at, stop)["size"].astype(np.int64)
        is_end = stop == file.wrote and file.wrote % UNIT == 0
        return int(units_pulled(sizes, self.good[number], first, is_end))

    def _is_good_behind(self, number: int, first: int) -> bool:
        """Tell whether a file holds whole units only, of which all from one on are known to be good.

        However large they are, pulls get all of them then, and nobody needs to read the sizes.
        """
        if number not in self.good:
            return False
        units, rest = divmod(self.files[number].wrote, UNIT)
        bits = np.unpackbits(self.good[number][first >> 3 :], bitorder="little")
        return rest == 0 and bool(bits[first & 7 : units - (first & ~7)].all())

    def _spread_good(self, number: int) -> bool:
        """Take note of a file's units that point where the good one before them does, and tell whether there are new
        ones: they fill a gap.

        Consumers come to the files in their order, so that what the last unit of the file before is, is known.
        """
        if number in self._spread:
            return False
        self._spread.add(number)
        file, last = self.files[number], self._end_before(number)
        if last is None and number not in self.good:
            return False
        is_more = False
        for start in range(0, file.wrote // UNIT * UNIT, SPREAD_UNITS * UNIT):
            units = self.queue.units(file, start, min(start + SPREAD_UNITS * UNIT, file.wrote))
            places = np.stack([units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)])
            firsts = np.flatnonzero(np.concatenate(([True], (places[:, 1:] != places[:, :-1]).any(axis=0))))
            good = self._bits(number, start // UNIT, len(units))
            groups = np.logical_or.reduceat(good, firsts)
            groups[0] |= tuple(places[:, 0].tolist()) == last
            spread = np.repeat(groups, np.diff(np.append(firsts, len(units))))
            if (new := np.flatnonzero(spread & ~good)).size:
                self.keep(number, new + start // UNIT)
                is_more = True
            last = tuple(places[:, -1].tolist()) if groups[-1] else None
        return is_more

    def _end_before(self, number: int) -> tuple[int, ...] | None:
        """Return where the last unit of the file before one points, and its size; None if it is not known as good."""
        before = number - 1
        if before not in self.good or self.stops[before] != self.files[number].base:
            return None
        at = self.files[before].wrote // UNIT - 1
        if at < 0 or not self._bits(before, at, 1)[0]:
            return None
        (unit,) = self.queue.units(self.files[before], at * UNIT, (at + 1) * UNIT)
        return int(unit["physical_offset"]), int(unit["size"])

    def _bits(self, number: int, first: int, count: int) -> Mask:
        """Tell which of some units of a file are known to be good."""
        if number not in self.good:
            return np.zeros(count, np.bool_)
        part = self.good[number][first >> 3 : (first + count + 7) >> 3]
        return np.unpackbits(part, bitorder="little")[first & 7 :][:count].astype(np.bool_)

    def is_good(self, number: int) -> bool:
        """Tell whether a unit is known to be of a message that consumers get."""
        position = number * UNIT
        i = bisect_right(self._starts, position) - 1 if self.good else -1
        if i not in self.good or position >= self.stops[i]:
            return False
        place = (position - self.files[i].base) // UNIT
        return bool(self.good[i][place >> 3] >> (place & 7) & 1)

    def sorted(self) -> SortedUnits:
        """Return all units in the order of where they point."""
        found = [SortedUnits(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))]
        for file in self.files:
            start = max(self.queue.min_position - file.base, 0)
            if start < file.wrote:
                units = self.queue.units(file, start, file.wrote)
                rows = np.flatnonzero(_point_somewhere(units))
                physical, sizes = (units[name][rows] for name in ("physical_offset", "size"))
                numbers = (file.base + start) // self.queue.unit_bytes + rows
                found.append(SortedUnits(physical.astype(np.int64), sizes.astype(np.int32), numbers))
        physical, sizes, numbers = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.argsort(physical, kind="stable")
        return SortedUnits(physical[order], sizes[order], numbers[order])

    def point_from_anywhere(self, units: SortedUnits, messages: Messages, stop: int) -> Mask:
        """Tell at which messages any of the queue's units points; ``stop`` as of ``point_at``."""
        rows = np.searchsorted(units.physical, messages.physical)
        found = rows < len(units.physical)
        found[found] = units.physical[rows[found]] == messages.physical[found]
        if self.is_plain:
            whole = messages.decodable & (messages.physical + messages.sizes <= stop)
            same = rows[found & whole]
            positions = units.numbers[same[units.sizes[same] == messages.sizes[found & whole]]] * UNIT
            files = np.searchsorted(self.starts, positions, side="right") - 1
            for i in np.unique(files).tolist():
                self.keep(i, (positions[files == i] - self.files[i].base) // UNIT)
        return found


def _point_somewhere(units: npt.NDArray[np.void]) -> Mask:
    """Tell which units do not only seem to point at the log's first byte: zeros, and what fills up to a first unit."""
    sizes = units["size"]
    return (units["physical_offset"] != 0) | ((sizes != 0) & (sizes != PRE_BLANK_SIZE))


def in_place(files: MappedQueue) -> bool:
    """Tell whether each position lies in one file only, and where a broker looks for it.

    It looks for none where the last file ends beyond the largest number.
    """
    bases = [file.base for file in files.files]
    rising = all(one < other for one, other in pairwise(bases))
    return rising and all(file.stop >= 0 <= file.base and file.base % files.size == 0 for file in files.files)


class UnitsThere:
    """The units of all queues of a broker that has started."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[QueueKey, QueueUnits] = {}
        self._sorted: Recent[QueueKey, SortedUnits] = Recent(KEPT_UNITS, lambda units: len(units.physical))
        self._segments: dict[str, Mapped] = {}
        if in_place(broker.log):
            self._segments = {file.path: file for file in broker.log.files if not broker.disk.changed(file.path)}

    def point_at(self, key: QueueKey, numbers: Numbers, messages: Messages) -> Mask:
        """Tell whether the units of a queue at these numbers point at the messages."""
        return self.of(key).point_at(numbers, messages, self.readable_to(messages.path))

    def point_from_anywhere(self, key: QueueKey, messages: Messages) -> Mask:
        """Tell at which of the messages any unit of a queue points."""
        queue = self.of(key)
        units = self._sorted.get(key, queue.sorted)
        return queue.point_from_anywhere(units, messages, self.readable_to(messages.path))

    def readable_to(self, path: str) -> int:
        """Return where a segment can be read up to, -1 for one that the start has changed."""
        segment = self._segments.get(path)
        return -1 if segment is None else segment.end

    def pulled(self, key: QueueKey, offset: int) -> int:
        """Return how many messages a consumer's next pulls get that find nothing odd, 0 if the next one may."""
        return self._queues[key].pulled(offset) if key in self._queues else 0

    def all_pulled(self, key: QueueKey) -> int:
        """Return how many messages consumers get of a queue of which they get all, 0 if they may not."""
        queue = self._broker.queues[key]
        count = self.pulled(key, queue.min_offset) if len(queue.files.files) == 1 else 0
        return count if count == queue.max_offset - queue.min_offset else 0

    def known(self, key: QueueKey) -> Callable[[int], bool]:
        """Return what tells of a queue's unit whether its message is known to reach consumers."""
        return self._queues[key].is_good if key in self._queues else lambda number: False

    def of(self, key: QueueKey) -> QueueUnits:
        """Return the units of a queue that the broker has."""
        if key not in self._queues:
            self._queues[key] = QueueUnits(self._broker.queues[key])
        return self._queues[key]

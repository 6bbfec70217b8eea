"""Which bytes of which file a stretch of a queue becomes: pure, the same for one node and for many workers.

``laid`` needs the stretch, how many units of its queue come before it in the log, and where ``placement``
puts the queue's units. What it yields for all stretches of a queue fills that queue's files, in any order.

Source: ``ConsumeQueue``, ``BatchConsumeQueue``, ``ConsumeQueueExt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import UNIT_BYTES
from storeio.checks.segments import LogView
from storeio.checks.stand_ins import hides_first
from storeio.format import consumequeue, queueext
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT, file_name, queue_directory
from storeio.rebuild.placement import MOST_NUMBER, Gap, Part, Placed, place
from storeio.rebuild.stretches import QueueKey, Stretch

Numbers = npt.NDArray[np.int64]
Units = npt.NDArray[np.void]
UnitsOf = Callable[[int, int], Units]
"""``units(first, stop)``: those of one queue at these numbers."""
AT_ONCE: Final = 1 << 16  # units of the store that are looked at
BLANK: Final = consumequeue.PRE_BLANK.tobytes()
BEFORE_ALL: Final = LogView([], 1, 1)  # of a log of which nothing is known yet, not that it begins at 0 either


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Bytes of the files of each kind; those of queues are whole units."""

    queue_bytes: int
    batch_bytes: int
    ext_bytes: int
    segment_bytes: int

    def of(self, kind: str) -> int:
        """Return the bytes of a queue's files."""
        return self.batch_bytes if kind == BATCHQUEUE else self.queue_bytes

    def per_file(self, kind: str) -> int:
        """Return the units of a queue's files."""
        return self.of(kind) // UNIT_BYTES[kind]

    @property
    def per_ext_file(self) -> int:
        """Return the ext units of an ext file: what is left at its end is for the mark that closes it."""
        return (self.ext_bytes - queueext.END_SPARE_BYTES) // queueext.HEAD_BYTES


class Write(NamedTuple):
    """Bytes at a position of a file that is ``size`` bytes long, so many times one behind the other."""

    path: str
    position: int
    data: bytes | memoryview
    size: int
    times: int = 1


class Bridge(NamedTuple):
    """Numbers ``[first, stop)`` of a gap, at a position of a file; ``unit`` is the one before the gap."""

    path: str
    position: int
    unit: bytes
    size: int
    key: QueueKey
    first: int
    stop: int
    gap: Gap


class Piece(NamedTuple):
    """Units ``[at, at + length)`` in log order stand at ``number`` and on, all in one file.

    With ``gap`` none of them does: these are numbers of it, and ``at`` is the unit before it.
    """

    number: int
    length: int
    at: int
    gap: Gap | None = None


def as_they_come(first: int) -> Placed:
    """Return where the units of a queue stand that follow on from each other, however many there will be."""
    return Placed([Part(first, 0, MOST_NUMBER, 0, 0)])


def first_number(stretch: Stretch) -> int:
    """Return where a queue seems to begin whose first units these are; batch queues are named by place, from 0 on."""
    if stretch.key[0] == BATCHQUEUE:
        return 0
    number = stretch.first_number
    if stretch.runs is not None:
        number = place(stretch.runs.T.tolist(), BEFORE_ALL).first  # the first record's number may be damaged
    return number if 0 <= number <= MOST_NUMBER else 0


def pieces(placed: Placed, per_file: int, at: int, stop: int) -> Iterator[Piece]:
    """Yield what becomes of units ``[at, stop)`` in log order; what has no piece is replaced."""
    gaps = {gap.first: gap for gap in placed.gaps}
    for part in placed.parts:
        low, high = max(part.at, at), min(part.at + part.count, stop)
        if low >= high:
            continue
        first = part.number + low - part.at
        yield from (Piece(number, length, low + number - first) for number, length in _cut(first, high - low, per_file))
        gap = gaps.get(part.stop) if high == part.at + part.count else None
        if gap is not None:
            yield from (
                Piece(number, n, high - 1, gap) for number, n in _cut(gap.first, gap.stop - gap.first, per_file)
            )


def _cut(number: int, count: int, per_file: int) -> Iterator[tuple[int, int]]:
    """Yield number and count of each file's share of ``[number, number + count)``."""
    stop = number + count
    while number < stop:
        end = min(number - number % per_file + per_file, stop)
        yield number, end - number
        number = end


def laid(stretch: Stretch, before: int, ext_before: int, placed: Placed, sizes: FileSizes) -> Iterator[Write | Bridge]:
    """Yield what a stretch of a queue becomes that has ``before`` units ahead of it in the log.

    Args:
        stretch: Units of one queue, in log order.
        before: Units of the same queue in earlier splits.
        ext_before: Ext units of the same queue in earlier splits.
        placed: Where the queue's units stand.
        sizes: Of the files.
    """
    kind, size, unit = stretch.key[0], sizes.of(stretch.key[0]), UNIT_BYTES[stretch.key[0]]
    per_file, directory = sizes.per_file(kind), queue_directory(*stretch.key)
    units = memoryview(stretch.units)
    if stretch.heads:
        heads = np.frombuffer(stretch.heads, queueext.HEAD)
        yield from ext_writes(stretch.key, heads[heads["size"] > 0].tobytes(), ext_before, sizes)
        units = memoryview(with_addresses(stretch, ext_before, sizes))
    if kind == CONSUMEQUEUE and placed.parts and before <= placed.parts[0].at < before + stretch.count:
        start = (placed.parts[0].at - before) * unit
        yield from front(stretch.key, placed.first, bytes(units[start : start + unit]), sizes)
    for number, count, at, gap in pieces(placed, per_file, before, before + stretch.count):
        inside = number % per_file
        path, start = f"{directory}/{file_name((number - inside) * unit)}", (at - before) * unit
        if gap is None:
            yield Write(path, inside * unit, units[start : start + count * unit], size)
        else:
            last = bytes(units[start : start + unit])
            yield Bridge(path, inside * unit, last, size, stretch.key, number, number + count, gap)


def front(key: QueueKey, number: int, first: bytes, sizes: FileSizes, directory: str = "") -> Iterator[Write]:
    """Yield what fills a queue's first file up to its first unit, as a broker does where a queue begins amid one.

    Where that would hide the first messages, as ``checks.stand_ins`` tells, the first unit stands in front of itself.

    Args:
        key: The queue.
        number: Of its first unit.
        first: That unit.
        sizes: Of the files.
        directory: Of the queue, where it is not the usual one.
    """
    blank = number % sizes.per_file(key[0])
    if blank:
        path = f"{directory or queue_directory(*key)}/{file_name((number - blank) * consumequeue.UNIT_BYTES)}"
        repeats = hides_first(key[1], int(consumequeue.decode(first)["physical_offset"][0]), sizes.segment_bytes)
        yield Write(path, 0, first if repeats else BLANK, sizes.of(key[0]), blank)


def with_addresses(stretch: Stretch, ext_before: int, sizes: FileSizes) -> bytes:
    """Return a stretch's units with the addresses of their ext units, where they have one, for tags codes. Spec 4.4."""
    has_one = np.frombuffer(stretch.heads, queueext.HEAD)["size"] > 0
    number = np.arange(ext_before, ext_before + int(has_one.sum()), dtype=np.int64)
    per_file = sizes.per_ext_file
    units = np.frombuffer(stretch.units, consumequeue.UNIT).copy()
    position = number // per_file * sizes.ext_bytes + number % per_file * queueext.HEAD_BYTES
    units["tags_code"][has_one] = position + queueext.ADDRESS_BASE
    return units.tobytes()


def ext_writes(key: QueueKey, packed: bytes, before: int, sizes: FileSizes) -> Iterator[Write]:
    """Yield ext units of a queue, and the marks that close the files that are full."""
    size, directory, heads = sizes.ext_bytes, queue_directory(QUEUE_EXT, *key[1:]), memoryview(packed)
    head, per_file = queueext.HEAD_BYTES, sizes.per_ext_file
    for number, count in _cut(before, len(heads) // head, per_file):
        file_no, inside = divmod(number, per_file)
        if file_no and not inside:  # the file before is full: -1 closes it
            mark = queueext.END_MARK.to_bytes(2, "big", signed=True)
            yield Write(f"{directory}/{file_name((file_no - 1) * size)}", per_file * head, mark, size)
        start = (number - before) * head
        yield Write(
            f"{directory}/{file_name(file_no * size)}", inside * head, heads[start : start + count * head], size
        )


def bridged(bridge: Bridge, old: UnitsOf) -> tuple[bytes, int]:
    """Return the units of a gap, and how many of them are the store's own.

    A queue must have no holes: recovery ends at one. The store's own unit stands where it points into the hole of
    the log, and not back before the own ones ahead of it; else the one before it stands there again. Fillers of
    the broker's kind are worse in the middle of a queue: they break searches that rely on rising offsets.
    """
    highest, before = bridge.gap.start_at, np.frombuffer(bridge.unit, consumequeue.UNIT)
    for at in range(bridge.gap.first, bridge.first, AT_ONCE):  # in files before this one
        offset, units = _pointing_into(bridge.gap, old(at, min(at + AT_ONCE, bridge.first)))
        best = len(offset) - 1 - int(np.argmax(offset[::-1]))
        if offset[best] >= highest:
            highest, before = int(offset[best]), units[best : best + 1].copy()
    offset, units = _pointing_into(bridge.gap, old(bridge.first, bridge.stop))
    own = offset >= np.maximum(np.maximum.accumulate(offset), highest)
    source = np.maximum.accumulate(np.where(own, np.arange(1, len(own) + 1), 0))  # 0 is the unit before
    rows = np.empty(len(units) + 1, consumequeue.UNIT)  # joined by hand: numpy would turn the bytes around
    rows[:1], rows[1:] = before, units
    return rows[source].tobytes(), int(own.sum())


def going_on(gap: Gap, number: int, unit: bytes) -> Gap:
    """Return a gap from a number on, before which a unit stands: own ones behind that do not point back before it."""
    offset = int(consumequeue.decode(unit)["physical_offset"][0])
    return replace(gap, first=number, start_at=max(gap.start_at, offset))


def _pointing_into(gap: Gap, units: Units) -> tuple[Numbers, Units]:
    """Return the physical offsets of units, -1 for those that do not point into the hole of a gap, and the units."""
    offset, size = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    inside = (size > 0) & (offset >= gap.start_at) & (offset <= gap.stop_at - size)
    return np.where(inside, offset, -1), units

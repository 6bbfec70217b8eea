"""Units laid into queue files and ext files as they come, in one pass over the log.

Units are written in log order, behind the queue's first number: that is where all of them belong in a queue
whose numbers never jump. Where ``placement`` says otherwise in the end, the queue is laid out once more from
what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import UNIT_BYTES
from storeio.checks.runs import Run, add_runs
from storeio.checks.segments import LogView
from storeio.output.staging import Staging
from storeio.paths import QUEUE_EXT, file_name, queue_directory
from storeio.rebuild.layout import (
    Bridge,
    FileSizes,
    UnitsOf,
    Write,
    as_they_come,
    bridged,
    first_number,
    front,
    going_on,
    laid,
    pieces,
)
from storeio.rebuild.placement import Part, Placed, place
from storeio.rebuild.stretches import QueueKey, Stretch, Stretches, joined
from storeio.rebuilt import QueueBuilt

Units = npt.NDArray[np.void]
OldUnits = Callable[[QueueKey], UnitsOf]
"""``old(queue)(first, stop)``: the units that the store itself has at these numbers, zeros where it has none."""

RELAID: Final = ".relaid"
TOGETHER_BYTES: Final = 512 << 10  # of a queue that are written at once, since each write is asked of the disk anew
MOST_WAITING: Final = 64 << 20  # bytes of all queues that wait for more
MOST_HELD: Final = 32 << 20  # bytes of splits with many queues that are joined at once
MANY: Final = 128  # queues of a split; fewer are taken as they come


@dataclass(slots=True)
class Growing:
    """One queue while the log is read: where it seems to begin, units and ext units so far, runs of a placed one."""

    key: QueueKey
    first: int
    placed: bool
    count: int = 0
    ext: int = 0
    written_bytes: int = 0
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def of(cls, stretch: Stretch) -> Growing:
        """Return a queue whose first stretch this is, still without its units."""
        return cls(stretch.key, first_number(stretch), stretch.runs is not None)

    def add(self, stretch: Stretch) -> None:
        """Count the next stretch."""
        self.count += stretch.count
        self.ext += max(stretch.ext, 0)
        if stretch.runs is not None:
            add_runs(self.runs, stretch.runs.T.tolist())

    def placement(self, view: LogView) -> Placed:
        """Return where the units stand."""
        return place(self.runs, view) if self.placed else Placed([Part(self.first, 0, self.count, 0, 0)])


def queue_built(key: QueueKey, placed: Placed, kept: int) -> QueueBuilt:
    """Return what is told of a queue; of its gaps' units ``kept`` are the store's own."""
    filled = sum(gap.stop - gap.first for gap in placed.gaps) - kept
    return QueueBuilt(
        *key, placed.first, placed.stop, sum(part.count for part in placed.parts),
        tuple((gap.first, gap.stop) for gap in placed.gaps), kept, filled, placed.replaced, placed.moved,
    )  # fmt: skip


@dataclass(slots=True)
class _Waiting:
    """Units of one queue that are not written yet, and how many units and ext units come before them."""

    before: int
    ext_before: int
    count: int = 0
    units: bytearray = field(default_factory=bytearray)
    heads: bytearray = field(default_factory=bytearray)


class QueueWriter:
    """Writes all queues of a rebuild into a directory in the making."""

    def __init__(self, staging: Staging, sizes: FileSizes) -> None:
        self.staging, self.sizes = staging, sizes
        self._queues: dict[QueueKey, Growing] = {}
        self._waiting: dict[QueueKey, _Waiting] = {}
        self._waiting_bytes = 0
        self._held: list[Stretches] = []  # of many plain queues each, in log order
        self._held_bytes = 0

    def add_all(self, stretches: Stretches) -> None:
        """Append the units of all queues from the next split."""
        if len(stretches) >= MANY and stretches.is_plain:
            self._held.append(stretches)
            self._held_bytes += stretches.packed_bytes
            if self._held_bytes >= MOST_HELD:
                self._add_held()
            return
        self._add_held()
        for stretch in stretches:
            self.add(stretch)

    def _add_held(self) -> None:
        if self._held:
            stretches = joined(self._held)
            self._held, self._held_bytes = [], 0
            for stretch in stretches:
                self.add(stretch)

    def add(self, stretch: Stretch) -> None:
        """Append the units of one queue from the next split."""
        queue = self._queues.get(stretch.key)
        if queue is None:
            queue = self._queues[stretch.key] = Growing.of(stretch)
        waiting = self._waiting.get(stretch.key)
        if waiting is None and len(stretch.units) >= TOGETHER_BYTES:
            self._lay(queue, stretch, queue.count, queue.ext)
        else:
            if waiting is None:
                waiting = self._waiting[stretch.key] = _Waiting(queue.count, queue.ext)
            waiting.count += stretch.count
            waiting.units += stretch.units
            waiting.heads += stretch.heads
            self._waiting_bytes += len(stretch.units) + len(stretch.heads)
            if len(waiting.units) >= TOGETHER_BYTES:
                self._lay_waiting(stretch.key)
        queue.add(stretch)
        if self._waiting_bytes >= MOST_WAITING:
            self._lay_all()

    def _lay_all(self) -> None:
        for key in sorted(self._waiting):
            self._lay_waiting(key)

    def _lay_waiting(self, key: QueueKey) -> None:
        waiting = self._waiting.pop(key)
        self._waiting_bytes -= len(waiting.units) + len(waiting.heads)
        units, heads = memoryview(waiting.units), memoryview(waiting.heads)
        stretch = Stretch(key, waiting.count, 0, units, heads=heads)
        self._lay(self._queues[key], stretch, waiting.before, waiting.ext_before)

    def _lay(self, queue: Growing, stretch: Stretch, before: int, ext_before: int) -> None:
        for piece in laid(stretch, before, ext_before, as_they_come(queue.first), self.sizes):
            assert isinstance(piece, Write)  # what follows on has no gaps
            self._write(piece)
            if not piece.path.startswith(QUEUE_EXT):
                queue.written_bytes += len(piece.data) * piece.times

    def _write(self, piece: Write) -> None:
        data = bytes(piece.data) * piece.times if piece.times > 1 else piece.data
        self.staging.write(piece.path, piece.position, data, size=piece.size)

    def finish(self, old: OldUnits, view: LogView) -> list[QueueBuilt]:
        """Write what waits, lay out again what needs it, with the store's own units in gaps; return all, sorted.

        ``view`` is of the whole log.
        """
        self._add_held()
        self._lay_all()
        return [self._finished(self._queues[key], old, view) for key in sorted(self._queues)]

    def _finished(self, queue: Growing, old: OldUnits, view: LogView) -> QueueBuilt:
        placed = queue.placement(view)
        usual = len(placed.parts) == 1 and (placed.first, placed.parts[0].at) == (queue.first, 0)
        return queue_built(queue.key, placed, 0 if usual else self._lay_again(queue, placed, old))

    def _lay_again(self, queue: Growing, placed: Placed, old: OldUnits) -> int:
        """Lay a queue out by its placement; return how many units of its gaps are the store's own."""
        kind, kept, own_units = queue.key[0], 0, old(queue.key)
        unit, size, per_file = UNIT_BYTES[kind], self.sizes.of(kind), self.sizes.per_file(kind)
        before = queue_directory(*queue.key)
        after = before + RELAID
        first = last = self._written(queue, placed.parts[0].at, 1)
        for write in front(queue.key, placed.first, first, self.sizes, after):
            self._write(write)
        for number, count, at, gap in pieces(placed, per_file, 0, queue.count):
            position = number % per_file * unit
            path = f"{after}/{file_name((number - number % per_file) * unit)}"
            units = self._written(queue, at, 1 if gap else count)
            if gap is not None:
                if gap.first < number:  # the file before has looked at what is ahead
                    units, gap = last, going_on(gap, number, last)
                bridge = Bridge(path, position, units, size, queue.key, number, number + count, gap)
                units, own = bridged(bridge, own_units)
                kept += own
            last = units[-unit:]
            self.staging.write(path, position, units, size=size)
        self.staging.move(after, before)
        self.staging.written_bytes -= queue.written_bytes
        return kept

    def _written(self, queue: Growing, at: int, count: int) -> bytes:
        """Return units that were written, by their place in the log's order."""
        unit, per_file = UNIT_BYTES[queue.key[0]], self.sizes.per_file(queue.key[0])
        found = b""
        for number, part, *_ in pieces(as_they_come(queue.first), per_file, at, at + count):
            start = number % per_file * unit
            path = f"{queue_directory(*queue.key)}/{file_name((number - number % per_file) * unit)}"
            found += self.staging.read(path, start, start + part * unit)
        return found

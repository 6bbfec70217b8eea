"""Units laid into queue files and ext files.

Units are written in log order, behind the queue's first number, as they come: that is where all of them
belong in a queue whose numbers never jump. Where ``placement`` says otherwise in the end, the queue is laid
out once more from what was written.

Source: ``ConsumeQueue``, ``BatchConsumeQueue``, ``ConsumeQueueExt``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import UNIT_BYTES
from storeio.format import consumequeue, queueext
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT, file_name, queue_directory
from storeio.rebuild.derive import QueueKey, Stretch
from storeio.rebuild.placement import MOST_NUMBER, Gap, Placed, Run, add_runs, place
from storeio.rebuild.results import QueueBuilt
from storeio.staging import Staging

Numbers = npt.NDArray[np.int64]
Units = npt.NDArray[np.void]
OldUnits = Callable[[QueueKey, int, int], Units]
"""``old(queue, first, stop)``: the units that the store itself has at these numbers, zeros where it has none."""

AT_ONCE: Final = 1 << 16  # units copied or filled at once
RELAID: Final = ".relaid"


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Bytes of the files of each kind; those of queues are whole units."""

    queue_bytes: int
    batch_bytes: int
    ext_bytes: int

    def of(self, kind: str) -> int:
        """Return the bytes of a queue's files."""
        return self.batch_bytes if kind == BATCHQUEUE else self.queue_bytes


@dataclass(slots=True)
class _Growing:
    """One queue while it is written: its first number, units so far, and the runs of a placed one."""

    key: QueueKey
    first: int
    count: int = 0
    placed: bool = True
    runs: list[Run] = field(default_factory=list)


class QueueWriter:
    """Writes all queues of a rebuild into a directory in the making."""

    def __init__(self, staging: Staging, sizes: FileSizes, old: OldUnits) -> None:
        self.staging, self.sizes, self.old = staging, sizes, old
        self._queues: dict[QueueKey, _Growing] = {}

    def add(self, stretch: Stretch) -> None:
        """Append the units of one queue from the next split."""
        queue = self._queues.get(stretch.key)
        if queue is None:
            queue = _Growing(stretch.key, first_number(stretch), placed=stretch.runs is not None)
            self._queues[stretch.key] = queue
            self._fill_front(stretch.key, queue.first)
        units = stretch.units
        if stretch.heads:
            units = self._with_addresses(stretch, queue.count)
        self._write(queue_directory(*stretch.key), stretch.key[0], queue.first + queue.count, units)
        queue.count += stretch.count
        if stretch.runs is not None:
            add_runs(queue.runs, stretch.runs.T.tolist())

    def _write(self, directory: str, kind: str, number: int, units: bytes | memoryview) -> None:
        """Write whole units from a number on, over as many files as they take."""
        view, size = memoryview(units).cast("B"), self.sizes.of(kind)
        position = number * UNIT_BYTES[kind]
        while len(view):
            base = position - position % size
            count = min(base + size - position, len(view))
            self.staging.write(f"{directory}/{file_name(base)}", position - base, view[:count], size=size)
            position, view = position + count, view[count:]

    def _fill_front(self, key: QueueKey, first: int) -> None:
        """Fill a queue's first file up to its first number, as a broker does for a queue that begins amid a file."""
        if key[0] == CONSUMEQUEUE:
            per_file = self.sizes.queue_bytes // consumequeue.UNIT_BYTES
            self._fill(key, first - first % per_file, first, consumequeue.PRE_BLANK.tobytes())

    def _fill(self, key: QueueKey, first: int, stop: int, unit: bytes) -> None:
        for number in range(first, stop, AT_ONCE):
            self._write(queue_directory(*key), key[0], number, unit * min(AT_ONCE, stop - number))

    def _with_addresses(self, stretch: Stretch, before: int) -> bytes:
        """Write the ext units; return the queue's units with their addresses for tags codes. Spec 4.4."""
        ext_bytes = self.sizes.ext_bytes
        per_file = (ext_bytes - queueext.END_SPARE_BYTES) // queueext.HEAD_BYTES
        number = np.arange(before, before + stretch.count, dtype=np.int64)
        position = number // per_file * ext_bytes + number % per_file * queueext.HEAD_BYTES
        directory, heads = queue_directory(QUEUE_EXT, *stretch.key[1:]), memoryview(stretch.heads)
        at = 0
        while at < stretch.count:
            base = int(position[at] // ext_bytes) * ext_bytes
            if at + before and base == position[at]:  # the file before is full: -1 closes it
                end = per_file * queueext.HEAD_BYTES
                mark = queueext.END_MARK.to_bytes(2, "big", signed=True)
                self.staging.write(f"{directory}/{file_name(base - ext_bytes)}", end, mark, size=ext_bytes)
            stop = min(at + per_file - int(number[at] % per_file), stretch.count)
            piece = heads[at * queueext.HEAD_BYTES : stop * queueext.HEAD_BYTES]
            self.staging.write(f"{directory}/{file_name(base)}", int(position[at]) - base, piece, size=ext_bytes)
            at = stop
        units = np.frombuffer(stretch.units, consumequeue.UNIT).copy()
        units["tags_code"] = position + queueext.ADDRESS_BASE
        return units.tobytes()

    # ---- When all units are there

    def finish(self) -> list[QueueBuilt]:
        """Lay out again what needs it; return all queues, sorted."""
        return [self._finished(self._queues[key]) for key in sorted(self._queues)]

    def _finished(self, queue: _Growing) -> QueueBuilt:
        kind, topic, queue_id = queue.key
        if not queue.placed:
            return QueueBuilt(kind, topic, queue_id, queue.first, queue.first + queue.count, queue.count)
        placed = place(queue.runs)
        filled = kept = 0
        if len(placed.parts) != 1 or (placed.first, placed.parts[0].at) != (queue.first, 0):
            filled, kept = self._lay_again(queue, placed)
        return QueueBuilt(
            kind, topic, queue_id, placed.first, placed.stop, sum(part.count for part in placed.parts),
            tuple((gap.first, gap.stop) for gap in placed.gaps), kept, filled, placed.replaced, placed.moved,
        )  # fmt: skip

    def _lay_again(self, queue: _Growing, placed: Placed) -> tuple[int, int]:
        """Lay a queue out by its placement; return how many units fill gaps, and how many of the store's stay there."""
        kind, topic, queue_id = queue.key
        before, after = queue_directory(*queue.key), queue_directory(kind, topic, queue_id) + RELAID
        self._front_of(queue, placed, after)
        filled = kept = 0
        gaps = {gap.first: gap for gap in placed.gaps}
        for part in placed.parts:
            for at in range(0, part.count, AT_ONCE):
                count = min(AT_ONCE, part.count - at)
                units = self._written(before, queue.first + part.at + at, count)
                self._write(after, kind, part.number + at, units)
            if gap := gaps.get(part.stop):
                last = self._written(before, queue.first + part.at + part.count - 1, 1)
                more_filled, more_kept = self._bridge(queue.key, after, gap, last)
                filled, kept = filled + more_filled, kept + more_kept
        self.staging.move(after, before)
        return filled, kept

    def _front_of(self, queue: _Growing, placed: Placed, directory: str) -> None:
        per_file = self.sizes.queue_bytes // consumequeue.UNIT_BYTES
        first, blank = placed.first - placed.first % per_file, consumequeue.PRE_BLANK.tobytes()
        for number in range(first, placed.first, AT_ONCE):
            self._write(directory, queue.key[0], number, blank * min(AT_ONCE, placed.first - number))

    def _written(self, directory: str, number: int, count: int) -> bytes:
        """Return units that were written from a number on."""
        size, unit = self.sizes.queue_bytes, consumequeue.UNIT_BYTES
        found, position, stop = b"", number * unit, (number + count) * unit
        while position < stop:
            base = position - position % size
            end = min(base + size, stop)
            found += self.staging.read(f"{directory}/{file_name(base)}", position - base, end - base)
            position = end
        return found

    def _bridge(self, key: QueueKey, directory: str, gap: Gap, last: bytes) -> tuple[int, int]:
        """Put a unit at each number of a gap: the store's own where it points into the hole, else the one before again.

        A queue must have no holes: recovery ends at one. Fillers of the broker's kind are worse in
        the middle of a queue: they break searches that rely on rising offsets.
        """
        kept = 0
        for first in range(gap.first, gap.stop, AT_ONCE):
            stop = min(first + AT_ONCE, gap.stop)
            units = self.old(key, first, stop).copy()
            offset, size = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
            inside = (size > 0) & (offset >= gap.start_at) & (offset <= gap.stop_at - size)
            units[~inside] = np.frombuffer(last, consumequeue.UNIT)[0]
            self._write(directory, key[0], first, units.tobytes())
            kept += int(inside.sum())
        return gap.stop - gap.first - kept, kept


def first_number(stretch: Stretch) -> int:
    """Return where a queue begins whose first units these are; batch queues are named by place and begin at 0."""
    if stretch.key[0] == BATCHQUEUE:
        return 0
    number = stretch.first_number
    if stretch.runs is not None:
        number = place(stretch.runs.T.tolist()).first  # the first record's number may be damaged
    return number if 0 <= number <= MOST_NUMBER else 0

"""One batch queue as brokers from 5.0 on recover, append, truncate and search it.

Source: ``BatchConsumeQueue``.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np

from storeio.format import batchqueue as format_
from storeio.format.consumequeue import RECOVERED_FILES
from storeio.paths import BATCHQUEUE
from storeio.simulate.consumequeue import ConsumeQueue
from storeio.simulate.disk import Disk
from storeio.simulate.ends import JavaError, QueuesStopError
from storeio.simulate.java import as_long
from storeio.simulate.mapped import Mapped, MappedQueue
from storeio.simulate.message import Request
from storeio.simulate.rules import Rules

UNIT: Final = format_.UNIT_BYTES
PACKED: Final = struct.Struct(">qiqqqhii")
NOT_COMPACTED: Final = -1
FEW_UNITS: Final = 512


class BatchQueue(ConsumeQueue):
    """A batch queue's files and the numbers that a broker keeps of it.

    ``max_physical`` is where the last record starts, not where it ends; ``shifted`` stays 0, since units
    are not placed by number.
    """

    unit_bytes = UNIT

    def __init__(self, disk: Disk, topic: str, queue_id: int, file_bytes: int, rules: Rules) -> None:
        super().__init__(disk, topic, queue_id, file_bytes, rules)
        self.files = MappedQueue(disk, f"{BATCHQUEUE}/{topic}/{queue_id}", file_bytes)
        self._min_offset, self._max_offset = -1, 0
        self._cached: list[tuple[int, Mapped]] = []  # first queue offset of a file, as last looked up

    @property
    def max_offset(self) -> int:
        """Queue offset behind the last unit's messages."""
        return self._max_offset

    @property
    def min_offset(self) -> int:
        """First queue offset that consumers get, -1 without units."""
        return self._min_offset

    @property
    def hides(self) -> str:
        """The path of the file that takes the next unit, if a search for it ends elsewhere; else empty.

        Files are searched by what their units say, wherever they are.
        """
        last = self.files.files[-1] if self.files.files else None
        if last is None or not 0 < last.wrote < last.size:
            return ""
        bases = [*self.units(last, 0, last.wrote)["base_queue_offset"].tolist(), self._max_offset]
        is_found = bases[0] <= self._max_offset and _search(bases, self._max_offset) == len(bases) - 1
        return "" if is_found else last.path

    def units(self, file: Mapped, start: int = 0, stop: int | None = None) -> format_.Units:
        """Return whole units of a file between two positions of it."""
        stop = min(file.size if stop is None else stop, file.size)
        stop = start + max(stop - start, 0) // UNIT * UNIT
        return self.files.read(file, start, stop).view(format_.UNIT)

    def _before(
        self, file: Mapped, is_end: Callable[[format_.Units], format_.Mask], *, first: int = 0
    ) -> tuple[int, bool]:
        """Return the number of the first unit, from ``first`` on, that is an end, or of whole units, and which it is.

        A broker has some units in a file of 14 MB: what lies behind the end is not looked at.
        """
        at, many = first, FEW_UNITS
        while len(units := self.units(file, at * UNIT, (at + many) * UNIT)):
            found = np.flatnonzero(is_end(units))
            if len(found):
                return at + int(found[0]), True
            at, many = at + len(units), 4 * many
        return at, False

    def _physical(self, file: Mapped, number: int) -> int:
        """Return the physical offset in a unit of a file."""
        return int(self.units(file, number * UNIT, (number + 1) * UNIT)["physical_offset"][0])

    # ---- Start

    def recover(self) -> None:
        """Find the end in the last three files; delete what lies behind it."""
        files = self.files.files
        if not files:
            return
        point = 0
        for file in files[max(len(files) - RECOVERED_FILES, 0) :]:
            count, is_end = self._before(file, lambda units: ~format_.is_written(units))
            if count:
                self.max_physical = self._physical(file, count - 1)
            point = as_long(file.base + count * UNIT)
            if count * UNIT != file.size:
                if not is_end:
                    raise JavaError("a batch queue's file does not consist of whole units")
                break
        self.files.truncate(point)
        self._revise_min()
        self._revise_max()

    def truncate(self, physical_offset: int) -> None:
        """Cut the units behind the log's end; a file's first unit is taken as it is."""
        self.max_physical = physical_offset - 1
        while self.files.files:
            file = self.files.files[-1]
            file.wrote = 0
            if file.size < UNIT:
                break
            if self._physical(file, 0) >= physical_offset:
                self.files.drop(file)
                continue
            count, _ = self._before(
                file, lambda units: ~format_.is_written(units) | (units["physical_offset"] >= physical_offset), first=1
            )
            file.wrote = count * UNIT
            self.max_physical = self._physical(file, count - 1)
            break
        self._revise_min()
        self._revise_max()

    def destroy(self) -> None:
        """Delete all files."""
        for file in list(self.files.files):
            self.files.drop(file)
        self.max_physical, self._min_offset, self._max_offset = -1, -1, 0
        self._cached = []

    def correct_min(self, physical_min: int) -> None:
        """Set the min behind the first file's leading units that the log no longer holds."""
        self._revise_min()
        cached = {int(units[0]["base_queue_offset"]): f for f in self.files.files if len(units := self._first(f))}
        self._cached = sorted(cached.items(), key=lambda item: item[0])
        if not self.files.files:
            return
        file = self.files.files[0]
        units = self.units(file, 0, file.wrote)
        kept = np.flatnonzero(units["physical_offset"] >= physical_min)
        gone = int(kept[0]) if len(kept) else len(units)
        if gone:
            last = units[gone - 1]
            self._min_offset = int(last["base_queue_offset"]) + int(last["batch_size"])

    def _first(self, file: Mapped) -> format_.Units:
        return self.units(file, 0, UNIT) if file.wrote >= UNIT else self.units(file, 0, 0)

    def _revise_min(self) -> None:
        if not self.files.files:
            self._max_offset, self._min_offset, self.min_position = 0, -1, -1
            return
        first = self.files.files[0]
        self.min_position = first.base
        units = self._first(first)
        self._min_offset = int(units[0]["base_queue_offset"]) if len(units) else -1

    def _revise_max(self) -> None:
        self._max_offset = 0
        for file in self.files.files[:-RECOVERED_FILES:-1]:  # the last, and the one before it if that is empty
            if file.wrote >= UNIT:
                unit = self.units(file, file.wrote - UNIT, file.wrote)[0]
                self._max_offset = int(unit["base_queue_offset"]) + int(unit["batch_size"])
                return

    # ---- Dispatch

    def put(self, request: Request) -> bool:
        """Append the record's unit, unless the queue is ahead of it; tell whether one was written.

        Raises:
            QueuesStopError: Its file cannot be made, or ends amid a unit.
        """
        if request.base < 0 or request.batch < 0 or request.offset <= self.max_physical:
            return False
        files = self.files.files
        if not files or files[-1].wrote >= files[-1].size:
            self.files.append_file(files[-1].stop if files else 0)
        file = files[-1]
        fresh = file.wrote < UNIT
        unit = PACKED.pack(
            request.offset, request.size, request.tags_code, request.store_ms, request.base, request.batch,
            NOT_COMPACTED, 0,
        )  # fmt: skip
        if not self.files.append(file, unit):
            raise QueuesStopError(f"{file.path} ends amid a unit")
        self.max_physical = request.offset
        self._max_offset = request.base + request.batch
        if file.first and self.min_offset == -1:
            self._revise_min()
        if fresh:
            self._cached = [item for item in self._cached if item[0] != request.base]
            self._cached.insert(bisect_right([base for base, _ in self._cached], request.base), (request.base, file))
        return True

    def put_unit(self, offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Refuse a light queue's unit: the broker takes every light queue for an ordinary one.

        Raises:
            JavaError: Always.
        """
        raise JavaError("ClassCastException")

    # ---- Reading

    def locate(self, queue_offset: int) -> tuple[Mapped, int] | None:
        """Return file and position of the unit that holds a queue offset, as the broker searches it.

        Raises:
            JavaError: The last file is empty, and the broker asks it for its first unit.
        """
        files = self.files.files
        if queue_offset >= self.max_offset or not files:
            return None
        last = self._first(files[-1])
        file: Mapped | None = files[-1]
        if not len(last) or int(last[0]["base_queue_offset"]) > queue_offset:
            file = self._from_cache(queue_offset)
            if file is None:
                first = self._first(files[0])
                if not len(first) or int(first[0]["base_queue_offset"]) > queue_offset:
                    return None
                if not len(last):
                    raise JavaError("NullPointerException")
                file = self._from_files(queue_offset)
        if file is None or file.wrote < UNIT:
            return None
        at = _search(self.units(file, 0, file.wrote)["base_queue_offset"].tolist(), queue_offset)
        return None if at is None else (file, at * UNIT)

    def next_base(self, queue_offset: int) -> int:
        """Return the next queue offset at which a search may end otherwise than at this one."""
        columns = [self.units(f, 0, f.wrote)["base_queue_offset"] for f in self.files.files]
        bases = np.concatenate([np.empty(0, np.int64), *columns])
        if (bases == queue_offset).any():
            return queue_offset + 1
        return int(bases[bases > queue_offset].min(initial=self._max_offset))

    def _from_cache(self, queue_offset: int) -> Mapped | None:
        at = bisect_right([base for base, _ in self._cached], queue_offset)
        return self._cached[at - 1][1] if at else None

    def _from_files(self, queue_offset: int) -> Mapped | None:
        for file in reversed(self.files.files):
            units = self._first(file)
            if len(units) and int(units[0]["base_queue_offset"]) <= queue_offset:
                return file
        return None


def _search(bases: list[int], wanted: int) -> int | None:
    """Return the number of the unit at which the broker's bisection ends, None where it finds none."""
    left, right, most = 0, len(bases) - 1, len(bases) - 1
    while left <= right:
        middle = (left + right) // 2
        if bases[middle] == wanted:
            return middle
        if bases[middle] > wanted:
            right = middle - 1
        elif middle == left:
            return middle + 1 if middle + 1 <= most and bases[middle + 1] <= wanted else middle
        else:
            left = middle
    return None

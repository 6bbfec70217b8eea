"""One consume queue as the broker recovers, appends, truncates and reads it.

Source: ``ConsumeQueue``.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.format import consumequeue as format_
from storeio.kernels import place
from storeio.simulate.disk import Disk
from storeio.simulate.ends import JavaError
from storeio.simulate.java import MAX_LONG, as_long, quotient, remainder
from storeio.simulate.mapped import Mapped, MappedQueue
from storeio.simulate.message import Request
from storeio.simulate.queueext import NO_ADDRESS, QueueExt, is_address
from storeio.simulate.rules import Rules
from storeio.simulate.unit_search import bisected, last_address

Mask = npt.NDArray[np.bool_]

UNIT: Final = format_.UNIT_BYTES
PRE_BLANK: Final = struct.pack(">qiq", 0, 2**31 - 1, 0)
PIECE: Final = 8192 * UNIT  # read at once where only the front of a file may matter


class Recovered(NamedTuple):
    """What recovery found in the last file with units: how many, the highest offset, where the last one ends, and
    where the first and the last one point."""

    file: Mapped
    units: int
    highest: int
    end: int
    first: int
    last: int


class ConsumeQueue:
    """A queue's files and the three numbers that a broker keeps of it.

    ``shifted`` counts the units that were appended at another number than their record's; ``put``
    tells whether a record's unit is there afterwards because of this call.
    """

    unit_bytes = UNIT

    def __init__(
        self, disk: Disk, topic: str, queue_id: int, file_bytes: int, rules: Rules, ext: QueueExt | None = None
    ) -> None:
        self.topic, self.queue_id, self.rules, self.ext = topic, queue_id, rules, ext
        self.files = MappedQueue(disk, f"consumequeue/{topic}/{queue_id}", file_bytes)
        self.max_physical = -1
        self.min_position = 0
        self.shifted = 0
        self._recovered: Recovered | None = None

    # ---- What the broker asks

    @property
    def end(self) -> int:
        """Queue position behind the last unit, 0 without files."""
        return self.files.max_offset

    @property
    def max_offset(self) -> int:
        """Queue offset behind the last unit."""
        return quotient(self.end, UNIT)

    @property
    def min_offset(self) -> int:
        """First queue offset that consumers get."""
        return quotient(self.min_position, UNIT)

    @property
    def hides(self) -> str:
        """The path of the file that takes new units where readers do not find them; else empty."""
        return self.files.hides

    def units(self, file: Mapped, start: int = 0, stop: int | None = None) -> format_.Units:
        """Return whole units of a file between two positions of it."""
        stop = file.size if stop is None else stop
        stop = start + max(stop - start, 0) // UNIT * UNIT
        return self.files.read(file, start, stop).view(format_.UNIT)

    # ---- Start

    def load(self) -> None:
        """List the files, those of the ext units, too.

        Raises:
            RefusesError: One that no broker of this line passes over.
        """
        self.files.load(self.rules)
        if self.ext is not None:
            self.ext.load(self.rules)

    def recover(self) -> None:
        """Find the end of the queue in its last three files; delete what lies behind it.

        Raises:
            JavaError: The ext units cannot be read.
        """
        files = self.files.files
        if not files:
            return
        point, address = 0, NO_ADDRESS
        for i in range(max(len(files) - format_.RECOVERED_FILES, 0), len(files)):
            units = self.units(files[i])
            count, highest = (int(n) for n in place.leading_units(units.view(np.uint8), 0, MAX_LONG))
            if count:
                self._take_end(units[count - 1])
                first, last = units["physical_offset"][[0, count - 1]].tolist()
                self._recovered = Recovered(files[i], count, highest, self.max_physical, first, last)
                address = last_address(units[:count], address) if self.ext is not None else address
            point = as_long(files[i].base + count * UNIT)
            if count * UNIT < files[i].size:
                break
        self.files.truncate(point)
        if self.ext is not None:
            self.ext.recover()
            self.ext.truncate_after(address)

    def _take_end(self, unit: np.void) -> None:
        self.max_physical = as_long(int(unit["physical_offset"]) + int(unit["size"]))

    def truncate(self, physical_offset: int) -> None:
        """Cut the units that point behind the log's end, as ``truncateDirtyLogicFiles`` understands it.

        A file's first unit is taken as it is, and what looks like units behind the end comes back.
        """
        self.max_physical = physical_offset
        while self.files.files:
            file = self.files.files[-1]
            known = self._recovered
            if known and known.file is file and file.wrote == known.units * UNIT and known.highest < physical_offset:
                self.max_physical = known.end  # what recovery found has not changed, and all of it stays
                return
            units = self.units(file)
            if not len(units):
                return
            if int(units["physical_offset"][0]) >= physical_offset:
                file.wrote = 0
                self.files.drop(file)
                continue
            most = min(physical_offset - 1, MAX_LONG)
            count, _ = (int(n) for n in place.leading_units(units.view(np.uint8), 1, most))
            file.wrote = count * UNIT
            self._take_end(units[count - 1])
            return

    def destroy(self) -> None:
        """Delete all files."""
        for file in list(self.files.files):
            self.files.drop(file)
        self.max_physical, self.min_position = -1, 0
        if self.ext is not None:
            self.ext.destroy()

    def correct_min(self, physical_min: int) -> None:
        """Set the queue's min to the first unit that the log still holds.

        Raises:
            JavaError: The last file holds no unit, and the broker reads before its start.
        """
        if self.rules.min_by_scan:
            self._min_by_scan(physical_min)
        else:
            self._min_by_search(physical_min)

    def _min_by_scan(self, physical_min: int) -> None:
        if not self.files.files:
            return
        first = self.files.files[0]
        if first.wrote >= UNIT and self._physical_at(first, 0) >= physical_min:
            self._begin_at(first, 0)
            return
        for start in range(0, first.wrote, PIECE):
            offsets = self.units(first, start, min(start + PIECE, first.wrote))["physical_offset"]
            found = np.flatnonzero(offsets >= physical_min)
            if len(found):
                self._begin_at(first, start + int(found[0]) * UNIT)
                return

    def _physical_at(self, file: Mapped, at: int) -> int:
        """Return where the unit at a position of a file points, of which there is all."""
        known = self._recovered
        if known and known.file is file and not self.files.disk.changed(file.path):
            if at == 0:
                return known.first
            if at == (known.units - 1) * UNIT:
                return known.last
        return int(self.units(file, at, at + UNIT)["physical_offset"][0])

    def _begin_at(self, file: Mapped, at: int) -> None:
        """Set the min to the unit at a position of a file; delete ext files before the one that it names."""
        self.min_position = as_long(file.base + at)
        if self.ext is not None:
            self.ext.truncate_before(int(self.units(file, at, at + UNIT)["tags_code"][0]))

    def _min_by_search(self, physical_min: int) -> None:
        files = self.files.files
        if not files and self.rules.min_of_empty:
            self.min_position, self.max_physical = 0, -1
            return
        past = self.min_position > self.end if self.rules.min_of_empty else self.min_position >= self.end
        if past or not files:
            return
        last = files[-1]
        if last.wrote >= UNIT or self.rules.reads_empty_last:
            if last.wrote < UNIT:
                raise JavaError("position before the file")
            if self._physical_at(last, last.wrote - UNIT) < physical_min:
                self.min_position = self.end
                return
        first = files[0]
        start = self.min_position - first.base
        intact = start >= 0
        start = max(start, 0)
        if start >= first.wrote:
            return
        if intact and start + UNIT <= first.wrote and self._physical_at(first, start) >= physical_min:
            return  # as in most stores; the rest of the file need not be read
        at = bisected(self.files.read(first, start, first.wrote).data, physical_min, intact=intact)
        if at is not None:
            self._begin_at(first, start + at)

    # ---- Dispatch

    def put(self, request: Request) -> bool:
        """Append the record's unit, unless the queue is ahead of it; tell whether one was written."""
        tags_code = request.tags_code
        if self.ext is not None:  # before the queue tells whether it wants the unit
            address = self.ext.put(tags_code, request.store_ms)
            tags_code = address if is_address(address) else tags_code
        return self.put_unit(request.offset, request.size, tags_code, request.queue_offset)

    def put_unit(self, offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Append a unit as ``putMessagePositionInfo`` does.

        Raises:
            QueuesStopError: Its file cannot be made.
        """
        end = as_long(offset + size)
        if end <= self.max_physical:
            return False
        expected = as_long(queue_offset * UNIT)
        file = self._file_for(expected)
        if file.first and queue_offset != 0 and file.wrote == 0:
            self.min_position = expected
            self._pre_blank(file, remainder(expected, file.size))
        current = file.end
        if queue_offset != 0 and expected != current:
            if expected < current:
                return False
            self.shifted += 1
        self.max_physical = end  # before it is written: where the file has no room, the second try takes it for done
        return self.files.append(file, struct.pack(">qiq", offset, size, tags_code))

    def _file_for(self, expected: int) -> Mapped:
        if not self.files.files:
            return self.files.append_file(expected - remainder(expected, self.files.size))
        last = self.files.files[-1]
        return last if last.wrote < last.size else self.files.append_file(last.stop)

    def _pre_blank(self, file: Mapped, stop: int) -> None:
        self.files.append(file, PRE_BLANK * -(-stop // UNIT))

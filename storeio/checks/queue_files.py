"""The files of one queue as one array of units: where a unit lies, and reading across files."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.ranges import Ranges, whole_units
from storeio.findings import Finding
from storeio.format import batchqueue, consumequeue
from storeio.kernels import units as kernel
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, StoreFile, file_name, has_usual_name, queue_directory

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Read = Callable[[str, int, int], Bytes]
"""``read(path, start, stop)``: exactly these bytes of a file of the store."""

MOST_BETWEEN: Final = 4  # times as many units as are wanted may be read along with them
UNIT_BYTES: Final = {CONSUMEQUEUE: consumequeue.UNIT_BYTES, BATCHQUEUE: batchqueue.UNIT_BYTES}


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue; the summary's numbers are units of this file."""

    path: str
    base: int
    size: int
    used_bytes: int = 0
    first_real: int = -1
    last_real: int = -1
    ordered: bool = True
    first_physical: int = -1
    last_physical: int = -1


@dataclass(frozen=True)
class Queue:
    """One queue's files by base offset; what needs a look at all of them is looked at once, there may be thousands.

    A file's ``size`` is what of it belongs to the queue: not what reaches past the configured size
    or into the next file.
    """

    kind: str
    topic: str
    queue_id: int
    file_bytes: int
    files: tuple[QueueFile, ...] = ()

    @property
    def unit_bytes(self) -> int:
        """Bytes of one unit."""
        return UNIT_BYTES[self.kind]

    @property
    def directory(self) -> str:
        """Directory of the queue, relative to the store root."""
        return queue_directory(self.kind, self.topic, self.queue_id)

    @cached_property
    def real(self) -> tuple[QueueFile, ...]:
        """The files with units that point at something."""
        return tuple(f for f in self.files if f.first_real >= 0)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The numbers of units that each file holds something of, half-open."""
        size = self.unit_bytes
        return tuple((f.base // size, (f.base + f.used_bytes) // size + 1) for f in self.files)

    @cached_property
    def ordered(self) -> bool:
        """Whether units stand where they count and never point back over the whole queue: bisection finds them."""
        if any(f.base % self.unit_bytes for f in self.files):
            return False
        rising = all(a.last_physical <= b.first_physical for a, b in itertools.pairwise(self.real))
        return rising and all(f.ordered for f in self.files)

    @cached_property
    def stop(self) -> int:
        """Queue position behind the last byte that is not zero, rounded up to a unit; 0 without any."""
        used = [f.base + -(-f.used_bytes // self.unit_bytes) * self.unit_bytes for f in self.files if f.used_bytes]
        return max(used, default=0)

    @cached_property
    def last_real(self) -> int:
        """Number of the last unit that points at something; without any, of what would stand before the first unit."""
        numbers = [f.base // self.unit_bytes + f.last_real for f in self.files if f.last_real >= 0]
        return max(numbers, default=self.start // self.unit_bytes - 1)

    @property
    def start(self) -> int:
        """Queue position where the first file begins, 0 without files."""
        return self.files[0].base if self.files else 0

    def _at_or_before(self, position: int) -> int:
        """Return the index of the last file that begins at or before a queue position, 0 without any."""
        return max(bisect_right(self.files, position, key=lambda file: file.base) - 1, 0)

    def path_at(self, position: int) -> tuple[str, int]:
        """Return the file that holds or should hold a queue position, and the position in it.

        Where the queue has no file at all it is the directory and the queue position itself.
        """
        file = self.files[self._at_or_before(position)] if self.files else None
        if file is not None and file.base <= position < file.base + max(file.size, 1):
            return file.path, position - file.base
        if file is None:
            return self.directory, position
        base = position // self.file_bytes * self.file_bytes
        return f"{self.directory}/{file_name(base)}", position - base

    def gap_before(self, number: int) -> int:
        """Return the first of the units right before one that no file holds the whole of; the unit itself without any.

        Before the first file it is the first of one more file.
        """
        size = self.unit_bytes
        position = number * size
        if not self.files or number <= 0:
            return number
        if position <= self.start:
            return max(number - self.file_bytes // size, 0)
        file = self.files[self._at_or_before(position - 1)]
        return min(number, (file.base + file.size) // size)

    def pieces(self, start: int, stop: int) -> list[tuple[QueueFile | None, int, int]]:
        """Return ``[start, stop)`` of the queue cut at file borders: file or None, and queue positions."""
        found: list[tuple[QueueFile | None, int, int]] = []
        at = start
        for place in range(self._at_or_before(start), len(self.files)):  # none before it is touched
            file = self.files[place]
            end = file.base + file.size
            if file.base >= stop:
                break
            if end <= at:
                continue
            if file.base > at:
                found.append((None, at, file.base))
                at = file.base
            found.append((file, at, min(end, stop)))
            at = min(end, stop)
        if at < stop:
            found.append((None, at, stop))
        return found

    def read(self, read: Read, start: int, stop: int) -> tuple[Bytes, list[tuple[int, int]]]:
        """Return bytes ``[start, stop)`` of the queue and the ranges of it that no file holds.

        Ranges are queue positions; absent bytes read as zeros.
        """
        pieces = self.pieces(start, stop)
        if len(pieces) == 1 and pieces[0][0] is not None:
            file = pieces[0][0]
            return read(file.path, start - file.base, stop - file.base), []
        data = np.zeros(stop - start, np.uint8)
        absent: list[tuple[int, int]] = []
        for file_or_none, low, high in pieces:
            if file_or_none is None:
                absent.append((low, high))
            else:
                base = file_or_none.base
                data[low - start : high - start] = read(file_or_none.path, low - base, high - base)
        return data, absent


def by_number(queue: Queue, read: Read, numbers: Numbers, *, runs: int) -> Callable[[int, int], tuple[Bytes, Ranges]]:
    """Return what gives a queue's units ``[first, stop)`` as ``Queue.read`` does, from numbers of units.

    All that lie between the lowest and the highest of some numbers, ``runs`` stretches of them, are read at once where
    that is not many more: damage leaves short runs, and reading each takes ten times as long as comparing it.
    """
    size = queue.unit_bytes

    def alone(first: int, stop: int) -> tuple[Bytes, Ranges]:
        return queue.read(read, first * size, stop * size)

    if runs < 2:
        return alone
    low, high = int(np.min(numbers)), int(np.max(numbers)) + 1
    if low < 0 or high - low > MOST_BETWEEN * len(numbers):
        return alone
    data, absent = alone(low, high)

    def part(first: int, stop: int) -> tuple[Bytes, Ranges]:
        start, end = first * size, stop * size
        gone = [(max(a, start), min(b, end)) for a, b in absent if a < end and b > start]
        return data[start - low * size : end - low * size], gone

    return part


def summarize_file(file: StoreFile, read: Callable[[int, int], Bytes], stretches: Ranges) -> QueueFile:
    """Return a queue file's summary. Of its bytes, which ``read`` gives, all outside of the stretches are zero."""
    unit = UNIT_BYTES[file.kind]
    whole, end = [0, -1, -1, 1, -1, -1], 0
    for start, stop in whole_units(stretches, 0, file.size, unit):
        summary = np.zeros(kernel.SUMMARY_PLACES, np.int64)
        kernel.summarize(read(start, stop), unit, summary)
        used, first, last, ordered, first_physical, last_physical = summary.tolist()
        if not used:
            continue
        # Zero units in front of others are not in order.
        follows = start < end + unit and (last < 0 or whole[kernel.LAST_PHYSICAL] <= first_physical)
        whole[kernel.ORDERED] &= ordered & follows
        end = whole[kernel.USED_BYTES] = start + used
        if last >= 0:
            if whole[kernel.FIRST_REAL] < 0:
                whole[kernel.FIRST_REAL], whole[kernel.FIRST_PHYSICAL] = start // unit + first, first_physical
            whole[kernel.LAST_REAL], whole[kernel.LAST_PHYSICAL] = start // unit + last, last_physical
    return summary_of(file, whole)


def summary_of(file: StoreFile, places: Sequence[int]) -> QueueFile:
    """Return a queue file's summary from the places that ``kernels.units.summarize`` filled."""
    used, first, last, ordered, first_physical, last_physical = places
    return QueueFile(
        file.path, file.base_offset or 0, file.size, used, first, last, bool(ordered), first_physical, last_physical
    )


def unwritten_files(queue: Queue, stop: int) -> list[Finding]:
    """Return findings for files that no record has a unit in: those of a queue of which none holds anything.

    And those behind number ``stop``, where the queue's records end, if a recovery stops at one of them: behind a full
    file, or where the files that it reads hold nothing.

    Source: ``truncateDirtyLogicFiles`` of both kinds of queues, which takes a file's first unit for one whatever it
    holds.
    """
    files = queue.files
    if queue.stop:
        is_full = any(f.base + f.size == queue.stop for f in files if f.used_bytes)
        is_deep = not any(f.used_bytes for f in files[-consumequeue.RECOVERED_FILES :])
        end = max(queue.stop, 0 if queue.kind == BATCHQUEUE else stop * queue.unit_bytes)  # a batch has several numbers
        files = tuple(f for f in files if (is_full or is_deep) and f.base >= end)
    size, detail = queue.unit_bytes, "zeros alone"
    code = "BCQ_UNWRITTEN" if queue.kind == BATCHQUEUE else "CQ_UNWRITTEN"
    return [
        Finding(
            code, file.path, 0, file.size, queue.topic, queue.queue_id, file.base // size, None,
            file.size // size, detail,
        )
        for file in files
        if file.size >= size
    ]  # fmt: skip


def gather(kind: str, file_bytes: int, files: Iterable[tuple[StoreFile, QueueFile]]) -> list[Queue]:
    """Return the queues of one kind from their summarized files, by topic and queue id."""
    found: dict[tuple[str, int], list[QueueFile]] = {}
    for entry, summary in files:
        if entry.kind == kind and entry.topic is not None and entry.queue_id is not None:
            found.setdefault((entry.topic, entry.queue_id), []).append(summary)
    return [
        Queue(kind, topic, queue_id, file_bytes, _clipped(parts, file_bytes, UNIT_BYTES.get(kind, 1)))
        for (topic, queue_id), parts in sorted(found.items())
    ]


def _clipped(files: Sequence[QueueFile], file_bytes: int, unit_bytes: int) -> tuple[QueueFile, ...]:
    """Return the files by base offset, none of them reaching into the next; of several the one with the usual name.

    One that begins amid a unit of another is left out: it has nothing of the queue, and takes nothing from the other.
    """
    ordered = sorted(files, key=lambda f: (f.base, has_usual_name(f.path, f.base)))
    own: list[QueueFile] = []
    for file in ordered:
        if not own or file.base % unit_bytes == 0 or file.base >= own[-1].base + min(own[-1].size, file_bytes):
            own.append(file)
    limits = [b.base - a.base for a, b in itertools.pairwise(own)] + [file_bytes]
    return tuple(_cut(file, min(file_bytes, limit)) for file, limit in zip(own, limits, strict=True))


def _cut(file: QueueFile, limit: int) -> QueueFile:
    size = max(min(file.size, limit), 0)
    return file if size == file.size else replace(file, size=size, used_bytes=min(file.used_bytes, size))

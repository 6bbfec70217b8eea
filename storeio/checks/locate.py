"""Finding units of a queue by the physical offset that they point at."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import Queue, Read
from storeio.errors import UnreadableError
from storeio.format import batchqueue, consumequeue
from storeio.format import commitlog as log
from storeio.paths import BATCHQUEUE, COMMITLOG, file_name

Numbers = npt.NDArray[np.int64]

PIECE_UNITS: Final = 1 << 20  # of a queue without order that are looked at together
READ_UNITS: Final = 512  # among which to look for one place is cheaper than to read some more units one by one


def decode(queue: Queue, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.void]:
    """View bytes of the queue as its kind's units; what is no whole unit at the end is left out."""
    whole = data[: len(data) // queue.unit_bytes * queue.unit_bytes]
    form = batchqueue.UNIT if queue.kind == BATCHQUEUE else consumequeue.UNIT
    return np.ascontiguousarray(whole).view(form)


def stretch(queue: Queue, read: Read, low: int, high: int) -> tuple[Numbers, npt.NDArray[np.void]]:
    """Return numbers and units of all that point into ``[low, high)``, whatever else is wrong with them.

    A queue in order is bisected; any other is read as a whole, in pieces. Filler, zeros, and what no file holds the
    whole of are left out.
    """
    if not queue.files:
        return np.empty(0, np.int64), decode(queue, np.empty(0, np.uint8))
    first, stop = (_bisect(queue, read, low), _bisect(queue, read, high)) if queue.ordered else (0, 2**62)
    pieces = [(first, stop)]
    if stop - first > PIECE_UNITS and stop - first > sum(end - begin for begin, end in queue.spans):
        # In no order, or files lie far apart: nothing is read in between.
        parts = [(max(begin, first), min(end, stop)) for begin, end in queue.spans]
        pieces = [(n, min(n + PIECE_UNITS, end)) for begin, end in parts for n in range(begin, end, PIECE_UNITS)]
    numbers: list[Numbers] = []
    units: list[npt.NDArray[np.void]] = []
    last = -(-queue.stop // queue.unit_bytes)
    for first, stop in pieces:
        stop = min(stop, last)
        if stop <= first:
            continue
        data, absent = queue.read(read, first * queue.unit_bytes, stop * queue.unit_bytes)
        found = decode(queue, data)
        inside = (found["physical_offset"] >= low) & (found["physical_offset"] < high) & (found["size"] > 0)
        inside &= found["size"] != consumequeue.PRE_BLANK_SIZE
        for start, end in absent:
            inside[start // queue.unit_bytes - first : -(-end // queue.unit_bytes) - first] = False
        numbers.append(np.flatnonzero(inside) + first)
        units.append(found[inside])
    if not units:
        return np.empty(0, np.int64), decode(queue, np.empty(0, np.uint8))
    return np.concatenate(numbers), np.concatenate(units)


def _bisect(queue: Queue, read: Read, physical: int) -> int:
    """Return the number of the first unit that points at or behind ``physical``; the queue is in order."""
    place = bisect_left(queue.real, physical, key=lambda file: file.last_physical)
    if place == len(queue.real):
        return -(-queue.stop // queue.unit_bytes)
    file = queue.real[place]
    low, high, size = file.first_real, file.last_real, queue.unit_bytes
    while high - low > READ_UNITS:
        middle = (low + high) // 2
        offset = int(decode(queue, read(file.path, middle * size, (middle + 1) * size))[0]["physical_offset"])
        if offset < physical:
            low = middle + 1
        else:
            high = middle
    if low < high:
        rest = decode(queue, read(file.path, low * size, high * size))["physical_offset"].astype(np.int64)
        low += int(np.searchsorted(rest, physical))
    return file.base // size + low


def numbers_of(queue: Queue, read: Read, physical: Numbers) -> Numbers:
    """Return for each physical offset the number of the unit that points at it, -1 for none.

    ``physical`` is sorted, shape ``(n,)``; the first unit wins where several point at one place.
    """
    if not len(physical):
        return np.empty(0, np.int64)
    return number_in(*numbers_by_place(queue, read, int(physical[0]), int(physical[-1]) + 1), physical)


def numbers_by_place(queue: Queue, read: Read, low: int = 0, high: int = 2**63 - 1) -> tuple[Numbers, Numbers]:
    """Return where all units point that point into ``[low, high)``, sorted, and their numbers."""
    numbers, units = stretch(queue, read, low, high)
    offsets = units["physical_offset"].astype(np.int64)
    order = np.argsort(offsets, kind="stable")
    return offsets[order], numbers[order]


def number_in(places: Numbers, numbers: Numbers, physical: Numbers) -> Numbers:
    """Return for each physical offset the first number at its place, -1 for none; ``places`` are sorted."""
    result = np.full(len(physical), -1, np.int64)
    place = np.searchsorted(places, physical)
    hit = place < len(places)
    hit[hit] = places[place[hit]] == physical[hit]
    result[hit] = numbers[place[hit]]
    return result


class Places:
    """Where the units of a queue stand that point into ``[low, high)``: looked for where they are asked for, of a queue
    without order all at once, which is read but once then."""

    def __init__(self, queue: Queue, read: Read, low: int, high: int) -> None:
        self._queue, self._read, self._bounds = queue, read, (low, high)
        self._table: tuple[Numbers, Numbers] | None = None

    def numbers_of(self, physical: Numbers) -> Numbers:
        """Return what ``numbers_of`` does, for physical offsets in these bounds."""
        if self._table is None:
            if self._queue.ordered:
                return numbers_of(self._queue, self._read, physical)
            self._table = numbers_by_place(self._queue, self._read, *self._bounds)
        return number_in(*self._table, physical)


def numbers_behind(queue: Queue, read: Read, physical: Numbers) -> Numbers:
    """Return for each physical offset the first number that points at it or behind it, the queue's end if none does.

    ``physical`` is sorted, shape ``(n,)``, not empty.
    """
    high = int(physical[-1]) + 1
    ordered = queue.ordered and bool(queue.files)
    places, numbers = numbers_by_place(queue, read, int(physical[0]), high if ordered else 2**63 - 1)
    last = _bisect(queue, read, high) if ordered else -(-queue.stop // queue.unit_bytes)
    return np.append(numbers, last)[np.searchsorted(places, physical)]


def told_number(read: Read, physical: int, segment_bytes: int) -> int | None:
    """Return the queue offset that stands in the record at a place, None without its bytes.

    A split asks so for the neighbours of its first and last records, which other splits have.
    """
    base = physical - physical % segment_bytes
    at = physical - base + log.QUEUE_OFFSET_AT
    try:
        field = read(f"{COMMITLOG}/{file_name(base)}", at, at + 8)
    except UnreadableError:
        return None
    return int.from_bytes(field.tobytes(), "big", signed=True) if len(field) == 8 else None

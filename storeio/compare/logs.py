"""Two logs, byte by byte where both have bytes: the ranges that differ, and what stands there on either side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from storeio.audit import Concluded
from storeio.checks.ranges import merged, near_ranges, subtract
from storeio.checks.segments import CLASS_NAMES, Segment
from storeio.compare.model import (
    A_ALONE,
    A_DAMAGED,
    B_ALONE,
    B_DAMAGED,
    BOTH_DAMAGED,
    DIVERGED,
    LogRange,
    QueueDifference,
    Ranges,
)  # fmt: skip
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.kernels.group import RUN_FIRST, RUN_STOP
from storeio.scan import naming_store
from storeio.splits import Split
from storeio.walk import walk_split

AT_ONCE: Final = 16 << 20
NEAR: Final = 64  # bytes between differences that are told as one
MISSING: Final = "missing"


class Log:
    """The log of one audited store, by physical offset."""

    def __init__(self, found: Concluded) -> None:
        self.found = found
        self.size = found.plan.segment_bytes
        self.segments = {segment.base: segment for segment in found.view.segments}
        self.start, self.end = found.view.min_physical_offset, found.view.max_physical_offset

    def read(self, start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]] | None:
        """Return bytes within one segment, None where the log has no file for all of them."""
        segment = self.segments.get(start - start % self.size)
        if segment is None or stop - segment.base > segment.file.size:
            return None
        return self._bytes(segment.file.path, start - segment.base, stop - segment.base)

    def _bytes(self, path: str, start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        with naming_store(self.found.plan.root):
            return self.found.plan.read(path, start, stop)

    def class_at(self, place: int) -> str:
        """Return the class of the byte at a place."""
        segment = self.segments.get(place - place % self.size)
        if segment is None or place - segment.base >= segment.file.size:
            return MISSING
        i = bisect_right(segment.spans[w.SPAN_START], place - segment.base) - 1
        return CLASS_NAMES[int(segment.spans[w.SPAN_CLASS, i])] if i >= 0 else MISSING

    def records_around(self, place: int) -> tuple[int, int] | None:
        """Return start and stop of the intact record that holds the byte at a place."""
        segment: Segment | None = self.segments.get(place - place % self.size)
        if segment is None or self.class_at(place) != "record":
            return None
        inside = place - segment.base
        size = min(segment.file.size, self.size)
        split = Split(segment.file.path, segment.base, size, max(inside - log.MOST_RECORD_BYTES, 0), inside + 1)
        found = walk_split(lambda low, high: self._bytes(segment.file.path, low, high), split).records
        starts = found[w.R_POSITION]
        i = int(np.searchsorted(starts, inside, side="right")) - 1
        return None if i < 0 else (segment.base + int(starts[i]), segment.base + int(starts[i] + found[w.R_SIZE, i]))


def differing(one: Log, other: Log) -> Iterator[tuple[int, int]]:
    """Yield the ranges that differ within what both logs reach over, neighbours joined; what one lacks differs."""
    start, stop = max(one.start, other.start), min(one.end, other.end)
    held: tuple[int, int] | None = None
    for low, high in _windows(start, stop, one.size):
        for found in _in_window(one, other, low, high):
            if held is not None and found[0] - held[1] <= NEAR:
                held = held[0], found[1]
                continue
            if held is not None:
                yield held
            held = found
    if held is not None:
        yield held


def _windows(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    at = start
    while at < stop:
        high = min(at + AT_ONCE, at - at % size + size, stop)
        yield at, high
        at = high


def _in_window(one: Log, other: Log, low: int, high: int) -> Iterator[tuple[int, int]]:
    a, b = one.read(low, high), other.read(low, high)
    if a is None or b is None:
        if a is not None or b is not None:
            yield low, high
        return
    if np.array_equal(a, b):
        return
    yield from near_ranges(np.flatnonzero(a != b) + low, NEAR)


def judged(one: Log, other: Log, start: int, stop: int) -> LogRange:
    """Return a range that differs with what stands there."""
    classes = one.class_at(start), other.class_at(start)
    sound = [name in ("record", "blank") for name in classes]
    why = {(True, True): DIVERGED, (False, True): A_DAMAGED, (True, False): B_DAMAGED, (False, False): BOTH_DAMAGED}
    return LogRange(start, stop, why[sound[0], sound[1]], *classes)


def alone(one: Log, other: Log) -> Iterator[LogRange]:
    """Yield what only one of the logs reaches over."""
    for mine, their, why in ((one, other, A_ALONE), (other, one, B_ALONE)):
        for low, high in subtract((mine.start, mine.end), [(their.start, their.end)]):
            names = ("record", MISSING) if why == A_ALONE else (MISSING, "record")
            yield LogRange(low, high, why, *names)


def queue_differences(one: Log, other: Log) -> list[QueueDifference]:
    """Return, queue by queue, the numbers of records that one log alone has."""
    found = []
    for queue in sorted({*one.found.runs, *other.found.runs}):
        mine, theirs = _numbers(one, queue), _numbers(other, queue)
        first, second = _without(mine, theirs), _without(theirs, mine)
        if first or second:
            found.append(QueueDifference(*queue, first, second))
    return found


def _numbers(side: Log, queue: tuple[str, int]) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for table in side.found.runs.get(queue, ()):
        rows += zip(table[RUN_FIRST].tolist(), table[RUN_STOP].tolist(), strict=True)
    return merged(rows)


def _without(ranges: Iterable[tuple[int, int]], others: list[tuple[int, int]]) -> Ranges:
    return tuple(part for row in ranges for part in subtract(row, others))

"""Half-open ranges of whole numbers: unit numbers, queue offsets, physical offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Range = tuple[int, int]
Ranges = list[Range]
Numbers = npt.NDArray[np.int64]


def near_ranges(positions: Numbers, near: int) -> Iterator[Range]:
    """Yield the half-open ranges that rising positions cover, those joined that lie at most ``near`` apart."""
    edges = np.flatnonzero(np.diff(positions) > near)
    starts = np.append(positions[:1], positions[edges + 1])
    stops = np.append(positions[edges], positions[-1:]) + 1
    yield from zip(starts.tolist(), stops.tolist(), strict=True)


def merged(ranges: Iterable[Range]) -> Ranges:
    """Return the ranges sorted, with those joined that touch or overlap."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def meeting(ranges: Sequence[Range], low: int, high: int) -> Sequence[Range]:
    """Return those of merged ranges that share a number with ``[low, high)``."""
    first = bisect_right(ranges, low, key=lambda one: one[1])
    return ranges[first : bisect_left(ranges, high, first, key=lambda one: one[0])]


def subtract(whole: Range, ranges: Sequence[Range]) -> Ranges:
    """Return what of ``whole`` lies in none of merged ranges."""
    left = []
    at = whole[0]
    for low, high in meeting(ranges, *whole):
        if low > at:
            left.append((at, low))
        at = max(at, high)
    if at < whole[1]:
        left.append((at, whole[1]))
    return left


def add(ranges: Ranges, row: Range) -> None:
    """Put one more range into merged ones."""
    first = bisect_left(ranges, row[0], key=lambda one: one[1])
    stop = bisect_right(ranges, row[1], first, key=lambda one: one[0])
    ranges[first:stop] = merged([row, *ranges[first:stop]])


def whole_units(stretches: Iterable[Range], start: int, stop: int, unit: int) -> Ranges:
    """Return what of ``[start, stop)`` those units hold that a stretch touches; they are counted from ``start`` on."""
    found: Ranges = []
    for low, high in stretches:
        first = max(low - start, 0) // unit * unit + start
        last = min(-(-(high - start) // unit) * unit + start, stop)
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        elif first < last:
            found.append((first, last))
    return found


class Bounds:
    """Many ranges that may overlap, in any order: which of them share a number with another one."""

    def __init__(self, ranges: npt.ArrayLike) -> None:
        """Take the ranges, shape ``(n, 2)``."""
        bounds = np.asarray(ranges, np.int64).reshape(-1, 2)
        self._order = np.argsort(bounds[:, 0], kind="stable")
        self._starts, self._stops = bounds[self._order].T
        self._highest = np.maximum.accumulate(self._stops)

    def meeting(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the indices of those that share a number with ``[start, stop)``, rising."""
        low, high = np.searchsorted(self._highest, start, "right"), np.searchsorted(self._starts, stop, "left")
        return np.sort(self._order[low:high][self._stops[low:high] > start])


def touching(
    start: npt.NDArray[np.int64], length: npt.NDArray[np.int64], ranges: Sequence[Range]
) -> npt.NDArray[np.bool_]:
    """Tell which of many ranges share a number with one of merged ranges."""
    if not ranges:
        return np.zeros(len(start), np.bool_)
    starts = np.array([low for low, _ in ranges], np.int64)
    stops = np.array([high for _, high in ranges], np.int64)
    place = np.searchsorted(stops, start, side="right")
    hit = place < len(starts)
    hit[hit] = starts[place[hit]] < (start + length)[hit]
    return hit

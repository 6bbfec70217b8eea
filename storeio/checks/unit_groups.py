"""Units of a queue in groups of bounded size, what no file holds and wide holes of files left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.checks.ranges import Ranges, meeting, merged

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Stretches = Callable[[str, int, int], Iterable[tuple[int, int]]]
"""``stretches(path, start, stop)``: what of these bytes of a file is no hole; what is between is zero."""


CHUNK_UNITS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Units:
    """Units of some ranges of numbers, in order; of those ``gone`` no file holds, nor has the log any ``unknown``."""

    numbers: Numbers
    units: npt.NDArray[np.void]
    gone: Mask
    unknown: Mask

    def ranges(self, mask: Mask) -> Ranges:
        """Return the half-open ranges of indexes where the mask is True and the numbers follow on from each other."""
        which = np.flatnonzero(mask)
        if not len(which):
            return []
        cuts = np.flatnonzero((np.diff(which) != 1) | (np.diff(self.numbers[which]) != 1))
        firsts, lasts = which[np.concatenate(([0], cuts + 1))], which[np.concatenate((cuts, [len(which) - 1]))]
        return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def wide_gaps(queue: Queue, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield wide ranges of unit numbers of which no file holds a byte: a damaged name may be any number."""
    size = queue.unit_bytes
    for file, start, stop in queue.pieces(low * size, high * size):
        if file is None and stop - start > CHUNK_UNITS * size:
            yield -(-start // size), stop // size


def up_to_holes(queue: Queue, held: Ranges, stretches: Stretches) -> Iterator[tuple[Ranges, tuple[int, int]]]:
    """Yield pieces of units that are read, up to a wide hole of a file, and the hole; an empty one at last."""
    pieces: Ranges = []
    for low, high in held:
        holes = merged(_wide_holes(queue, low, high, stretches)) if high - low > CHUNK_UNITS else []
        for start, stop in [*holes, (high, high)]:
            pieces += [(first, min(first + CHUNK_UNITS, start)) for first in range(low, start, CHUNK_UNITS)]
            if start < stop:
                yield pieces, (start, stop)
                pieces = []
            low = stop
    yield pieces, (0, 0)


def _wide_holes(queue: Queue, low: int, high: int, stretches: Stretches) -> Iterator[tuple[int, int]]:
    """Yield wide ranges of unit numbers of which files hold nothing but holes: they may claim any length."""
    size = queue.unit_bytes
    for file, start, stop in queue.pieces(low * size, high * size):
        if file is None or stop - start <= CHUNK_UNITS * size:
            continue
        at = start
        for first, last in [*stretches(file.path, start - file.base, stop - file.base), (stop - file.base,) * 2]:
            if file.base + first - at > CHUNK_UNITS * size:
                yield -(-at // size), (file.base + first) // size
            at = file.base + last


def grouped(pieces: Ranges) -> Iterator[Ranges]:
    """Yield the pieces in groups, each of about as many units as are looked at together."""
    group: Ranges = []
    count = 0
    for low, high in pieces:
        if group and count + high - low > CHUNK_UNITS:
            yield group
            group, count = [], 0
        group.append((low, high))
        count += high - low
    if group:
        yield group


def read_units(queue: Queue, pieces: Ranges, claimed: Ranges, read: Read) -> Units:
    """Return the units of ranges of numbers of a queue, which are in no file, and which of these are not claimed."""
    size = queue.unit_bytes
    count = sum(high - low for low, high in pieces)
    numbers, gone, unknown = np.empty(count, np.int64), np.zeros(count, bool), np.zeros(count, bool)
    data = np.empty(count * size, np.uint8)
    at = 0
    for low, high in pieces:
        here = slice(at, at + high - low)
        numbers[here] = np.arange(low, high)
        data[here.start * size : here.stop * size], absent = queue.read(read, low * size, high * size)
        for start, stop in absent:
            there = slice(at + start // size - low, at + -(-stop // size) - low)
            gone[there] = True
            unknown[there] |= not meeting(claimed, start // size, -(-stop // size))
        at = here.stop
    return Units(numbers, decode(queue, data), gone, unknown)

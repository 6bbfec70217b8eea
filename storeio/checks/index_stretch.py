"""Which units of a store's index files belong to a stretch of the log, and where they lie.

Units of a file are in log order, so two bisections find a file's part. A unit whose offset is out
of order counts as standing where the unit before it points, because that is where it was written.
A file with too many of those is read through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.index_structure import IndexStructure
from storeio.checks.ranges import meeting
from storeio.format.index import UNIT, UNIT_BYTES, Units

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
ReadUnits = Callable[[int, int, int], Units]
"""``read_units(file_no, first, stop)``: these units of ``files[file_no]``, ``1 <= first <= stop <= entries + 1``."""

MAX_PLACES: Final = 1024  # that units without order are told apart in
WINDOW_UNITS: Final = 512  # that a search looks at together, and how far from a good guess it looks next
WINDOW_GROWTH: Final = 8
CHUNK_UNITS: Final = 1 << 20  # of a file that has to be read through

INTO_DAMAGE: Final = "the log is damaged where they point"  # of units, whoever comes upon them


@dataclass(frozen=True, slots=True)
class Piece:
    """Units of one file: ``numbers`` names them if they are not ``first`` and those that follow."""

    file_no: int
    first: int
    units: Units
    numbers: Numbers | None = None

    def number(self, i: int) -> int:
        """Return the unit number of the piece's unit ``i``, or of the one that would follow the last."""
        if self.numbers is None:
            return self.first + i
        return int(self.numbers[i]) if i < len(self.numbers) else int(self.numbers[-1]) + 1


class IndexFiles(tuple[IndexStructure, ...]):
    """A store's index files in name order; every split asks them for its stretch of the log."""

    @cached_property
    def log_order(self) -> list[int]:
        """Numbers of the files that have units, by what their first unit points at."""
        used = [i for i, file in enumerate(self) if file.entries]
        return sorted(used, key=lambda i: (self[i].begin_physical_offset, i))

    @cached_property
    def _bounds(self) -> tuple[Numbers, Numbers]:
        """Of the files in log order where each begins, and the highest end of those so far that have an order."""
        files = [self[i] for i in self.log_order]
        begins = np.array([file.begin_physical_offset for file in files], np.int64)
        ends = np.array([file.end_physical_offset if file.ordered else -1 for file in files], np.int64)
        return begins, np.maximum.accumulate(ends)

    @cached_property
    def _without_order(self) -> list[int]:
        return [place for place, i in enumerate(self.log_order) if not self[i].ordered]

    def near(self, start: int, stop: int) -> list[int]:
        """Return numbers of files in log order, among them all with units that point into ``[start, stop)``."""
        begins, ends = self._bounds
        places = range(int(np.searchsorted(ends, start)), int(np.searchsorted(begins, stop)))
        return [self.log_order[place] for place in sorted({*places, *self._without_order})]


def pieces_of(files: IndexFiles, read_units: ReadUnits, start: int, stop: int) -> list[Piece]:
    """Return the units that point into ``[start, stop)`` of the log, in log order; a file of none is left out."""
    found: list[Piece] = []
    for file_no in files.near(start, stop):
        file = files[file_no]
        if not file.ordered:
            units, numbers = _selected(file, file_no, read_units, start, stop)
            if len(units):
                found.append(Piece(file_no, int(numbers[0]), units, numbers))
        elif file.begin_physical_offset < stop and file.end_physical_offset >= start:
            first = first_unit(file, file_no, read_units, start)
            after = first_unit(file, file_no, read_units, stop)
            if first < after:
                found.append(Piece(file_no, first, read_units(file_no, first, after)))
    return found


def first_unit(file: IndexStructure, file_no: int, read_units: ReadUnits, physical_offset: int) -> int:
    """Return the first unit of an ordered file that stands at or behind a physical offset; ``entries + 1`` if none."""
    low, high = 1, file.entries + 1
    if physical_offset <= file.begin_physical_offset:
        return low
    if physical_offset > file.end_physical_offset:
        return high
    width = WINDOW_UNITS
    guess = _guess(file, physical_offset)
    while low < high:
        middle = guess if low <= guess < high else (low + high) // 2
        first = max(middle - WINDOW_UNITS // 2, low)
        places = _places(file, file_no, read_units, first, min(first + WINDOW_UNITS, high))
        inside = int(np.searchsorted(places, physical_offset))
        if 0 < inside < len(places):
            return first + inside
        if inside:
            low = first + inside
            guess = low + width
        else:
            high = first
            guess = high - width
        width *= WINDOW_GROWTH
    return low


def _guess(file: IndexStructure, physical_offset: int) -> int:
    """Return where the unit of a physical offset stands if the file's units are spread evenly over its stretch."""
    stretch = file.end_physical_offset - file.begin_physical_offset
    return 1 + (physical_offset - file.begin_physical_offset) * file.entries // max(stretch, 1)


def _places(file: IndexStructure, file_no: int, read_units: ReadUnits, first: int, stop: int) -> Numbers:
    """Return where in the log units of an ordered file stand: where they point, if not out of order; they rise."""
    places = read_units(file_no, first, stop)["physical_offset"].astype(np.int64)
    for start, end in meeting(file.outliers, first, stop):
        before = start - 1  # it is in order
        if before >= first:
            place = int(places[before - first])
        else:
            place = int(read_units(file_no, before, start)["physical_offset"][0]) if before else -1
        places[max(start - first, 0) : end - first] = place
    return places


def chunks(file: IndexStructure, file_no: int, read_units: ReadUnits) -> Iterator[tuple[int, Units]]:
    """Yield all units of a file, with the number of the first one, in pieces of bounded size."""
    for first in range(1, file.entries + 1, CHUNK_UNITS):
        yield first, read_units(file_no, first, min(first + CHUNK_UNITS, file.entries + 1))


def _selected(
    file: IndexStructure, file_no: int, read_units: ReadUnits, start: int, stop: int
) -> tuple[Units, Numbers]:
    """Return the units of a file without order that point into ``[start, stop)``, sorted, and their numbers."""
    units, numbers = [np.empty(0, UNIT)], [np.empty(0, np.int64)]
    for first, chunk in chunks(file, file_no, read_units):
        offsets = chunk["physical_offset"].astype(np.int64)
        inside = np.flatnonzero((offsets >= start) & (offsets < stop))
        units.append(chunk[inside])
        numbers.append(inside + first)
    joined, named = np.concatenate(units).astype(UNIT), np.concatenate(numbers)  # numpy joins them in native order
    order = np.argsort(joined["physical_offset"].astype(np.int64), kind="stable")
    return joined[order], named[order]


def without_holes(
    files: Sequence[IndexStructure], pieces: Sequence[Piece], holes: Sequence[tuple[int, int]]
) -> tuple[list[Piece], list[tuple[int, Numbers]]]:
    """Return the pieces without the units that point into holes of the log, and those: file and unit numbers.

    A record that is no longer there cannot be compared, and must not be taken for a neighbour's.
    ``holes`` are half-open physical ranges in order.
    """
    if not holes:
        return list(pieces), []
    starts, stops = (np.array(bounds, np.int64) for bounds in zip(*holes, strict=True))
    kept: list[Piece] = []
    inside: list[tuple[int, Numbers]] = []
    for piece in pieces:
        if not _may_point_into(holes, files[piece.file_no], piece):
            kept.append(piece)
            continue
        offsets = piece.units["physical_offset"].astype(np.int64)
        place = np.searchsorted(stops, offsets, side="right")
        hit = place < len(starts)
        hit[hit] = starts[place[hit]] <= offsets[hit]
        numbers = np.arange(piece.first, piece.first + len(offsets)) if piece.numbers is None else piece.numbers
        if not hit.any():
            kept.append(piece)
            continue
        inside.append((piece.file_no, numbers[hit]))
        if not hit.all():
            left = numbers[~hit]
            kept.append(Piece(piece.file_no, int(left[0]), piece.units[~hit], left))
    return kept, inside


def _may_point_into(holes: Sequence[tuple[int, int]], file: IndexStructure, piece: Piece) -> bool:
    """Tell whether a unit may point into a hole, by a look at the first and the last one if all are in order."""
    if not file.ordered or file.outliers:
        return True
    first, last = (int(piece.units["physical_offset"][i]) for i in (0, -1))
    return any(start <= last and first < stop for start, stop in holes)


def outliers_of(file: IndexStructure, piece: Piece, shift: int) -> list[tuple[int, int]]:
    """Return the runs of units out of order inside a piece, ``shift`` added to their places in it."""
    if piece.numbers is not None:
        if not file.ordered or not file.outliers:
            return []
        found = np.searchsorted(piece.numbers, np.array(file.outliers, np.int64)).tolist()
        return [(a + shift, b + shift) for a, b in found if a < b]
    stop = piece.first + len(piece.units)
    return [
        (max(a, piece.first) - piece.first + shift, min(b, stop) - piece.first + shift)
        for a, b in file.outliers
        if a < stop and b > piece.first
    ]


def raw(pieces: Sequence[Piece]) -> Bytes:
    """Return the bytes of all units; a view where they are of one file."""
    parts = [np.ascontiguousarray(piece.units).view(np.uint8).reshape(-1) for piece in pieces]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Place:
    """Neighbouring units of one file, as bytes of it."""

    path: str
    position: int
    length: int
    count: int


def place_of_units(file: IndexStructure, first: int, last: int, count: int) -> Place:
    """Return units ``first`` to ``last`` of a file as one place; ``count`` of them are meant."""
    position = file.position_of(first)
    return Place(file.path, position, (last - first + 1) * UNIT_BYTES, count)


def consecutive(numbers: Numbers) -> list[tuple[int, int, int]]:
    """Return runs of consecutive numbers: first, last, how many; many runs end in one for the rest."""
    if not len(numbers):
        return []
    edges = np.flatnonzero(np.diff(numbers) != 1) + 1
    starts = np.concatenate(([0], edges))[:MAX_PLACES]
    stops = np.concatenate((edges, [len(numbers)]))[:MAX_PLACES]
    stops[-1] = len(numbers)
    return [(int(numbers[a]), int(numbers[b - 1]), int(b - a)) for a, b in zip(starts, stops, strict=True)]

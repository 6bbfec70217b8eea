"""Index units that no split has judged: behind the end of the log, in damage, or expired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.index_stretch import INTO_DAMAGE, ReadUnits, chunks, consecutive, first_unit, place_of_units
from storeio.checks.index_structure import IndexStructure
from storeio.checks.ranges import meeting
from storeio.findings import Finding

Numbers = npt.NDArray[np.int64]
Ranges = Sequence[tuple[int, int]]

MAX_OFFSETS: Final = 4096  # of records behind the end of the log that are kept as evidence


@dataclass(frozen=True, slots=True)
class IndexOutside:
    """What is wrong with the units of one file that no split judged.

    ``beyond`` are the first physical offsets behind the end of the log, ascending, without repeats;
    ``units`` stand inside the log.
    """

    findings: tuple[Finding, ...]
    beyond: tuple[int, ...] = ()
    units: int = 0


def unjudged(ranges: Ranges, low: int, high: int) -> list[tuple[int, int]]:
    """Return what of all offsets lies in none of the ranges, ascending; below the log only what no broker writes.

    Args:
        ranges: The ``covered`` of all splits, in any order.
        low: Start of the log.
        high: End of the log.
    """
    gaps = [(-(2**63), min(low, 0))]
    at = low
    for start, stop in sorted([*(r for r in ranges if r[0] < r[1]), (high, high)]):
        if start > at:
            gaps.append((at, start))
        at = max(at, stop)
    return [*gaps, (max(at, high), 2**63 - 1)]


def units_outside(
    files: Sequence[IndexStructure],
    file_no: int,
    read_units: ReadUnits,
    gaps: Ranges,
    *,
    min_physical_offset: int,
    max_physical_offset: int,
    unread: Ranges = (),
) -> IndexOutside:
    """Return what is wrong with the units of one file that point where no split judged.

    Args:
        gaps: As ``unjudged`` of all splits.
        min_physical_offset: Start of the log; what points below has expired.
        max_physical_offset: End of the log, or of what of it could not be read.
        unread: Merged ranges that could not be read: nothing is said of units that point there.
    """
    file = files[file_no]
    parts = (_parts_of_ordered if file.ordered else _parts_of_any)(file, file_no, read_units, gaps)
    findings: list[Finding] = []
    beyond, first, count, units = np.empty(0, np.int64), 0, 0, 0
    for numbers, offsets, odd, stands in (_without(part, unread) for part in parts):
        units += int(((stands >= min_physical_offset) & (stands < max_physical_offset)).sum())
        findings += _places("INDEX_UNIT_WRONG", file, numbers[odd], None, "the physical offset is out of order")
        behind = ~odd & (offsets >= max_physical_offset)
        if behind.any():
            first = first or int(numbers[behind][0])
            count += int(behind.sum())
            beyond = np.union1d(beyond, offsets[behind])[:MAX_OFFSETS]
        between = ~odd & ~behind
        lost = between & (offsets >= min_physical_offset)
        findings += _places("INDEX_UNIT_ORPHAN", file, numbers[lost], None, INTO_DAMAGE)
        nowhere = between & ~lost
        findings += _places("INDEX_UNIT_ORPHAN", file, numbers[nowhere], offsets[nowhere], "")
    if count:
        place = place_of_units(file, first, min(first + count - 1, file.entries), count)
        detail = f"{count} units point behind {max_physical_offset}"
        findings.append(
            Finding(
                "INDEX_BEYOND_LOG", file.path, place.position, place.length, physical_offset=int(beyond[0]),
                count=count, detail=detail,
            )
        )  # fmt: skip
    return IndexOutside(tuple(findings), tuple(beyond.tolist()), units)


# Unit numbers, their offsets, whether those are out of order, and offsets of about where they stand.
Part = tuple[Numbers, Numbers, npt.NDArray[np.bool_], Numbers]


def _without(part: Part, unread: Ranges) -> Part:
    """Return a part without the units that point at what could not be read."""
    if not unread:
        return part
    starts, stops = np.array(unread, np.int64).T
    numbers, offsets, odd, stands = part
    row = np.minimum(np.searchsorted(stops, offsets, side="right"), len(stops) - 1)
    kept = odd | (offsets < starts[row]) | (offsets >= stops[row])
    return numbers[kept], offsets[kept], odd[kept], stands[kept]


def _parts_of_ordered(file: IndexStructure, file_no: int, read_units: ReadUnits, gaps: Ranges) -> Iterator[Part]:
    some = file.entries > 0
    for start, stop in meeting(gaps, file.begin_physical_offset, max(file.end_physical_offset, 0) + 1) if some else ():
        first = first_unit(file, file_no, read_units, start)
        after = first_unit(file, file_no, read_units, stop)
        step = 1 << 20
        for low in range(first, after, step):
            high = min(low + step, after)
            odd = np.zeros(high - low, np.bool_)
            for a, b in file.outliers:
                if a < high and b > low:
                    odd[max(a - low, 0) : max(b - low, 0)] = True
            offsets = read_units(file_no, low, high)["physical_offset"].astype(np.int64)
            yield np.arange(low, high), offsets, odd, np.where(odd, start, offsets)


def _parts_of_any(file: IndexStructure, file_no: int, read_units: ReadUnits, gaps: Ranges) -> Iterator[Part]:
    bounds = np.array(gaps, np.int64).reshape(-1, 2)
    for first, units in chunks(file, file_no, read_units):
        offsets = units["physical_offset"].astype(np.int64)
        row = np.maximum(np.searchsorted(bounds[:, 0], offsets, side="right") - 1, 0)
        outside = np.flatnonzero((offsets >= bounds[row, 0]) & (offsets < bounds[row, 1]))
        yield outside + first, offsets[outside], offsets[outside] < 0, offsets[outside]


def _places(code: str, file: IndexStructure, numbers: Numbers, offsets: Numbers | None, detail: str) -> list[Finding]:
    """Return one finding a run of units, with the physical offset of its first one where that can be believed."""
    found = []
    for run in consecutive(numbers):
        place = place_of_units(file, *run)
        offset = None if offsets is None else int(offsets[np.searchsorted(numbers, run[0])])
        found.append(
            Finding(
                code, file.path, place.position, place.length, physical_offset=offset, count=place.count, detail=detail
            )
        )
    return found

"""Records that stand in one another's places: none is lost, and each goes to its own.

Every place that one of them names is held by others that name another place, too. One that is a copy, or whose place
was damaged, names that of a record which lies where it says, or bytes that are none of such a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Final, NamedTuple

from storeio.audit import AuditPlan, Concluded
from storeio.audit.peek import record_in
from storeio.checks.ranges import Ranges
from storeio.kernels import tables as w
from storeio.paths import StoreFile
from storeio.salvage.pieces import Piece
from storeio.salvage.strays import Standing, records_between

PLACE: Final = "LOG_PHYSICAL_OFFSET"
MOST: Final = 1 << 16  # records; what more do is told by their segments


class _Astray(NamedTuple):
    """A record at ``place`` that says that it lies at ``said``."""

    place: int
    size: int
    said: int
    path: str
    position: int


def exchanged(found: Concluded) -> list[Piece]:
    """Return such records as pieces that belong elsewhere, in the order in which they lie."""
    rows = list(islice(_astray(found), MOST + 1))
    others = _among_themselves(sorted(rows)) if len(rows) <= MOST else []
    return [Piece(found.plan, one.path, one.position, one.size, one.said) for one in others]


def _astray(found: Concluded) -> Iterator[_Astray]:
    """Yield the records that name another place, of all segments that have records in theirs."""
    accepted: dict[str, list[int]] = {}
    for finding in found.doubts:
        if finding.code == PLACE and finding.physical_offset is not None:
            accepted.setdefault(finding.path, []).append(finding.physical_offset)
    for segment in found.view.segments:
        file, kinds = segment.file, segment.spans[w.SPAN_CLASS]
        if not (kinds == w.RECORD).any():
            continue
        positions = [place - segment.base for place in accepted.get(file.path, ())]
        spans = segment.spans[:2, (kinds == w.STALE) & (segment.spans[w.SPAN_WHY] == w.WHY_MISPLACED)]
        for row in _records(found.plan, file, positions, spans.T.tolist()):
            if 0 <= row.physical_offset != segment.base + row.position:
                place = segment.base + row.position
                yield _Astray(place, row.size, row.physical_offset, file.path, row.position)


def _records(plan: AuditPlan, file: StoreFile, positions: Sequence[int], spans: Ranges) -> Iterator[Standing]:
    """Yield the records at some positions of a file, and those of some stretches."""
    for position in positions:
        if (record := record_in(plan.read, file.path, position, file.size)) is not None:
            yield Standing(position, record.size, record.physical_offset)
    for span in spans:
        yield from records_between(partial(plan.read, file.path), *span)


def _among_themselves(rows: list[_Astray]) -> list[_Astray]:
    """Return those of some records, in order, each of whose places is held by others of them only, all of it."""
    holders = _holders(rows)
    waiting: dict[int, list[int]] = {}  # by a record, those that say that its bytes are their place
    for number, held in enumerate(holders):
        for other in held:
            waiting.setdefault(other, []).append(number)
    gone = {number for number, held in enumerate(holders) if not held}
    left = list(gone)
    while left:
        for number in waiting.get(left.pop(), ()):
            if number not in gone:
                gone.add(number)
                left.append(number)
    return [row for number, row in enumerate(rows) if number not in gone]


def _holders(rows: list[_Astray]) -> list[range]:
    """Return the numbers of the records that hold what each says is its place; none where that is not all of it.

    Nor where another says the same bytes: nothing tells which of both belongs there.
    """
    held, starts, taken = [range(0)] * len(rows), [row.place for row in rows], 0
    order = sorted(range(len(rows)), key=lambda number: rows[number].said)
    limits = [rows[number].said for number in order[1:]]
    for number, limit in zip_longest(order, limits, fillvalue=2**63):
        said, stop = rows[number].said, rows[number].said + rows[number].size
        if taken <= said and stop <= limit:
            held[number] = _held(rows, starts, said, stop)
        taken = max(taken, stop)
    return held


def _held(rows: list[_Astray], starts: list[int], start: int, stop: int) -> range:
    """Return the numbers of the records that hold ``[start, stop)``, none where they do not hold all of it."""
    first = last = max(bisect_right(starts, start) - 1, 0)
    at = start
    while at < stop and last < len(rows) and rows[last].place <= at < rows[last].place + rows[last].size:
        at, last = rows[last].place + rows[last].size, last + 1
    return range(first, last) if at >= stop else range(0)

"""What the index and the neighbours tell of lost messages: hashes of their keys, and when they were stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storeio.audit.split import index_reader
from storeio.checks.index_stretch import pieces_of
from storeio.errors import UnreadableError
from storeio.kernels import tables as w
from storeio.salvage.missing import Missing
from storeio.salvage.survey import Survey
from storeio.splits import Split
from storeio.walk import walk_split

LOOKED_BACK: Final = (4 << 20) + (64 << 10)  # bytes in front of a place in which the record before it begins
MOST_KEYS: Final = 16  # hashes that are told of neighbours that are told as one


@dataclass(frozen=True, slots=True)
class Trace:
    """Hashes of keys, and store times that bound the messages'; None where nothing does."""

    key_hashes: tuple[int, ...] = ()
    first_ms: int | None = None
    last_ms: int | None = None


def traces(known: Survey, missing: Iterable[Missing]) -> dict[Missing, Trace]:
    """Return what is known of each lost message besides its number and place."""
    bounds: dict[tuple[int, int], Trace] = {}
    found: dict[Missing, Trace] = {}
    for row in missing:
        place = row.low, row.high
        if place not in bounds:
            behind = known.record(row.high)
            last = behind.store_timestamp_ms if behind is not None else None
            bounds[place] = Trace((), _time_before(known, row.low), last)
        found[row] = _indexed(known, row, bounds[place])
    return found


def _time_before(known: Survey, place: int) -> int | None:
    """Return the store time of the last intact record that ends at or before a place in the same segment."""
    base = place - place % known.segment_bytes
    file = next((f for f in known.plan.segments if f.base_offset == base), None)
    stop = min(place - base, file.size if file is not None else 0)
    if file is None or not stop:
        return None
    size = min(file.size, known.segment_bytes)
    split = Split(file.path, base, size, max(stop - LOOKED_BACK, 0), stop)
    try:
        records = walk_split(lambda low, high: known.plan.read(file.path, low, high), split).records
    except UnreadableError:
        return None
    inside = records[w.R_POSITION] + records[w.R_SIZE] <= stop
    return int(records[w.R_STORE_MS, inside][-1]) if inside.any() else None


def _indexed(known: Survey, row: Missing, bounds: Trace) -> Trace:
    """Return the bounds, made tighter by the index units that point at the lost record."""
    if row.unit is None or not known.plan.index:
        return bounds
    place = row.unit.physical_offset
    hashes: list[int] = []
    first, last = bounds.first_ms, bounds.last_ms
    for piece in pieces_of(known.plan.index, index_reader(known.plan), place, place + 1):
        begin = known.plan.index[piece.file_no].begin_timestamp_ms
        for key, seconds in zip(piece.units["key_hash"].tolist(), piece.units["seconds"].tolist(), strict=True):
            hashes.append(int(key))
            if begin > 0 and seconds > 0:
                first = max(first or 0, begin + 1000 * seconds)
                last = min(last if last is not None else 2**62, begin + 1000 * seconds + 999)
    return Trace(tuple(dict.fromkeys(hashes))[:MOST_KEYS], first, last)

"""What the index and the neighbours tell of lost messages: hashes of their keys, and when they were stored."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from storeio.audit.split import index_reader
from storeio.checks.index_stretch import pieces_of
from storeio.checks.ranges import merged
from storeio.errors import UnreadableError
from storeio.kernels import tables as w
from storeio.salvage.missing import Missing
from storeio.salvage.pieces import records_of
from storeio.salvage.survey import Survey
from storeio.splits import Split
from storeio.walk import walk_split

LOOKED_BACK: Final = (64 << 10, (4 << 20) + (64 << 10))  # bytes in front of a place: most records, and all of them
MOST_KEYS: Final = 16  # hashes that are told of neighbours that are told as one
STRETCH_BYTES: Final = 16 << 20  # of the log, of which the index units are looked at together
POINTING: Final = ("physical_offset", "key_hash", "seconds")
IndexUnit = tuple[int, int | None]
"""A key's hash, and the first millisecond of the second of its store time where that is known."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Hashes of keys, and store times that bound the messages'; None where nothing does."""

    key_hashes: tuple[int, ...] = ()
    first_ms: int | None = None
    last_ms: int | None = None


def traces(known: Survey, missing: Sequence[Missing]) -> dict[Missing, Trace]:
    """Return what is known of each lost message besides its number and place."""
    pointing = _pointing(known, missing)
    times_before = _TimesBefore(known)
    bounds: dict[tuple[int, int], Trace] = {}
    found: dict[Missing, Trace] = {}
    for row in missing:
        place = row.low, row.high
        if place not in bounds:
            behind = known.record(row.high)
            last = behind.store_timestamp_ms if behind is not None else None
            bounds[place] = Trace((), times_before.of(row.low), last)
        units = pointing.get(row.unit.physical_offset, ()) if row.unit is not None else ()
        found[row] = _tightened(bounds[place], units) if units else bounds[place]
    return found


class _TimesBefore:
    """Store times of the last intact records in front of places, each looked for once: many lost ones lie behind it."""

    def __init__(self, known: Survey) -> None:
        self._known = known
        self._records = merged(records_of(known.concluded))
        self._times: dict[int, int | None] = {}

    def of(self, place: int) -> int | None:
        """Return the store time of the last intact record that ends at or before a place in the same segment."""
        number = bisect_left(self._records, place, key=lambda row: row[0]) - 1
        stop = min(self._records[number][1], place) if number >= 0 else 0
        if stop <= place - place % self._known.segment_bytes:
            return None
        if stop not in self._times:
            self._times[stop] = _time_before(self._known, stop)
        return self._times[stop]


def _time_before(known: Survey, place: int) -> int | None:
    """Return the store time of the last intact record that ends at or before a place behind a segment's first byte."""
    base = (place - 1) // known.segment_bytes * known.segment_bytes
    file = known.files[base]
    size = min(file.size, known.segment_bytes)
    for back in LOOKED_BACK:
        split = Split(file.path, base, size, max(place - base - back, 0), place - base)
        try:
            records = walk_split(lambda low, high: known.plan.read(file.path, low, high), split).records
        except UnreadableError:
            return None
        inside = records[w.R_POSITION] + records[w.R_SIZE] <= split.stop
        if inside.any():
            return int(records[w.R_STORE_MS, inside][-1])
    return None


def _pointing(known: Survey, missing: Iterable[Missing]) -> dict[int, list[IndexUnit]]:
    """Return the index units that point at lost records, by the place of the record."""
    found: dict[int, list[IndexUnit]] = {}
    files, read_units = known.plan.index, index_reader(known.plan)
    places = np.unique(np.array([row.unit.physical_offset for row in missing if row.unit is not None], np.int64))
    for near in np.split(places, np.flatnonzero(np.diff(places // STRETCH_BYTES)) + 1) if len(places) else ():
        for piece in pieces_of(files, read_units, int(near[0]), int(near[-1]) + 1):
            begin = files[piece.file_no].begin_timestamp_ms
            units = piece.units[np.isin(piece.units["physical_offset"].astype(np.int64), near)]
            for place, key, seconds in zip(*(units[name].tolist() for name in POINTING), strict=True):
                stored = begin + 1000 * seconds if begin > 0 and seconds > 0 else None
                found.setdefault(place, []).append((key, stored))
    return found


def _tightened(bounds: Trace, units: Iterable[IndexUnit]) -> Trace:
    """Return the bounds, made tighter by the index units that point at a lost record, and the hashes of its keys."""
    first, last = bounds.first_ms, bounds.last_ms
    hashes: dict[int, None] = {}
    for key, stored in units:
        hashes[key] = None
        if stored is not None:
            first = max(first or 0, stored)
            last = min(last if last is not None else 2**62, stored + 999)
    return Trace(tuple(hashes)[:MOST_KEYS], first, last)

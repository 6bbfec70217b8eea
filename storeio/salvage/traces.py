"""What the index and the neighbours tell of lost messages: hashes of their keys, and when they were stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from storeio.salvage.missing import Missing
from storeio.salvage.survey import Survey
from storeio.salvage.times import IndexUnit, index_units

MOST_KEYS: Final = 16  # hashes that are told of neighbours that are told as one


@dataclass(frozen=True, slots=True)
class Trace:
    """Hashes of keys, and store times that bound the messages'; None where nothing does."""

    key_hashes: tuple[int, ...] = ()
    first_ms: int | None = None
    last_ms: int | None = None


def traces(known: Survey, missing: Sequence[Missing]) -> dict[Missing, Trace]:
    """Return what is known of each lost message besides its number and place."""
    places = np.array([row.unit.physical_offset for row in missing if row.unit is not None], np.int64)
    pointing = index_units(known, np.unique(places))
    bounds: dict[tuple[int, int], Trace] = {}
    found: dict[Missing, Trace] = {}
    for row in missing:
        place = row.low, row.high
        if place not in bounds:
            behind = known.record(row.high)
            last = behind.store_timestamp_ms if behind is not None else None
            before = known.nearest.before(row.low)
            bounds[place] = Trace((), before.store_ms if before is not None else None, last)
        units = pointing.get(row.unit.physical_offset, ()) if row.unit is not None else ()
        found[row] = _tightened(bounds[place], units) if units else bounds[place]
    return found


def _tightened(bounds: Trace, units: Iterable[IndexUnit]) -> Trace:
    """Return the bounds, made tighter by the index units that point at a lost record, and the hashes of its keys."""
    first, last = bounds.first_ms, bounds.last_ms
    hashes: dict[int, None] = {}
    for key, low, high in units:
        hashes[key] = None
        first = max((ms for ms in (first, low) if ms is not None), default=None)
        last = min((ms for ms in (last, high) if ms is not None), default=None)
    return Trace(tuple(hashes)[:MOST_KEYS], first, last)

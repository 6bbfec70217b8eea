"""Intact records next to a place of the log, as an audit has them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from storeio.audit import Concluded
from storeio.checks.ranges import merged
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.salvage.pieces import records_of
from storeio.splits import Split
from storeio.walk import walk_split

LOOKED_BACK: Final = (64 << 10, log.MOST_RECORD_BYTES)  # bytes in front of a place: most records, and all of them


class Timed(NamedTuple):
    """Where a record lies, and when it says that it was stored."""

    place: int
    store_ms: int


class Nearest:
    """Looks for intact records in front of places and behind them."""

    def __init__(self, concluded: Concluded) -> None:
        self._plan = concluded.plan
        self._size = concluded.plan.segment_bytes
        self._files = {file.base_offset: file for file in concluded.plan.segments}
        ranges = merged(records_of(concluded))
        self._starts, self._stops = [row[0] for row in ranges], [row[1] for row in ranges]
        self._before: dict[int, Timed | None] = {}

    def start_from(self, place: int) -> int | None:
        """Return the place itself amid intact records, else where the next ones begin; None behind the last."""
        i = bisect_right(self._stops, place)
        return max(self._starts[i], place) if i < len(self._starts) else None

    def start_behind(self, place: int) -> int | None:
        """Return where the next intact records begin that a hole keeps apart from a place; None behind the last."""
        i = bisect_right(self._starts, place)
        return self._starts[i] if i < len(self._starts) else None

    def before(self, place: int) -> Timed | None:
        """Return the last intact record that ends at or before a place, None without any. Looked for once."""
        i = bisect_left(self._starts, place) - 1
        if i < 0:
            return None
        stop = min(self._stops[i], place)
        if stop not in self._before:
            self._before[stop] = self._looked_for(stop)
        return self._before[stop]

    def _looked_for(self, stop: int) -> Timed | None:
        """Return the last intact record up to a place behind a segment's first byte."""
        base = (stop - 1) // self._size * self._size
        file = self._files[base]
        for back in LOOKED_BACK:
            split = Split(file.path, base, min(file.size, self._size), max(stop - base - back, 0), stop - base)
            try:
                records = walk_split(lambda low, high: self._plan.read(file.path, low, high), split).records
            except UnreadableError:
                return None
            inside = records[w.R_POSITION] + records[w.R_SIZE] <= split.stop
            if inside.any():
                at, store_ms = (int(records[row, inside][-1]) for row in (w.R_POSITION, w.R_STORE_MS))
                return Timed(base + at, store_ms)
        return None

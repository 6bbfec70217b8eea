"""Units and keys at the ends of splits: what two splits cannot tell alone is told when their ends are put together.

A damaged unit stands between two others. If one of these is of a record of one split and one of the next, so may it be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.index_events import MAX_EVENTS, Part, Stretch
from storeio.checks.index_stretch import IndexFiles, Piece, ReadUnits
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format.index import UNIT
from storeio.kernels import index_match as kernel
from storeio.kernels import tables as w

Numbers = npt.NDArray[np.int64]

MOST: Final = 512  # units, keys and records that an end may have; where there are more, each split tells what it can
ROWS: Final = (w.R_POSITION, w.R_SIZE, w.R_MARKS, w.R_STORE_MS)  # of the records that are kept
FIELDS: Final = ("key_hash", "physical_offset", "seconds", "previous")


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """An end of a split, up to its first unit or from its last one that is a key's, which is in it.

    ``findings`` is what it means alone. ``units`` are a row each of file numbers, unit numbers and the units' fields;
    ``records`` are rows ``ROWS``, positions in the log; ``key`` is the number of the first unit's key. ``loose`` units
    are no key's.
    """

    findings: tuple[Finding, ...]
    units: Numbers
    keys: Numbers
    records: Numbers
    key: int
    loose: int
    part: Part


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """A split's findings, but for those at its ends; ``passes`` if no unit is a key's: then ``tail`` is all of it."""

    findings: tuple[Finding, ...]
    head: Border | None = None
    tail: Border | None = None
    passes: bool = False


def ends_of(stretch: Stretch) -> Ends:
    """Return what a split has found, which was matched, and its ends."""
    events = stretch.events[stretch.events[:, kernel.E_COUNT] > 0]
    first, last = int(stretch.state[kernel.S_FIRST]), int(stretch.state[kernel.S_LAST])
    if not len(events) or stretch.state[kernel.S_EVENTS] >= MAX_EVENTS:
        return Ends(tuple(stretch.findings(events)), passes=first < 0 and not len(events))
    keys = stretch.keys
    if first < 0:
        whole = _border(stretch, events, (0, stretch.units), (0, keys.shape[1]), 0, stretch.units)
        return Ends((), None, whole, passes=True) if whole else Ends(tuple(stretch.findings(events)))
    missing = events[:, kernel.E_KIND] == kernel.MISSING  # and those stand before the unit that they name
    before = (events[:, kernel.E_LAST] < first) | (missing & (events[:, kernel.E_FIRST] <= first))
    behind = events[:, kernel.E_FIRST] > last
    head = tail = None
    if before.any():
        stop = int(np.searchsorted(keys[1], keys[1, stretch.state[kernel.S_FIRST_KEY]], side="right"))
        head = _border(stretch, events[before], (0, first + 1), (0, stop), 0, first)
    if behind.any():
        key = int(stretch.state[kernel.S_LAST_KEY])
        start = int(np.searchsorted(keys[1], keys[1, key]))
        loose = stretch.units - 1 - last
        tail = _border(stretch, events[behind], (last, stretch.units), (start, keys.shape[1]), key - start, loose)
    left = ~(before & (head is not None)) & ~(behind & (tail is not None))
    return Ends(tuple(stretch.findings(events[left])), head, tail)


def _border(
    stretch: Stretch, events: Numbers, units: tuple[int, int], keys: tuple[int, int], key: int, loose: int
) -> Border | None:
    """Return an end of a split, None if it is too large."""
    some = stretch.keys[:, slice(*keys)].copy()
    first = int(some[1, 0]) if keys[0] and some.size else 0
    stop = int(some[1, -1]) + 1 if keys[1] < stretch.keys.shape[1] and some.size else stretch.records.shape[1]
    if max(units[1] - units[0], some.shape[1], stop - first) > MOST:
        return None
    some[1] -= first
    records = stretch.records[list(ROWS), first:stop]
    records[0] += stretch.base
    return Border(
        tuple(stretch.findings(events)), _units_of(stretch, *units), some, records, key, loose, stretch.parts[0]
    )


def _units_of(stretch: Stretch, start: int, stop: int) -> Numbers:
    """Return some units of a stretch as ``Border.units``."""
    found = [np.empty((2 + len(FIELDS), 0), np.int64)]
    for piece, at in zip(stretch.pieces, stretch.starts.tolist(), strict=False):
        a, b = max(start - at, 0), min(stop - at, len(piece.units))
        if a < b:
            numbers = np.arange(piece.first + a, piece.first + b) if piece.numbers is None else piece.numbers[a:b]
            fields = [piece.units[name][a:b].astype(np.int64) for name in FIELDS]
            found.append(np.stack([np.full(b - a, piece.file_no), numbers, *fields]))
    return np.concatenate(found, axis=1)


def _pieces_of(units: Numbers) -> Iterator[Piece]:
    """Yield what ``_units_of`` was made of."""
    cuts = np.flatnonzero(np.diff(units[0])) + 1
    for rows in np.split(units, cuts, axis=1) if units.shape[1] else ():
        made = np.empty(rows.shape[1], UNIT)
        for name, values in zip(FIELDS, rows[2:], strict=True):
            made[name] = values
        yield Piece(int(rows[0, 0]), int(rows[1, 0]), made, rows[1])


def bridged(files: IndexFiles, read_units: ReadUnits, splits: Iterable[Ends]) -> Iterator[Finding]:
    """Yield the findings of all splits, which are in log order, those at their ends told from both sides."""
    left: list[Border] = []
    for ends in splits:
        yield from ends.findings
        if ends.passes:
            left += [ends.tail] if ends.tail else []
            continue
        yield from _told(files, read_units, [*left, ends.head] if ends.head else left, closed=ends.head is not None)
        left = [ends.tail] if ends.tail else []
    yield from _told(files, read_units, left, closed=False)


def _told(files: IndexFiles, read_units: ReadUnits, borders: Sequence[Border], *, closed: bool) -> Iterable[Finding]:
    """Return what neighbouring ends mean together; ``closed`` tells that the last unit is a key's."""
    alone = [finding for border in borders for finding in border.findings]
    if len(borders) < 2 or not any(border.loose for border in borders):
        return alone
    counts = [border.records.shape[1] for border in borders]
    firsts = [sum(counts[:i]) for i in range(len(counts))]
    records = np.zeros((w.RECORD_ROWS, sum(counts)), np.int64)
    records[list(ROWS)] = np.concatenate([border.records for border in borders], axis=1)
    keys = np.concatenate([border.keys for border in borders], axis=1)
    keys[1] += np.repeat(firsts, [border.keys.shape[1] for border in borders])
    parts = [
        Part(first, border.part.segment, border.part.base_offset) for first, border in zip(firsts, borders, strict=True)
    ]
    pieces = [piece for border in borders for piece in _pieces_of(border.units)]
    stretch = Stretch(files, read_units, pieces, keys, records, 0, parts)
    stretch.match(borders[0].key)
    events = stretch.events
    if closed:  # keys behind the last unit are the split's own
        events = events[events[:, kernel.E_FIRST] < stretch.units]
    try:
        return list(stretch.findings(events))
    except UnreadableError:
        return alone

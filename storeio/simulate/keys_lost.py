"""Index entries that a start takes away: those of files that it deletes, and does not make again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from storeio.simulate.disk import File
from storeio.simulate.index import Entries, Index, IndexFile

Numbers = npt.NDArray[np.int64]
Keys = tuple[Numbers, Numbers]
"""Physical offsets and hashes, of the same shape ``(n,)``; distinct, and in this order."""


def keys_lost(index: Index, log_min: int, log_end: int) -> int:
    """Return how many entries for records of the log, ``[log_min, log_end)``, were there before a start alone.

    A key of a record counts once, however many files have it. What brokers make of other keys besides replaces none.
    """
    lost = 0
    for i, (file, of) in enumerate(index.destroyed):
        others = [*((each, None) for each in index.files), *index.destroyed[:i]]  # where a file was there twice
        for units in index.entries(file, of):
            keys = _distinct(_inside(units, log_min, log_end))
            lost += len(_without(keys, *_held(index, keys, others))[0])
    return lost


def _inside(units: Entries, low: int, high: int) -> Keys:
    """Return offsets and hashes of units that point into a range and may be some: of no unit all is zero."""
    places, hashes = units["physical_offset"].astype(np.int64), units["key_hash"].astype(np.int64)
    inside = (low <= places) & (places < high) & ((places > 0) | (hashes != 0))
    return places[inside], hashes[inside]


def _distinct(keys: Keys) -> Keys:
    places, hashes = keys
    order = np.lexsort((hashes, places))
    places, hashes = places[order], hashes[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(places) != 0) | (np.diff(hashes) != 0)
    return places[new], hashes[new]


def _held(index: Index, keys: Keys, others: Iterable[tuple[IndexFile, File | None]]) -> Iterator[Keys]:
    """Yield what other files have for the same records, as of ``Index.entries``."""
    if len(keys[0]):
        low, high = int(keys[0][0]), int(keys[0][-1]) + 1
        for file, of in others:
            if _may_hold(file, low, high):
                for units in index.entries(file, of):
                    yield _inside(units, low, high)


def _may_hold(file: IndexFile, low: int, high: int) -> bool:
    """Tell whether a file may have entries for a range: its header tells, if that is not damaged."""
    return file.begin_offset > file.end_offset or (file.begin_offset < high and file.end_offset >= low)


def _without(keys: Keys, *others: Keys) -> Keys:
    """Return the keys that no others have."""
    places = np.unique(keys[0])
    mine = _coded(places, keys)
    left = np.ones(len(mine), np.bool_)
    for other in others:
        left &= ~np.isin(mine, _coded(places, other))
    return keys[0][left], keys[1][left]


def _coded(places: Numbers, keys: Keys) -> Numbers:
    """Return a number for each key that is for one of these places, ascending."""
    found = np.searchsorted(places, keys[0])
    there = found < len(places)
    there[there] = places[found[there]] == keys[0][there]
    return (found[there] << 32) | (keys[1][there] & 0xFFFFFFFF)

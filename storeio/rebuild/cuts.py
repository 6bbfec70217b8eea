"""Where index files begin, told from how many keys each split has: pure, for many workers.

The same files as ``index.IndexWriter`` makes of the keys as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from storeio.rebuild.index import Before, Shape, name_at


class KeyCount(NamedTuple):
    """What is to be known of a split's keys.

    ``first_ms`` is of its first record, ``last_ms`` of its last key, 0 without; ``more`` as in ``derive.Keys``.
    """

    split: int
    keys: int
    more: bool
    first_ms: int
    last_ms: int


class Place(NamedTuple):
    """A key: its split, and which of the split's it is."""

    split: int
    key: int


@dataclass(frozen=True, slots=True)
class CutFile:
    """One index file: path, what its header begins with, and its keys ``[first, stop)`` of all in the log."""

    path: str
    before: Before
    first: int
    stop: int


@dataclass(slots=True)
class Cuts:
    """All index files, and how many keys come before each split."""

    files: list[CutFile] = field(default_factory=list)
    first_key: dict[int, int] = field(default_factory=dict)
    keys: int = 0
    rolled_ms: int = 0  # as of ``IndexWriter``
    last_ms: int = 0


def _begins(counts: Sequence[KeyCount], per_file: int) -> list[tuple[int, Place | None]]:
    """Return of each file its first key, and the last key of the file before."""
    found: list[tuple[int, Place | None]] = []
    total, last = 0, None
    for split, keys, more, *_ in counts:
        if total == len(found) * per_file:
            found.append((total, last))
        while len(found) * per_file < total + keys:
            at = len(found) * per_file
            found.append((at, Place(split, at - total - 1)))
        total += keys
        last = Place(split, keys - 1) if keys else last
        if more and total == len(found) * per_file:
            found.append((total, last))
    return found


def cut(counts: Sequence[KeyCount], shape: Shape, look_up: Callable[[Place], tuple[int, int]]) -> Cuts:
    """Return the index files of a log.

    Args:
        counts: Of each split with records, in log order; without any there is no file.
        shape: Of the files.
        look_up: Returns store time and physical offset of a key.
    """
    cuts = Cuts()
    for count in counts:
        cuts.first_key[count.split] = cuts.keys
        cuts.keys += count.keys
        cuts.last_ms = count.last_ms if count.keys else cuts.last_ms
    begins = _begins(counts, shape.units - 1)
    if not begins:  # no split has records, or nobody wants their keys
        return cuts
    stops = [first for first, _ in begins[1:]] + [cuts.keys]
    path = None
    for (first, last), stop in zip(begins, stops, strict=True):
        before = Before(*look_up(last)) if last is not None else Before()
        path = name_at(before.end_ms if path else counts[0].first_ms, path)
        cuts.files.append(CutFile(path, before, first, stop))
        cuts.rolled_ms = before.end_ms
    return cuts

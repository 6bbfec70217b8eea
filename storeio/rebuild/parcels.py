"""The files of a rebuild divided into parcels, each with all that the worker that lays it has to know."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import UNIT_BYTES
from storeio.format import queueext
from storeio.kernels.place import KEY
from storeio.rebuild.layout import laid
from storeio.rebuild.placement import Placed
from storeio.rebuild.shares import Orders, OutFile
from storeio.rebuild.stretches import NO_HEADS, QueueKey, Stretch

Numbers = npt.NDArray[np.int64]


class KeyRange(NamedTuple):
    """Keys of a file of the index that lie together: number of the spill file, position, and how many."""

    spill: int
    position: int
    keys: int


# Number of the queue, units, units and ext units of the queue before these, ext units or NO_HEADS, number of the spill
# file, and position there.
(R_QUEUE, R_COUNT, R_BEFORE, R_EXT_BEFORE, R_EXT, R_SPILL, R_POSITION) = range(7)
ROW_FIELDS: Final = 7


@dataclass(slots=True)
class Parcel:
    """Files that one worker lays, and all that it has to know of them.

    ``rows`` are the stretches of their queues in log order, shape ``(n, ROW_FIELDS)``; ``keys`` are those of each file
    of the index, by path, in log order.
    """

    files: list[OutFile]
    queues: list[tuple[QueueKey, Placed]]
    spills: list[str]
    rows: Numbers
    keys: dict[str, list[KeyRange]]


@dataclass(slots=True)
class _Filling:
    """A parcel while it is filled."""

    files: list[OutFile]
    queues: dict[QueueKey, int]
    spills: dict[str, int] = field(default_factory=dict)
    rows: array[int] = field(default_factory=lambda: array("q"))
    keys: dict[str, list[KeyRange]] = field(default_factory=dict)

    def spill_no(self, path: str) -> int:
        return self.spills.setdefault(path, len(self.spills))

    def add(self, stretch: Stretch, before: int, ext_before: int, path: str, position: int) -> None:
        row = self.queues[stretch.key], stretch.count, before, ext_before, stretch.ext, self.spill_no(path), position
        self.rows.extend(row)

    def parcel(self, placed: Mapping[QueueKey, Placed]) -> Parcel:
        rows = np.frombuffer(self.rows if self.rows else b"", np.int64).reshape(-1, ROW_FIELDS)
        return Parcel(self.files, [(key, placed[key]) for key in self.queues], list(self.spills), rows, self.keys)


def _filling(files: list[OutFile]) -> _Filling:
    queues: dict[QueueKey, int] = {}
    for file in files:
        if file.queue is not None:
            queues.setdefault(file.queue, len(queues))
    return _Filling(files, queues)


def parcels(orders: Orders, groups: Iterable[Sequence[int]]) -> list[Parcel]:
    """Return files shared out, a parcel for each group of their numbers."""
    found = [_filling([orders.files[number] for number in group]) for group in groups]
    _add_stretches(orders, found)
    _add_keys(orders, found)
    return [filling.parcel(orders.placed) for filling in found]


def _add_stretches(orders: Orders, found: Sequence[_Filling]) -> None:
    sole: dict[QueueKey, int] = {}
    shared: dict[QueueKey, dict[str, int]] = {}  # of queues with files in several parcels, by path
    for number, filling in enumerate(found):
        for file in filling.files:
            if file.queue is not None and sole.setdefault(file.queue, number) != number:
                shared[file.queue] = {}
    for number, filling in enumerate(found):
        for file in filling.files:
            if file.queue in shared:
                shared[file.queue][file.path] = number
    counts: dict[QueueKey, tuple[int, int]] = {}
    for facts in orders.facts:
        for stretch, position in zip(facts.found.stretches, facts.spilled.stretches.tolist(), strict=True):
            before, ext_before = counts.get(stretch.key, (0, 0))
            counts[stretch.key] = before + stretch.count, ext_before + max(stretch.ext, 0)
            numbers = {sole[stretch.key]} if stretch.key in sole else set[int]()
            if stretch.key in shared:
                pieces = laid(_hollow(stretch), before, ext_before, orders.placed[stretch.key], orders.sizes)
                by_path = shared[stretch.key]
                numbers = {by_path[piece.path] for piece in pieces}
            for number in numbers:
                found[number].add(stretch, before, ext_before, facts.spilled.path, position)


def _hollow(stretch: Stretch) -> Stretch:
    """Return a stretch with zeros for units, which shows in which files they stand."""
    heads = np.zeros(stretch.count if stretch.ext != NO_HEADS else 0, queueext.HEAD)
    heads["size"][: max(stretch.ext, 0)] = queueext.HEAD_BYTES
    return replace(stretch, units=bytes(stretch.count * UNIT_BYTES[stretch.key[0]]), heads=heads.tobytes())


def _add_keys(orders: Orders, found: Sequence[_Filling]) -> None:
    files = [(file.index, filling) for filling in found for file in filling.files if file.index is not None]
    files.sort(key=lambda row: row[0].first)
    at = 0
    for facts in orders.facts:
        if facts.keys is None:
            continue
        start = orders.cuts.first_key[facts.number]
        stop = start + facts.keys.keys
        while at < len(files) and files[at][0].stop <= start:
            at += 1
        for n in range(at, len(files)):
            file, filling = files[n]
            low, high = max(file.first, start), min(file.stop, stop)
            if file.first >= stop:
                break
            if low < high:
                position = facts.spilled.keys + (low - start) * KEY.itemsize
                of_file = filling.keys.setdefault(file.path, [])
                of_file.append(KeyRange(filling.spill_no(facts.spilled.path), position, high - low))

"""What workers are told of many queues and files, in little memory: columns of numbers, objects made when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from storeio.checks.packed import QueueRows
from storeio.rebuild.cuts import CutFile
from storeio.rebuild.placement import Gap, Part, Placed
from storeio.rebuild.shares import Orders, OutFile
from storeio.rebuild.stretches import QueueKey

Numbers = npt.NDArray[np.int64]
PART_FIELDS: Final = len(fields(Part))
GAP_FIELDS: Final = len(fields(Gap))


class PackedPlaced(Mapping[QueueKey, Placed]):
    """Where the units of queues stand, by queue; cannot be changed."""

    def __init__(self, placed: Mapping[QueueKey, Placed]) -> None:
        """Pack them."""
        self._rows = QueueRows(placed)
        parts = [[astuple(part) for part in one.parts] for one in placed.values()]
        gaps = [[astuple(gap) for gap in one.gaps] for one in placed.values()]
        self._parts, self._part_starts = _joined(parts, PART_FIELDS)
        self._gaps, self._gap_starts = _joined(gaps, GAP_FIELDS)
        self._counts = np.array([(one.replaced, one.moved) for one in placed.values()], np.int64).reshape(-1, 2)

    def __getitem__(self, key: QueueKey) -> Placed:
        """Return where a queue's units stand, equal to what was packed."""
        row = self._rows[key]
        parts = self._parts[self._part_starts[row] : self._part_starts[row + 1]].tolist()
        gaps = self._gaps[self._gap_starts[row] : self._gap_starts[row + 1]].tolist()
        replaced, moved = self._counts[row].tolist()
        return Placed([Part(*p) for p in parts], [Gap(*g) for g in gaps], replaced, moved)

    def __iter__(self) -> Iterator[QueueKey]:
        """Yield the queues, topic by topic."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._rows)


def _joined(rows: list[list[tuple[int, ...]]], width: int) -> tuple[Numbers, Numbers]:
    """Return all rows of numbers one behind the other, and where those of each queue start."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(one) for one in rows], out=starts[1:])
    return np.array([row for one in rows for row in one], np.int64).reshape(-1, width), starts


class PackedFiles(Sequence[OutFile]):
    """Files that are to be written; cannot be changed."""

    def __init__(self, files: Sequence[OutFile]) -> None:
        """Pack them."""
        self._paths = [file.path for file in files]
        self._numbers = np.array([(file.size, file.weight) for file in files], np.int64).reshape(-1, 2)
        self._index: dict[int, CutFile] = {n: file.index for n, file in enumerate(files) if file.index is not None}

    @overload
    def __getitem__(self, at: int) -> OutFile: ...
    @overload
    def __getitem__(self, at: slice) -> list[OutFile]: ...
    def __getitem__(self, at: int | slice) -> OutFile | list[OutFile]:
        """Return a file, equal to the one that was packed."""
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        size, weight = self._numbers[number].tolist()
        return OutFile(self._paths[number], size, weight, self._index.get(number))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._paths)


def packed(orders: Orders) -> Orders:
    """Return the same orders, small."""
    return replace(orders, placed=PackedPlaced(orders.placed), files=PackedFiles(orders.files))

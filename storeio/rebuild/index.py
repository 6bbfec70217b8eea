"""Index files from keys in log order, cut where a broker would begin the next one.

Source: ``IndexService.buildIndex``, ``IndexFile.putKey``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storeio.format import index as layout
from storeio.kernels import place as p
from storeio.output.staging import Staging
from storeio.rebuild.derive import Keys

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Hash slots of an index file, and its units, unit 0 included, which is never used."""

    slots: int
    units: int

    @property
    def file_bytes(self) -> int:
        """Length of a file."""
        return layout.file_length(self.slots, self.units)


@dataclass(frozen=True, slots=True)
class Before:
    """Store time and physical offset of the last key of the file before, 0 without: a new file's header has them."""

    end_ms: int = 0
    end_offset: int = 0


class IndexFile:
    """One index file in the making: its header and slots; units go where ``add`` says."""

    def __init__(self, shape: Shape, before: Before) -> None:
        """Begin a file without keys."""
        self.shape = shape
        ms, offset = max(before.end_ms, 0), max(before.end_offset, 0)
        self._numbers = np.array((ms, ms, offset, offset, 0, 1, shape.slots, shape.units), np.int64)
        self._head = np.zeros(layout.units_start(shape.slots), np.uint8)

    @property
    def count(self) -> int:
        """Units, unit 0 included."""
        return int(self._numbers[p.I_COUNT])

    @property
    def full(self) -> bool:
        """Whether no key has room."""
        return self.count >= self.shape.units

    def end(self) -> Before:
        """Return what the next file begins with."""
        return Before(int(self._numbers[p.I_END_MS]), int(self._numbers[p.I_END_OFFSET]))

    def add(self, keys: Keys, at: int) -> tuple[int, int, Bytes]:
        """Enter keys from ``at`` on; return the first that has no room, and the units and their position."""
        count = self.count
        after = int(p.put_keys(keys.packed, at, self._numbers, self._head))
        return after, layout.units_start(self.shape.slots) + p.UNIT * count, keys.part(at, after)

    def head(self) -> Bytes:
        """Return header and slots, which stand at the file's begin."""
        n = self._numbers
        values = (n[p.I_BEGIN_MS], n[p.I_END_MS], n[p.I_BEGIN_OFFSET], n[p.I_END_OFFSET], n[p.I_USED_SLOTS])
        header = np.zeros((), layout.HEADER)
        header[()] = (*(int(value) for value in values), self.count)
        self._head[: layout.HEADER_BYTES] = np.frombuffer(header.tobytes(), np.uint8)
        return self._head


def name_at(now_ms: int, before: str | None) -> str:
    """Return the path of a file that was begun then: a time, behind that of the file before.

    A broker's clock is in no log: the first file bears the time of the log's first record, others that of the last
    key of the file before.
    """
    last = int(before.rpartition("/")[2]) if before else 0
    return layout.file_path(max(layout.named_at(now_ms), last + 1))


class IndexWriter:
    """Writes the index files of a rebuild into a directory in the making.

    Holds one file's header and slots in memory, and the units of one split.
    """

    def __init__(self, staging: Staging | None, shape: Shape) -> None:
        """Begin without files; without ``staging`` nothing is written, to learn of ``rolled_ms`` only."""
        self.staging, self.shape = staging, shape
        self.files: list[str] = []
        self.entries = 0
        self.rolled_ms = 0  # end of the last file that has a successor
        self._file: IndexFile | None = None

    def add(self, keys: Keys, first_ms: int) -> None:
        """Enter the keys of the next split with records, the first of which was stored at ``first_ms``."""
        file = self._with_room(first_ms)
        at = 0
        while at < len(keys):
            file = self._with_room(first_ms)
            after, position, units = file.add(keys, at)
            self._write(position, units)
            self.entries += after - at
            at = after
        if keys.more:  # the record behind the last key makes a new file, too
            self._with_room(first_ms)

    @property
    def last_ms(self) -> int:
        """End of the last file, 0 without one."""
        return self._file.end().end_ms if self._file is not None else 0

    def _with_room(self, first_ms: int) -> IndexFile:
        """Return the last file, or a new one where it is full; ``first_ms`` names the very first."""
        if self._file is not None and not self._file.full:
            return self._file
        before = Before()
        if self._file is not None:
            before = self._file.end()
            self.close()
            self.rolled_ms = first_ms = before.end_ms
        self._file = IndexFile(self.shape, before)
        self.files.append(name_at(first_ms, self.files[-1] if self.files else None))
        return self._file

    def _write(self, position: int, data: Bytes) -> None:
        if self.staging is not None:
            self.staging.write(self.files[-1], position, data.data, size=self.shape.file_bytes)

    def close(self) -> None:
        """Write the header and the slots of the last file, if there is one."""
        if self._file is not None:
            self._write(0, self._file.head())

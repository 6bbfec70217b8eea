"""What of a stretch of index units and the keys beside them does not agree, and where that lies in files.

A stretch is a split's, or what neighbouring splits have left open between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.index_stretch import (
    IndexFiles,
    Piece,
    Place,
    ReadUnits,
    consecutive,
    first_unit,
    outliers_of,
    place_of_units,
    raw,
)
from storeio.findings import Finding
from storeio.kernels import index_match as kernel
from storeio.kernels import tables as w
from storeio.paths import INDEX

Numbers = npt.NDArray[np.int64]

MAX_EVENTS: Final = 1024  # that are told apart in one stretch; more of one kind are counted into one

# Field of a unit that an event is about: position and length in the unit; the whole unit if absent.
FIELDS: Final = {kernel.HASH: (0, 4), kernel.EXTRA: (0, 4), kernel.OFFSET: (4, 8), kernel.SECONDS: (12, 4)}
CODES: Final = {
    kernel.HASH: ("INDEX_UNIT_WRONG", "the key hash is none of the record's"),
    kernel.OFFSET: ("INDEX_UNIT_WRONG", "the physical offset is not the record's"),
    kernel.SECONDS: ("INDEX_UNIT_WRONG", "the seconds are not the record's"),
    kernel.EXTRA: ("INDEX_UNIT_WRONG", "the record does not have this key"),
    kernel.FOREIGN: ("INDEX_UNIT_WRONG", "another unit belongs here"),
    kernel.ORPHAN: ("INDEX_UNIT_ORPHAN", ""),
    kernel.DUPLICATE: ("INDEX_DUPLICATE", ""),
}
BOTH_SIDES: Final = (kernel.HASH, kernel.EXTRA, kernel.SECONDS)


@dataclass(frozen=True, slots=True)
class Part:
    """Records of a stretch from number ``first`` on lie in this segment."""

    first: int
    segment: str
    base_offset: int


@dataclass(slots=True)
class Stretch:
    """Units and keys side by side: ``records`` and ``keys`` as a walk has them, positions counted from ``base``."""

    files: IndexFiles
    read_units: ReadUnits
    pieces: Sequence[Piece]
    keys: Numbers
    records: Numbers
    base: int
    parts: Sequence[Part]
    starts: Numbers = field(init=False)  # of the pieces, and the end
    state: Numbers = field(init=False)
    events: Numbers = field(init=False)

    def __post_init__(self) -> None:
        """Count the units."""
        lengths = [len(piece.units) for piece in self.pieces]
        self.starts = np.cumsum([0, *lengths]).astype(np.int64)
        self.state = np.zeros(kernel.STATE_PLACES, np.int64)
        self.events = np.zeros((MAX_EVENTS + kernel.KINDS, kernel.EVENT_COLUMNS), np.int64)

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.starts[-1])

    def physical(self, record: int) -> int:
        """Return where a record lies in the log."""
        return self.base + int(self.records[w.R_POSITION, record])

    def match(self, key: int = 0) -> Numbers:
        """Fill ``events`` and return those about seconds; the first unit may be this key's."""
        self.state[kernel.S_KEY] = key
        late = np.zeros_like(self.events)
        table = np.zeros((max(len(self.pieces), 1), 3), np.int64)
        odd: list[tuple[int, int]] = []
        for row, piece, start in zip(table, self.pieces, self.starts.tolist(), strict=False):
            file = self.files[piece.file_no]
            row[:] = start, file.begin_timestamp_ms, start if piece.number(0) == 1 else -1
            odd += outliers_of(file, piece, start)
        runs = np.array(odd, np.int64).reshape(-1, 2)
        data = raw(self.pieces)
        kernel.match(data, self.base, self.keys, self.records, table, runs, self.events, late, self.state)
        return late[late[:, kernel.E_COUNT] > 0]

    def findings(self, events: Numbers) -> Iterator[Finding]:
        """Yield what the events mean."""
        for kind, first, last, count, record, last_record in events[events[:, kernel.E_COUNT] > 0].tolist():
            offset = None if record < 0 else self.physical(record)
            if kind == kernel.MISSING:
                path, position = self.place_of_missing(first, offset or 0)
                yield Finding(
                    "INDEX_UNIT_MISSING", path, position, physical_offset=offset, count=count,
                    detail=f"up to the record at {self.physical(last_record)}",
                )  # fmt: skip
                continue
            code, detail = CODES[kind]
            at, length = FIELDS.get(kind, (0, 0)) if count == 1 else (0, 0)
            for place in self.places(first, last, count):
                position = place.position + at
                yield Finding(
                    code, place.path, position, length or place.length, physical_offset=offset, count=place.count,
                    detail=detail,
                )  # fmt: skip
            if kind in BOTH_SIDES:
                yield from self.log_side(record, last_record, count, detail)

    def log_side(self, record: int, last_record: int, count: int, detail: str) -> Iterator[Finding]:
        """Yield that records may be the damaged side, unless the one record proves itself."""
        if count > 1 or not is_proven(int(self.records[w.R_MARKS, record])):
            start, end = self.physical(record), self.physical(last_record) + int(self.records[w.R_SIZE, last_record])
            part = [part for part in self.parts if part.first <= record][-1]
            yield Finding(
                "LOG_INDEX_DISAGREES", part.segment, start - part.base_offset, end - start, physical_offset=start,
                count=count, detail=detail,
            )  # fmt: skip

    def places(self, first: int, last: int, count: int) -> Iterator[Place]:
        """Yield where units of the stretch lie, one place a file; ``count`` of them are meant."""
        left = count
        for piece, start in zip(self.pieces, self.starts.tolist(), strict=False):
            a, b = max(first - start, 0), min(last - start, len(piece.units) - 1)
            if a > b or left < 1:
                continue
            file = self.files[piece.file_no]
            meant = min(left, b - a + 1)
            left -= meant
            if piece.numbers is None:
                yield place_of_units(file, piece.first + a, piece.first + b, meant)
                continue
            for run in consecutive(np.sort(piece.numbers[a : b + 1])):
                yield place_of_units(file, *run)

    def place_of_missing(self, unit: int, offset: int) -> tuple[str, int]:
        """Return the file and the position where the unit of a key should be, before one of the stretch.

        Whatever else the split has: behind all units of records before it, in the file where those are.
        """
        if not self.files:
            return INDEX, 0
        for piece, start in zip(self.pieces, self.starts.tolist(), strict=False):
            i = unit - start
            if 0 < i < len(piece.units) and piece.number(i - 1) + 1 == piece.number(i):
                file = self.files[piece.file_no]  # no need to look for it
                return file.path, file.position_of(piece.number(i))
        before = [i for i in self.files.log_order if self.files[i].begin_physical_offset <= offset]
        file_no = before[-1] if before else (self.files.log_order or [0])[0]
        file = self.files[file_no]
        number = first_unit(file, file_no, self.read_units, offset) if before and file.ordered else 1
        for piece, start in zip(self.pieces, self.starts.tolist(), strict=False):
            if piece.file_no == file_no and start < unit <= start + len(piece.units):
                number = max(number, piece.number(unit - start - 1) + 1)  # another key of the record has one
        return file.path, file.position_of(number)


def is_proven(marks: int) -> bool:
    """Tell whether a record has a property CRC that agrees."""
    return bool(marks & w.MARK_HAS_PROPERTY_CRC and not marks & w.MARK_PROPERTY_CRC)

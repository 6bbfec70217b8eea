"""One split's records against the index: every key must have its unit, every unit its key.

Where a unit and its record disagree, either may be the damaged one, so both places are reported
unless the record has a property CRC that agrees. Seconds depend on a file's begin time, which one
split cannot judge: ``finish_content`` does, over all splits.

Source: ``IndexService.buildIndex``, ``IndexFile.putKey``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.index_stretch import (
    INTO_DAMAGE,
    IndexFiles,
    Piece,
    Place,
    ReadUnits,
    first_unit,
    outliers_of,
    pieces_of,
    place_of,
    raw,
    runs_of,
    without_holes,
)
from storeio.findings import Finding
from storeio.kernels import index_match as kernel
from storeio.kernels import tables as w
from storeio.paths import INDEX
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]

MAX_EVENTS: Final = 1024  # that are told apart in one split; more of one kind are counted into one

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
class Seconds:
    """A unit's seconds, and the record they were taken from."""

    unit: int
    seconds: int
    store_ms: int
    position: int  # of the record in its segment
    size: int
    is_proven: bool  # the record has a property CRC that agrees


@dataclass(frozen=True, slots=True)
class FileTimes:
    """What a split knows of one index file's times: units whose seconds do not fit the header's begin."""

    file_no: int
    wrong: tuple[Seconds, ...]
    wrong_count: int
    looked_at: int
    first: Seconds | None  # the file's unit 1
    last: Seconds | None  # its last unit


@dataclass(frozen=True, slots=True)
class IndexContent:
    """One split against the index; small, whatever the split. ``finish_content`` makes findings of it."""

    segment: str
    base_offset: int
    findings: tuple[Finding, ...]
    covered: tuple[int, int]  # physical range whose units were judged; the rest is for ``units_outside``
    units: int
    keys: int
    times: tuple[FileTimes, ...]


def check_content(files: IndexFiles, read_units: ReadUnits, walked: Walked) -> IndexContent:
    """Return the comparison of one split with the index files, which are in name order.

    Args:
        read_units: Asked for units that exist only.
        walked: The split after stitching, so that no other split has the same records.
    """
    start, stop = covered(walked)
    pieces, lost = without_holes(files, pieces_of(files, read_units, start, stop), _holes(walked))
    split = _Split(files, read_units, walked, pieces)
    late = split.match()
    findings = (*split.findings(split.events), *_into_holes(files, lost))
    keys = int(walked.keys.shape[1])
    return IndexContent(
        walked.split.path,
        walked.split.base_offset,
        findings,
        (start, stop),
        split.units + sum(len(numbers) for _, numbers in lost),
        keys,
        tuple(split.times(late)),
    )


def covered(walked: Walked) -> tuple[int, int]:
    """Return the physical range of a split whose index units it can judge.

    What lies behind its last record may be the end of the log, which only all splits together know.
    """
    base = walked.split.base_offset
    kinds = walked.spans[w.SPAN_CLASS]
    known = np.flatnonzero((kinds == w.RECORD) | (kinds == w.BLANK))
    if not len(known):
        return base + walked.split.start, base + walked.split.start
    last = known[-1]
    stop = walked.split.stop if last == len(kinds) - 1 else int(walked.spans[w.SPAN_STOP, last])
    return base + walked.split.start, base + min(stop, walked.split.stop)


def _holes(walked: Walked) -> list[tuple[int, int]]:
    """Return the physical ranges of a split without intact records, in order."""
    kinds = walked.spans[w.SPAN_CLASS]
    bad = walked.spans[:, (kinds != w.RECORD) & (kinds != w.BLANK)]
    base = walked.split.base_offset
    return [(base + int(a), base + int(b)) for a, b in zip(bad[w.SPAN_START], bad[w.SPAN_STOP], strict=True)]


def _into_holes(files: IndexFiles, lost: Sequence[tuple[int, Numbers]]) -> Iterator[Finding]:
    """Yield that units point at records that are damaged or lost."""
    for file_no, numbers in lost:
        for run in runs_of(np.sort(numbers)):
            place = place_of(files[file_no], *run)
            yield Finding(
                "INDEX_UNIT_ORPHAN", place.path, place.position, place.length, count=place.count,
                detail=INTO_DAMAGE,
            )  # fmt: skip


class _Split:
    """One split's keys and the index units that point into it."""

    def __init__(self, files: IndexFiles, read_units: ReadUnits, walked: Walked, pieces: list[Piece]) -> None:
        self.files, self.read_units, self.walked, self.pieces = files, read_units, walked, pieces
        self.base = walked.split.base_offset
        lengths = [len(piece.units) for piece in pieces]
        self.starts = np.cumsum([0, *lengths]).astype(np.int64)
        self.units = int(self.starts[-1])
        self.state = np.zeros(kernel.STATE_PLACES, np.int64)
        self.events: Numbers = np.zeros((MAX_EVENTS + kernel.KINDS, kernel.EVENT_COLUMNS), np.int64)

    def match(self) -> Numbers:
        """Fill ``events`` and return those about seconds."""
        late = np.zeros_like(self.events)
        table = np.zeros((max(len(self.pieces), 1), 3), np.int64)
        odd: list[tuple[int, int]] = []
        for row, piece, start in zip(table, self.pieces, self.starts.tolist(), strict=False):
            file = self.files[piece.file_no]
            row[:] = start, file.begin_timestamp_ms, start if piece.number(0) == 1 else -1
            odd += outliers_of(file, piece, start)
        keys, records = self.walked.keys, self.walked.records
        runs = np.array(odd, np.int64).reshape(-1, 2)
        kernel.match(raw(self.pieces), self.base, keys, records, table, runs, self.events, late, self.state)
        return late[late[:, kernel.E_COUNT] > 0]

    def findings(self, events: Numbers) -> Iterator[Finding]:
        """Yield what the events mean."""
        for kind, first, last, count, record, last_record in events[events[:, kernel.E_COUNT] > 0].tolist():
            offset = None if record < 0 else self.base + int(self.walked.records[w.R_POSITION, record])
            if kind == kernel.MISSING:
                path, position = self.place_of_missing(first, offset or 0)
                yield Finding(
                    "INDEX_UNIT_MISSING", path, position, physical_offset=offset, count=count,
                    detail=f"up to the record at {self.base + int(self.walked.records[w.R_POSITION, last_record])}",
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
        row = self.walked.records[:, record]
        if count > 1 or not _is_proven(int(row[w.R_MARKS])):
            end = int(self.walked.records[w.R_POSITION, last_record] + self.walked.records[w.R_SIZE, last_record])
            start = int(row[w.R_POSITION])
            yield Finding(
                "LOG_INDEX_DISAGREES", self.walked.split.path, start, end - start, physical_offset=self.base + start,
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
                yield place_of(file, piece.first + a, piece.first + b, meant)
                continue
            for run in runs_of(np.sort(piece.numbers[a : b + 1])):
                yield place_of(file, *run)

    def place_of_missing(self, unit: int, offset: int) -> tuple[str, int]:
        """Return the file and the position where the unit of a key should be, before one of the stretch.

        Whatever else the split has: behind all units of records before it, in the file where those are.
        """
        if not self.files:
            return INDEX, 0
        before = [i for i in self.files.log_order if self.files[i].begin_physical_offset <= offset]
        file_no = before[-1] if before else (self.files.log_order or [0])[0]
        file = self.files[file_no]
        number = first_unit(file, file_no, self.read_units, offset) if before and file.ordered else 1
        for piece, start in zip(self.pieces, self.starts.tolist(), strict=False):
            if piece.file_no == file_no and start < unit <= start + len(piece.units):
                number = max(number, piece.number(unit - start - 1) + 1)  # another key of the record has one
        return file.path, file.position_of(number)

    def times(self, late: Numbers) -> Iterator[FileTimes]:
        """Yield what is known of each file's times."""
        for piece, start in zip(self.pieces, self.starts.tolist(), strict=False):
            stop = start + len(piece.units)
            rows = late[(late[:, kernel.E_FIRST] >= start) & (late[:, kernel.E_FIRST] < stop)]
            wrong = [self.seconds(piece, int(row[kernel.E_FIRST]) - start, int(row[kernel.E_RECORD])) for row in rows]
            file = self.files[piece.file_no]
            first = self.known(piece, 0) if piece.number(0) == 1 else None
            last = self.known(piece, len(piece.units) - 1)
            is_cut = file.length < file.position_of(file.units)
            if last and (last.unit != file.entries or is_cut):
                last = None
            count, looked_at = int(rows[:, kernel.E_COUNT].sum()), int(self.state[kernel.S_TIMED])
            yield FileTimes(piece.file_no, tuple(wrong), count, looked_at, first, last)

    def known(self, piece: Piece, i: int) -> Seconds | None:
        """Return the seconds of a unit if it points at a record of the split."""
        position = int(piece.units["physical_offset"][i]) - self.base
        record = int(np.searchsorted(self.walked.records[w.R_POSITION], position))
        if record >= self.walked.count or self.walked.records[w.R_POSITION, record] != position:
            return None
        return self.seconds(piece, i, record)

    def seconds(self, piece: Piece, i: int, record: int) -> Seconds:
        """Return the seconds of unit ``i`` of a piece beside the record's time."""
        row = self.walked.records[:, record]
        return Seconds(
            piece.number(i),
            int(piece.units["seconds"][i]),
            int(row[w.R_STORE_MS]),
            int(row[w.R_POSITION]),
            int(row[w.R_SIZE]),
            _is_proven(int(row[w.R_MARKS])),
        )


def _is_proven(marks: int) -> bool:
    return bool(marks & w.MARK_HAS_PROPERTY_CRC and not marks & w.MARK_PROPERTY_CRC)

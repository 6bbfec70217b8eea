"""One split's records against the index: every key must have its unit, every unit its key.

Where a unit and its record disagree, either may be the damaged one, so both places are reported
unless the record has a property CRC that agrees. Seconds depend on a file's begin time, which one
split cannot judge: ``finish_content`` does, over all splits.

Source: ``IndexService.buildIndex``, ``IndexFile.putKey``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storeio.checks.index_border import Ends, ends_of
from storeio.checks.index_events import Part, Stretch, is_proven
from storeio.checks.index_stretch import (
    INTO_DAMAGE,
    IndexFiles,
    Piece,
    ReadUnits,
    consecutive,
    pieces_of,
    place_of_units,
    without_holes,
)
from storeio.checks.ranges import meeting, merged
from storeio.findings import Finding
from storeio.kernels import index_match as kernel
from storeio.kernels import tables as w
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]


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
    ends: Ends
    findings: tuple[Finding, ...]  # units that point into damage
    covered: tuple[int, int]  # physical range whose units were judged; the rest is for ``units_outside``
    units: int
    keys: int
    times: tuple[FileTimes, ...]

    @property
    def has_events(self) -> bool:
        """Whether something is not as it should be, be it that only the next split can tell what."""
        ends = self.ends
        return bool(self.findings or ends.findings or ends.head or ends.tail)


def check_content(
    files: IndexFiles,
    read_units: ReadUnits,
    walked: Walked,
    unread: Sequence[tuple[int, int]] = (),
    *,
    is_guess: bool = False,
) -> IndexContent:
    """Return the comparison of one split with the index files, which are in name order.

    Args:
        read_units: Asked for units that exist only.
        walked: The split after stitching, so that no other split has the same records.
        unread: Merged positions of the segment that could not be read, and were walked as zeros: nothing is said of
            units that point there.
        is_guess: Whether the split was walked from a guess.
    """
    start, stop = covered(walked)
    pieces, holes = pieces_of(files, read_units, start, stop), _holes(walked, is_guess=is_guess)
    if unread:
        base = walked.split.base_offset
        silent = [row for row in merged(holes) if meeting(unread, row[0] - base, row[1] - base)]
        pieces, _ = without_holes(files, pieces, silent)
        holes = [row for row in holes if not meeting(silent, *row)]
    pieces, lost = without_holes(files, pieces, holes)
    segment, base = walked.split.path, walked.split.base_offset
    stretch = Stretch(files, read_units, pieces, walked.keys, walked.records, base, (Part(0, segment, base),))
    late = stretch.match()
    return IndexContent(
        segment,
        base,
        ends_of(stretch),
        tuple(_into_holes(files, lost)),
        (start, stop),
        stretch.units + sum(len(numbers) for _, numbers in lost),
        int(walked.keys.shape[1]),
        tuple(_times(stretch, late)),
    )


def covered(walked: Walked) -> tuple[int, int]:
    """Return the physical range of a split whose index units it can judge.

    What lies behind its last record may be the end of the log, which only all splits together know; a blank record that
    closes its segment belongs to it, one behind older bytes does not. One without a record judges nothing: it may be of
    a file that has no business there.
    """
    base, begin = walked.split.base_offset, walked.begin
    start = walked.split.start if begin.mode == w.CHAIN else max(begin.position, walked.split.start)
    if not walked.count:
        return base + start, base + start
    kinds = walked.spans[w.SPAN_CLASS]
    last = np.flatnonzero(kinds == w.RECORD)[-1]
    last += last + 1 < len(kinds) and kinds[last + 1] == w.BLANK
    stop = walked.split.stop if last == len(kinds) - 1 else int(walked.spans[w.SPAN_STOP, last])
    return base + start, base + max(min(stop, walked.split.stop), start)


def _holes(walked: Walked, *, is_guess: bool) -> list[tuple[int, int]]:
    """Return the physical ranges of a split without intact records, in order.

    What a guess passed over in search of the first one is none: that is the end of the record before, or the split is
    judged again.
    """
    kinds = walked.spans[w.SPAN_CLASS]
    is_passed = (walked.spans[w.SPAN_WHY] == w.WHY_SEARCHED) & (walked.spans[w.SPAN_START] == walked.split.start)
    bad = walked.spans[:, (kinds != w.RECORD) & (kinds != w.BLANK) & ~(is_passed & is_guess)]
    base = walked.split.base_offset
    return [(base + int(a), base + int(b)) for a, b in zip(bad[w.SPAN_START], bad[w.SPAN_STOP], strict=True)]


def _into_holes(files: IndexFiles, lost: Sequence[tuple[int, Numbers]]) -> Iterator[Finding]:
    """Yield that units point at records that are damaged or lost."""
    for file_no, numbers in lost:
        for run in consecutive(np.sort(numbers)):
            place = place_of_units(files[file_no], *run)
            yield Finding(
                "INDEX_UNIT_ORPHAN", place.path, place.position, place.length, count=place.count,
                detail=INTO_DAMAGE,
            )  # fmt: skip


def _times(stretch: Stretch, late: Numbers) -> Iterator[FileTimes]:
    """Yield what is known of each file's times."""
    for piece, start in zip(stretch.pieces, stretch.starts.tolist(), strict=False):
        stop = start + len(piece.units)
        rows = late[(late[:, kernel.E_FIRST] >= start) & (late[:, kernel.E_FIRST] < stop)]
        wrong = [_seconds(stretch, piece, int(row[kernel.E_FIRST]) - start, int(row[kernel.E_RECORD])) for row in rows]
        file = stretch.files[piece.file_no]
        first = _known(stretch, piece, 0) if piece.number(0) == 1 else None
        last = _known(stretch, piece, len(piece.units) - 1)
        is_cut = file.length < file.position_of(file.units)
        if last and (last.unit != file.entries or is_cut):
            last = None
        count, looked_at = int(rows[:, kernel.E_COUNT].sum()), int(stretch.state[kernel.S_TIMED])
        yield FileTimes(piece.file_no, tuple(wrong), count, looked_at, first, last)


def _known(stretch: Stretch, piece: Piece, i: int) -> Seconds | None:
    """Return the seconds of a unit if it points at a record of the split, and has the hash of one of its keys."""
    positions = stretch.records[w.R_POSITION]
    position = int(piece.units["physical_offset"][i]) - stretch.base
    record = int(np.searchsorted(positions, position))
    if record >= len(positions) or positions[record] != position:
        return None
    own = slice(*np.searchsorted(stretch.keys[1], (record, record + 1)))
    if int(piece.units["key_hash"][i]) not in stretch.keys[0, own]:
        return None  # it stands for no key of the record: zeros lead to the log's first one
    return _seconds(stretch, piece, i, record)


def _seconds(stretch: Stretch, piece: Piece, i: int, record: int) -> Seconds:
    """Return the seconds of unit ``i`` of a piece beside the record's time."""
    row = stretch.records[:, record]
    return Seconds(
        piece.number(i),
        int(piece.units["seconds"][i]),
        int(row[w.R_STORE_MS]),
        int(row[w.R_POSITION]),
        int(row[w.R_SIZE]),
        is_proven(int(row[w.R_MARKS])),
    )

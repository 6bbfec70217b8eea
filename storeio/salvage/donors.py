"""What other copies of a log hold where this one has holes: both must agree on what lies around each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from storeio.audit import AuditPlan, Concluded
from storeio.checks.ranges import Ranges, meeting, merged, subtract
from storeio.checks.segments import Segment
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.salvage.differing import compared
from storeio.salvage.doubts import Doubts
from storeio.salvage.pieces import Piece, ranges_of, records_of
from storeio.salvage.regions import Judged, judge
from storeio.salvage.stretches import stretches
from storeio.salvage.survey import Survey, survey

SIDE_BYTES: Final = 64  # on either side of a hole in which two copies must agree: no record is so short

Good = dict[tuple[int, int], Segment]


@dataclass(frozen=True, slots=True)
class Donated:
    """What a copy of the log gives, and the places of intact records that it holds otherwise and does not give."""

    pieces: list[Piece]
    otherwise: list[int]


def donated(known: Survey, donor: Concluded) -> Donated:
    """Return what a copy of the log holds where this one has holes, or records that something speaks against."""
    if donor.plan.segment_bytes != known.segment_bytes:
        return Donated([], [])
    theirs = survey(donor)
    good = _good(donor, merged((at, at + answer.record.size) for at, answer in Doubts(theirs).answers()))
    ranges = list(good)
    judged = [judge(known, stretch) for stretch in stretches(known)]
    places = [*known.doubts, *(at for each in judged for at, _ in each.forged)]
    doubtful = merged((place, place + known.size_at(place)) for place in places)
    own = sorted(part for row in records_of(known.concluded) for part in subtract(row, doubtful))
    better, otherwise = compared(known, theirs, _common(own, ranges))
    if better:
        own = sorted(part for row in own for part in subtract(row, better))
    both = _common(own, ranges)
    pieces, ends = [], _ends(donor)
    for start, stop in sorted({*_holes(known, judged), *better}):
        if start < stop and _agree(known, theirs, own, both, start, stop):
            for low, high in meeting(ranges, start, stop):
                last = high if ends.get(high, stop) < stop else min(high, stop)
                pieces.append(_piece(donor.plan, good[low, high], (max(low, start), last)))
    return Donated([*pieces, *_tail(known, theirs, good, own, both)], otherwise)


def _holes(known: Survey, judged: Sequence[Judged]) -> Iterator[tuple[int, int]]:
    """Yield where a copy may know better: where nothing intact lies, and records that something speaks against."""
    for each in judged:
        yield each.stretch.start, _reach(known, each)
    for place in known.doubts:
        if size := known.size_at(place):
            yield place, place + size
    yield from _odd_blanks(known)


def _good(donor: Concluded, wrong: Ranges) -> Good:
    """Return the ranges of intact bytes of a copy, and the segment of each; of files for the same place the first.

    ``wrong`` are those of its records that are not as they were.
    """
    rows = [(*row, s) for s in donor.view.segments for row in ranges_of(s, w.RECORD, w.BLANK)]
    found: Good = {}
    end = 0
    for low, high, segment in sorted(rows, key=lambda row: row[:2]):
        if low >= end:
            found |= dict.fromkeys(subtract((low, high), wrong), segment)
            end = high
    return found


def _ends(donor: Concluded) -> dict[int, int]:
    """Return where the closing blank records of a copy begin, by where they end: such a one is taken whole.

    What stands here behind its head may be of another one, and would be left as something that is not zero.
    """
    rows = [(s.base, s.spans[:, s.spans[w.SPAN_CLASS] == w.BLANK].T.tolist()) for s in donor.view.segments]
    return {base + high: base + low for base, spans in rows for low, high, *_ in spans}


def _piece(plan: AuditPlan, segment: Segment, part: tuple[int, int]) -> Piece:
    """Return a range of a segment, whatever its name is."""
    return Piece(plan, segment.file.path, part[0] - segment.base, part[1] - part[0], part[0])


def _odd_blanks(known: Survey) -> Iterator[tuple[int, int]]:
    """Yield the closing blank records behind whose head something stands, or whose size is wrong."""
    for segment in known.concluded.view.segments:
        for low, high, kind, why in segment.spans.T.tolist():
            if kind == w.BLANK and why != h.OK:
                yield segment.base + low, segment.base + high


def _tail(known: Survey, theirs: Survey, good: Good, own: Ranges, both: Ranges) -> Iterator[Piece]:
    """Yield whole segments behind the last file, where the store's own queues say that they are lost."""
    last = known.concluded.view.segments[-1].base if known.concluded.view.segments else -known.segment_bytes
    lost = any(finding.code == "LOG_TAIL_LOST" for finding in known.audit.findings)
    if not lost or not _agree(known, theirs, own, both, last + known.segment_bytes, 2**62):
        return
    for part, segment in good.items():
        if part[0] >= last + known.segment_bytes:
            yield _piece(theirs.plan, segment, part)


def _reach(known: Survey, judged: Judged) -> int:
    """Return where a hole ends for a donor: the free tail of the log is none, unless something was lost from it."""
    stretch = judged.stretch
    if judged.stop > stretch.stop:
        return judged.stop
    if not stretch.tail or any(finding.code == "LOG_TAIL_LOST" for finding in known.audit.findings):
        return stretch.stop
    return stretch.stop if known.holds_something(stretch.start, stretch.stop) else stretch.start


def _agree(known: Survey, theirs: Survey, own: Ranges, both: Ranges, start: int, stop: int) -> bool:
    """Tell whether two copies hold the same bytes before and behind a hole, at the nearest places intact in both."""
    last = bisect_right(both, start, key=lambda row: row[1])
    behind = bisect_left(both, stop, key=lambda row: row[0])
    sides = [
        (bool(own) and own[0][1] <= start, [high - SIDE_BYTES for _, high in both[max(last - 1, 0) : last]]),
        (bool(own) and own[-1][0] >= stop, [low for low, _ in both[behind : behind + 1]]),
    ]
    return all(
        not is_there or any(known.read(at, at + SIDE_BYTES) == theirs.read(at, at + SIDE_BYTES) for at in places)
        for is_there, places in sides
    )


def _common(own: Ranges, good: Ranges) -> Ranges:
    """Return where both copies hold intact bytes, as far as they can be compared."""
    found = [(max(low, a), min(high, b)) for low, high in own for a, b in meeting(good, low, high)]
    return [(low, high) for low, high in found if high - low >= SIDE_BYTES]

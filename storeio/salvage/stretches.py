"""Where a log is damaged: the stretches of it that hold no intact record and should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from storeio.checks.places import MOST_MISSING
from storeio.checks.segments import Segment
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.paths import COMMITLOG, file_name
from storeio.salvage.survey import Survey

RECORD: Final = "record"
BLANK: Final = "blank"
END: Final = "end"  # of the segment


@dataclass(frozen=True, slots=True)
class Stretch:
    """Damaged bytes ``[start, stop)`` of one segment, in physical offsets, and what stands behind them.

    ``tail`` marks what lies behind the last intact record of the log: there zeros are as they should be; ``is_rest``
    what is left of a stretch behind a lost record whose length a queue unit alone told.
    """

    start: int
    stop: int
    behind: str
    tail: bool = False
    is_rest: bool = False


def stretches(survey: Survey) -> Iterator[Stretch]:
    """Yield the damaged stretches of a log in order, missing segments whole; its tail last, if it holds anything.

    Raises:
        UnreadableError: So many segments are missing that this is no log.
    """
    view, size = survey.concluded.view, survey.segment_bytes
    last = next((s for s in reversed(view.segments) if s.last_record_stop()), None)
    if last is None:
        return
    before: Segment | None = None
    for segment in view.segments:
        if before is not None:
            is_after = segment.base > last.base  # then what is missing was hardly there
            gap = before.base + size, segment.base, size
            for base in range(*gap)[:MOST_MISSING] if is_after else bases(*gap):
                yield Stretch(base, base + size, END, tail=is_after)
        yield from _of_segment(survey, segment, is_last=segment is last, is_after=segment.base > last.base)
        before = segment


def bases(start: int, stop: int, segment_bytes: int, *, there: int = 0) -> range:
    """Return where segments begin, from the first one's begin to behind the last one; ``there`` are not missing.

    Raises:
        UnreadableError: They are more than can be made anew.
    """
    found = range(start, stop, segment_bytes)
    if len(found) - there > MOST_MISSING:
        raise UnreadableError(
            f"{COMMITLOG}/{file_name(start)}: {len(found) - there:,} segments are missing between here and"
            f" {file_name(stop)}, and no more than {MOST_MISSING:,} are made anew; move away what is no part of this"
            " log, and try again"
        )
    return found


def _of_segment(survey: Survey, segment: Segment, *, is_last: bool, is_after: bool) -> Iterator[Stretch]:
    size = survey.segment_bytes
    tail_from = 0 if is_after else segment.last_record_stop() if is_last else size
    start: int | None = None
    at, closed = 0, False
    for low, high, kind, _ in segment.spans.T.tolist():
        closed = kind == w.BLANK and not _lies(survey, segment.base + low)
        if kind == w.RECORD or closed:
            if start is not None:
                behind = RECORD if kind == w.RECORD else BLANK
                yield Stretch(segment.base + start, segment.base + low, behind, start >= tail_from)
            start = None
        elif start is None:
            start = low
        at = high
    if start is None and at < size and not closed:  # nobody reads what is missing behind a blank record
        start = at
    if start is not None:
        yield Stretch(segment.base + start, segment.base + size, END, start >= tail_from)


def _lies(survey: Survey, place: int) -> bool:
    """Tell whether a blank record stands where a queue unit says that a lost record lay, which may begin before it."""
    units = survey.units_in(place - place % survey.segment_bytes, place + 1)
    return any(unit.physical_offset + unit.size > place and survey.lacks(unit) for unit in units)


def beyond(survey: Survey) -> Iterator[Stretch]:
    """Yield the segments behind the last file into which queue units point, one behind the other from the log's end."""
    view, size = survey.concluded.view, survey.segment_bytes
    end = view.max_physical_offset
    known = {segment.base for segment in view.segments}
    stop = end
    for unit in survey.units_in(end, 2**62):
        if unit.physical_offset > end + log.MOST_RECORD_BYTES:
            break
        end = max(end, unit.physical_offset + unit.size)
        stop = end
    first = view.max_physical_offset // size * size
    yield from (Stretch(base, base + size, END, tail=True) for base in range(first, stop, size) if base not in known)

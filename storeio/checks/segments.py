"""Spans of the whole commitlog -> byte classes, findings, and where the log ends."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.ranges import Ranges, meeting, merged, subtract
from storeio.findings import Finding
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.paths import COMMITLOG, StoreFile, file_name

Numbers = npt.NDArray[np.int64]

CLASS_NAMES: Final = {
    w.RECORD: "record",
    w.BLANK: "blank",
    w.ZERO: "zero",
    w.STALE: "stale",
    w.TORN: "torn",
    w.GARBAGE: "garbage",
}
WHY: Final = {
    h.WHY_SHORT: "too few bytes are left for a record",
    h.WHY_MAGIC: "no magic code where a record must start",
    h.WHY_SIZE: "its size leads out of the segment",
    h.WHY_BODY_LENGTH: "its body length leads out of the segment",
    h.WHY_TOPIC_LENGTH: "its topic length leads out of the segment",
    h.WHY_PROPERTIES_LENGTH: "its properties length leads out of the segment",
    h.WHY_FORMULA: "its size is not the sum of its parts",
    h.WHY_BODY_CRC: "the body does not have its CRC",
    h.WHY_PROPERTY: "a number in its properties cannot be parsed",
    w.WHY_BLANK_SIZE: "a blank record's size is not the rest of the segment",
    w.WHY_BLANK_DIRTY: "the rest behind the blank record is not zero",
    w.WHY_BLANK_EARLY: "a blank record with newer records behind it",
    w.WHY_MISPLACED: "intact, but its physical offset is of another place",
    w.WHY_OLDER: "intact, but older than the records in front of it",
    w.WHY_SEARCHED: "no record starts here",
}

PREALLOCATED: Final = "pre-allocated"
"""Detail of a gap behind which no segment holds a record."""


@dataclass(slots=True)
class Segment:
    """One segment with its merged spans, rows as in ``kernels.tables``."""

    file: StoreFile
    spans: Numbers

    @property
    def base(self) -> int:
        """Physical offset of its first byte."""
        return self.file.base_offset or 0

    def last_record_stop(self) -> int:
        """Return the position behind its last record, 0 without any."""
        records = self.spans[w.SPAN_STOP, self.spans[w.SPAN_CLASS] == w.RECORD]
        return int(records[-1]) if len(records) else 0


@dataclass(slots=True)
class LogView:
    """The commitlog as the spans tell it. ``holes`` are physical ranges without intact records.

    Of ``unread`` ones, which are among the holes, nothing is known: what they hold is neither there nor lost.
    """

    segments: list[Segment]
    min_physical_offset: int
    max_physical_offset: int
    holes: Ranges = field(default_factory=list)
    unread: Ranges = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Physical offset behind which there is surely nothing: the end of the log, or of what could not be read."""
        return max(self.max_physical_offset, self.unread[-1][1] if self.unread else 0)

    @property
    def ends_unread(self) -> bool:
        """Whether something behind the last record could not be read, so that nobody knows where the log ends."""
        return self.end > self.max_physical_offset

    def is_unread(self, start: int, stop: int) -> bool:
        """Tell whether something of a physical range could not be read."""
        return bool(meeting(self.unread, start, stop))

    def is_damaged(self, start: int, stop: int) -> bool:
        """Tell whether a hole touches a physical range; holes are sorted and do not overlap."""
        i = bisect_right(self.holes, start, key=lambda hole: hole[1])
        return i < len(self.holes) and self.holes[i][0] < stop


def view_log(segments: list[Segment], segment_bytes: int, unread: Ranges | None = None) -> LogView:
    """Return classes, holes and findings of the commitlog from its segments in order.

    ``unread`` are merged physical ranges that could not be read; no span is known of them, or they were read as zeros.
    """
    last = max((i for i, s in enumerate(segments) if s.last_record_stop()), default=-1)
    first = segments[0].base if segments else 0
    end = segments[last].base + segments[last].last_record_stop() if last >= 0 else first
    view = LogView(segments, first, end, unread=merged([*(unread or ()), *_cut_short(segments, unread or [])]))
    for i, segment in enumerate(segments):
        _classify(segment, view, segment_bytes)
        _judge(segment, view, is_last=i == last, is_after=i > last, segment_bytes=segment_bytes)
    _gaps(segments, last, segment_bytes, view)
    view.holes = merged([*view.holes, *view.unread])  # those between segments came last
    return view


def _cut_short(segments: list[Segment], unread: Ranges) -> Iterator[tuple[int, int]]:
    """Yield stretches without intact records, a part of which could not be read, or right beside such a part.

    That may be why there are none: half a record looks like damage.
    """
    for segment in segments:
        if not meeting(unread, segment.base, segment.base + segment.file.size):
            continue
        known = np.isin(segment.spans[w.SPAN_CLASS], (w.RECORD, w.BLANK, w.STALE))
        rest = segment.spans[:2, ~known].T.tolist()
        rows = [(segment.base + low, segment.base + high) for low, high in rest]
        ours = [(max(a, segment.base), min(b, segment.base + segment.file.size)) for a, b in unread]
        for start, stop in merged([*rows, *(row for row in ours if row[0] < row[1])]):
            if meeting(unread, start, stop):
                yield start, stop


def _classify(segment: Segment, view: LogView, segment_bytes: int) -> None:
    spans = known_spans(segment, view)
    sizes = spans[w.SPAN_STOP] - spans[w.SPAN_START]
    classes = {name: int(sizes[spans[w.SPAN_CLASS] == kind].sum()) for kind, name in CLASS_NAMES.items()}
    classes["missing"] = max(segment_bytes - segment.file.size, 0)
    view.classes[segment.file.path] = classes


def known_spans(segment: Segment, view: LogView) -> Numbers:
    """Return the spans of a segment without those that say nothing, since they could not be read."""
    if not view.is_unread(segment.base, segment.base + segment.file.size):
        return segment.spans
    return segment.spans[:, [not _is_unread(segment, view, *row) for row in segment.spans.T.tolist()]]


def _is_unread(segment: Segment, view: LogView, start: int, stop: int, kind: int, why: int) -> bool:
    """Tell whether a span says nothing, as part of it, or of what it is a part of, could not be read."""
    return kind not in (w.RECORD, w.BLANK, w.STALE) and view.is_unread(segment.base + start, segment.base + stop)


def _judge(segment: Segment, view: LogView, *, is_last: bool, is_after: bool, segment_bytes: int) -> None:
    """Add findings and holes of one segment; behind the end of the log zeros are as they should be."""
    tail = segment.last_record_stop() if is_last else (0 if is_after else segment.file.size)
    misnamed = _misnamed(segment)
    if misnamed:
        detail = "all its intact records name other places"
        view.findings.append(
            Finding(
                "LOG_SEGMENT_MISNAMED", segment.file.path, 0, segment.file.size, physical_offset=segment.base,
                detail=detail,
            )
        )  # fmt: skip
    for start, stop, kind, why in segment.spans.T.tolist():
        if view.unread and _is_unread(segment, view, start, stop, kind, why):
            continue
        in_tail = start >= tail and (is_last or is_after)
        code = "" if misnamed and kind == w.STALE else _code(kind, why, in_tail=in_tail)
        if code == "LOG_BLANK_SIZE" and segment.file.size != segment_bytes:
            code = ""  # the blank record names the true rest; it is the file that has the wrong length
        if kind not in (w.RECORD, w.BLANK) and not (in_tail and kind == w.ZERO):
            view.holes.append((segment.base + start, segment.base + stop))
        if code:
            view.findings.append(_finding(segment, code, start, stop, why))
    if not (is_last or is_after):
        _demand_blank(segment, view)


def _finding(segment: Segment, code: str, start: int, stop: int, why: int) -> Finding:
    offset = segment.base + start
    return Finding(code, segment.file.path, start, stop - start, physical_offset=offset, detail=WHY.get(why, ""))


def findings_so_far(segment: Segment) -> list[Finding]:
    """Return the findings of a segment that may not be known to its end: those in front of its last known record.

    They hold whatever lies behind; of what follows that record nobody can say yet whether it is the end of the log.
    """
    end = segment.last_record_stop()
    spans = segment.spans[:, segment.spans[w.SPAN_STOP] <= end].T.tolist()
    coded = ((start, stop, why, _code(kind, why, in_tail=False)) for start, stop, kind, why in spans)
    return [_finding(segment, code, start, stop, why) for start, stop, why, code in coded if code]


def _misnamed(segment: Segment) -> bool:
    """Tell whether the segment holds intact records, all of another place."""
    kinds = segment.spans[w.SPAN_CLASS]
    return bool((kinds == w.STALE).any()) and not (kinds == w.RECORD).any()


def _code(kind: int, why: int, *, in_tail: bool) -> str:
    """Return the finding of a span, an empty string where it is as it should be."""
    if kind == w.BLANK:
        return {w.WHY_BLANK_SIZE: "LOG_BLANK_SIZE", w.WHY_BLANK_DIRTY: "LOG_BLANK_DIRTY"}.get(why, "")
    if kind == w.ZERO:
        return "" if in_tail else "LOG_HOLE"
    if kind == w.TORN:
        return "LOG_BODY_CRC" if why == h.WHY_BODY_CRC else "LOG_TORN_RECORD"
    if kind == w.STALE:
        return "LOG_STALE"
    if kind == w.GARBAGE:
        if why == w.WHY_BLANK_EARLY:
            return "LOG_BLANK_EARLY"
        return "LOG_DIRTY_TAIL" if in_tail else "LOG_GARBAGE"
    return ""


def _demand_blank(segment: Segment, view: LogView) -> None:
    """Add a finding where a segment with a successor does not end in a blank record."""
    if segment.spans.shape[1] and segment.spans[w.SPAN_CLASS, -1] == w.BLANK:
        return
    if view.is_unread(segment.base, segment.base + segment.file.size):
        return  # it may lie there
    start = segment.last_record_stop()
    view.findings.append(
        Finding(
            "LOG_BLANK_MISSING", segment.file.path, start, segment.file.size - start,
            physical_offset=segment.base + start, detail="later segments hold records",
        )
    )  # fmt: skip


def _gaps(segments: list[Segment], last: int, segment_bytes: int, view: LogView) -> None:
    """Add findings, holes and missing bytes where a segment does not follow the one before it, or that is too short."""
    for i, (a, b) in enumerate(itertools.pairwise(segments)):
        expected = a.base + segment_bytes
        end, room = a.base + a.file.size, min(expected, b.base)
        if i < last and end < room:  # behind the end of the log nothing lay there
            view.holes.append((end, room))
        if b.base <= expected:
            continue
        detail = PREALLOCATED if i >= last and not view.ends_unread else f"the next segment begins at {b.base}"
        for start, stop in subtract((expected, b.base), view.unread):
            path, length = f"{COMMITLOG}/{file_name(start)}", stop - start
            view.holes.append((start, stop))
            view.classes.setdefault(path, {})["missing"] = length
            count = -(-length // segment_bytes)
            view.findings.append(Finding("LOG_GAP", path, 0, length, physical_offset=start, count=count, detail=detail))

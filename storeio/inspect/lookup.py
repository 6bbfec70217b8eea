"""Records found by their place: at a physical offset, around it, through a message id."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.inspect.logwalk import BACK_BYTES, E_START, E_STOP, Stretch, entries, single, walk_near, walk_segment
from storeio.inspect.reader import Reader
from storeio.inspect.recordviews import WHY, row_view, view_of
from storeio.inspect.views import RecordView
from storeio.kernels import tables as w
from storeio.paths import StoreFile

Numbers = npt.NDArray[np.int64]

WHOLE: Final = 1 << 62  # farther back than any segment begins
CLASSES = {w.RECORD: "records", w.BLANK: "a blank record", w.ZERO: "zero bytes", w.STALE: "stale records",
           w.TORN: "a damaged record", w.GARBAGE: "bytes that are no record"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MessageId:
    """A broker's offset message id: the store host's address and port, and the physical offset."""

    host: str
    physical_offset: int


def parse_message_id(text: str) -> MessageId | None:
    """Return what an offset message id says, None for text that is none: 32 or 56 hex digits."""
    if len(text) not in (32, 56) or not all(c in "0123456789abcdefABCDEF" for c in text):
        return None
    raw = bytes.fromhex(text)
    port = int.from_bytes(raw[-12:-8], "big", signed=True)
    address = ipaddress.ip_address(raw[:-12])
    host = f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
    return MessageId(host, int.from_bytes(raw[-8:], "big", signed=True))


def record_at(reader: Reader, physical_offset: int) -> RecordView | None:
    """Return the intact record that starts there, taken by itself as a broker reads it; None if there is none."""
    for segment in reader.holding(physical_offset):
        found = single(reader, segment, physical_offset - (segment.base_offset or 0))
        if found is not None:
            return row_view(found, 0)
    return None


def records_around(
    reader: Reader, physical_offset: int, around: int = 0, *, exact: bool = False
) -> Iterator[RecordView]:
    """Yield the record that starts at or contains an offset, damaged and stale ones included, and its neighbours.

    Where the offset lies in no record, a note says in what, and only neighbours come. ``exact``
    walks the segment from its start, see ``logwalk.state_before``.
    """
    back = WHOLE if exact else BACK_BYTES
    held = reader.holding(physical_offset)
    if not held:
        reader.note(f"no segment holds physical offset {physical_offset}")
        return
    for segment in held:
        position = physical_offset - (segment.base_offset or 0)
        if around:
            yield from _before(reader, segment, position, around, back)
        yield from _from(reader, segment, position, around, back)


def _from(reader: Reader, segment: StoreFile, position: int, after: int, back: int) -> Iterator[RecordView]:
    """Yield what covers the position and up to ``after`` entries behind it, across segments."""
    left = after
    looked = False
    for stretch in _walk_on(reader, segment, position, back):
        table = entries(stretch, damaged=True, stale=True)
        here = stretch.segment == segment
        first = int(np.searchsorted(table[E_STOP], position, side="right")) if here else 0
        for column in table[:, first : first + left + 1].T.tolist():
            asked = here and column[0] <= position < column[1]
            if asked or left > 0:
                yield view_of(reader, stretch, *column)
            looked |= asked
            left -= not asked
        if here and not looked and stretch.walked.end.position > position:
            reader.note(_what_is_at(stretch, position))
            looked = True
        if left <= 0 and looked and (not here or stretch.walked.end.position > position):
            return


def _walk_on(reader: Reader, segment: StoreFile, position: int, back: int) -> Iterator[Stretch]:
    """Yield the segment from near the position on, then the segments behind it."""
    yield from walk_near(reader, segment, position, back=back)
    segments = reader.segments()
    for later in segments[segments.index(segment) + 1 :]:
        yield from walk_segment(reader, later)


def _before(reader: Reader, segment: StoreFile, position: int, count: int, back: int) -> list[RecordView]:
    """Return up to ``count`` entries that end at or before a position, in order, across segments."""
    segments = reader.segments()
    found: list[RecordView] = []
    for k in range(segments.index(segment), -1, -1):
        stop = position if segments[k] == segment else segments[k].size
        found = _last_before(reader, segments[k], stop, count - len(found), back) + found
        if len(found) >= count:
            break
    return found


def _last_before(reader: Reader, segment: StoreFile, stop: int, count: int, back: int) -> list[RecordView]:
    """Return the last entries of a segment that end at or before ``stop``, from farther back while too few."""
    while True:
        found: deque[tuple[Stretch, list[int]]] = deque(maxlen=count)
        begin = None
        for stretch in walk_near(reader, segment, min(stop, segment.size - 1), back=back):
            begin = stretch.walked.begin.position if begin is None else begin
            table = entries(stretch, damaged=True, stale=True)
            table = table[:, table[E_STOP] <= stop]
            found.extend((stretch, column) for column in table[:, -count:].T.tolist())
            if stretch.walked.end.position >= stop:
                break
        if len(found) >= count or not begin:
            return [view_of(reader, stretch, *column) for stretch, column in found]
        back *= 8


def _what_is_at(stretch: Stretch, position: int) -> str:
    """Return a sentence about bytes that are no record."""
    spans = stretch.walked.spans
    hit = np.flatnonzero((spans[E_START] <= position) & (position < spans[E_STOP]))
    physical = stretch.base_offset + position
    if not len(hit):
        return f"physical offset {physical} lies in no record"
    start, stop, kind, why = spans[:, hit[0]].tolist()
    base = stretch.base_offset
    reason = f" ({WHY[why]})" if why in WHY and kind != w.ZERO else ""
    return f"physical offset {physical} lies in {CLASSES[kind]}{reason}, from {base + start} to {base + stop}"

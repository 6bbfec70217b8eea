"""The commitlog walked split by split, the exact state handed on; and what a walked split holds, in order.

Memory is that of one split, whatever the size of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.inspect.reader import Reader, TooWideError
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.paths import StoreFile
from storeio.scan import data_stop, data_stretches
from storeio.splits import DEFAULT_SPLIT_BYTES, Split, WalkState
from storeio.walk import Walked, walk_split

Numbers = npt.NDArray[np.int64]

# How far in front of a position a walk to it begins: above the largest record that brokers take by default, 4 MiB.
BACK_BYTES: Final = 16 << 20
HOLE_BYTES: Final = (1 << 20) + w.GAP_BLOCK  # walked of a hole at a segment's end
WITNESSES: Final = 2  # records in front, so that the walk's reference time is the true one

# How far behind a split the walk first looks for the end of what began in it; each time twice as far.
AHEAD_BYTES: Final = 64 << 10
MOST_AHEAD_BYTES: Final = 16 << 20

# Rows of a table of entries, and what an entry is.
(E_START, E_STOP, E_KIND, E_INDEX) = range(4)
ROW: Final = 0
DAMAGED: Final = 1
STALE: Final = 2


@dataclass(frozen=True, slots=True)
class Stretch:
    """A walked split of a segment."""

    segment: StoreFile
    walked: Walked

    @property
    def base_offset(self) -> int:
        """Physical offset of the segment's first byte."""
        return self.walked.split.base_offset


def walk_log(reader: Reader) -> Iterator[Stretch]:
    """Yield the whole commitlog, walked; a segment that cannot be read is reported and left out."""
    for segment in reader.segments():
        yield from walk_segment(reader, segment)


def walk_segment(reader: Reader, segment: StoreFile, state: WalkState | None = None) -> Iterator[Stretch]:
    """Yield one segment from a state on, from its start without one; a hole of many splits is one stretch.

    A sparse segment may claim far more zeros than anybody could read.
    """
    step = DEFAULT_SPLIT_BYTES
    at, behind = 0 if state is None else state.position // step * step, False
    try:
        size = _bounded(reader, segment)
        while at < size:
            split = Split(segment.path, segment.base_offset or 0, size, at, min(at + step, size))
            walked = None
            if state is not None and state.mode == w.SEARCH and state.position == at:
                walked = _hole(reader, split, state)
            if walked is None:
                try:
                    walked = walk_split(reader.of(segment.path), split, state, delays_ms=reader.delays_ms)
                except TooWideError as error:
                    if size <= reader.segment_bytes:
                        raise
                    size, behind = reader.segment_bytes, True
                    reader.failed(UnreadableError(f"{error}; what is behind byte {size} of it is not looked at"))
                    continue
            state = walked.end
            at = max(walked.split.stop, state.position // step * step)
            if size < segment.size and state.position >= size and not behind:
                walked = _extended(walked, segment.size)  # zeros, or a blank record with zeros behind its head
            yield Stretch(segment, walked)
    except UnreadableError as error:
        reader.failed(error)


def _bounded(reader: Reader, segment: StoreFile) -> int:
    """Return up to where a segment is walked: to its end, but of a hole there that is long not all.

    A blank record in front of it is to be told as too short here, too; none reaches to a place that is so odd.
    """
    stop = data_stop(reader.root, segment.path, segment.size)
    return min(segment.size, -(-stop // w.GAP_BLOCK) * w.GAP_BLOCK + HOLE_BYTES)


def _hole(reader: Reader, split: Split, state: WalkState) -> Walked | None:
    """Return what a walk gives that looks for a start in a hole longer than the split; None where there is no such."""
    stretches = data_stretches(reader.root, split.path, split.start, split.file_size)
    data, _ = next(stretches, (split.file_size, 0))
    stop = data if data == split.file_size else data // DEFAULT_SPLIT_BYTES * DEFAULT_SPLIT_BYTES
    return _zeros(reader, split, state, stop) if stop > split.stop else None


def _zeros(reader: Reader, split: Split, state: WalkState, stop: int) -> Walked:
    """Return what a walk that looks for a start gives for zeros from the split's start to ``stop``: as for some."""
    some = replace(split, stop=min(split.start + w.GAP_BLOCK, stop))
    walked = walk_split(reader.of(split.path), some, state, delays_ms=reader.delays_ms)
    return _extended(walked, stop)


def _extended(walked: Walked, stop: int) -> Walked:
    """Return the walk of a split that ends in zeros as one of a split with zeros up to ``stop``."""
    walked.spans[w.SPAN_STOP, -1:] = stop
    return replace(walked, split=replace(walked.split, stop=stop), end=replace(walked.end, position=stop))


def walk_near(reader: Reader, segment: StoreFile, position: int, *, back: int = BACK_BYTES) -> Iterator[Stretch]:
    """Yield the segment from a start at or in front of ``position`` on, as a walk of all of it would."""
    try:
        state = state_before(reader, segment, position, back=back)
    except UnreadableError as error:
        reader.failed(error)
        return
    yield from walk_segment(reader, segment, state)


def state_before(reader: Reader, segment: StoreFile, position: int, *, back: int = BACK_BYTES) -> WalkState:
    """Return a state in front of ``position`` from which a walk gives what one from the segment's start gives.

    A start in the middle is a guess. It counts only if an unbroken chain of records leads from it
    to the position; across anything else the segment is walked from its start. What the guess
    cannot tell: a forged chain inside one record larger than ``back``, and whether intact records
    in place are older than others in front of the guess.
    """
    start = (position - back) // w.GAP_BLOCK * w.GAP_BLOCK
    if start <= 0:
        return WalkState(0)
    split = Split(segment.path, segment.base_offset or 0, segment.size, start, min(position + 1, segment.size))
    walked = walk_split(reader.of(segment.path), split, delays_ms=reader.delays_ms)
    places = walked.records[w.R_POSITION]
    if np.count_nonzero(places <= position) <= WITNESSES or not _is_chain(walked, position):
        return WalkState(0)
    return WalkState(int(places[0]))


def _is_chain(walked: Walked, position: int) -> bool:
    """Tell whether behind what the guess skipped only records lead to the position, or to what holds it."""
    spans = walked.spans
    first = walked.skipped_until()
    if first is None:
        return False
    k = int(np.flatnonzero(spans[w.SPAN_START] == first)[0])
    chain = spans[:, k:]
    if chain[w.SPAN_CLASS, 0] != w.RECORD or chain[w.SPAN_START, 0] != walked.records[w.R_POSITION, 0]:
        return False
    if chain.shape[1] == 1 or chain[w.SPAN_STOP, 0] > position:
        return bool(chain[w.SPAN_STOP, 0] > position)
    return bool(chain[w.SPAN_STOP, 1] > position and chain[w.SPAN_CLASS, 1] in (w.BLANK, w.ZERO))


def single(reader: Reader, segment: StoreFile, position: int) -> Stretch | None:
    """Return the one record at a position, taken by itself, None where there is no intact one."""
    if position < 0 or position > segment.size - log.MIN_RECORD_BYTES:
        return None
    split = Split(segment.path, segment.base_offset or 0, segment.size, position, position + 1)
    try:
        magic = reader.kept(segment)(position + log.MAGIC_AT, position + log.MAGIC_AT + 4)
        if int.from_bytes(magic.tobytes(), "big", signed=True) not in (log.MAGIC_V1, log.MAGIC_V2):
            return None  # a walk would look for the end of the hole that it may be
        walked = walk_split(reader.kept(segment), split, WalkState(position), delays_ms=reader.delays_ms)
    except UnreadableError as error:
        reader.failed(error)
        return None
    return Stretch(segment, walked) if walked.count == 1 else None


def entries(stretch: Stretch, rows: Numbers | None = None, *, damaged: bool = True, stale: bool = False) -> Numbers:
    """Return what to show of a stretch in order of position, shape ``(4, n)``: start, stop, kind, index.

    ``rows`` are the records wanted, all without it. The index of a record is its row, that of
    damage its span, that of a stale record the position of the stretch it belongs to.
    """
    table = stretch.walked.records
    kept = np.arange(table.shape[1]) if rows is None else rows
    start = table[w.R_POSITION, kept]
    parts = [np.stack((start, start + table[w.R_SIZE, kept], np.full(len(kept), ROW), kept))]
    spans = stretch.walked.spans
    if damaged:
        torn = np.flatnonzero(is_damaged_record(stretch.walked))
        stops = spans[w.SPAN_STOP, torn]
        if len(torn) and torn[-1] == spans.shape[1] - 1:
            stops[-1] = _true_stop(stretch.walked)
        parts.append(np.stack((spans[w.SPAN_START, torn], stops, np.full(len(torn), DAMAGED), torn)))
    if stale:
        for k in np.flatnonzero(spans[w.SPAN_CLASS] == w.STALE).tolist():
            parts.append(_stale_entries(stretch.walked, k))
    joined = np.concatenate(parts, axis=1).astype(np.int64)
    return joined[:, np.argsort(joined[E_START], kind="stable")]


def is_damaged_record(walked: Walked) -> npt.NDArray[np.bool_]:
    """Tell which spans are records that are damaged: torn ones, and garbage that a record's head begins."""
    spans = walked.spans
    mask = spans[w.SPAN_CLASS] == w.TORN
    maybe = (spans[w.SPAN_CLASS] == w.GARBAGE) & (spans[w.SPAN_WHY] > h.OK) & (spans[w.SPAN_WHY] <= h.WHY_PROPERTY)
    for k in np.flatnonzero(maybe).tolist():
        magic = int.from_bytes(walked.field(int(spans[w.SPAN_START, k]) + log.MAGIC_AT, 4), "big", signed=True)
        mask[k] = magic in (log.MAGIC_V1, log.MAGIC_V2)
    return mask


def _true_stop(walked: Walked) -> int:
    """Return where the last span ends in a walk that no split cuts: the search for the next start may go on behind.

    What the split behind skips first is joined to it by the rule of ``splits.merge_spans``.
    """
    stop, state, size = int(walked.spans[w.SPAN_STOP, -1]), walked.end, walked.split.file_size
    step = AHEAD_BYTES
    while state.mode == w.SEARCH and state.position == stop < size:
        split = replace(walked.split, start=stop, stop=min(stop + step, size))
        try:
            ahead = walk_split(walked.read, split, state)
        except UnreadableError:  # the walk of the split behind tells
            return stop
        first = ahead.spans[:, 0]
        if first[w.SPAN_CLASS] != w.GARBAGE or first[w.SPAN_WHY] != w.WHY_SEARCHED:
            return stop
        stop, state = int(first[w.SPAN_STOP]), ahead.end
        step = min(2 * step, MOST_AHEAD_BYTES)
    return stop


def _stale_entries(walked: Walked, k: int) -> Numbers:
    """Return the records of a stale span; each was checked by the walk, so its size is right."""
    at, stop = int(walked.spans[w.SPAN_START, k]), int(walked.spans[w.SPAN_STOP, k])
    found = []
    while at < stop:
        size = int.from_bytes(walked.field(at, 4), "big")
        if not log.MIN_RECORD_BYTES <= size <= stop - at:
            break
        found.append((at, at + size, STALE, k))
        at += size
    return np.array(found, np.int64).reshape(-1, 4).T

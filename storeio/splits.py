"""Files cut into splits, and split results stitched into the sequential result.

A split is the unit of work of a thread and of a Spark task: the records that *start* in
``[start, stop)`` of one segment. One that does not begin at 0 has to guess where the first record
starts; ``needs_again`` tells afterwards, from the end of the split before it, whether the guess was
right. Whatever is walked again begins where the one before ended, so the stitched result is the
sequential one for every split size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from storeio.kernels import tables as w
from storeio.paths import StoreFile

Numbers = npt.NDArray[np.int64]

DEFAULT_SPLIT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class WalkState:
    """Where a walk stands: position in the segment, mode, and the last two store times before it."""

    position: int
    mode: int = w.CHAIN
    time_1_ms: int = w.UNKNOWN
    time_2_ms: int = w.UNKNOWN


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of one segment; plain numbers, so that it can travel."""

    path: str
    base_offset: int
    file_size: int
    start: int
    stop: int

    def first_state(self) -> WalkState:
        """Return the state to begin with when nothing is known of the split before."""
        return WalkState(self.start, w.CHAIN if self.start == 0 else w.SEARCH)


def cut(segment: StoreFile, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
    """Return the splits of a segment in order; sizes are rounded up to whole gap blocks.

    Zero and other bytes between records are told apart in aligned blocks, which a split must not
    cut. A segment without bytes has no split.
    """
    if segment.base_offset is None:
        raise ValueError(f"{segment.path} has no base offset")
    step = max(-(-split_bytes // w.GAP_BLOCK), 1) * w.GAP_BLOCK
    return [
        Split(segment.path, segment.base_offset, segment.size, start, min(start + step, segment.size))
        for start in range(0, segment.size, step)
    ]


def needs_again(split: Split, before_end: WalkState, *, skipped_until: int | None, asked: int) -> bool:
    """Tell whether a split that began with a guess must be walked again from ``before_end``.

    Args:
        split: The split that guessed; it does not begin at 0.
        before_end: The true state at the end of the split before it.
        skipped_until: Where its first span that is not skipped bytes starts, None where it
            skipped everything.
        asked: Last place where its result depended on store times that it did not know, -1 for none.
    """
    if before_end.mode == w.SEARCH:
        # What it skipped is damage then, not the end of a record in front: whoever judged the split did not know.
        goes_on = skipped_until is not None and skipped_until != split.start
        return goes_on or asked >= 0 or before_end.position != split.start
    if before_end.position >= split.stop:
        return skipped_until is not None
    # Where the chain goes on, its first record is one whatever its store time.
    return before_end.mode != w.CHAIN or skipped_until != before_end.position or asked > before_end.position


class Guessed(Protocol):
    """What a split that began with a guess gave: a dataclass, of which the end and the spans may have to change."""

    @property
    def split(self) -> Split: ...
    @property
    def end(self) -> WalkState: ...
    @property
    def spans(self) -> Numbers: ...
    @property
    def skipped_until(self) -> int | None: ...
    @property
    def asked(self) -> int: ...


G = TypeVar("G", bound=Guessed)


def settled(
    found: G, before_end: WalkState, again: Callable[[Split, WalkState], G], nothing: Callable[[Split, WalkState], G]
) -> G:
    """Return a split's result as one walk would have made it, which came from the split before.

    Args:
        found: What came of its guess.
        before_end: The true state at the end of the split before it.
        again: Walks the split again, from there.
        nothing: Gives the result of a split in which nothing starts, since what is before it reaches past it.
    """
    if before_end.position >= found.split.stop:
        return nothing(found.split, before_end)
    if needs_again(found.split, before_end, skipped_until=found.skipped_until, asked=found.asked):
        return again(found.split, before_end)
    changes = {"end": carry_times(found.end, before_end), "spans": drop_before(found.spans, before_end.position)}
    return replace(found, **changes)  # type: ignore[type-var]


def carry_times(end: WalkState, before_end: WalkState) -> WalkState:
    """Return the true end of a split that guessed and was kept: times it did not see are those before it."""
    if end.time_1_ms == w.UNKNOWN:
        return replace(end, time_1_ms=before_end.time_1_ms, time_2_ms=before_end.time_2_ms)
    if end.time_2_ms == w.UNKNOWN:
        return replace(end, time_2_ms=before_end.time_1_ms)
    return end


def merge_spans(parts: Iterable[Numbers]) -> Numbers:
    """Return the spans of one segment joined from its splits; rows as in ``kernels.tables``.

    Neighbours of one class are joined by the rule by which the walk joins them.
    """
    listed = [part for part in parts if part.shape[1]]
    if not listed:
        return np.empty((4, 0), dtype=np.int64)
    spans = np.concatenate(listed, axis=1)
    kind = spans[w.SPAN_CLASS]
    joins = (spans[w.SPAN_STOP, :-1] == spans[w.SPAN_START, 1:]) & (kind[:-1] == kind[1:])
    whole = (kind[1:] == w.RECORD) | (kind[1:] == w.STALE)
    searched = (kind[1:] != w.TORN) & (spans[w.SPAN_WHY, 1:] == w.WHY_SEARCHED)
    joins &= whole | searched
    first = np.flatnonzero(np.concatenate(([True], ~joins)))
    merged = spans[:, first]
    last = np.concatenate((first[1:] - 1, [spans.shape[1] - 1]))
    merged[w.SPAN_STOP] = spans[w.SPAN_STOP, last]
    return merged


def drop_before(spans: Numbers, position: int) -> Numbers:
    """Return the spans from ``position`` on; what a guess skipped there belongs to the record before."""
    kept = spans[:, spans[w.SPAN_STOP] > position].copy()
    if kept.shape[1]:
        kept[w.SPAN_START, 0] = max(int(kept[w.SPAN_START, 0]), position)
    return kept

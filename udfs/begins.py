"""Where each split of a log truly begins: guesses walked anywhere, stitched in one place.

A guess-started split may be wrong: a message body can hold forged records. ``probe`` walks one split
and keeps only what stitching needs; ``stitch`` walks again what guessed wrong and returns the states
that the sequential walk has at each split's start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from storeio.scan import read_range
from storeio.splits import Split, WalkState, carry_times, needs_again
from storeio.walk import Walked, walk_split

Place = tuple[str, int]  # path and start of a split
Begins = dict[Place, WalkState]


@dataclass(frozen=True, slots=True)
class Probe:
    """What stitching needs to know of a walked split."""

    end: WalkState
    skipped_until: int | None
    asked: int


Again = Callable[[Split, WalkState], Probe]


def walk(root: str, split: Split, begin: WalkState | None, delays_ms: npt.NDArray[np.int64] | None = None) -> Walked:
    """Return the split of a store walked from a state, or from a guess."""
    return walk_split(lambda start, stop: read_range(root, split.path, start, stop), split, begin, delays_ms=delays_ms)


def probe(root: str, split: Split, begin: WalkState | None = None) -> Probe:
    """Return what stitching needs of one split."""
    walked = walk(root, split, begin)
    return Probe(walked.end, walked.skipped_until(), walked.asked)


def stitch(splits: Sequence[Split], probes: Iterable[Probe], again: Again) -> Begins:
    """Return the sequential walk's state at each split's start.

    Args:
        splits: All splits of some segments, in order.
        probes: One a split, each from a guess.
        again: Walks a split once more, from its true begin.
    """
    begins: Begins = {}
    before = WalkState(0)
    for split, guessed in zip(splits, probes, strict=True):
        begin = before if split.start else split.first_state()
        begins[(split.path, split.start)] = begin
        if begin.position >= split.stop:
            before = begin  # the record in front reaches past the whole split
        elif split.start and _is_wrong(split, begin, guessed):
            before = again(split, begin).end
        else:
            before = carry_times(guessed.end, begin)
    return begins


def _is_wrong(split: Split, begin: WalkState, guessed: Probe) -> bool:
    return needs_again(split, begin, skipped_until=guessed.skipped_until, asked=guessed.asked)


def chain(root: str, splits: Iterable[Split]) -> WalkState:
    """Return the state behind the splits, walked one after the other from a segment's start."""
    state: WalkState | None = None
    for split in splits:
        state = walk(root, split, state).end
    return state or WalkState(0)


def to_text(begins: Begins) -> str:
    """Return begins as text, as an option of a data source has to be."""
    return json.dumps([[path, start, astuple(state)] for (path, start), state in begins.items()])


def from_text(text: str) -> Begins:
    """Return the begins that ``to_text`` wrote."""
    return {(path, start): WalkState(*state) for path, start, state in json.loads(text)}

"""Where each split of a log truly begins: guesses walked anywhere, stitched in one place.

A guess-started split may be wrong: a message body can hold forged records. ``probe`` walks one split
and keeps only what stitching needs; ``stitch`` walks again what guessed wrong and returns the states
that the sequential walk has at each split's start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import UsageError
from storeio.inspect.logwalk import is_damaged_record
from storeio.kernels import tables as w
from storeio.scan import read_range
from storeio.splits import Split, WalkState, carry_times, needs_again
from storeio.walk import Walked, walk_split
from storeio.window import Bytes

Place = tuple[str, int]  # path and start of a split
Times = tuple[int, int]
"""Lowest and highest store time, Unix ms; the lowest above the highest where there is no record."""
NO_TIMES: Final[Times] = (1, 0)
WALK_BYTES: Final = 16 << 20  # whole gap blocks, as a split's


@dataclass(frozen=True, slots=True)
class Begin:
    """The state at a split's start, and bounds of the store times in it, None where something damaged is in it."""

    state: WalkState
    times: Times | None


Begins = dict[Place, Begin]


@dataclass(frozen=True, slots=True)
class Probe:
    """What stitching needs to know of a walked split, and what is to be known of its records."""

    end: WalkState
    skipped_until: int | None
    asked: int
    times: Times | None


Again = Callable[[Split, WalkState], Probe]


def walk(
    root: str,
    split: Split,
    begin: WalkState | None,
    delays_ms: npt.NDArray[np.int64] | None = None,
    *,
    reuse: bool = False,
) -> Walked:
    """Return the split of a store walked from a state, or from a guess; ``reuse`` as in ``walk_split``."""

    def read(start: int, stop: int) -> Bytes:
        return read_range(root, split.path, start, stop)

    return walk_split(read, split, begin, delays_ms=delays_ms, reuse=reuse)


def probe(root: str, split: Split, begin: WalkState | None = None) -> Probe:
    """Return what stitching needs of one split."""
    walked = walk(root, split, begin, reuse=True)
    return Probe(walked.end, walked.skipped_until(), walked.asked, times_of(walked))


def times_of(walked: Walked) -> Times | None:
    """Return bounds of the store times of all that may be shown of a split; None where not all of it is intact."""
    if is_damaged_record(walked).any() or (walked.spans[w.SPAN_CLASS] == w.STALE).any():
        return None
    times = walked.records[w.R_STORE_MS]
    return (int(times.min()), int(times.max())) if len(times) else NO_TIMES


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
        times: Times | None = NO_TIMES
        if begin.position >= split.stop:
            before = begin  # the record in front reaches past the whole split
        elif split.start and _is_wrong(split, begin, guessed):
            walked = again(split, begin)
            before, times = walked.end, walked.times
        else:
            before, times = carry_times(guessed.end, begin), guessed.times
        begins[(split.path, split.start)] = Begin(begin, times)
    return begins


def _is_wrong(split: Split, begin: WalkState, guessed: Probe) -> bool:
    return needs_again(split, begin, skipped_until=guessed.skipped_until, asked=guessed.asked)


def state_at(root: str, split: Split) -> WalkState | None:
    """Return the state at a split's start, from a walk of all that is in front of it in its segment."""
    state: WalkState | None = None
    for part in parts_of(replace(split, start=0, stop=split.start)):
        state = walk(root, part, state, reuse=True).end
    return state


def parts_of(split: Split) -> Iterator[Split]:
    """Yield a split in parts that are walked one after the other: memory is that of one, whatever the split."""
    for start in range(split.start, split.stop, WALK_BYTES):
        yield replace(split, start=start, stop=min(start + WALK_BYTES, split.stop))


def to_text(begins: Begins) -> str:
    """Return begins as text, as an option of a data source has to be."""
    return json.dumps([[path, start, astuple(begin)] for (path, start), begin in begins.items()])


def from_text(text: str) -> Begins:
    """Return the begins that ``to_text`` wrote.

    Raises:
        UsageError: It did not write that.
    """
    try:
        return {
            (path, start): Begin(WalkState(*state), None if times is None else (times[0], times[1]))
            for path, start, (state, times) in json.loads(text)
        }
    except (ValueError, TypeError, IndexError) as error:
        raise UsageError(f"begins={text[:80]}: not what a first walk of the log wrote") from error

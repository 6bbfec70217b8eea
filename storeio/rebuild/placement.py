"""At which number of its queue each unit stands: the rules of a rebuild, stated once.

Units come in log order, in runs of consecutive queue offsets.

0. Copies of records elsewhere, as ``checks.runs.copies_among`` tells, stand nowhere; what follows is of the others.
1. A run that begins where the one before it ends follows on.
2. A few records whose numbers those before and behind them contradict, as ``checks.numbering.astray`` tells, stand
   where these leave room for just them: nowhere if they leave none, unless as few behind them may be the wrong ones. A
   single one whose number no queue reaches follows on, and so does one that goes back as the last of the queue, or with
   others behind it of which none follows on from another: nothing else says that the queue began again, and so no
   message loses its unit to a damaged number.
3. Where numbers go back, as after a queue was lost or a tail was given out again, the queue is cut back to
   there: the later record has the number, and what stood at it and behind it is replaced. So physical offsets
   rise with queue offsets, which brokers' searches rely on. Of few as many as have room are not replaced:
   where the numbers go on above, those that go back follow on; else, or where they are more than what stood there,
   that moves into a gap in front of it. One or two that would replace as many or more follow on: no queue that began
   again says so.
4. Where numbers jump, what lies between is a gap: its records are gone.
5. A jump over more numbers than a disk is to be filled for, and than records fit into the log between, is damage:
   such records follow on. What is filled counts over all gaps of a queue.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from storeio.checks.astray import MOST_ASTRAY, astray, before_next, is_out_of_reach
from storeio.checks.runs import Run, copies_among, without
from storeio.checks.segments import LogView
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP_AT

MOST_NUMBER: Final = 2**55  # more units than any disk holds
MOST_FILLED: Final = 2**24  # numbers of a queue's gaps for which the log between has no room: a third of a gigabyte
FEW: Final = 2  # records in a row do not tell that a queue began again
LEAST_RECORD: Final = 64  # bytes of the log that a number of a gap had at least


@dataclass(frozen=True, slots=True)
class Part:
    """Units ``[at, at + count)`` in log order stand at ``number`` and on; their records end at ``stop_at``."""

    number: int
    at: int
    count: int
    start_at: int
    stop_at: int

    @property
    def stop(self) -> int:
        """The number behind the last unit."""
        return self.number + self.count


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers ``[first, stop)`` that no record has; what had them lay in ``[start_at, stop_at)`` of the log."""

    first: int
    stop: int
    start_at: int
    stop_at: int

    @property
    def beyond(self) -> int:
        """How many more numbers these are than records fit into the log between."""
        return _beyond(self.stop - self.first, self.start_at, self.stop_at)


@dataclass(slots=True)
class Placed:
    """Where a queue's units stand. ``parts`` rise in number and leave only the gaps free.

    ``replaced`` are units whose number others have, ``moved`` such as stand at another number than their record's.
    ``beyond`` are the numbers of all gaps for which the log has no room.
    """

    parts: list[Part] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    replaced: int = 0
    moved: int = 0
    beyond: int = 0

    @property
    def first(self) -> int:
        """The queue's first number."""
        return self.parts[0].number if self.parts else 0

    @property
    def stop(self) -> int:
        """The number behind the queue's last."""
        return self.parts[-1].stop if self.parts else 0


def place(runs: list[Run], view: LogView) -> Placed:
    """Return where the units of a queue stand; ``runs`` are all of it, in log order."""
    if copies := copies_among(runs):
        return _beside_copies(_placed(without(runs, copies), view), runs, copies)
    return _placed(runs, view)


def _beside_copies(placed: Placed, runs: Sequence[Run], copies: Sequence[int]) -> Placed:
    """Return where the units stand, of which those of copies stand nowhere; ``placed`` does not count them."""
    stops = list(itertools.accumulate(run[RUN_RECORDS] for run in runs))
    counts = [runs[i][RUN_RECORDS] for i in copies]
    shifts = [0, *itertools.accumulate(counts)]
    cuts = [stops[i] - shift for i, shift in zip(copies, shifts[1:], strict=True)]  # as far as ``placed`` counts
    parts: list[Part] = []
    for part in placed.parts:
        at, stop = part.at, part.at + part.count
        for k in range(bisect_right(cuts, at), bisect_left(cuts, stop) + 1):
            until = min(cuts[k], stop) if k < len(cuts) else stop
            parts.append(replace(part, number=part.number + at - part.at, at=at + shifts[k], count=until - at))
            at = until
    return replace(placed, parts=parts, replaced=placed.replaced + shifts[-1])


def _placed(runs: list[Run], view: LogView) -> Placed:
    """Return where units stand of which none are copies."""
    placed = Placed()
    at = i = 0
    while i < len(runs):
        found = astray(runs, i, _stopped(placed, view), view)
        group = runs[i : i + (found.instead or found.runs if found else 1)]
        for run in group:
            if found and found.strangers and not found.instead:
                placed.replaced += run[RUN_RECORDS]
            elif found:
                number = found.number if found.number >= 0 else placed.stop
                placed.moved += run[RUN_RECORDS] if run[RUN_FIRST] != number else 0
                _append(placed, _part(number, at, run))
            else:
                _place_alone(placed, runs, i, at, view)
            at += run[RUN_RECORDS]
        i += len(group)
    return placed


def _stopped(placed: Placed, view: LogView) -> tuple[int, int] | None:
    """Return where the numbers so far stop and the place; a log that begins at 0 holds all of a queue's."""
    if placed.parts:
        return placed.stop, placed.parts[-1].stop_at
    return None if view.min_physical_offset else (0, 0)


def _place_alone(placed: Placed, runs: list[Run], i: int, at: int, view: LogView) -> None:
    """Place a run that is not astray; its units are those from ``at`` on."""
    run = runs[i]
    number = run[RUN_FIRST]
    before = placed.stop if placed.parts else None
    after = runs[i + 1][RUN_FIRST] if i + 1 < len(runs) else None
    after = after if after is not None and 0 <= after <= MOST_NUMBER else None  # else it says nothing
    between = run[RUN_START_AT] - (placed.parts[-1].stop_at if placed.parts else 0)
    is_end = len(runs) - i <= MOST_ASTRAY and all(rest[RUN_RECORDS] == 1 for rest in runs[i:])
    if _is_amid(runs[i : i + MOST_ASTRAY + 1], before, placed):
        number = before or 0
        placed.moved += run[RUN_RECORDS]
    elif len(runs) > 1 and (is_out_of_reach(run, before, after, between) or (is_end and _goes_back(run, before))):
        number = before if before is not None else before_next(after, 1)
        placed.moved += 1
    elif not 0 <= number <= MOST_NUMBER:
        number = before or 0
        placed.moved += run[RUN_RECORDS]
    if placed.parts and (_is_too_far(placed, number, run[RUN_START_AT]) or _takes_more(placed, number, run)):
        number = placed.stop
        placed.moved += run[RUN_RECORDS]
    _cut_back(placed, number, view)
    _append(placed, _part(number, at, run))


def _part(number: int, at: int, run: Run) -> Part:
    return Part(number, at, run[RUN_RECORDS], run[RUN_START_AT], run[RUN_STOP_AT])


def _is_amid(runs: Sequence[Run], before: int | None, placed: Placed) -> bool:
    """Tell whether the first runs are a few records that go back, and the numbers behind go on with room for them.

    Not where those that have higher numbers are fewer, and have room in front.
    """
    records = 0
    if before is None or runs[0][RUN_FIRST] >= before:
        return False
    behind, room = _behind(placed, runs[0][RUN_FIRST])
    behind = behind if behind <= min(room, MOST_ASTRAY) else 0
    for run in runs:
        if run[RUN_FIRST] >= before:
            return records <= min(run[RUN_FIRST], MOST_NUMBER) - before and not 0 < behind < records
        records += run[RUN_RECORDS]
        if records > MOST_ASTRAY:
            break
    return False


def _behind(placed: Placed, number: int) -> tuple[int, int]:
    """Return how many units stand at a number and behind it, and for how many there is room before it.

    Of more than a few no more are counted. The room is negative where a part that begins before the number goes on
    behind it: so many stand there besides.
    """
    count = stop = 0
    for part in reversed(placed.parts):
        if part.number < number:
            stop = part.stop
            break
        count += part.count
        if count > MOST_ASTRAY:
            break
    return count, number - stop


def _takes_more(placed: Placed, number: int, run: Run) -> bool:
    """Tell whether so few records that nothing says that their queue began again would replace as many or more."""
    count, room = _behind(placed, number)
    left = min(count, max(room, 0)) if count <= MOST_ASTRAY else 0
    return run[RUN_RECORDS] <= FEW and count - left - min(room, 0) >= run[RUN_RECORDS]


def _goes_back(run: Run, before: int | None) -> bool:
    """Tell whether a run is one record, with a number that was given out before."""
    return run[RUN_RECORDS] == 1 and before is not None and run[RUN_FIRST] < before


def _is_too_far(placed: Placed, number: int, start_at: int) -> bool:
    beyond = _beyond(number - placed.stop, placed.parts[-1].stop_at, start_at)
    return beyond > 0 and placed.beyond + beyond > MOST_FILLED


def _beyond(numbers: int, start_at: int, stop_at: int) -> int:
    return max(numbers - max(stop_at - start_at, 0) // LEAST_RECORD, 0)


def _append(placed: Placed, part: Part) -> None:
    last = placed.parts[-1] if placed.parts else None
    if last is not None and last.stop < part.number:
        placed.gaps.append(Gap(last.stop, part.number, last.stop_at, part.start_at))
        placed.beyond += placed.gaps[-1].beyond
    if last is not None and last.stop == part.number and last.at + last.count == part.at:
        placed.parts[-1] = Part(last.number, last.at, last.count + part.count, last.start_at, part.stop_at)
    else:
        placed.parts.append(part)


def _cut_back(placed: Placed, number: int, view: LogView) -> None:
    """Free a number and what is behind it: of few units as many as have room move into a gap in front of it.

    All others are taken away.
    """
    taken: list[Part] = []
    while placed.parts and placed.parts[-1].number >= number:
        taken.append(placed.parts.pop())
    count = sum(part.count for part in taken)
    if placed.parts and placed.parts[-1].stop > number:
        last = placed.parts.pop()
        kept = number - last.number
        placed.replaced += last.count - kept
        placed.parts.append(Part(last.number, last.at, kept, last.start_at, last.stop_at))
    if not placed.parts:
        placed.gaps.clear()
        placed.beyond = 0
    while placed.gaps and placed.gaps[-1].first >= placed.stop:
        placed.beyond -= placed.gaps.pop().beyond
    left = min(count, number - placed.stop) if count <= MOST_ASTRAY else 0
    placed.replaced += count - left
    placed.moved += left
    follows = placed.parts and not view.is_damaged(placed.parts[-1].stop_at, taken[-1].start_at) if taken else False
    first = placed.stop if follows else number - left
    for part in reversed(taken):
        kept = min(part.count, left)
        if kept:
            _append(placed, replace(part, number=first, count=kept))
        first, left = first + kept, left - kept

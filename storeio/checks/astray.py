"""Records whose numbers are not those of their queue: wrong ones, or records of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from storeio.checks.segments import LogView
from storeio.format import commitlog as log
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT

LONG_JUMP: Final = 2**40  # no queue loses so many messages; such a number is damaged
MOST_ALONE: Final = 2**16  # numbers that one record jumps, over those for which the log has room: more say no one alone
MOST_ASTRAY: Final = 16  # records in a row whose numbers are damaged


@dataclass(frozen=True, slots=True)
class Astray:
    """So many runs in a row whose numbers are wrong, or which are ``strangers``: the queue has numbers for none.

    A single one beside a hole has room for one ``number``, -1 where that is not so.

    Where no more records go on behind strangers than these are, and the numbers behind them go back or leave room for
    all, any may be those with wrong numbers: so many runs are ``instead``, 0 where that is not so.
    """

    runs: int
    strangers: bool
    instead: int = 0
    number: int = -1


def is_out_of_reach(run: Sequence[int], before: int | None, after: int | None, between: int) -> bool:
    """Tell whether a run is one record whose number no queue reaches.

    Args:
        run: The run.
        before: Where the run before it stops, None at the begin.
        after: Where the next one begins, None at the end.
        between: Bytes of the log between this run and the one before it, which had what may be missing.
    """
    number = run[RUN_FIRST]
    if run[RUN_RECORDS] != 1:
        return False
    if before is None:  # of the first two numbers the greater one is wild, or both are
        wild = number - (after if after is not None and after <= LONG_JUMP else 0) > LONG_JUMP
    else:
        alone = after is None or not 0 <= after - number <= MOST_ALONE
        reach = MOST_ALONE + max(between, 0) // log.MIN_RECORD_BYTES if alone else LONG_JUMP
        wild = not -LONG_JUMP <= number - before <= min(reach, LONG_JUMP)
    return wild or number < 0


def astray(runs: Sequence[Sequence[int]], i: int, before: tuple[int, int] | None, view: LogView) -> Astray | None:
    """Return the runs from one on that are not of the numbers before and behind them, None where there are none.

    Behind them the queue goes on as if they had the numbers that are left, or as if they were not there. More than a
    few records are never meant: damage does not give so many of them numbers that rise, and a queue may begin anew.
    Nor more than one next to a hole in the log, which may have held the numbers that they leave out.

    Args:
        runs: Of one queue, in log order; none follows on from the one before it.
        i: The first that is looked at.
        before: Where the numbers before it stop, and the place, None where there are none.
        view: The log.
    """
    if before is None or runs[i][RUN_FIRST] == before[0]:
        return None
    if _may_be_right(runs, i, before, view):
        return None
    if (number := _beside_a_hole(runs, i, before, view)) >= 0:
        return Astray(1, strangers=False, number=number)
    expected, start_at = before
    numbers = records = strangers = room = instead = 0
    for count, run in enumerate(runs[i : i + 2 * MOST_ASTRAY + 1], 1):  # each is a record at least
        numbers, records = numbers + run[RUN_STOP] - run[RUN_FIRST], records + run[RUN_RECORDS]
        is_last = i + count == len(runs)
        stop_at = run[RUN_STOP_AT] if is_last else runs[i + count][RUN_START_AT]
        is_meant = records > MOST_ASTRAY or (records > 1 and view.is_damaged(start_at, stop_at))
        more_go_on = strangers and count == strangers + 1 and numbers > 2 * room
        if more_go_on or (is_meant and not strangers):
            break
        after = expected + numbers if is_last else runs[i + count][RUN_FIRST]
        fits, group = after == expected + numbers, runs[i : i + count]
        sure = strangers or is_last  # that it is only if just these numbers are mixed up
        if fits and not is_meant and (not sure or _fill(group, expected, after)):
            return Astray(count, strangers=False)
        goes_on = not is_last and after >= run[RUN_STOP]
        if numbers <= 2 * room and (not goes_on or after >= expected + numbers):
            instead = instead or count
        if after == expected and not strangers:
            strangers, room = count, numbers
    return Astray(strangers, strangers=True, instead=instead) if strangers else None


def _may_be_right(runs: Sequence[Sequence[int]], i: int, before: tuple[int, int], view: LogView) -> bool:
    """Tell whether a run follows on within itself, and a number is missing, and one next to it is wrong, else.

    That is likelier than that all of its numbers are. Of one record it is where damage in front of it holds the missing
    one. ``before`` is where the numbers before it stop, and the place.
    """
    run = runs[i]
    expected, start_at = before
    if run[RUN_RECORDS] == 1:
        twice = i + 1 < len(runs) and runs[i + 1][RUN_RECORDS] == 1 and runs[i + 1][RUN_FIRST] == run[RUN_FIRST]
        has_room = i + 2 >= len(runs) or runs[i + 2][RUN_FIRST] > run[RUN_STOP]
        return twice and has_room and run[RUN_FIRST] > expected and view.is_damaged(start_at, run[RUN_START_AT])
    if i and runs[i - 1][RUN_RECORDS] == 1 and runs[i - 1][RUN_FIRST] == run[RUN_FIRST]:
        return True
    behind = runs[i + 1 : i + 3]
    repeats = bool(behind) and behind[0][RUN_RECORDS] == 1 and run[RUN_FIRST] <= behind[0][RUN_FIRST] < run[RUN_STOP]
    return repeats and run[RUN_FIRST] > expected and (len(behind) == 1 or behind[1][RUN_FIRST] == run[RUN_STOP] + 1)


def _fill(runs: Sequence[Sequence[int]], first: int, stop: int) -> bool:
    """Tell whether runs have just the numbers ``[first, stop)``, each once, in whatever order."""
    at = first
    for run in sorted(runs, key=lambda run: run[RUN_FIRST]):
        if run[RUN_FIRST] != at:
            return False
        at = run[RUN_STOP]
    return at == stop


def _beside_a_hole(runs: Sequence[Sequence[int]], i: int, before: tuple[int, int], view: LogView) -> int:
    """Return the number of one record whose own lies outside of those around it, -1 where that is not sure.

    A hole on one side of it has room for all others that are missing there; on the other side is none.
    """
    run, (expected, start_at) = runs[i], before
    if run[RUN_RECORDS] != 1 or i + 1 >= len(runs):
        return -1
    after, width = runs[i + 1][RUN_FIRST], run[RUN_STOP] - run[RUN_FIRST]
    missing = after - expected - width
    if missing <= 0 or expected <= run[RUN_FIRST] < after:
        return -1
    sides = (start_at, run[RUN_START_AT]), (run[RUN_STOP_AT], runs[i + 1][RUN_START_AT])
    is_damaged = [view.is_damaged(*side) for side in sides]
    if is_damaged[0] == is_damaged[1]:
        return -1
    low, high = sides[0 if is_damaged[0] else 1]
    if missing > (high - low) // log.MIN_RECORD_BYTES:
        return -1
    return after - width if is_damaged[0] else expected


def before_next(after: int | None, width: int) -> int:
    """Return the first number of so many before the next one; 0 where that is none, or as wild."""
    return after - width if after is not None and width < after <= LONG_JUMP else 0

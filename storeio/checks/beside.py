"""Is a unit that stands at another number than its record says the one that is wrong, or is its record?"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.checks.locate import decode, told_number
from storeio.checks.queue_files import Queue, Read, by_number
from storeio.dispatch import Implied
from storeio.errors import UnreadableError
from storeio.format import commitlog as log

Numbers = npt.NDArray[np.int64]

MOST_IN_A_ROW: Final = 16  # units whose records say other numbers: more of them moved, and their records are right
MOST_KNOWN: Final = 1 << 16  # units that are remembered

Known = dict[int, tuple[int, int | None]]
"""Where units point, and the queue offsets that the records there say; None without an intact one."""


class _Side(NamedTuple):
    """Whether the nearest unit on one side, behind a few whose records say other numbers, is right, and how far it is.

    ``right`` is None where that one is of no intact record. ``turns`` tells that up to there the records' numbers do
    not rise as the places do.
    """

    right: bool | None
    distance: int
    turns: bool


class Beside:
    """The units next to some of a queue, and what the records say at which they point."""

    def __init__(self, queue: Queue, read: Read, numbers: Numbers, implied: Implied, known: Known) -> None:
        """Look at what lies around these numbers; ``known`` is of the same queue and records, and grows."""
        around = np.concatenate((np.maximum(numbers - MOST_IN_A_ROW, 0), numbers + MOST_IN_A_ROW))
        self._queue, self._read, self._implied = queue, read, implied
        try:
            self._units_of = by_number(queue, read, around, runs=len(numbers))
        except UnreadableError:  # one of the files; the others still tell
            self._units_of = by_number(queue, read, around, runs=0)
        self._places = implied.physical()
        self._known = known
        if len(known) > MOST_KNOWN:
            known.clear()

    def are_right(self, number: int) -> bool:
        """Tell whether all intact records next to a unit say the number of their own: it does not stand amid others.

        Or whether a few units in a row lie between two such, or next to one whose record's number is no higher, though
        it lies behind: with what their records say, the log would hold other records than it does. All of these units
        stand in the order of the log.
        """
        sides = [self._side(number, step) for step in (-1, 1)]
        if any(side.right is False for side in sides):
            return False
        if any(side.distance > 1 for side in sides) and not any(side.turns for side in sides):
            return all(side.right for side in sides)
        return any(side.right for side in sides)

    def _side(self, number: int, step: int) -> _Side:
        """Return what the units on one side of one tell."""
        place, last = self._at(number)
        turns = False
        for distance in range(1, MOST_IN_A_ROW + 1):
            beside = number + step * distance
            physical, told = self._at(beside)
            if told is None:
                return _Side(None, distance, turns)
            if (physical - place) * step <= 0:  # no number of a record puts units out of order
                break
            turns |= last is not None and (told - last) * step <= 0
            if told == beside:
                return _Side(True, distance, turns)
            place, last = physical, told
        return _Side(False, distance, turns)

    def _at(self, number: int) -> tuple[int, int | None]:
        """Return where a unit points, and the queue offset that the record there says; None without an intact one."""
        if number not in self._known:
            self._known[number] = self._looked_up(number)
        return self._known[number]

    def _looked_up(self, number: int) -> tuple[int, int | None]:
        """Return the same; of records of other splits no more than this is read."""
        if number < 0:
            return -1, None
        try:
            data, absent = self._units_of(number, number + 1)
        except UnreadableError:
            return -1, None
        physical, size = (int(decode(self._queue, data)[name][0]) for name in ("physical_offset", "size"))
        if absent or physical < 0 or size < log.MIN_RECORD_BYTES:
            return physical, None
        if not self._places[0] <= physical <= self._places[-1]:
            return physical, told_number(self._read, physical, self._implied.walked.split.file_size)
        row = int(np.searchsorted(self._places, physical))
        return physical, int(self._implied.queue_offset[row]) if self._places[row] == physical else None

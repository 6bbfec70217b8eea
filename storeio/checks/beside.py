"""Is a unit that stands at another number than its record says the one that is wrong, or is its record?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.checks.locate import decode, told_number
from storeio.checks.queue_files import Queue, Read, by_number
from storeio.dispatch import Implied
from storeio.errors import UnreadableError
from storeio.format import commitlog as log

Numbers = npt.NDArray[np.int64]


class Beside:
    """The units next to some of a queue, and what the records say at which they point."""

    def __init__(self, queue: Queue, read: Read, numbers: Numbers, implied: Implied) -> None:
        around = np.concatenate((numbers - 1, numbers + 1))
        self._queue, self._read, self._implied = queue, read, implied
        try:
            self._units_of = by_number(queue, read, around[around >= 0], runs=len(numbers))
        except UnreadableError:  # one of the files; the others still tell
            self._units_of = by_number(queue, read, around, runs=0)
        self._places = implied.physical()

    def are_right(self, number: int) -> bool:
        """Tell whether all intact records next to a unit say the number of their own: it does not stand amid others."""
        said = ((beside, self._said_at(beside)) for beside in (number - 1, number + 1) if beside >= 0)
        known = [told - beside for beside, told in said if told is not None]
        return bool(known) and not any(known)

    def _said_at(self, number: int) -> int | None:
        """Return the queue offset that the record says at which a unit points, None without an intact one.

        Of records of other splits no more than this is read.
        """
        try:
            data, absent = self._units_of(number, number + 1)
        except UnreadableError:
            return None
        physical, size = (int(decode(self._queue, data)[name][0]) for name in ("physical_offset", "size"))
        if absent or physical < 0 or size < log.MIN_RECORD_BYTES:
            return None
        if not self._places[0] <= physical <= self._places[-1]:
            return told_number(self._read, physical, self._implied.walked.split.file_size)
        row = int(np.searchsorted(self._places, physical))
        return int(self._implied.queue_offset[row]) if self._places[row] == physical else None

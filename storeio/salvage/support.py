"""What a log itself says for one of its records, and what speaks for a queue unit that says otherwise.

Files of queues may be copied, swapped or renamed whole: then all of their units are of other records than they say.
A record whose number follows on from the one before it in its queue, and on from which the one behind it follows,
could only be another queue's if its own had lost just that number at just that place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.numbering import JUMP, MISFIT, STRANGER
from storeio.checks.queue_files import Queue, Read
from storeio.checks.runs import own_runs_of
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_ROWS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE
from storeio.results import LostRange
from storeio.salvage.evidence import Unit, has_fitting_level
from storeio.salvage.numbers import numbers_of
from storeio.salvage.survey import Survey
from storeio.salvage.units import units_at
from storeio.simulate.disk import Disk
from storeio.simulate.topics import declared_queues

Numbers = npt.NDArray[np.int64]

MOST_QUEUES: Final = 1 << 16  # of a topic of which no table tells


class Support:
    """Weighs records of one survey against units that point at them and say something else."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._read: Read = survey.plan.nearby().read
        self._runs: dict[tuple[str, int], Numbers] = {}
        self._queues = declared_queues(Disk(survey.plan.listing.files, survey.plan.read))

    def is_inner(self, record: log.Record, place: int) -> bool:
        """Tell whether a record's neighbours in its queue have the numbers before and behind its own.

        Those of a few whose numbers all fit nowhere tell nothing of each other.
        """
        run = self._run_of(record, place)
        first, count = numbers_of(record)
        if any(MISFIT in row.detail or row.detail.startswith(STRANGER) for row in self._survey.doubts.get(place, ())):
            return False
        return run is not None and run[RUN_FIRST] < first and first + count < run[RUN_STOP]

    def begins(self, record: log.Record, place: int) -> bool:
        """Tell whether a record has a queue's first number, and the next one of its queue that behind its own."""
        run = self._run_of(record, place)
        first, count = numbers_of(record)
        return run is not None and not first and count < run[RUN_STOP]

    def follows(self, topic: str, queue_id: int, place: int, number: int) -> bool:
        """Tell whether the next record of a queue behind a place has just this number."""
        runs = self._runs_of((topic, queue_id))
        behind = runs[:, runs[RUN_START_AT] > place]
        return bool(behind.shape[1] and behind[RUN_FIRST, behind[RUN_START_AT].argmin()] == number)

    def has_runs(self, topic: str, queue_id: int) -> bool:
        """Tell whether the log has intact records of a queue."""
        return self._runs_of((topic, queue_id)).shape[1] > 0

    def ends_at(self, topic: str, queue_id: int, place: int) -> int | None:
        """Return the number behind a queue's last record, None without one or where it lies behind a place."""
        runs = self._runs_of((topic, queue_id))
        is_behind = runs.shape[1] > 0 and runs[RUN_STOP_AT, -1] <= place
        return int(runs[RUN_STOP, -1]) if is_behind else None

    def is_believed(self, unit: Unit, record: log.Record, place: int, *, has_own: bool) -> bool:
        """Tell whether a unit, whose number no record has, knows better than the record that it points at.

        Args:
            unit: It says that the record at the place is of another queue, or has another number.
            record: As it was read.
            place: Its physical offset.
            has_own: A unit at the record's own number says the same as the record.
        """
        if len(unit.topic.encode(errors="replace")) != len(record.topic):
            return False  # with another topic the record would be longer, or shorter
        run = self._run_of(record, place)
        follows = run is not None and int(run[RUN_RECORDS]) > 1
        parts = [part for part in self._survey.lost_in(place, place + 1) if _names(part, unit)]
        if any(part.evidence == JUMP for part in parts):
            return not (has_own and follows)
        if has_own or self.is_inner(record, place):
            return False
        if run is None or (not follows and self._of(record).shape[1] > 1):
            return True  # nothing but the record speaks for its number
        if min(record.queue_id, numbers_of(record)[0]) < 0:
            return True  # which no record has
        if has_fitting_level(record) is False and has_fitting_level(replace(record, queue_id=unit.queue_id)):
            return True  # the level, too, says the unit's queue
        is_beyond = self.is_beyond(p.java_decode(record.topic), record.queue_id)
        if is_beyond and not self.is_beyond(unit.topic, unit.queue_id) and not follows:
            return True  # nobody gave the topic so many queues
        fits, beside = bool(parts) or self.fits(unit), list(self._beside(unit))
        is_right, is_wrong = True in beside, False in beside
        if follows:  # each of both may be right; a file whose other units are right lies in its place
            return fits and is_right
        return is_right or (not is_wrong and (fits or bool(beside)))

    def is_beyond(self, topic: str, queue_id: int) -> bool:
        """Tell whether a topic has not so many queues, as its table tells."""
        return queue_id >= self._queues.get(topic, MOST_QUEUES)

    def _of(self, record: log.Record) -> Numbers:
        """Return the runs of a record's queue."""
        return self._runs_of((p.java_decode(record.topic), record.queue_id))

    def _runs_of(self, queue: tuple[str, int]) -> Numbers:
        """Return the runs of a queue's records in log order, shape ``(rows of kernels.group, n)``."""
        if queue not in self._runs:
            tables = self._survey.concluded.runs.get(queue, ())
            runs = own_runs_of(tables)
            self._runs[queue] = np.array(runs, np.int64).reshape(-1, RUN_ROWS).T
        return self._runs[queue]

    def _run_of(self, record: log.Record, place: int) -> Numbers | None:
        """Return the run that a record belongs to, None for one that has no number in its queue."""
        runs, (first, _) = self._of(record), numbers_of(record)
        inside = (runs[RUN_START_AT] <= place) & (place < runs[RUN_STOP_AT])
        inside &= (runs[RUN_FIRST] <= first) & (first < runs[RUN_STOP])
        which = np.flatnonzero(inside)
        return runs[:, which[0]] if len(which) else None

    def fits(self, unit: Unit) -> bool:
        """Tell whether the records of a unit's queue leave just its number before or behind its place."""
        runs = self._runs_of((unit.topic, unit.queue_id))
        behind = (runs[RUN_STOP] == unit.number) & (runs[RUN_STOP_AT] <= unit.physical_offset)
        before = (runs[RUN_FIRST] == unit.number + unit.messages) & (runs[RUN_START_AT] > unit.physical_offset)
        return bool((behind | before).any())

    def _beside(self, unit: Unit) -> Iterator[bool | None]:
        """Yield whether the units next to one in its file say the same as their records; None where no record is."""
        for kind in (CONSUMEQUEUE, BATCHQUEUE):
            at = self._survey.standing_at(unit.topic, unit.queue_id, unit.physical_offset, kind)
            queue = self._survey.plan.queue(kind, unit.topic, unit.queue_id)
            for number in (at - 1, at + 1) if at >= 0 else ():
                if _file_of(queue, number) == _file_of(queue, at):
                    shift = at - unit.number if kind == CONSUMEQUEUE else 0
                    yield from self._agreeing(queue, number, shift)

    def _agreeing(self, queue: Queue, number: int, shift: int) -> Iterator[bool | None]:
        size = queue.unit_bytes
        for other in units_at(self._read, queue, number * size, (number + 1) * size):
            record = self._survey.record(other.physical_offset)
            if record is None:
                yield None
                continue
            said = p.java_decode(record.topic), record.queue_id, numbers_of(record)[0], record.size
            yield said == (other.topic, other.queue_id, other.number - shift, other.size)


def _names(part: LostRange, unit: Unit) -> bool:
    """Tell whether a unit's number is one of those that are lost."""
    same = (part.topic, part.queue_id) == (unit.topic, unit.queue_id)
    return same and part.first_queue_offset <= unit.number < part.stop_queue_offset


def _file_of(queue: Queue, number: int) -> str:
    """Return the file that holds a unit."""
    return queue.path_at(number * queue.unit_bytes)[0]

"""The usual queues of a split once a broker has started: consumers get all their messages, and no unit is looked at.

The start has left their file as it was, within what it reads of it, and the units there are those that the records
imply. Such queues are nearly all. Whatever is odd about one in any way is left to ``losses``, which looks at each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.dispatch import Grouped, Listed
from storeio.format.consumequeue import UNIT_BYTES
from storeio.kernels import tables as w
from storeio.kernels.group import G_RECORD
from storeio.reading.many_files import P_BASE, P_BYTES, P_START
from storeio.reading.pieces import Agreeing, of_one_run, pieces_of
from storeio.simulate.broker import Broker, QueueKey
from storeio.simulate.replaced import Replaced
from storeio.simulate.units_there import UnitsThere, decodable
from storeio.splits import Split

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class UsualQueues:
    """Finds usual queues, and takes note of the messages that consumers get of them."""

    def __init__(self, broker: Broker, there: UnitsThere, replaced: Replaced, agreeing: Agreeing | None) -> None:
        """Look at files by ``agreeing``; without it no queue is usual."""
        self._broker, self._there, self._replaced, self._agreeing = broker, there, replaced, agreeing

    def take(self, split: Split, grouped: Grouped, listed: Listed) -> Mask:
        """Return which of a split's queues are usual, shape ``(queues,)``; listed ones are not."""
        usual = np.zeros(len(grouped.walked.queues), np.bool_)
        if self._agreeing is None or not grouped.single or not self._is_all_there(split, grouped):
            return usual
        numbers = np.flatnonzero(of_one_run(grouped) & ~grouped.are_in(listed))
        numbers, pieces = pieces_of(grouped, numbers, self._broker.setup.queue_file_bytes)
        places = pieces.table[[P_BASE, P_START, P_BYTES]].T.tolist()
        names = grouped.names(numbers)
        files = [self._file(name, *place) for name, place in zip(names, places, strict=True)]
        agree = self._agreeing(pieces) & (np.array(files, np.int64) >= 0)
        fine = decodable(grouped.walked.window, grouped.walked.origin, *_records(grouped))
        for k in np.flatnonzero(agree).tolist():
            number, (_, start, count) = int(numbers[k]), places[k]
            is_fine = fine[grouped.starts[number] : grouped.starts[number + 1]]
            units = np.arange(start, start + count, UNIT_BYTES)[is_fine] // UNIT_BYTES
            self._there.of(names[k]).keep(files[k], units)
        usual[numbers[agree]] = True
        return usual

    def _is_all_there(self, split: Split, grouped: Grouped) -> bool:
        """Tell whether the log still has all records of a split that imply units, as they were."""
        stop = self._there.readable_to(split.path)
        positions, sizes = _records(grouped)
        if not len(positions):
            return False
        first, last = int(np.min(positions)) + split.base_offset, int(np.max(positions + sizes)) + split.base_offset
        files = self._broker.log
        return files.min_offset <= first and last <= min(files.max_offset, stop)

    def _file(self, key: QueueKey, base: int, start: int, count: int) -> int:
        """Return the number of the file among its queue's in which a piece can be read as it was, -1 if in none."""
        if key not in self._broker.queues or self._replaced.begins_again(key):
            return -1
        return self._there.of(key).unchanged_file(base, start, start + count)


def _records(grouped: Grouped) -> tuple[Numbers, Numbers]:
    """Return positions and sizes of the grouped records that imply units."""
    rows = grouped.table[: grouped.starts[-1], G_RECORD]
    return grouped.walked.records[w.R_POSITION, rows], grouped.walked.records[w.R_SIZE, rows]

"""Queue offsets that units of batch queues hold: these stand in the units, where those of other queues are places."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from storeio.checks.astray import LONG_JUMP
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.checks.ranges import Range, merged
from storeio.checks.unit_groups import CHUNK_UNITS
from storeio.format import batchqueue
from storeio.format.batchqueue import Mask, Units

Numbers = npt.NDArray[np.int64]


def spans_of(queue: Queue, read: Read, numbers: Iterable[int]) -> dict[int, Range]:
    """Return half-open queue offsets of units of a batch queue by the units' numbers, of those that are to be believed.

    No record says what these hold, and a unit may be damaged: a broker's goes on where the one before it ends, so one
    is believed that fits to a neighbour, or has none. Source: ``BatchConsumeQueue.putBatchMessagePositionInfo``.

    Raises:
        UnreadableError: A file of the queue cannot be read.
    """
    found: dict[int, Range] = {}
    size = queue.unit_bytes
    for low, high in merged((number, number + 1) for number in numbers):
        for first in range(low, high, CHUNK_UNITS):
            stop = min(first + CHUNK_UNITS, high)
            start = max(first - 1, 0)
            units = decode(queue, queue.read(read, start * size, (stop + 1) * size)[0])
            begins = units["base_queue_offset"].astype(np.int64)
            ends = begins + units["batch_size"]
            for i in np.flatnonzero(fitting(units)[first - start : stop - start]) + first - start:
                found[start + int(i)] = int(begins[i]), int(ends[i])
    return found


def fitting(units: Units, numbers: Numbers | None = None) -> Mask:
    """Tell which of some units hold queue offsets that are to be believed.

    They follow on from each other, or have these ``numbers``, ascending: of units that are no neighbours neither speaks
    against the other.
    """
    begins = units["base_queue_offset"].astype(np.int64)
    ends = begins + units["batch_size"]
    written = batchqueue.is_written(units) & (begins < LONG_JUMP)
    meets, apart = np.zeros((2, len(units) + 1), np.bool_)  # each and the one before it
    both = written[:-1] & written[1:]
    if numbers is not None:
        both &= np.diff(numbers) == 1
    meets[1:-1] = both & (ends[:-1] == begins[1:])
    apart[1:-1] = both & ~meets[1:-1]
    found: Mask = written & (meets[:-1] | meets[1:] | ~(apart[:-1] | apart[1:]))
    return found

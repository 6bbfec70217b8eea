"""Units that a rebuild puts where no record has one: in a gap the unit before it, in front of a queue its first one.

A queue must have no holes, since recovery ends at one, and what a broker writes in front may hide messages.
Source: ``DefaultMessageStore.getMessage``, ``ConsumeQueue.putMessagePositionInfo``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.checks.ranges import Ranges
from storeio.checks.unit_groups import Units
from storeio.format import commitlog as log
from storeio.paths import CONSUMEQUEUE

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def hides_first(topic: str, physical_offset: int, segment_bytes: int) -> bool:
    """Tell whether a broker's filler in front of a queue keeps the queue's first messages from consumers.

    The filler points at the begin of the log's first segment. While the log has that, brokers take it for a message
    that they cannot read, and go on behind the segment. Not so of light queues: brokers count messages for these that
    get no unit, and so write fillers in front of such queues where nothing is lost.

    Args:
        topic: Of the queue.
        physical_offset: Where the queue's first unit points, which is in the log.
        segment_bytes: Of the log.
    """
    return 0 <= physical_offset < segment_bytes and not topic.startswith(log.LMQ_PREFIX)


def seems_first(queue: Queue, covered: Ranges, physical: Numbers, numbers: Numbers) -> Mask:
    """Return which units point at offset 0, below the log, where consumers come to them.

    Brokers look for a queue's minimum in its first file only, which retention takes away with its last message.
    Source: ``ConsumeQueue.correctMinOffset``, ``CommitLog.getMessage``.

    Args:
        queue: The queue's files.
        covered: Unit numbers of records, merged.
        physical: Where units point, below the log.
        numbers: Theirs.
    """
    if queue.kind != CONSUMEQUEUE or not covered:
        return np.zeros(len(numbers), np.bool_)
    stop = (queue.start + queue.file_bytes) // queue.unit_bytes
    return (physical == 0) & (numbers < stop) & (covered[0][0] >= stop)


def stand_ins(queue: Queue, covered: Ranges, them: Units, asked: Mask, read: Read) -> Mask:
    """Return which of the units that are asked for are the unit of the record before them, or of the queue's first.

    Args:
        queue: The queue's files.
        covered: Unit numbers of records, merged.
        them: Units at other numbers.
        asked: Those that are looked at; none behind the last record counts.
        read: Reads the queue's files.

    Raises:
        UnreadableError: A record's unit could not be read.
    """
    if queue.kind != CONSUMEQUEUE or not covered or not asked.any():
        return np.zeros(len(asked), np.bool_)
    size, stops = queue.unit_bytes, np.array([stop for _, stop in covered], np.int64)
    ahead = np.searchsorted(stops, them.numbers, side="right")  # covered ranges before each
    asked = asked & (ahead < len(stops))
    beside = np.where(ahead > 0, stops[ahead - 1] - 1, covered[0][0])[asked]
    numbers, which = np.unique(beside, return_inverse=True)
    units = decode(queue, np.zeros(len(numbers) * size, np.uint8)).copy()
    for i, number in enumerate(numbers.tolist()):
        units[i] = decode(queue, queue.read(read, number * size, (number + 1) * size)[0])[0]
    result = np.zeros(len(asked), np.bool_)
    result[asked] = them.units[asked] == units[which]
    return result

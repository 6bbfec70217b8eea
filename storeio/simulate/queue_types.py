"""What files in the directories of a topic's queues tell of its type: of their first units, few of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

import numpy as np

from storeio.format import batchqueue, consumequeue
from storeio.format import commitlog as log
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE
from storeio.simulate.disk import Disk

MOST_LOOKED_AT: Final = 16  # files of a topic, of which the first units are read
UNITS_LOOKED_AT: Final = 16
MOST_NUMBER: Final = 1 << 36  # what else stands where a batch unit has its queue offset is above, or mostly

Names = Callable[[int], str | None]
"""``names(physical)``: the topic of the record there, None where none is."""

T = TypeVar("T")


def moved_topics(disk: Disk) -> frozenset[str]:
    """Return the topics of directories of batch queues all of whose files begin with units of ordinary queues."""
    found = set()
    for topic in disk.entries(BATCHQUEUE):
        told = [look for look in _looks(disk, f"{BATCHQUEUE}/{topic.name}", holds_ordinary) if look is not None]
        if told and all(told):
            found.add(topic.name)
    return frozenset(found)


def noisy_topics(disk: Disk, names: Names | None = None) -> frozenset[str]:
    """Return the topics of directories of batch queues that hold none of theirs, while their ordinary ones are there.

    They have files in both places, and nothing but the directory speaks for batch queues: no file there begins with a
    unit of a batch, or those that do point at records of other topics, as ``names`` tells of the one at a physical
    offset, if it is given.
    """
    return frozenset(
        topic.name
        for topic in disk.entries(BATCHQUEUE)
        if disk.is_directory(f"{CONSUMEQUEUE}/{topic.name}")
        and not has_no_ordinary(disk, topic.name)
        and not _is_of_batches(disk, topic.name, names)
    )


def _is_of_batches(disk: Disk, topic: str, names: Names | None) -> bool:
    if topic == log.SCHEDULE_TOPIC or topic.startswith(log.LMQ_PREFIX):
        return False  # brokers make ordinary queues for these, whatever a table says
    places = [place for found in _looks(disk, f"{BATCHQUEUE}/{topic}", batch_places) for place in found]
    told = {names(place) for place in places} - {None} if names is not None else set()
    return topic in told if told else bool(places)


def has_no_ordinary(disk: Disk, topic: str) -> bool:
    """Tell whether none of the files in a topic's directory of ordinary queues begins with units of those."""
    return not any(_looks(disk, f"{CONSUMEQUEUE}/{topic}", _may_be_ordinary))


def holds_ordinary(disk: Disk, path: str) -> bool | None:
    """Tell whether the first units of a file are of an ordinary queue: they point at one record behind the other.

    None for a file with one unit, or none, of which nothing can be told.

    Where the second one of them has its size, one of a batch queue has the upper half of its number, mostly zeros.
    """
    units, written = _ordinary_units(disk, path)
    if written < 2:  # the rest of the first unit of a batch queue is not zero
        return False if units[written:].tobytes().strip(b"\0") else None
    ends = units["physical_offset"][:written].astype(np.int64) + units["size"][:written]
    return bool((units["physical_offset"][1:written] >= ends[:-1]).all())


def batch_places(disk: Disk, path: str) -> list[int]:
    """Return the physical offsets at which units point that may be of a batch queue, of a file's first units."""
    size = batchqueue.UNIT_BYTES
    stop = min(max(disk.size(path), 0), UNITS_LOOKED_AT * size)
    units = batchqueue.decode(disk.read(path, 0, stop - stop % size).data)
    likely = batchqueue.is_written(units) & (units["size"] >= log.MIN_RECORD_BYTES)
    likely &= units["base_queue_offset"] < MOST_NUMBER
    is_ordinary = likely.any() and holds_ordinary(disk, path) is True
    return [] if is_ordinary else units["physical_offset"][likely].astype(np.int64).tolist()


def _may_be_ordinary(disk: Disk, path: str) -> bool:
    """Tell whether the first units of a file are of an ordinary queue, or may be, as there is but one."""
    look = holds_ordinary(disk, path)
    return bool(_ordinary_units(disk, path)[1]) if look is None else look


def _ordinary_units(disk: Disk, path: str) -> tuple[consumequeue.Units, int]:
    """Return a file's first units, those before a queue's first one left out, and how many of them are written."""
    size = min(max(disk.size(path), 0), UNITS_LOOKED_AT * consumequeue.UNIT_BYTES)
    units = consumequeue.decode(disk.read(path, 0, size - size % consumequeue.UNIT_BYTES).data)
    units = units[~consumequeue.is_pre_blank(units)]
    return units, int(np.argmin(np.append(consumequeue.is_written(units), False)))


def _looks(disk: Disk, place: str, look: Callable[[Disk, str], T]) -> Iterator[T]:
    """Yield what is told of files of a topic's directory."""
    queues = (f"{place}/{queue.name}" for queue in disk.entries(place))
    paths: Iterable[str] = (f"{queue}/{file.name}" for queue in queues for file in disk.entries(queue))
    for path in islice(filter(disk.is_file, paths), MOST_LOOKED_AT):
        yield look(disk, path)

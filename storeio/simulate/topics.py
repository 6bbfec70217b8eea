"""Which topics have batch queues, and which queues there are: what load asks of names.

Source: ``ConsumeQueueStore.loadConsumeQueues``, ``QueueTypeUtils``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from storeio.format import consumequeue
from storeio.format import properties as text
from storeio.format.fastjson import decode
from storeio.paths import BATCHQUEUE, CONFIG, CONSUMEQUEUE, TOPIC_DATABASES
from storeio.simulate.disk import Disk
from storeio.simulate.ends import RefusesError
from storeio.simulate.memo import Memo
from storeio.simulate.rules import Rules
from storeio.simulate.tables import MOST_BYTES

TOPICS: Final = (f"{CONFIG}/topics.json", f"{CONFIG}/topics.json.bak")
MOST_LOOKED_AT: Final = 16  # files of a topic, of which the first units are read
UNITS_LOOKED_AT: Final = 16
QUEUE_TYPE: Final = "queue.type"
TOPIC_TABLE: Final = "topicConfigTable"
BATCH: Final = "BatchCQ"
WRONG_TYPE: Final = "The queue type of topic:"
_TABLES: Final = Memo[dict[str, bool] | None](2)  # a table and its earlier content; they may be long


class Topics:
    """The types of a store's topics.

    Without ``topics.json``, as in a store that was copied without its ``config``, a topic has the type of
    the directory in which it stands, unless its files say that they were moved there. Of directories of batch queues
    without a file nothing tells, and a broker that knows nothing of a topic takes its queues for ordinary ones.
    """

    def __init__(self, disk: Disk, rules: Rules, batch: frozenset[str] | None) -> None:
        self.disk, self.rules = disk, rules
        table = declared_topics(disk) if batch is None else None
        declared = batch if table is None else frozenset(name for name, is_batch in table.items() if is_batch)
        self.known = declared is not None
        if declared is None:
            declared = frozenset(topic for topic, _ in self.queues_in(BATCHQUEUE)) - ordinary_topics(disk)
            declared = frozenset(topic for topic in declared if self._holds(topic))
        self._batch = set(declared)

    def _holds(self, topic: str) -> bool:
        place = f"{BATCHQUEUE}/{topic}"
        return any(self.disk.entries(f"{place}/{queue.name}") for queue in self.disk.entries(place))

    @property
    def batch(self) -> frozenset[str]:
        """The topics that have batch queues, as far as it is known."""
        return frozenset(self._batch)

    def is_batch(self, topic: str) -> bool:
        """Tell whether a topic's queues are batch queues."""
        return self.rules.batch_queues and topic in self._batch

    def holds_batches(self, topic: str) -> None:
        """Take note of a record with inner messages: brokers write such records to batch queues only."""
        if not self.known and not self.disk.is_directory(f"{CONSUMEQUEUE}/{topic}"):
            self._batch.add(topic)

    def expect(self, topic: str, directory: str) -> None:
        """Compare a topic's type with the directory of one of its queues.

        Raises:
            RefusesError: They differ.
        """
        if self.rules.batch_queues and self.is_batch(topic) != (directory == BATCHQUEUE):
            kind = "batch queues" if directory == CONSUMEQUEUE else "ordinary queues"
            path = f"{directory}/{topic}"
            raise RefusesError(f"{path} is there, but the topic has {kind}", f"{WRONG_TYPE} {topic} should be", path)

    def queues_in(self, directory: str) -> Iterator[tuple[str, int]]:
        """Yield topic and queue id of each directory that a broker takes for a queue."""
        for topic in self.disk.entries(directory):
            for entry in self.disk.entries(f"{directory}/{topic.name}"):
                number = text.java_int(entry.name)
                if number is not None:
                    yield topic.name, number


def declared_topics(disk: Disk) -> dict[str, bool] | None:
    """Return the topics that the topics' table names, and whether they have batch queues; None without one.

    A table beside a database of topics is of the time before that.
    """
    for path in () if any(map(disk.is_file, TOPIC_DATABASES)) else TOPICS:
        if not disk.is_file(path) or not 0 < disk.size(path) <= MOST_BYTES:
            continue
        data = disk.read(path, 0, disk.size(path)).data
        table = _TABLES.of(path, data, partial(_topics_in, data))
        if table is not None:
            return table
    return None


def _topics_in(data: memoryview) -> dict[str, bool] | None:
    """Return the topics that a table names, and whether they have batch queues; None if it is not whole."""
    has_batches, has_none = object(), object()  # in the place of settings, which may be long
    found = decode(data, lambda _table, _name, config: has_batches if _is_batch(config) else has_none)
    table = found.value.get(TOPIC_TABLE) if isinstance(found.value, dict) else None
    if found.problem or not isinstance(table, dict):
        return None
    return {name: config is has_batches for name, config in table.items()}


def ordinary_topics(disk: Disk) -> frozenset[str]:
    """Return the topics of directories of batch queues all of whose files begin with units of ordinary queues."""
    found = set()
    for topic in disk.entries(BATCHQUEUE):
        place = f"{BATCHQUEUE}/{topic.name}"
        queues = (f"{place}/{queue.name}" for queue in disk.entries(place))
        paths = (f"{queue}/{file.name}" for queue in queues for file in disk.entries(queue))
        looks = [_holds_ordinary(disk, path) for path in islice(filter(disk.is_file, paths), MOST_LOOKED_AT)]
        told = [look for look in looks if look is not None]
        if told and all(told):
            found.add(topic.name)
    return frozenset(found)


def _holds_ordinary(disk: Disk, path: str) -> bool | None:
    """Tell whether the first units of a file are of an ordinary queue: they point at one record behind the other.

    None for a file with one unit, or none, of which nothing can be told.

    Where the second one of them has its size, one of a batch queue has the upper half of its number, mostly zeros.
    """
    size = min(max(disk.size(path), 0), UNITS_LOOKED_AT * consumequeue.UNIT_BYTES)
    units = consumequeue.decode(disk.read(path, 0, size - size % consumequeue.UNIT_BYTES).data)
    units = units[~consumequeue.is_pre_blank(units)]
    written = int(np.argmin(np.append(consumequeue.is_written(units), False)))
    ends = units["physical_offset"][:written].astype(np.int64) + units["size"][:written]
    if written < 2:  # the rest of the first unit of a batch queue is not zero
        return False if units[written:].tobytes().strip(b"\0") else None
    return bool((units["physical_offset"][1:written] >= ends[:-1]).all())


def _is_batch(config: object) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get(QUEUE_TYPE) == BATCH

"""Which topics have batch queues, and which queues there are: what load asks of names.

Source: ``ConsumeQueueStore.loadConsumeQueues``, ``QueueTypeUtils``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from storeio.format import properties as text
from storeio.format.fastjson import decode
from storeio.paths import BATCHQUEUE, CONFIG, CONSUMEQUEUE, TOPIC_DATABASES
from storeio.simulate.disk import Disk
from storeio.simulate.ends import RefusesError
from storeio.simulate.memo import Memo
from storeio.simulate.queue_types import has_no_ordinary, moved_topics, noisy_topics
from storeio.simulate.rules import Rules
from storeio.simulate.tables import MOST_BYTES

TOPICS: Final = (f"{CONFIG}/topics.json", f"{CONFIG}/topics.json.bak")
QUEUE_TYPE: Final = "queue.type"
TOPIC_TABLE: Final = "topicConfigTable"
BATCH: Final = "BatchCQ"
WRONG_TYPE: Final = "The queue type of topic:"
QUEUE_NUMS: Final = ("readQueueNums", "writeQueueNums")
V = TypeVar("V")  # what is told of each topic
_QUEUES: Final = Memo[dict[str, int] | None](2)
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
            declared = frozenset(topic for topic, _ in self.queues_in(BATCHQUEUE) if self._holds(topic))
            declared -= moved_topics(disk) | noisy_topics(disk)
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
        if not self.known and topic not in self._batch and has_no_ordinary(self.disk, topic):
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
    """Return the topics that the topics' table names, and whether they have batch queues; None without one."""
    return _told(disk, _TABLES, _topics_in)


def declared_queues(disk: Disk) -> dict[str, int]:
    """Return how many queues each topic has, as the topics' table says; none without one. Numbers may be anything."""
    return _told(disk, _QUEUES, _queues_in) or {}


def _told(
    disk: Disk, known: Memo[dict[str, V] | None], parsed: Callable[[memoryview], dict[str, V] | None]
) -> dict[str, V] | None:
    """Return what the topics' table says, None without one.

    A table beside a database of topics is of the time before that.
    """
    for path in () if any(map(disk.is_file, TOPIC_DATABASES)) else TOPICS:
        if not disk.is_file(path) or not 0 < disk.size(path) <= MOST_BYTES:
            continue
        data = disk.read(path, 0, disk.size(path)).data
        table = known.of(path, data, partial(parsed, data))
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


def _queues_in(data: memoryview) -> dict[str, int] | None:
    """Return how many queues the topics of a table have, None if it is not whole."""
    found = decode(data, lambda _table, _name, config: _queues_of(config))
    table = found.value.get(TOPIC_TABLE) if isinstance(found.value, dict) else None
    if found.problem or not isinstance(table, dict):
        return None
    return {name: count for name, count in table.items() if isinstance(count, int)}


def _queues_of(config: object) -> int | None:
    """Return the greater one of a topic's two numbers: the queues that are read, and those that are written."""
    said = [config.get(name) for name in QUEUE_NUMS] if isinstance(config, dict) else []
    return max((number for number in said if isinstance(number, int)), default=None)


def _is_batch(config: object) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get(QUEUE_TYPE) == BATCH

"""How far consumer groups are, as ``config/`` tells, and which messages go before a group has had them.

Groups that consume by broadcast keep their offsets with the clients; nothing here knows of them.

Source: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``DelayOffsetSerializeWrapper``,
``ConfigManager.load``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from storeio.format.commitlog import SCHEDULE_TOPIC
from storeio.format.fastjson import Keep, decode
from storeio.format.properties import java_int, java_long
from storeio.simulate.disk import Disk
from storeio.simulate.metadata import LIGHT_OFFSETS, backup, table_bytes
from storeio.simulate.tables import CONSUMER_OFFSETS, DELAY_OFFSETS

DELAY_SERVICE: Final = "(delay levels)"  # no group: the broker itself takes what is due
NOBODY: Final = ""
QueueKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """The next queue offset of each group in each queue; ``problems`` says what could not be read."""

    offsets: dict[QueueKey, dict[str, int]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def __or__(self, other: Progress) -> Progress:
        """Return what both tell; ``other`` counts where they differ."""
        offsets = {key: dict(groups) for key, groups in self.offsets.items()}
        for key, groups in other.offsets.items():
            offsets.setdefault(key, {}).update(groups)
        return Progress(offsets, self.problems + other.problems)


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages of a queue, ``first`` to before ``stop``, that go before a group has consumed them.

    ``group`` is ``NOBODY`` for those that no group at all has consumed.
    """

    group: str
    topic: str
    queue_id: int
    first: int
    stop: int

    @property
    def messages(self) -> int:
        """How many queue offsets that is."""
        return self.stop - self.first


def consumer_progress(
    data: bytes | memoryview, path: str = CONSUMER_OFFSETS, topics: Collection[str] | None = None
) -> Progress:
    """Return what ``consumerOffset.json`` or ``lmqConsumerOffset.json`` tells, as far as it can be read, of some
    topics only if they are given.

    The table's keys are ``topic@group``, its values queue id to offset; of a light queue the offset alone.
    """

    def is_asked(name: str) -> bool:
        return topics is None or name.partition("@")[0] in topics

    table, problem = _table(data, path, lambda _, name, numbers: numbers if is_asked(name) else None)
    offsets: dict[QueueKey, dict[str, int]] = {}
    for name, numbers in table.items():
        topic, at, group = name.partition("@")
        # Over these the broker passes, too.
        if not at or not topic or not group or "@" in group or not is_asked(name):
            continue
        by_queue = numbers if isinstance(numbers, dict) else {"0": numbers}
        for queue_id, offset in _numbers(by_queue):
            offsets.setdefault((topic, queue_id), {})[group] = offset
    return Progress(offsets, problem)


def delay_progress(data: bytes | memoryview, path: str = DELAY_OFFSETS) -> Progress:
    """Return what ``delayOffset.json`` tells: level ``n`` is queue ``n - 1`` of the schedule topic."""
    table, problem = _table(data, path)
    found = {(SCHEDULE_TOPIC, level - 1): {DELAY_SERVICE: offset} for level, offset in _numbers(table)}
    return Progress(found, problem)


def progress_of(disk: Disk, topics: Collection[str] | None = None) -> Progress:
    """Return what a store's ``config/`` tells of all groups, of some topics only if they are given; a file that cannot
    be read gives way to its ``.bak``."""
    found, consumers = Progress(), partial(consumer_progress, topics=topics)
    for path, read in (
        (CONSUMER_OFFSETS, consumers),
        (LIGHT_OFFSETS, consumers),
        (DELAY_OFFSETS, delay_progress),
    ):
        found |= _first_whole(disk, path, read)
    return found


def _first_whole(disk: Disk, path: str, read: Callable[[memoryview, str], Progress]) -> Progress:
    """Return what a file tells, or its ``.bak``; where neither is whole, what can be read of both."""
    found = Progress()
    for name in (path, backup(path)):
        if not disk.size(name) or disk.files[name].is_dir:
            continue
        each = read(table_bytes(disk, name), name)
        if not each.problems:
            return Progress(each.offsets, found.problems)
        found = Progress((each | found).offsets, found.problems + each.problems)
    return found


def unread(
    before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]], progress: Progress
) -> list[Unread]:
    """Return the messages that a rise of the queues' mins takes from groups which have not consumed them.

    Args:
        before: First and next queue offset of each queue, by ``topic/queue_id``.
        after: The same after the rise.
        progress: Where the groups are. A group that has no offset in a queue has no claim on it.

    Returns:
        A row a group and queue, and one of ``NOBODY`` a queue for what no group has consumed; sorted.
    """
    found = []
    for name, (start, _) in before.items():
        topic, _, number = name.rpartition("/")
        stop = after[name][0] if name in after else start
        groups = progress.offsets.get((topic, int(number)), {})
        reached = {NOBODY: max(groups.values(), default=0), **groups}
        for group, offset in reached.items():
            first = max(start, offset)
            if first < stop:
                found.append(Unread(group, topic, int(number), first, stop))
    return sorted(found, key=lambda row: (row.topic, row.queue_id, row.group))


def _table(data: bytes | memoryview, path: str, keep: Keep | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the ``offsetTable`` of a file, and what is wrong with it."""
    decoded = decode(data, keep)
    if decoded.problem:
        problem = f"{path}: {decoded.problem}"
    elif decoded.value is not None and not isinstance(decoded.value, dict):
        problem = f"{path}: not an object"
    else:
        problem = ""
    table = decoded.value.get("offsetTable") if isinstance(decoded.value, dict) else None
    return table if isinstance(table, dict) else {}, (problem,) if problem else ()


def _numbers(found: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the entries of a map of integers that are such; numbers in quotes count."""
    for key, value in found.items():
        number = java_int(key)
        offset = java_long(value) if isinstance(value, str) else value
        if number is not None and isinstance(offset, int) and not isinstance(offset, bool):
            yield number, offset

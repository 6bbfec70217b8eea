"""What is said of many queues, as a few columns: a hundredth of the memory that as many objects take."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from storeio.checks.packed import QueueKey
from storeio.checks.ranges import Ranges

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """Tables by queue, joined: ``names`` are kinds and topics, ``keys`` has a column a queue, ``table`` all columns.

    The rows of ``keys`` are the numbers of kind and topic among the names, the queue id, and how many columns of the
    table are the queue's own. A queue may come more than once.

    Raises:
        ValueError: They do not fit together.
    """

    names: list[str]
    keys: Numbers
    table: Numbers

    def __post_init__(self) -> None:
        if len(self.keys) != 4 or self.table.ndim != 2:
            raise ValueError("keys of queues have four rows")
        if self.keys.size and not (0 <= np.min(self.keys[:2]) <= np.max(self.keys[:2]) < len(self.names)):
            raise ValueError("the name of a queue is not among the names")
        counts = self.keys[3]
        if (counts < 0).any() or (counts > self.table.shape[1]).any() or counts.sum() != self.table.shape[1]:
            raise ValueError("columns of queues are not as many as the table has")

    def tables(self) -> Iterator[tuple[QueueKey, Numbers]]:
        """Yield each queue and its table, in the order in which they were added."""
        at = 0
        for key, count in self._queues():
            yield key, self.table[:, at : at + count].copy()
            at += count

    def ranges(self) -> Iterator[tuple[QueueKey, Ranges]]:
        """Yield each queue and its half-open ranges, of a table of two rows."""
        rows = zip(*self.table.tolist(), strict=True)
        for key, count in self._queues():
            yield key, [next(rows) for _ in range(count)]

    def queues(self) -> list[QueueKey]:
        """Return the queues, sorted, each once."""
        return sorted({key for key, _ in self._queues()})

    def _queues(self) -> Iterator[tuple[QueueKey, int]]:
        for kind, topic, queue_id, count in zip(*(row.tolist() for row in self.keys), strict=True):
            yield (self.names[kind], self.names[topic], queue_id), count


def joined(parts: Sequence[Columns], height: int) -> Columns:
    """Return each queue once, by kind, topic and queue id, with its columns of all parts in their order.

    ``height`` is how many rows their tables have.
    """
    found = in_order([(part.names, part.keys[:3]) for part in parts])
    if not len(found.order):
        return no_columns(height)
    counts = np.concatenate([part.keys[3] for part in parts])
    starts = np.cumsum(counts) - counts
    which = places(starts[found.order], counts[found.order])
    keys = np.concatenate((found.keys[:, found.first], [np.add.reduceat(counts[found.order], found.first)]))
    return Columns(found.names, keys, np.concatenate([part.table for part in parts], axis=1)[:, which])


@dataclass(frozen=True, slots=True)
class InOrder:
    """Queues of several parts, sorted by kind, topic and queue id; those of the same queue in the parts' order.

    ``order`` are their places among all of the parts, ``keys`` the numbers of kind and topic among the names and the
    queue id, shape ``(3, n)`` in that order, and ``first`` where each queue begins in it.
    """

    names: list[str]
    keys: Numbers
    order: Numbers
    first: Numbers


def in_order(parts: Iterable[tuple[Iterable[str], Numbers]]) -> InOrder:
    """Return the order of queues of parts: their names, and the numbers of kind and topic and the queue id."""
    known: dict[str, int] = {}
    renumbered = [np.empty((3, 0), np.int64)]
    for part_names, part_keys in parts:
        numbers = np.array([known.setdefault(name, len(known)) for name in part_names], np.int64)
        renumbered.append(np.concatenate((numbers[part_keys[:2]], part_keys[2:])))
    names = sorted(known)
    rank = np.empty(len(names), np.int64)
    rank[[known[name] for name in names]] = np.arange(len(names))
    keys = np.concatenate(renumbered, axis=1)
    keys[:2] = rank[keys[:2]]
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return InOrder(names, keys, order, np.flatnonzero(is_first))


def places(starts: Numbers, counts: Numbers) -> Numbers:
    """Return the numbers of ranges that begin at ``starts``, so many of each, one range behind the other."""
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))


class ColumnsBuilder:
    """Takes what is said of one queue after another."""

    def __init__(self, height: int) -> None:
        """Begin with tables of so many rows."""
        self._height = height
        self._names: dict[str, int] = {}
        self._keys, self._values = array("q"), array("q")

    def add(self, key: QueueKey, table: Numbers) -> None:
        """Take a queue's table, shape ``(height, n)``."""
        self._add_key(key, table.shape[1])
        self._values.frombytes(table.T.tobytes())

    def add_ranges(self, key: QueueKey, ranges: Ranges) -> None:
        """Take a queue's half-open ranges; the height is two."""
        self._add_key(key, len(ranges))
        self._values.extend(chain.from_iterable(ranges))

    def add_queues(self, kind: str, queues: Iterable[tuple[str, int]], table: Numbers) -> None:
        """Take queues of one kind, by topic and queue id, whose tables have one column each."""
        known = self._names
        kind_no = known.setdefault(kind, len(known))
        for topic, queue_id in queues:
            self._keys.extend((kind_no, known.setdefault(topic, len(known)), queue_id, 1))
        self._values.frombytes(table.T.tobytes())

    def _add_key(self, key: QueueKey, count: int) -> None:
        kind, topic, queue_id = key
        known = self._names
        self._keys.extend((known.setdefault(kind, len(known)), known.setdefault(topic, len(known)), queue_id, count))

    def columns(self) -> Columns:
        """Return all that was taken."""
        keys = np.array(self._keys, np.int64).reshape(-1, 4)
        values = np.array(self._values, np.int64).reshape(-1, self._height)
        return Columns(list(self._names), np.ascontiguousarray(keys.T), np.ascontiguousarray(values.T))


def no_columns(height: int) -> Columns:
    """Return what says nothing of any queue."""
    return ColumnsBuilder(height).columns()

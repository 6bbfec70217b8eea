"""What is said of many queues, as a few columns: it is pickled in a tenth of the memory that as many objects take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from storeio.checks.packed import QueueKey
from storeio.checks.ranges import Ranges

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """Tables by queue: ``names`` are kinds and topics, ``keys`` have a row a queue, ``table`` has all columns.

    A row of ``keys`` has the numbers of kind and topic among the names, the queue id, and how many columns are its own.
    """

    names: list[str]
    keys: Numbers
    table: Numbers


def columns_of(tables: Mapping[QueueKey, Numbers], height: int) -> Columns:
    """Return tables of shape ``(height, n)`` by queue as one."""
    names, keys = _keys(tables, (table.shape[1] for table in tables.values()))
    return Columns(names, keys, np.concatenate([np.empty((height, 0), np.int64), *tables.values()], axis=1))


def tables_of(columns: Columns) -> dict[QueueKey, Numbers]:
    """Return the tables that ``columns_of`` was given, in the same order."""
    return {key: columns.table[:, start:stop].copy() for key, start, stop in _queues(columns)}


def columns_of_ranges(ranges: Mapping[QueueKey, Ranges]) -> Columns:
    """Return half-open ranges by queue as one table, a column a range."""
    names, keys = _keys(ranges, map(len, ranges.values()))
    return Columns(names, keys, np.array(list(chain(*ranges.values())), np.int64).reshape(-1, 2).T)


def ranges_of(columns: Columns) -> dict[QueueKey, Ranges]:
    """Return the ranges that ``columns_of_ranges`` was given, in the same order."""
    lows, highs = columns.table.tolist()
    rows = list(zip(lows, highs, strict=True))
    return {key: rows[start:stop] for key, start, stop in _queues(columns)}


def _keys(queues: Mapping[QueueKey, object], counts: Iterable[int]) -> tuple[list[str], Numbers]:
    numbers: dict[str, int] = {}
    keys = np.empty((len(queues), 4), np.int64)
    for i, ((kind, topic, queue_id), count) in enumerate(zip(queues, counts, strict=True)):
        keys[i] = numbers.setdefault(kind, len(numbers)), numbers.setdefault(topic, len(numbers)), queue_id, count
    return list(numbers), keys


def _queues(columns: Columns) -> Iterator[tuple[QueueKey, int, int]]:
    """Yield each queue, and the first of its columns and where they stop."""
    at = 0
    for kind, topic, queue_id, count in columns.keys.tolist():
        yield (columns.names[kind], columns.names[topic], queue_id), at, at + count
        at += count

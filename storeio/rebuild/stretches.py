"""The units of many queues from one split, packed: a hundred thousand queues of a few units each take little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import UNIT_BYTES
from storeio.format import queueext
from storeio.kernels.group import RUN_ROWS

Numbers = npt.NDArray[np.int64]
QueueKey = tuple[str, str, int]
"""Kind of queue, topic, queue id."""

FIELDS: Final = 7  # numbers of kind and topic, queue id, units, first number, columns of runs or -1, ext units


@dataclass(slots=True)
class Stretch:
    """The units of one queue from one split, in log order.

    ``units`` are packed; ``heads`` the ext units that belong to them, without bitmap, if there are any.
    ``runs`` is a table of ``kernels.group``, None where units stand in log order and not at a number.
    """

    key: QueueKey
    count: int
    first_number: int
    units: bytes | memoryview
    runs: Numbers | None = None
    heads: bytes | memoryview = b""


class Stretches:
    """Stretches in the order in which they were appended; made anew of what is packed each time they are asked for."""

    __slots__ = ("_heads", "_names", "_numbers", "_runs", "_units")

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._numbers, self._runs = array("q"), array("q")
        self._units: bytearray | None = bytearray()
        self._heads = bytearray()

    def append(self, stretch: Stretch) -> None:
        """Take a stretch with its units."""
        assert self._units is not None  # else its units would be lost
        kind, topic, queue_id = stretch.key
        columns = -1 if stretch.runs is None else stretch.runs.shape[1]
        kind_no = self._names.setdefault(kind, len(self._names))
        topic_no = self._names.setdefault(topic, len(self._names))
        ext = len(stretch.heads) // queueext.HEAD_BYTES
        self._numbers.extend((kind_no, topic_no, queue_id, stretch.count, stretch.first_number, columns, ext))
        if stretch.runs is not None:
            self._runs.frombytes(stretch.runs.tobytes())
        self._units += stretch.units
        self._heads += stretch.heads

    def bare(self) -> Stretches:
        """Return the same without units and ext units, to which nothing can be appended."""
        same = Stretches()
        same._names, same._numbers, same._runs, same._units = self._names, self._numbers, self._runs, None
        return same

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._numbers) // FIELDS

    def __iter__(self) -> Iterator[Stretch]:
        """Yield them; those of ``bare`` have no bytes."""
        names, runs = list(self._names), np.frombuffer(self._runs, np.int64) if self._runs else np.empty(0, np.int64)
        units, heads = memoryview(self._units or b""), memoryview(self._heads)
        unit_at = run_at = head_at = 0
        numbers = iter(self._numbers)
        for kind_no, topic_no, queue_id, count, first, columns, ext in zip(*[numbers] * FIELDS, strict=True):
            kind = names[kind_no]
            unit_stop, head_stop = unit_at + count * UNIT_BYTES[kind], head_at + ext * queueext.HEAD_BYTES
            run_stop = run_at + max(columns, 0) * RUN_ROWS
            table = runs[run_at:run_stop].reshape(RUN_ROWS, columns) if columns >= 0 else None
            key = kind, names[topic_no], queue_id
            yield Stretch(key, count, first, units[unit_at:unit_stop], table, heads[head_at:head_stop])
            unit_at, run_at, head_at = unit_stop, run_stop, head_stop

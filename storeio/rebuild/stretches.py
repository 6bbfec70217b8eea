"""The units of many queues from one split, packed: a hundred thousand queues of a few units each take little memory.

Nearly all queues are plain: their units have one run and no ext units. Where there are many of these, they come and are
joined as arrays: an object for each would take longer than all that is done with its units.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.columns import InOrder, in_order, places
from storeio.checks.queue_files import UNIT_BYTES
from storeio.format import consumequeue, queueext
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_ROWS
from storeio.paths import BATCHQUEUE

Numbers = npt.NDArray[np.int64]
QueueKey = tuple[str, str, int]
"""Kind of queue, topic, queue id."""

# Numbers of kind and topic, queue id, units, first number, columns of runs or -1, ext units or NO_HEADS.
(F_KIND, F_TOPIC, F_QUEUE_ID, F_COUNT, F_FIRST, F_COLUMNS, F_EXT) = range(7)
FIELDS: Final = 7
NO_HEADS: Final = -1
AT_ONCE: Final = 1 << 16  # stretches that are numbers of Python at one time
PLAIN: Final = np.dtype((np.void, consumequeue.UNIT_BYTES))  # a unit whose numbers nobody turns around
_NO_ROWS: Final[Numbers] = np.empty((0, FIELDS), np.int64)


@dataclass(slots=True)
class Stretch:
    """The units of one queue from one split, in log order.

    ``units`` are packed; ``heads`` the ext units that belong to them, without bitmap, if there are any: one for each
    unit, zeros for those without. ``ext`` counts those that are none, ``NO_HEADS`` where there are no heads.
    ``runs`` is a table of ``kernels.group``, None where units stand in log order and not at a number.
    """

    key: QueueKey
    count: int
    first_number: int
    units: bytes | memoryview
    runs: Numbers | None = None
    heads: bytes | memoryview = b""
    ext: int = NO_HEADS


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
        self._numbers.extend((kind_no, topic_no, queue_id, stretch.count, stretch.first_number, columns, stretch.ext))
        if stretch.runs is not None:
            self._runs.frombytes(stretch.runs.tobytes())
        self._units += stretch.units
        self._heads += stretch.heads

    def add_plain(self, kind: str, queues: Sequence[tuple[str, int]], runs: Numbers, units: memoryview) -> None:
        """Take plain queues of one kind, by topic and queue id, with a run each, shape ``(RUN_ROWS, n)``.

        ``units`` are those of all of them, one queue behind the other.
        """
        assert self._units is not None
        names = self._names
        rows = np.zeros((len(queues), FIELDS), np.int64)
        rows[:, F_KIND] = names.setdefault(kind, len(names))
        rows[:, F_TOPIC] = [names.setdefault(topic, len(names)) for topic, _ in queues]
        rows[:, F_QUEUE_ID] = [queue_id for _, queue_id in queues]
        rows[:, F_COUNT], rows[:, F_FIRST], rows[:, F_COLUMNS] = runs[RUN_RECORDS], runs[RUN_FIRST], 1
        rows[:, F_EXT] = NO_HEADS
        self._numbers.frombytes(rows.tobytes())
        self._runs.frombytes(runs.T.tobytes())
        self._units += units

    @property
    def rows(self) -> Numbers:
        """What is known of each but its runs and units, shape ``(n, FIELDS)``."""
        return np.frombuffer(self._numbers, np.int64).reshape(-1, FIELDS) if self._numbers else _NO_ROWS

    @property
    def is_plain(self) -> bool:
        """Whether all are plain units of consume queues."""
        rows = self.rows
        batch = self._names.get(BATCHQUEUE, -1)
        return not ((rows[:, F_COLUMNS] != 1) | (rows[:, F_EXT] != NO_HEADS) | (rows[:, F_KIND] == batch)).any()

    @property
    def packed_bytes(self) -> int:
        """How many bytes they take."""
        return len(self._units or b"") + len(self._heads) + 8 * (len(self._numbers) + len(self._runs))

    def sizes(self) -> tuple[Numbers, Numbers]:
        """Return how many bytes the units of each take, and its ext units."""
        rows = self.rows
        unit_bytes = np.array([UNIT_BYTES.get(name, 0) for name in self._names], np.int64)
        return sizes_of(rows[:, F_COUNT], unit_bytes[rows[:, F_KIND]], rows[:, F_EXT])

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
            unit_stop = unit_at + count * UNIT_BYTES[kind]
            head_stop = head_at + (count * queueext.HEAD_BYTES if ext != NO_HEADS else 0)
            run_stop = run_at + max(columns, 0) * RUN_ROWS
            table = runs[run_at:run_stop].reshape(RUN_ROWS, columns) if columns >= 0 else None
            key = kind, names[topic_no], queue_id
            yield Stretch(key, count, first, units[unit_at:unit_stop], table, heads[head_at:head_stop], ext)
            unit_at, run_at, head_at = unit_stop, run_stop, head_stop


def sizes_of(count: Numbers, unit_bytes: Numbers, ext: Numbers) -> tuple[Numbers, Numbers]:
    """Return how many bytes the units of stretches take, and their ext units; ``ext`` is as in ``Stretch``."""
    return count * unit_bytes, np.where(ext == NO_HEADS, 0, count * queueext.HEAD_BYTES)


def _in_order(parts: Sequence[Stretches]) -> InOrder:
    """Return the order of all stretches by queue, those of one in the order of the parts."""
    return in_order((list(part._names), part.rows[:, :F_COUNT].T) for part in parts)


def queue_by_queue(parts: Sequence[Stretches]) -> tuple[Iterator[memoryview], list[Numbers]]:
    """Return the bytes of parts in log order, those of a queue together, and where each part's stretches stand in them.

    The queues are sorted. The ext units of a stretch follow its units.
    """
    order = _in_order(parts).order
    units, heads = (np.concatenate(sizes) for sizes in zip(*(part.sizes() for part in parts), strict=True))
    sizes = (units + heads)[order]
    stands = np.empty(len(order), np.int64)
    stands[order] = np.cumsum(sizes) - sizes
    stops = np.cumsum([len(part) for part in parts])
    return _bytes_in(order, parts, units, heads), np.split(stands, stops[:-1])


def _bytes_in(order: Numbers, parts: Sequence[Stretches], units: Numbers, heads: Numbers) -> Iterator[memoryview]:
    """Yield units and ext units of stretches, numbered over all parts, in an order; the rest says how many bytes."""
    all_units = memoryview(b"".join([part._units or b"" for part in parts]))
    all_heads = memoryview(b"".join([part._heads for part in parts]))
    unit_stops, head_stops = np.cumsum(units), np.cumsum(heads)
    for at in range(0, len(order), AT_ONCE):
        rows = order[at : at + AT_ONCE]
        ranges = (column[rows].tolist() for column in (unit_stops - units, unit_stops, head_stops - heads, head_stops))
        for unit_start, unit_stop, head_start, head_stop in zip(*ranges, strict=True):
            yield all_units[unit_start:unit_stop]
            if head_start < head_stop:
                yield all_heads[head_start:head_stop]


def joined(parts: Sequence[Stretches]) -> Iterator[Stretch]:
    """Yield one stretch for each queue of parts in log order, all of them plain; the queues are sorted."""
    found = _in_order(parts)
    rows = np.concatenate([part.rows for part in parts])
    runs = np.concatenate([np.frombuffer(part._runs, np.int64) for part in parts]).reshape(-1, RUN_ROWS)[found.order]
    units = np.concatenate([np.frombuffer(part._units or b"", PLAIN) for part in parts])
    starts = np.cumsum(rows[:, F_COUNT]) - rows[:, F_COUNT]
    rows = rows[found.order]
    data = units[places(starts[found.order], rows[:, F_COUNT])].view(np.uint8).data
    del parts, units, starts  # as much as what is kept
    stops = np.cumsum(rows[:, F_COUNT]).tolist()
    at = 0
    for low, high in itertools.pairwise([*found.first.tolist(), len(rows)]):
        kind, topic, queue_id = found.keys[:, low].tolist()
        key, stop = (found.names[kind], found.names[topic], queue_id), stops[high - 1]
        table = np.ascontiguousarray(runs[low:high].T)
        yield Stretch(key, stop - at, int(rows[low, F_FIRST]), data[at * PLAIN.itemsize : stop * PLAIN.itemsize], table)
        at = stop

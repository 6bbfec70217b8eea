"""Commitlog records -> the queue units they imply, grouped by queue in log order.

Source: ``CommitLogDispatcherBuildConsumeQueue``, ``MultiDispatch`` and ``MultiDispatchUtils``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.format import batchqueue, consumequeue, properties
from storeio.format import commitlog as log
from storeio.kernels import group as g
from storeio.kernels import tables as w
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
ALL: Final = slice(None)


class OddNumber(NamedTuple):
    """What stands where a record's list of light queues is to have a number: the record's row, the name, the text."""

    row: int
    name: str
    text: str


@dataclass(slots=True)
class Implied:
    """The units that a split's records imply in one queue, in log order; all arrays shape ``(n,)``.

    ``record`` numbers the split's records, ``queue_offset`` is where the unit belongs (in a batch
    queue: its first message). ``single`` says that each record is one message. ``placed`` is False
    for light queues, whose units stand in log order and not at their number. ``own`` tells which are of records that
    were sent to the queue itself, and do not only list it; None for all. ``packed`` and ``run_table`` are there where
    those of all queues were made at once.
    """

    topic: str
    queue_id: int
    walked: Walked
    record: Numbers
    queue_offset: Numbers
    single: bool = True
    placed: bool = True
    own: Mask | None = None
    packed: consumequeue.Units | None = None
    run_table: Numbers | None = None

    def column(self, row: int, which: Numbers | slice = ALL) -> Numbers:
        """Return a row of the record table for the units, or for some of them."""
        return self.walked.records[row, self.record[which]]

    def physical(self, which: Numbers | slice = ALL) -> Numbers:
        """Return where the records of the units, or of some of them, truly lie."""
        return self.column(w.R_POSITION, which) + self.walked.split.base_offset

    def physical_at(self, i: int) -> int:
        """Return where the record of unit ``i`` truly lies."""
        return int(self.walked.records[w.R_POSITION, self.record[i]]) + self.walked.split.base_offset

    def messages(self, which: Numbers | slice = ALL) -> Numbers:
        """Return how many messages the records are."""
        return np.ones(len(self.record[which]), np.int64) if self.single else self.column(w.R_BATCH_SIZE, which)

    def runs(self) -> Numbers:
        """Return the runs of consecutive queue offsets, a table of ``kernels.group``, shape ``(RUN_ROWS, n)``."""
        if self.run_table is not None:
            return self.run_table
        edges = np.flatnonzero(np.diff(self.queue_offset) != (1 if self.single else self.messages()[:-1])) + 1
        bounds = np.array([0, *edges.tolist(), len(self.record)], np.int64)
        first, last = bounds[:-1], bounds[1:] - 1
        runs = np.empty((g.RUN_ROWS, len(first)), np.int64)
        runs[g.RUN_FIRST] = self.queue_offset[first]
        runs[g.RUN_STOP] = self.queue_offset[last] + self.messages(last)
        runs[g.RUN_START_AT] = self.physical(first)
        runs[g.RUN_STOP_AT] = self.physical(last) + self.column(w.R_SIZE, last)
        runs[g.RUN_RECORDS] = bounds[1:] - first
        runs[g.RUN_ELSEWHERE] = self.column(w.R_MARKS, first) & w.MARK_PHYSICAL
        return runs

    def units(self) -> consumequeue.Units:
        """Return the consume queue units."""
        if self.packed is not None:
            return self.packed
        return consumequeue.encode(self.physical(), self.column(w.R_SIZE), self.column(w.R_TAGS_CODE))

    def batch_units(self) -> batchqueue.Units:
        """Return the batch queue units."""
        units = np.zeros(len(self.record), dtype=batchqueue.UNIT)
        units["physical_offset"] = self.physical()
        units["size"] = self.column(w.R_SIZE)
        units["tags_code"] = self.column(w.R_TAGS_CODE)
        units["store_timestamp_ms"] = self.column(w.R_STORE_MS)
        units["base_queue_offset"] = self.queue_offset
        units["batch_size"] = self.messages()
        units["compacted_offset"] = -1
        return units


Listed = dict[tuple[str, int], Implied]
"""Units of queues that other records list, by topic and queue id."""


def enters_queue(sys_flag: Numbers) -> Mask:
    """Tell which records enter a queue: neither prepared nor rolled back."""
    transaction = sys_flag & log.SYS_TRANSACTION
    return (transaction == 0) | (transaction == log.SYS_COMMIT)


_spare = threading.local()


def _spare_tables(count: int) -> tuple[Numbers, npt.NDArray[np.uint8], Numbers]:
    """Return this thread's tables for so many grouped records, their units and runs; the same for all calls."""
    tables: tuple[Numbers, npt.NDArray[np.uint8], Numbers] | None = getattr(_spare, "tables", None)
    if tables is None or len(tables[0]) < count:
        rows = count + count // 4
        units = np.empty(rows * consumequeue.UNIT_BYTES, np.uint8)
        # Pages that no run reaches are never touched.
        tables = np.empty((rows, g.GROUP_COLUMNS), np.int64), units, np.empty((g.RUN_ROWS, rows), np.int64)
        _spare.tables = tables
    return tables[0][:count], tables[1][: count * consumequeue.UNIT_BYTES], tables[2]


@dataclass(slots=True)
class Grouped:
    """A split's records by queue and in log order, with the units and runs that they imply: ``kernels.group``.

    Queue q of the split has rows ``[starts[q], starts[q + 1])`` of ``table``, shape ``(n, GROUP_COLUMNS)``, and of
    ``units``, and columns ``[run_starts[q], run_starts[q + 1])`` of ``runs``. ``single`` tells that each record is one
    message. The arrays last until this thread groups again: fresh memory would cost as much as filling it.
    """

    walked: Walked
    starts: Numbers
    table: Numbers
    units: consumequeue.Units
    run_starts: Numbers
    runs: Numbers
    single: bool

    def implied(self, number: int) -> Implied:
        """Return the units of one queue."""
        topic, queue_id = self.walked.queues[number]
        rows = slice(int(self.starts[number]), int(self.starts[number + 1]))
        runs = slice(int(self.run_starts[number]), int(self.run_starts[number + 1]))
        name, part = properties.java_decode(topic), self.table[rows]
        return Implied(
            name,
            queue_id,
            self.walked,
            part[:, g.G_RECORD],
            part[:, g.G_QUEUE_OFFSET],
            single=self.single,
            placed=not name.startswith(log.LMQ_PREFIX),
            packed=self.units[rows],
            run_table=self.runs[:, runs].copy(),
        )

    def names(self, numbers: Numbers) -> list[tuple[str, int]]:
        """Return topic and queue id of some queues."""
        named = map(self.walked.queues.__getitem__, numbers.tolist())
        return [(properties.java_decode(topic), queue_id) for topic, queue_id in named]

    def last_of(self, numbers: Numbers) -> tuple[int, int]:
        """Return physical offset and store time of the last record of some queues, all of which have one."""
        row = int(self.table[self.starts[numbers + 1] - 1, g.G_RECORD].max())  # records are numbered in log order
        position, store_ms = self.walked.records[[w.R_POSITION, w.R_STORE_MS], row].tolist()
        return position + self.walked.split.base_offset, store_ms

    def are_in(self, listed: Listed) -> Mask:
        """Tell which queues are listed by records, too. Shape ``(queues,)``."""
        numbers = np.arange(len(self.walked.queues))
        return np.array([key in listed for key in self.names(numbers)] if listed else numbers < 0, np.bool_)

    def present(self) -> Mask:
        """Tell which queues have units; others have only records that enter no queue. Shape ``(queues,)``."""
        return np.diff(self.starts) > 0


def grouped_units(walked: Walked) -> Grouped:
    """Return the units of all queues that the split's records name, light queues' lists not included."""
    starts, ends = np.zeros(len(walked.queues) + 1, np.int64), np.zeros(len(walked.queues) + 1, np.int64)
    table, units, runs = _spare_tables(walked.count)
    base = walked.split.base_offset
    said = int(g.group_by_queue(walked.records, base, starts, table, units))
    g.runs_by_queue(walked.records, base, starts, table, said & g.UNBROKEN != 0, ends, runs)
    return Grouped(walked, starts, table, units.view(consumequeue.UNIT), ends, runs, said & g.SINGLE != 0)


def implied_units(walked: Walked) -> Iterator[Implied]:
    """Yield the units of each queue that the split's records name, light queues' lists not included.

    Their arrays last until this thread groups again.
    """
    grouped = grouped_units(walked)
    yield from (grouped.implied(number) for number in np.flatnonzero(grouped.present()).tolist())


def multi_dispatched(walked: Walked, odd: list[OddNumber] | None = None) -> Listed:
    """Return the units of light queues and of others named in the records' multi-dispatch lists, by queue.

    Numbers at which a broker's dispatch throws are put into ``odd``, if it is given.
    """
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    marked = (walked.records[w.R_MARKS] & w.MARK_MULTI) != 0
    for row in np.flatnonzero(marked & enters_queue(walked.records[w.R_SYS_FLAG])).tolist():
        for name, queue_id, queue_offset in _targets(walked, row, odd):
            found.setdefault((name, queue_id), []).append((row, queue_offset))
    return {key: _multi(walked, *key, rows) for key, rows in sorted(found.items())}


def is_dispatched(topic: str) -> bool:
    """Tell whether brokers since 5.2.0, and some before, dispatch a topic's messages to light queues."""
    return not topic.startswith(("%RETRY%", "rmq_sys_")) and topic != log.SCHEDULE_TOPIC


def is_copied(topic: str, said: bytes) -> bool:
    """Tell whether a record has its lists of light queues from the message that it repeats or delays.

    Brokers since 5.2.0, and some before, neither number nor dispatch such a record; older ones do both anew. Only
    those since 5.2.0 end the properties that they write with a separator.
    """
    return not is_dispatched(topic) and said.endswith(properties.PROPERTY.encode())


def _targets(walked: Walked, row: int, odd: list[OddNumber] | None) -> list[tuple[str, int, int]]:
    """Return (topic, queue id, queue offset) of each list item; none where the broker makes none."""
    record = walked.records[:, row]
    topic, own = walked.queues[int(record[w.R_QUEUE])]
    said = walked.field(int(record[w.R_PROPERTIES_AT]), int(record[w.R_PROPERTIES_BYTES]))
    targets: dict[tuple[str, int], int] = {}
    for name, offset, number in listed_numbers(properties.java_decode(topic), said):
        if number is None:  # the broker's dispatch throws here
            if odd is not None:
                odd.append(OddNumber(row, name, offset))
            break
        if name and "/" not in name:
            targets.setdefault((name, 0 if name.startswith(log.LMQ_PREFIX) else own), number)
    return [(name, queue_id, number) for (name, queue_id), number in targets.items()]


def listed_numbers(topic: str, said: bytes) -> list[tuple[str, str, int | None]]:
    """Return a record's list of light and other queues: each name, the text that is to be its number there, the number.

    None where a broker dispatches none: the lists do not fit each other, or are those of another message.
    """
    if is_copied(topic, said):
        return []
    found = properties.parse(said)
    listed = found.get(properties.MULTI_DISPATCH, "")
    names = properties.java_split(listed, ",")
    offsets = properties.java_split(found.get(properties.MULTI_QUEUE_OFFSET, ""), ",")
    if not listed.strip() or len(names) != len(offsets):
        return []
    return [(name, text, properties.java_long(text)) for name, text in zip(names, offsets, strict=True)]


def _multi(walked: Walked, topic: str, queue_id: int, found: list[tuple[int, int]]) -> Implied:
    rows, numbers = np.array(found, np.int64).T
    placed = not topic.startswith(log.LMQ_PREFIX)
    return Implied(topic, queue_id, walked, rows, numbers, placed=placed, own=np.zeros(len(rows), np.bool_))


def merged(sent: Implied, listed: Implied) -> Implied:
    """Return the units of a queue, of records sent to it and of others that list it, in log order.

    A record that was sent to a queue and lists it, too, has one unit there: that which the broker puts first.
    """
    record, first = np.unique(np.concatenate((sent.record, listed.record)), return_index=True)
    queue_offset = np.concatenate((sent.queue_offset, listed.queue_offset))[first]
    single, own = sent.single and listed.single, first < len(sent.record)
    return Implied(
        sent.topic, sent.queue_id, sent.walked, record, queue_offset, single=single, placed=sent.placed, own=own
    )


def all_units(grouped: Grouped, which: Mask, listed: Listed) -> Iterator[Implied]:
    """Yield the units of some of a split's queues, and those of its records' lists: each queue once, in log order.

    ``which`` has to have the queues of the split that are listed, too.
    """
    left = dict(listed)
    for number in np.flatnonzero(which).tolist():
        units = grouped.implied(number)
        more = left.pop((units.topic, units.queue_id), None)
        yield units if more is None else merged(units, more)
    yield from left.values()

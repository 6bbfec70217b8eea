"""Commitlog records -> the queue units they imply, grouped by queue in log order.

Source: ``CommitLogDispatcherBuildConsumeQueue``, ``MultiDispatch`` and ``MultiDispatchUtils``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storeio.format import batchqueue, consumequeue, properties
from storeio.format import commitlog as log
from storeio.kernels import group as g
from storeio.kernels import tables as w
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Implied:
    """The units that a split's records imply in one queue, in log order; all arrays shape ``(n,)``.

    ``record`` numbers the split's records, ``queue_offset`` is where the unit belongs (in a batch
    queue: its first message), ``physical_offset`` where the record truly lies. ``placed`` is False
    for light queues, whose units stand in log order and not at their number.
    """

    topic: str
    queue_id: int
    record: Numbers
    queue_offset: Numbers
    physical_offset: Numbers
    size: Numbers
    tags_code: Numbers
    store_ms: Numbers
    batch_size: Numbers
    placed: bool = True
    packed: consumequeue.Units | None = None

    def units(self) -> consumequeue.Units:
        """Return the consume queue units."""
        if self.packed is not None:
            return self.packed
        return consumequeue.encode(self.physical_offset, self.size, self.tags_code)

    def batch_units(self) -> batchqueue.Units:
        """Return the batch queue units."""
        units = np.zeros(len(self.record), dtype=batchqueue.UNIT)
        units["physical_offset"] = self.physical_offset
        units["size"] = self.size
        units["tags_code"] = self.tags_code
        units["store_timestamp_ms"] = self.store_ms
        units["base_queue_offset"] = self.queue_offset
        units["batch_size"] = self.batch_size
        units["compacted_offset"] = -1
        return units


def enters_queue(sys_flag: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which records enter a queue: neither prepared nor rolled back."""
    transaction = sys_flag & log.SYS_TRANSACTION
    return (transaction == 0) | (transaction == log.SYS_COMMIT)


def implied_units(walked: Walked) -> Iterator[Implied]:
    """Yield the units of each queue that the split's records name, light queues' lists not included."""
    starts = np.zeros(len(walked.queues) + 1, np.int64)
    grouped = np.empty((walked.count, g.GROUP_COLUMNS), np.int64)
    units = np.empty(walked.count * consumequeue.UNIT_BYTES, np.uint8)
    g.group_by_queue(walked.records, walked.split.base_offset, starts, grouped, units)
    packed = units.view(consumequeue.UNIT)
    bounds = starts.tolist()
    for number, (topic, queue_id) in enumerate(walked.queues):
        start, stop = bounds[number], bounds[number + 1]
        if stop == start:
            continue
        part = grouped[start:stop]
        name = properties.java_decode(topic)
        yield Implied(
            name,
            queue_id,
            part[:, g.G_RECORD],
            part[:, g.G_QUEUE_OFFSET],
            part[:, g.G_PHYSICAL],
            part[:, g.G_SIZE],
            part[:, g.G_TAGS_CODE],
            part[:, g.G_STORE_MS],
            part[:, g.G_BATCH_SIZE],
            placed=not name.startswith(log.LMQ_PREFIX),
            packed=packed[start:stop],
        )


def multi_dispatched(walked: Walked) -> list[Implied]:
    """Return the units of light queues and of others named in the records' multi-dispatch lists."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    marked = (walked.records[w.R_MARKS] & w.MARK_MULTI) != 0
    for row in np.flatnonzero(marked & enters_queue(walked.records[w.R_SYS_FLAG])).tolist():
        for name, queue_id, queue_offset in _targets(walked, row):
            found.setdefault((name, queue_id), []).append((row, queue_offset))
    return [_multi(walked, name, queue_id, rows) for (name, queue_id), rows in sorted(found.items())]


def _targets(walked: Walked, row: int) -> list[tuple[str, int, int]]:
    """Return (topic, queue id, queue offset) of each list item; none where the broker makes none."""
    record = walked.records[:, row]
    found = properties.parse(walked.field(int(record[w.R_PROPERTIES_AT]), int(record[w.R_PROPERTIES_BYTES])))
    names = properties.java_split(found.get(properties.MULTI_DISPATCH, ""), ",")
    offsets = properties.java_split(found.get(properties.MULTI_QUEUE_OFFSET, ""), ",")
    own = walked.queues[int(record[w.R_QUEUE])][1]
    if len(names) != len(offsets):
        return []
    targets: dict[tuple[str, int], int] = {}
    for name, offset in zip(names, offsets, strict=True):
        number = properties.java_long(offset)
        if number is None:
            break  # the broker's dispatch throws here
        if name and "/" not in name:
            targets.setdefault((name, 0 if name.startswith(log.LMQ_PREFIX) else own), number)
    return [(name, queue_id, number) for (name, queue_id), number in targets.items()]


def _multi(walked: Walked, topic: str, queue_id: int, found: list[tuple[int, int]]) -> Implied:
    rows = np.array([row for row, _ in found], np.int64)
    part = walked.records[:, rows]
    return Implied(
        topic,
        queue_id,
        rows,
        np.array([number for _, number in found], np.int64),
        part[w.R_POSITION] + walked.split.base_offset,
        part[w.R_SIZE],
        part[w.R_TAGS_CODE],
        part[w.R_STORE_MS],
        np.ones(len(rows), np.int64),
        placed=False,
    )

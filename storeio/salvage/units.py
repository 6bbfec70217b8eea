"""Queue units that survived the records they point at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan, Concluded
from storeio.audit.owners import LOST_CODES, WITNESSES
from storeio.audit.peek import record_at
from storeio.audit.shifts import NOBODY, Owner
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.format import consumequeue
from storeio.format import properties as p
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE
from storeio.salvage.evidence import Unit
from storeio.salvage.shifted import Shifted

Numbers = npt.NDArray[np.int64]
Units = npt.NDArray[np.void]

MOST_LOOKED_UP: Final = 64  # units of one finding at whose places a record is looked for

# Findings whose units may point at records that the log has no more.
UNIT_CODES: Final = LOST_CODES | WITNESSES | {"BCQ_UNIT_ORPHAN", "BCQ_UNIT_WRONG"}


class Order:
    """Tells whether units lie between the records of their queue whose numbers come before and after theirs.

    A record that stands alone is not asked: its number may be damaged.
    """

    def __init__(self, concluded: Concluded) -> None:
        self._runs = concluded.runs
        self._known: dict[tuple[str, int], Numbers] = {}

    def __call__(self, unit: Unit) -> bool:
        """Return False for a unit that lies elsewhere; it is damaged itself. Queues that began anew tell nothing."""
        queue = unit.topic, unit.queue_id
        if queue not in self._known:
            rows = [RUN_FIRST, RUN_STOP, RUN_START_AT, RUN_STOP_AT]
            tables = [table[rows][:, table[RUN_RECORDS] > 1] for table in self._runs.get(queue, ())]
            runs = np.concatenate(tables, axis=1) if tables else np.empty((4, 0), np.int64)
            runs = runs[:, np.argsort(runs[2], kind="stable")]
            self._known[queue] = runs if (np.diff(runs[0]) > 0).all() else runs[:, :0]
        first, stop, start_at, stop_at = self._known[queue]
        before, after = np.searchsorted(stop, unit.number, "right"), np.searchsorted(first, unit.number, "right")
        is_behind = before == 0 or stop_at[before - 1] <= unit.physical_offset
        return bool(is_behind and (after == len(first) or unit.physical_offset < start_at[after]))


def surviving(concluded: Concluded, shifted: Shifted, owner_of: Callable[[Queue, str], Owner | None]) -> Iterator[Unit]:
    """Yield the units that are not those of intact records, as an audit tells; into damage only those in their order.

    Those of a file that is another queue's, as ``owner_of`` tells, are that one's, which may be ``NOBODY``.

    Raises:
        UnreadableError: A queue could not be read.
    """
    plan, fits = concluded.plan, Order(concluded)
    read = plan.nearby().read
    for finding in concluded.audit.findings:
        if finding.code not in UNIT_CODES or finding.topic is None or finding.queue_id is None:
            continue
        kind = BATCHQUEUE if finding.code.startswith("BCQ") else CONSUMEQUEUE
        queue = plan.queue(kind, finding.topic, finding.queue_id)
        file = next((file for file in queue.files if file.path == finding.path), None)
        if file is None:
            continue
        start = file.base + finding.position
        stop = start + finding.length
        place = finding.physical_offset if kind == BATCHQUEUE else None
        is_lost = finding.code in LOST_CODES or (place is not None and concluded.view.is_damaged(place, place + 1))
        shift = shifted.by(queue, start // queue.unit_bytes, -(-stop // queue.unit_bytes))
        owner = owner_of(queue, file.path)
        for unit in chain(units_at(read, queue, start, stop), _of_other_sizes(plan, queue, start, stop)):
            # Files whose names overlap share numbers: the unit may be that of the next one.
            moved = shift and queue.path_at(unit.number * queue.unit_bytes)[0] == finding.path
            found = unit._replace(number=unit.number - shift) if moved else unit
            if owner is not None:
                found = unit._replace(topic=owner.topic, queue_id=owner.queue_id, number=unit.number - owner.shift)
            if found.number >= 0 and (not is_lost or owner == NOBODY or fits(found)):
                yield found


def _of_other_sizes(plan: AuditPlan, queue: Queue, start: int, stop: int) -> Iterator[Unit]:
    """Yield the units of a range of a queue that have the place of a record that says another queue than theirs.

    Only their sizes are another's, instead of which they get the record's: eight bytes of a place are no chance.
    """
    read = plan.nearby().read
    if queue.kind == BATCHQUEUE or stop - start > MOST_LOOKED_UP * queue.unit_bytes:
        return
    raw = _decoded(read, queue, start, stop)
    for i, (place, size) in enumerate(zip(raw["physical_offset"].tolist(), raw["size"].tolist(), strict=True)):
        is_filler = not place and size in (0, consumequeue.PRE_BLANK_SIZE)
        record = record_at(plan, place, read) if place >= 0 and not is_filler else None
        if record is None or record.size == size:
            continue
        number = start // queue.unit_bytes + i
        if (p.java_decode(record.topic), record.queue_id) != (queue.topic, queue.queue_id):
            yield Unit(queue.topic, queue.queue_id, number, place, record.size, int(raw["tags_code"][i]))


def units_at(read: Read, queue: Queue, start: int, stop: int) -> Iterator[Unit]:
    """Yield the units of a range of a queue that may be some; none where a file cannot be read."""
    size = queue.unit_bytes
    units = _decoded(read, queue, start, stop)
    good = (units["physical_offset"] >= 0) & (units["size"] >= log.MIN_RECORD_BYTES)
    good &= units["size"] < consumequeue.PRE_BLANK_SIZE
    for i in np.flatnonzero(good).tolist():
        physical, length, tags = (int(units[name][i]) for name in consumequeue.UNIT.names or ())
        if queue.kind == BATCHQUEUE:
            number, count = int(units["base_queue_offset"][i]), int(units["batch_size"][i])
            if number >= 0 and count > 0:
                yield Unit(queue.topic, queue.queue_id, number, physical, length, tags, count)
        else:
            yield Unit(queue.topic, queue.queue_id, start // size + i, physical, length, tags)


def _decoded(read: Read, queue: Queue, start: int, stop: int) -> Units:
    """Return the units of a range of a queue, none where a file cannot be read."""
    size = queue.unit_bytes
    try:
        data, _ = queue.read(read, start - start % size, stop + -stop % size)
    except UnreadableError:
        data = np.empty(0, np.uint8)  # told by the audit
    return decode(queue, data)

"""Where light queues begin behind deleted segments: the store's own units tell. The numbers in lists run ahead of them.

Brokers of 5.x count rolled back messages, too, and others that get no unit. Source: ``MultiDispatch``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storeio.audit import AuditPlan
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.rebuild.old import own_queues
from storeio.scan import data_stretches

AT_ONCE: Final = 1 << 16  # bytes of a queue

Standing = tuple[int, int]
"""Physical offset of a record, and the number at which its unit stands."""


def light_starts(plan: AuditPlan) -> dict[str, Standing]:
    """Return the first unit of each light queue that points into the log, by topic; none of a log that begins at 0."""
    first = min((file.base_offset or 0 for file in plan.segments), default=0)
    if first <= 0:
        return {}
    queues = own_queues(plan, lambda key: key[1].startswith(log.LMQ_PREFIX) and not key[2])
    found = ((topic, _first_unit(plan, queue, first)) for (_, topic, _), queue in queues.items())
    return {topic: standing for topic, standing in found if standing is not None}


def _first_unit(plan: AuditPlan, queue: Queue, first: int) -> Standing | None:
    """Return the first unit that points to a physical offset or behind it, None without one or where a read fails."""
    read, step = plan.nearby().read, AT_ONCE // queue.unit_bytes * queue.unit_bytes
    for file in queue.files:
        stop = max((high for _, high in data_stretches(plan.root, file.path, 0, file.size)), default=0)
        for at in range(file.base, file.base + stop, step):
            try:
                units = decode(queue, queue.read(read, at, min(at + step, file.base + file.size))[0])
            except UnreadableError:
                return None
            inside = np.flatnonzero((units["physical_offset"] >= first) & (units["size"] >= log.MIN_RECORD_BYTES))
            if len(inside):
                return int(units["physical_offset"][inside[0]]), at // queue.unit_bytes + int(inside[0])
    return None

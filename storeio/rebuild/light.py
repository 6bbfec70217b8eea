"""Where light queues begin behind deleted segments: the store's own units tell. The numbers in lists run ahead of them.

Brokers of 5.x count rolled back messages, too, and others that get no unit. Source: ``MultiDispatch``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storeio.audit import AuditPlan
from storeio.checks.locate import decode
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.paths import CONSUMEQUEUE

AT_ONCE: Final = 1 << 16  # bytes of a queue

Standing = tuple[int, int]
"""Physical offset of a record, and the number at which its unit stands."""


def light_starts(plan: AuditPlan) -> dict[str, Standing]:
    """Return the first unit of each light queue that points into the log, by topic; none of a log that begins at 0."""
    first = min((file.base_offset or 0 for file in plan.segments), default=0)
    if first <= 0:
        return {}
    topics = (topic for kind, topic, number in plan.queues if kind == CONSUMEQUEUE and not number)
    found = ((topic, _first_unit(plan, topic, first)) for topic in topics if topic.startswith(log.LMQ_PREFIX))
    return {topic: standing for topic, standing in found if standing is not None}


def _first_unit(plan: AuditPlan, topic: str, first: int) -> Standing | None:
    """Return the first unit that points to a physical offset or behind it, None without one or where a read fails."""
    queue, read = plan.queue(CONSUMEQUEUE, topic, 0), plan.nearby().read
    step = AT_ONCE // queue.unit_bytes * queue.unit_bytes
    for at in range(queue.start, queue.stop, step):
        try:
            units = decode(queue, queue.read(read, at, min(at + step, queue.stop))[0])
        except UnreadableError:
            return None
        inside = np.flatnonzero((units["physical_offset"] >= first) & (units["size"] >= log.MIN_RECORD_BYTES))
        if len(inside):
            return int(units["physical_offset"][inside[0]]), at // queue.unit_bytes + int(inside[0])
    return None

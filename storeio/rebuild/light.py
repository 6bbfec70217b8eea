"""Where light queues begin behind deleted segments: the store's own units tell. The numbers in lists run ahead of them.

Brokers of 5.x count rolled back messages, too, and others that get no unit. Source: ``MultiDispatch``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.rebuild.old import own_queues
from storeio.scan import data_stretches

Numbers = npt.NDArray[np.int64]

AT_ONCE: Final = 1 << 16  # bytes of a queue

ASKED: Final = 5  # units of a queue; of these two may be damaged

Standings = tuple[tuple[int, int], ...]
"""Of units, the physical offset of the record and the number at which the unit stands."""


def light_starts(plan: AuditPlan) -> dict[str, Standings]:
    """Return the first units of each light queue that point into the log, by topic; none of a log that begins at 0."""
    first = min((file.base_offset or 0 for file in plan.segments), default=0)
    if first <= 0:
        return {}
    queues = own_queues(plan, lambda key: key[1].startswith(log.LMQ_PREFIX) and not key[2])
    found = ((topic, _first_units(plan, queue, first)) for (_, topic, _), queue in queues.items())
    return {topic: standings for topic, standings in found if standings}


def number_of_first(standings: Standings, physical: Numbers, listed: Numbers) -> int | None:
    """Return at which number the first of a queue's records has its unit, as most of its units tell; None if none does.

    Args:
        standings: As of ``light_starts``.
        physical: Physical offsets of the records, ascending; shape ``(n,)``, not empty.
        listed: The numbers that their lists give them. They never lag behind.
    """
    at, number = np.array(standings, np.int64).reshape(-1, 2).T
    row = np.minimum(np.searchsorted(physical, at), len(physical) - 1)
    holds = (physical[row] == at) & (row <= number) & (number <= listed[row])
    starts, votes = np.unique((number - row)[holds], return_counts=True)
    return int(starts[votes == votes.max()][-1]) if len(starts) else None  # of deleted messages there are more units


def _first_units(plan: AuditPlan, queue: Queue, first: int) -> Standings:
    """Return the first units that point to a physical offset or behind it, those before a read fails."""
    read, step = plan.nearby().read, AT_ONCE // queue.unit_bytes * queue.unit_bytes
    found: list[tuple[int, int]] = []
    for file in queue.files:
        stop = max((high for _, high in data_stretches(plan.root, file.path, 0, file.size)), default=0)
        for at in range(file.base, file.base + stop, step):
            try:
                units = decode(queue, queue.read(read, at, min(at + step, file.base + file.size))[0])
            except UnreadableError:
                return tuple(found)
            inside = np.flatnonzero((units["physical_offset"] >= first) & (units["size"] >= log.MIN_RECORD_BYTES))
            inside = inside[: ASKED - len(found)]
            found += zip(
                units["physical_offset"][inside].tolist(), (inside + at // queue.unit_bytes).tolist(), strict=True
            )
            if len(found) == ASKED:
                return tuple(found)
    return tuple(found)

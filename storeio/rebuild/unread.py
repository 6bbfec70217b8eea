"""What could not be read of a store's own files, which tell a rebuild what its log does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from storeio.audit import AuditPlan
from storeio.errors import UnreadableError
from storeio.format import consumequeue, index
from storeio.paths import CHECKPOINT, CONFIG, CONSUMEQUEUE, INDEX, QUEUE_KINDS
from storeio.rebuild.old import old_units
from storeio.rebuilt import QueueBuilt
from storeio.scan import not_listed
from storeio.uris import is_remote


def unread_evidence(plan: AuditPlan, queues: Sequence[QueueBuilt]) -> list[str]:
    """Return what could not be read of what a rebuild goes by, each as path and reason.

    Those are names in directories of queues, index and configuration, which tell sizes and kinds; heads of index files
    and the checkpoint; units that stand in gaps of queues. A server that does not answer ends a rebuild instead.
    """
    if is_remote(plan.root):
        return []
    why = dict(plan.listing.unreadable)
    found = [f"{path}: {why[path]}" for path in not_listed(plan.listing, (*QUEUE_KINDS, INDEX, CONFIG, CHECKPOINT))]
    heads = [(file.path, min(file.size, index.HEADER_BYTES)) for file in plan.listing.of_kind(INDEX)]
    entry = plan.listing.get(CHECKPOINT)
    heads += [(CHECKPOINT, entry.size)] if entry is not None and not entry.is_dir else []
    found += [text for path, stop in heads if (text := _failure(plan, path, 0, stop))]
    found += _in_gaps(plan, queues)
    return list(dict.fromkeys(found))


def _in_gaps(plan: AuditPlan, queues: Iterable[QueueBuilt]) -> list[str]:
    """Return why units in gaps of queues could not be read."""
    gaps = {(queue.kind, queue.topic, queue.queue_id): queue.gaps for queue in queues if queue.gaps}
    if not gaps:
        return []
    known, size = old_units(plan, np.empty((2, 0), np.int64), gaps).queues, consumequeue.UNIT_BYTES
    return [
        text
        for key, ranges in gaps.items()
        if key[0] == CONSUMEQUEUE and key in known
        for first, stop in ranges
        for file, low, high in known[key].pieces(first * size, stop * size)
        if file is not None and (text := _failure(plan, file.path, low - file.base, high - file.base))
    ]


def _failure(plan: AuditPlan, path: str, start: int, stop: int) -> str:
    try:
        plan.read(path, start, stop)
    except UnreadableError as error:
        return str(error)
    return ""

"""A read-only view of a store for Python: its files, and its contents as structured arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit.files import run_file_tasks, with_files
from storeio.audit.plan import AuditPlan, file_tasks, prepare
from storeio.audit.walks import walks
from storeio.errors import UnreadableError, UsageError
from storeio.format import batchqueue, consumequeue, index
from storeio.kernels import tables as w
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_KINDS
from storeio.scan import Listing

MOST_MISSING_BYTES: Final = 1 << 28  # of missing files in a queue, filled with zeros

RECORD: Final = np.dtype(
    [
        ("physical_offset", "i8"),  # where the record lies
        ("size", "i4"),
        ("queue", "i4"),  # number in the batch's list of queues
        ("queue_offset", "i8"),
        ("sys_flag", "i4"),
        ("tags_code", "i8"),  # as the broker dispatches it
        ("born_timestamp_ms", "i8"),
        ("store_timestamp_ms", "i8"),
        ("body_length", "i4"),
        ("batch_base", "i8"),  # INNER_BASE, else the queue offset
        ("batch_size", "i4"),  # INNER_NUM, else 1
    ]
)
_ROWS: Final = {
    "physical_offset": w.R_POSITION,
    "size": w.R_SIZE,
    "queue": w.R_QUEUE,
    "queue_offset": w.R_QUEUE_OFFSET,
    "sys_flag": w.R_SYS_FLAG,
    "tags_code": w.R_TAGS_CODE,
    "born_timestamp_ms": w.R_BORN_MS,
    "store_timestamp_ms": w.R_STORE_MS,
    "body_length": w.R_BODY_BYTES,
    "batch_base": w.R_BATCH_BASE,
    "batch_size": w.R_BATCH_SIZE,
}


@dataclass(frozen=True, slots=True)
class Store:
    """A store opened read-only; what its iterators yield was read when it was asked for."""

    plan: AuditPlan

    @property
    def files(self) -> Listing:
        """Everything below the root."""
        return self.plan.listing

    def records(self) -> Iterator[tuple[list[tuple[bytes, int]], npt.NDArray[np.void]]]:
        """Yield the records that a broker accepts, a split at a time, in physical order.

        Each item is the list of (topic bytes, queue id) that ``queue`` numbers, and an array of
        dtype ``RECORD``. Damaged stretches are left out; ``storeio.check`` names them.
        """
        for walked in walks(self.plan):
            rows = np.empty(walked.count, RECORD)
            for name, row in _ROWS.items():
                rows[name] = walked.records[row]
            rows["physical_offset"] += walked.split.base_offset
            yield walked.queues, rows

    def units(self, topic: str, queue_id: int, *, kind: str = CONSUMEQUEUE) -> npt.NDArray[np.void]:
        """Return the units of one queue from its first file to its last byte that is not zero.

        dtype is ``consumequeue.UNIT`` or ``batchqueue.UNIT``, big-endian as on disk; where a file
        between others is missing, its units are zero. A queue that does not exist has none.

        Raises:
            UsageError: No such kind of queue.
            UnreadableError: A file cannot be read, or names of files claim far more than these hold.
        """
        if kind not in QUEUE_KINDS:
            raise UsageError(f"kind {kind}: {' or '.join(QUEUE_KINDS)} is needed")
        queue = self.plan.queue(kind, topic, queue_id)
        stop = max(-(-queue.stop // queue.unit_bytes) * queue.unit_bytes, queue.start)
        held = sum(file.size for file in queue.files)
        if stop - queue.start > MOST_MISSING_BYTES + 2 * held:
            where = f"{kind}/{topic}/{queue_id}"
            raise UnreadableError(f"{where}: its files hold {held} bytes, and name places {stop - queue.start} apart")
        data, _ = queue.read(self.plan.read, queue.start, stop)
        return data.view(batchqueue.UNIT if kind == BATCHQUEUE else consumequeue.UNIT)

    def index_units(self) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
        """Yield the path and the written units of each index file, dtype ``index.UNIT``."""
        for file in self.plan.index:
            start = index.units_start(file.slots) + index.UNIT_BYTES
            data = self.plan.read(file.path, start, start + file.entries * index.UNIT_BYTES)
            yield file.path, data.view(index.UNIT)


def open_store(root: str | os.PathLike[str]) -> Store:
    """Return a read-only view of the store at ``root``; nothing is locked, written or created.

    Raises:
        NotAStoreError: ``root`` is no store.
    """
    plan = prepare(os.fspath(root))
    return Store(with_files(plan, run_file_tasks(plan, file_tasks(plan))))

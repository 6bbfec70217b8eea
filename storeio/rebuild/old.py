"""The store's own units, which stand in gaps of a queue: the records that they point at are gone, they are not."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.checks.packed import PackedQueues
from storeio.checks.queue_files import Queue, QueueFile
from storeio.errors import UnreadableError
from storeio.format import consumequeue
from storeio.paths import CONSUMEQUEUE, StoreFile
from storeio.rebuild.layout import UnitsOf
from storeio.rebuild.stretches import QueueKey
from storeio.scan import go_without, read_range
from storeio.uris import is_remote

Numbers = npt.NDArray[np.int64]
Units = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class StoreUnits:
    """Reads units of a store's queues; ``intact`` is as ``Tally.intact``."""

    root: str
    file_bytes: int
    queues: Mapping[QueueKey, Queue]
    intact: Numbers

    def __call__(self, key: QueueKey) -> UnitsOf:
        """Return what gives units ``[first, stop)`` of a queue, which is told once: it may have thousands of files.

        Zeros stand where it has none, and for units that point at intact records: those have numbers of their own.
        What it returns raises:
            UnreadableError: A server does not answer; an unreadable file of this machine has no units.
        """
        return partial(self._units, self.queues.get(key) or Queue(*key, self.file_bytes))

    def _units(self, queue: Queue, first: int, stop: int) -> Units:
        size = consumequeue.UNIT_BYTES
        try:
            data, _ = queue.read(self._read, first * size, stop * size)
        except UnreadableError as error:
            if is_remote(self.root):
                raise  # a server that does not answer is no lost file
            go_without(self.root, error)
            data = np.zeros((stop - first) * size, np.uint8)
        units = consumequeue.decode(data.tobytes()).copy()
        offset, length = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        following = np.searchsorted(self.intact[1], offset, side="right")
        starts = np.append(self.intact[0], np.iinfo(np.int64).max)[following]
        units[starts - np.maximum(length, 0) < offset] = np.zeros((), consumequeue.UNIT)
        return units

    def _read(self, path: str, start: int, stop: int) -> npt.NDArray[np.uint8]:
        return read_range(self.root, path, start, stop)


def old_units(plan: AuditPlan, intact: Numbers, keys: Container[QueueKey] | None = None) -> StoreUnits:
    """Return what reads the store's own units: of some queues, packed so that it travels, or of all."""
    queues = own_queues(plan, lambda key: keys is None or key in keys)
    return StoreUnits(plan.root, plan.config.queue_file_bytes, PackedQueues(queues), intact)


def own_queues(plan: AuditPlan, wanted: Callable[[QueueKey], bool]) -> dict[QueueKey, Queue]:
    """Return the store's consume queues that are wanted, as its listing has them: no file of them was looked at."""
    size = plan.config.queue_file_bytes
    return {
        key: Queue(*key, size, tuple(QueueFile(f.path, f.base_offset or 0, min(f.size, size)) for f in files))
        for key, files in files_by_queue(plan, (CONSUMEQUEUE,)).items()
        if wanted(key)
    }


def files_by_queue(plan: AuditPlan, kinds: Iterable[str]) -> dict[QueueKey, list[StoreFile]]:
    """Return the files of all queues of some kinds that the store has, those of each in order."""
    found: dict[QueueKey, list[StoreFile]] = {}
    for kind in kinds:
        for file in plan.listing.of_kind(kind):
            if file.topic is not None and file.queue_id is not None:
                found.setdefault((kind, file.topic, file.queue_id), []).append(file)
    return found

"""Many queues in little memory: a number for each field of a file, and the queue made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from storeio.checks.queue_files import Queue, QueueFile
from storeio.paths import file_name, queue_directory

QueueKey = tuple[str, str, int]

FIELDS: Final = (
    "base", "size", "used_bytes", "first_real", "last_real", "ordered", "first_physical", "last_physical",
)  # fmt: skip


class QueueRows(Mapping[QueueKey, int]):
    """Number of each queue by kind, topic and queue id, in the order in which they were given."""

    def __init__(self, keys: Iterable[QueueKey]) -> None:
        """Number them."""
        self._rows: dict[tuple[str, str], dict[int, int]] = {}
        self._count = 0
        for kind, topic, queue_id in keys:
            self._rows.setdefault((kind, topic), {})[queue_id] = self._count
            self._count += 1

    def __getitem__(self, key: QueueKey) -> int:
        """Return a queue's number."""
        kind, topic, queue_id = key
        return self._rows[kind, topic][queue_id]

    def __iter__(self) -> Iterator[QueueKey]:
        """Yield the keys, topic by topic."""
        return ((*key, queue_id) for key, rows in self._rows.items() for queue_id in rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count


class PackedQueues(Mapping[QueueKey, Queue]):
    """Queues by kind, topic and queue id, which cannot be changed: a quarter of the memory of as many objects.

    For the plans of workers, each of which has all queues of a store and asks for few of them at a time.
    """

    def __init__(self, queues: Mapping[QueueKey, Queue]) -> None:
        """Pack them."""
        self._rows = QueueRows(queues)
        self._file_bytes = {kind: queue.file_bytes for (kind, _, _), queue in queues.items()}
        self._odd: dict[int, str] = {}  # paths of files that do not have the name of their number
        count = sum(len(queue.files) for queue in queues.values())
        self._numbers = np.zeros((count, len(FIELDS)), np.int64)
        self._starts = np.zeros(len(queues) + 1, np.int64)
        at = 0
        for row, queue in enumerate(queues.values()):
            for file in queue.files:
                self._numbers[at] = [int(getattr(file, name)) for name in FIELDS]
                if file.path != f"{queue.directory}/{file_name(file.base)}":
                    self._odd[at] = file.path
                at += 1
            self._starts[row + 1] = at

    def __getitem__(self, key: QueueKey) -> Queue:
        """Return a queue, equal to the one that was packed."""
        kind, topic, queue_id = key
        row = self._rows[key]
        directory = queue_directory(kind, topic, queue_id)
        start, stop = int(self._starts[row]), int(self._starts[row + 1])
        files = []
        for at, values in enumerate(self._numbers[start:stop].tolist(), start):
            base, size, used, first, last, ordered, first_at, last_at = values
            path = self._odd.get(at) or f"{directory}/{file_name(base)}"
            files.append(QueueFile(path, base, size, used, first, last, bool(ordered), first_at, last_at))
        return Queue(kind, topic, queue_id, self._file_bytes[kind], tuple(files))

    def __iter__(self) -> Iterator[QueueKey]:
        """Yield the keys, topic by topic."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._rows)

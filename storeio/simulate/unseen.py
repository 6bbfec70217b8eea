"""The messages of a queue that are there and at whose units no pull of a consumer looks.

A file whose name is not its place (``…2001``, or a second one for the same units) leads pulls past units: the broker
finds no file for an offset and answers with where the next one begins, or finds another file and counts on from there.
No pull tells of what it passed so; it is what is left of the queue's files once the consumer has come to its end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from storeio.format import commitlog as log
from storeio.simulate.broker import Broker, QueueKey
from storeio.simulate.buffers import is_there, message_at
from storeio.simulate.consumequeue import ConsumeQueue
from storeio.simulate.ends import JavaError
from storeio.simulate.java import remainder
from storeio.simulate.mapped import Mapped
from storeio.simulate.message import Checker

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Looked:
    """At which units of one queue pulls have looked: stretches of its files, those that touch as one."""

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self._stretches: dict[str, list[tuple[int, int]]] = {}  # by file: numbers of units there, half-open

    def at(self, file: Mapped, position: int, units: int) -> None:
        """Take note of some units of a file from a position on."""
        first = position // self.queue.unit_bytes
        found = self._stretches.setdefault(file.path, [])
        if found and found[-1][1] == first:
            first = found.pop()[0]
            units += position // self.queue.unit_bytes - first
        found.append((first, first + units))

    def from_offset(self, offset: int, units: int) -> None:
        """Take note of units from a queue offset on, in a queue whose files are all in their places."""
        position = offset * self.queue.unit_bytes
        file = self.queue.files.find(position)
        assert file is not None
        self.at(file, remainder(position, self.queue.files.size), units)

    def missed(self, broker: Broker, key: QueueKey) -> int:
        """Return how many intact messages of this queue have units of which no pull has looked at any."""
        files = _by_path(self.queue.files.files)
        passed = {file.path: left for file in files if (left := self._left(file)) is not None}
        if not passed:
            return 0
        rows = self._pointed_at(broker, [(file, passed[file.path]) for file in files if file.path in passed])
        for file in files if rows.size else ():
            units, left = self.queue.units(file, 0, file.wrote), passed.get(file.path)
            seen = (units if left is None else units[~left])["physical_offset"].astype(np.int64)
            rows = rows[:, ~np.isin(rows[0], seen)]
        checker = broker.checker(recovering=False)
        return len({at for at, size in rows.T.tolist() if is_of(broker, checker, key, at, size)})

    def _pointed_at(self, broker: Broker, passed: Iterable[tuple[Mapped, Mask]]) -> Numbers:
        """Return where passed units point in the log, each place and size once. Shape ``(2, n)``."""
        found = [np.empty((2, 0), np.int64)]
        for file, left in passed:
            units = self.queue.units(file, 0, file.wrote)[left]
            physical, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
            inside = (sizes >= log.MIN_RECORD_BYTES) & (physical >= broker.log.min_offset)
            inside &= physical <= broker.log.max_offset - sizes
            found.append(np.stack((physical[inside], sizes[inside])))
        return np.unique(np.concatenate(found, axis=1), axis=1)

    def _left(self, file: Mapped) -> Mask | None:
        """Return which units of a file no pull has looked at, None if there are none; none before the min."""
        unit = self.queue.unit_bytes
        first = -(-max(self.queue.min_position - file.base, 0) // unit)
        count = file.wrote // unit
        stretches = self._stretches.get(file.path, [])
        if first >= count or any(start <= first and stop >= count for start, stop in stretches):
            return None
        left = np.zeros(count, np.bool_)
        left[first:] = True
        for start, stop in stretches:
            left[start:stop] = False
        return left if left.any() else None


def _by_path(files: Iterable[Mapped]) -> list[Mapped]:
    """Return each file once, with what was written most: a broker may map one twice, if another's name misleads it."""
    return list({file.path: file for file in sorted(files, key=lambda file: file.wrote)}.values())


def is_of(broker: Broker, checker: Checker, key: QueueKey, physical: int, size: int) -> bool:
    """Tell whether an intact message of a queue lies there, of just this size."""
    if not is_there(broker, physical, size):
        return False
    data = message_at(broker, physical, size)
    if data is None or struct.unpack_from(">i", data)[0] != size:
        return False
    request = checker.check(data, 0, physical, crc=True, body=True).request
    if request is None or request.offset != physical:
        return False
    if (request.topic, request.queue_id) == key:
        return True
    try:
        return broker.goes_by_lists(request.topic) and any(
            (name, number) == key for name, number, _ in broker.light(request)
        )
    except JavaError:
        return False

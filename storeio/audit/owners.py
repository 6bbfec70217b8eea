"""Queue files in wrong places: whose their units are, as the records say that some of them point at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from storeio.audit.plan import AuditPlan
from storeio.audit.shifts import NOBODY, Owner, owner_at
from storeio.checks.locate import decode
from storeio.checks.numbering import Numbers
from storeio.checks.queue_files import Queue, QueueFile, Read
from storeio.errors import UnreadableError
from storeio.findings import Finding, condense
from storeio.format import commitlog as log
from storeio.format import consumequeue
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.paths import CONSUMEQUEUE

LOST_CODES: Final = frozenset(("CQ_INTO_DAMAGE", "CQ_BEYOND_LOG"))
"""Findings of units that point at no record at all."""

WITNESSES: Final = frozenset(("CQ_UNIT_ORPHAN", "CQ_UNIT_WRONG", "CQ_SHIFTED"))
"""Findings of units that may point at intact records."""

Runs = Callable[[str, int], Sequence[Numbers]]
"""``runs(topic, queue_id)``: tables of ``kernels.group``, in log order."""


class Owners:
    """Knows which files hold the units of another queue: not one of their units is as its own queue's records say.

    The records that some of them point at are all of one other queue, in which they follow on from each other or from
    their neighbours: of a record whose queue id is damaged nothing follows on. Where all records are lost, units that
    go on behind those of another queue's file are that one's, too; such as go back behind those of a file of the
    queue's own in front of them are some other queue's, and nobody knows whose. Behind files that are not there they
    are the queue's own, but with other numbers, if the log has no room for as many messages between.
    """

    def __init__(self, plan: AuditPlan, read: Read, runs: Runs, findings: Iterable[Finding]) -> None:
        self._plan, self._read, self._runs = plan, read, runs
        self._about: dict[str, list[Finding]] = {}
        for row in condense(row for row in findings if row.code in LOST_CODES | WITNESSES):
            self._about.setdefault(row.path, []).append(row)
        self._known: dict[str, Owner | None] = {}

    def of(self, queue: Queue, path: str) -> Owner | None:
        """Return whose units a file of a queue holds, None where nothing says that they are not as they stand."""
        if queue.kind != CONSUMEQUEUE or path not in self._about:
            return None
        if path not in self._known:
            self._known[path] = self._asked(queue, path)
        return self._known[path]

    def _asked(self, queue: Queue, path: str) -> Owner | None:
        about = self._about[path]
        file = next((file for file in queue.files if file.path == path), None)
        if file is None or not self._is_all_wrong(queue, file):
            return None
        said = list(self._said(queue, file.base, [row for row in about if row.code in WITNESSES]))
        if not said:
            return self._as_before(queue, file)
        owners = {owner for owner, _ in said}
        if len(owners) != 1 or not any(self._follows_on(owner, *unit) for owner, unit in said):
            return None
        owner = owners.pop()
        return owner if (owner.topic, owner.queue_id) != (queue.topic, queue.queue_id) else None

    def _is_all_wrong(self, queue: Queue, file: QueueFile) -> bool:
        """Tell whether findings are about all of a file's units: of many the last one spans others, too."""
        return sum(row.count for row in self._about.get(file.path, [])) * queue.unit_bytes >= file.used_bytes

    def _as_before(self, queue: Queue, file: QueueFile) -> Owner | None:
        """Return whose a file's units are, of which no record is left, as its first ones and the file before say.

        Two units of either are asked: of a single one it may be the unit that is damaged.
        """
        before = [other for other in queue.files if other.base < file.base and other.last_real >= 0]
        if not before or file.first_real < 0:
            return None
        own, size = before[-1], queue.unit_bytes
        owner = self.of(queue, own.path)
        start = file.base + file.first_real * size
        stop = own.base + (own.last_real + 1) * size
        first = _places(self._read, queue, start, start + 2 * size)
        last = _places(self._read, queue, max(stop - 2 * size, own.base), stop)
        if not first or not last:
            return None
        missing = (start - stop) // size
        if max(last) < min(first):  # a directory changed its place: its files follow on from each other
            is_own = owner is None or owner[:2] == (queue.topic, queue.queue_id)
            is_moved = is_own and missing > 0 and not missing * size % queue.file_bytes
            if is_moved and missing > (min(first) - max(last)) // log.MIN_RECORD_BYTES:
                return Owner(queue.topic, queue.queue_id, missing + (owner.shift if owner is not None else 0))
            return owner if not is_own or not missing else None
        return NOBODY if owner is None and max(first) < min(last) and not self._is_all_wrong(queue, own) else None

    def _said(self, queue: Queue, base: int, rows: Sequence[Finding]) -> Iterator[tuple[Owner, tuple[int, int]]]:
        """Yield whose the first and the last unit of each finding are, of those that point at intact records.

        With each come its number and where it points.
        """
        size = queue.unit_bytes
        for row in rows:
            first = (base + row.position) // size
            for number in {first, first + max(row.length // size - 1, 0)}:
                if (found := owner_at(self._plan, self._read, queue, number)) is not None:
                    owner, physical = found
                    yield owner, (number, physical)

    def _follows_on(self, owner: Owner, number: int, place: int) -> bool:
        """Tell whether a unit's record has one in front of or behind it in its queue whose number is next to it."""
        number -= owner.shift
        return any(
            run[RUN_FIRST] <= number < run[RUN_STOP] and run[RUN_START_AT] <= place < run[RUN_STOP_AT]
            for table in self._runs(owner.topic, owner.queue_id)
            for run in table[:, table[RUN_RECORDS] > 1].T.tolist()
        )


def _places(read: Read, queue: Queue, start: int, stop: int) -> list[int]:
    """Return where the units of a range of a queue point, of those that may be some; none where it cannot be read."""
    try:
        units = decode(queue, queue.read(read, start, stop)[0])
    except UnreadableError:
        return []  # told by the audit
    good = (units["physical_offset"] >= 0) & (units["size"] >= log.MIN_RECORD_BYTES)
    good &= units["size"] < consumequeue.PRE_BLANK_SIZE
    return units["physical_offset"][good].astype(np.int64).tolist()

"""Queue files in another queue's place: whose their units are, as the records say that some of them point at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from storeio.audit import Concluded
from storeio.audit.peek import record_at
from storeio.checks.numbering import BETWEEN_RECORDS
from storeio.checks.queue_files import Queue, QueueFile
from storeio.checks.ranges import Ranges, merged, subtract
from storeio.findings import Finding
from storeio.format import properties as p
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.paths import CONSUMEQUEUE
from storeio.results import LostRange
from storeio.salvage.evidence import Unit
from storeio.salvage.units import LOST_CODES, NOBODY, UNIT_CODES, Owner, units_at

WITNESSES: Final = UNIT_CODES - LOST_CODES  # findings of units that may point at intact records


class Owners:
    """Knows which files hold the units of another queue: not one of their units is as its own queue's records say.

    The records that some of them point at are all of one other queue, in which they follow on from each other or from
    their neighbours: of a record whose queue id is damaged nothing follows on. Where all records are lost, units that
    go back behind those of a file of the queue's own in front of them are some other queue's, and nobody knows whose.
    """

    def __init__(self, concluded: Concluded) -> None:
        self._concluded = concluded
        self._read = concluded.plan.nearby().read
        self._about: dict[str, list[Finding]] = {}
        for row in concluded.audit.findings:
            if row.code in UNIT_CODES and row.topic is not None and row.queue_id is not None:
                self._about.setdefault(row.path, []).append(row)
        self._known: dict[str, Owner | None] = {}

    def lost(self) -> Iterator[LostRange]:
        """Yield what the audit misses, but for numbers that only units of another queue tell of."""
        foreign: dict[tuple[str | None, int | None], Ranges] = {}
        for path, rows in self._about.items():
            queue = self._concluded.plan.queue(CONSUMEQUEUE, rows[0].topic or "", rows[0].queue_id or 0)
            file = next((file for file in queue.files if file.path == path), None)
            if file is not None and self.of(queue, path) is not None:
                numbers = file.base // queue.unit_bytes, (file.base + file.size) // queue.unit_bytes
                foreign.setdefault((queue.topic, queue.queue_id), []).append(numbers)
        audit = self._concluded.audit
        for part in (*audit.lost, *audit.misplaced):
            own = part.first_queue_offset, part.stop_queue_offset
            others = foreign.get((part.topic, part.queue_id), []) if part.evidence not in BETWEEN_RECORDS else []
            for first, stop in subtract(own, merged(others)):
                yield replace(part, first_queue_offset=first, stop_queue_offset=stop)

    def of(self, queue: Queue, path: str) -> Owner | None:
        """Return whose units a file of a queue holds, None where nothing says that they are another one's."""
        if queue.kind != CONSUMEQUEUE:
            return None
        if path not in self._known:
            self._known[path] = self._asked(queue, path)
        return self._known[path]

    def _asked(self, queue: Queue, path: str) -> Owner | None:
        about = self._about.get(path, [])
        file = next(file for file in queue.files if file.path == path)
        if sum(row.length for row in about) < file.used_bytes:
            return None
        if not any(row.code in WITNESSES for row in about):
            return NOBODY if self._goes_back(queue, file) else None
        said = list(self._said(queue, file.base, [row for row in about if row.code in WITNESSES]))
        owners = {owner for owner, _ in said}
        if len(owners) != 1 or not any(self._follows_on(owner, unit) for owner, unit in said):
            return None
        owner = owners.pop()
        return owner if (owner.topic, owner.queue_id) != (queue.topic, queue.queue_id) else None

    def _goes_back(self, queue: Queue, file: QueueFile) -> bool:
        """Tell whether a file's first units point back behind the last ones of a file that is the queue's own.

        Two of either are asked: of a single one it may be the unit that is damaged.
        """
        before = [other for other in queue.files if other.base < file.base and other.last_real >= 0]
        if not before or file.first_real < 0:
            return False
        own, size = before[-1], queue.unit_bytes
        if sum(row.length for row in self._about.get(own.path, [])) >= own.used_bytes:
            return False
        start = file.base + file.first_real * size
        stop = own.base + (own.last_real + 1) * size
        first = units_at(self._read, queue, start, start + 2 * size)
        last = units_at(self._read, queue, max(stop - 2 * size, own.base), stop)
        return max(unit.physical_offset for unit in first) < min(unit.physical_offset for unit in last)

    def _said(self, queue: Queue, base: int, rows: Sequence[Finding]) -> Iterator[tuple[Owner, Unit]]:
        """Yield whose the first and the last unit of each finding are, of those that point at intact records."""
        size = queue.unit_bytes
        for row in rows:
            first = base + row.position
            for start in {first, first + row.length - size}:
                for unit in units_at(self._read, queue, start, start + size):
                    record = record_at(self._concluded.plan, unit.physical_offset)
                    if record is not None and record.size == unit.size:
                        topic = p.java_decode(record.topic)
                        yield Owner(topic, record.queue_id, unit.number - record.queue_offset), unit

    def _follows_on(self, owner: Owner, unit: Unit) -> bool:
        """Tell whether a unit's record has one in front of or behind it in its queue whose number is next to it."""
        number, place = unit.number - owner.shift, unit.physical_offset
        return any(
            run[RUN_FIRST] <= number < run[RUN_STOP] and run[RUN_START_AT] <= place < run[RUN_STOP_AT]
            for table in self._concluded.runs.get((owner.topic, owner.queue_id), ())
            for run in table[:, table[RUN_RECORDS] > 1].T.tolist()
        )

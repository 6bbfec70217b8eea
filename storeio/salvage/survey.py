"""What is known of damage: the audit's view of the log, and the queue units that survived the records they point at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan, Concluded
from storeio.audit.owners import Owners
from storeio.audit.peek import record_at
from storeio.audit.shifts import NOBODY
from storeio.checks.locate import number_in, numbers_by_place, numbers_of
from storeio.checks.ranges import Bounds, Ranges, meeting, merged
from storeio.codes import DOUBT_CODES
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.kernels.group import RUN_FIRST, RUN_STOP
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, StoreFile, parse_number
from storeio.reading.nearby import Nearby
from storeio.recent import Recent
from storeio.results import Audit, LostRange
from storeio.salvage.behind import disbelieved
from storeio.salvage.chained import lacking_keys
from storeio.salvage.evidence import Unit, is_host
from storeio.salvage.holes import BEHIND_ALL
from storeio.salvage.nearest import Nearest
from storeio.salvage.shifted import Shifted
from storeio.salvage.suspects import suspects
from storeio.salvage.units import surviving, units_at

Numbers = npt.NDArray[np.int64]

AT_ONCE: Final = 16 << 20
KEPT_UNITS: Final = 1 << 24  # of queues without order in memory; one that has more is alone there
LEAP: Final = "LOG_TIME"
ODD_PROPERTIES: Final = "LOG_PROPERTIES"
OF_KEYS: Final = "LOG_INDEX_DISAGREES"  # a doubt of those whose index units prove themselves, only
HABIT: Final = 16  # records with odd properties: more of them are no damage, but what somebody writes


@dataclass(slots=True)
class Survey:
    """A store's damage. ``units`` point at no intact record, by physical offset; ``doubts`` are accepted records that
    something speaks against, by physical offset; the store time of those at ``leaping`` may be wrong. Units whose
    queue nothing tells point at ``nobodys``. ``lost`` are the numbers that the audit misses and no other queue's units
    tell; what still lies elsewhere has found no room in its place."""

    plan: AuditPlan
    audit: Audit
    concluded: Concluded
    shifted: Shifted
    units: list[Unit]
    lost: list[LostRange]
    doubts: dict[int, list[Finding]] = field(default_factory=dict)
    nobodys: frozenset[int] = frozenset()
    files: dict[int, StoreFile] = field(init=False)
    leaping: frozenset[int] = field(init=False)
    nearest: Nearest = field(init=False)
    _odd: list[int] = field(init=False)
    _numbers: dict[tuple[str, int], Ranges] = field(init=False, default_factory=dict)
    _lost: Bounds = field(init=False)
    _places: list[int] = field(init=False)
    _nearby: Nearby = field(init=False)
    _unordered: Recent[tuple[str, str, int], tuple[Numbers, Numbers]] = field(init=False)

    def __post_init__(self) -> None:
        self.nearest = Nearest(self.concluded)
        self._nearby = self.plan.nearby()
        self._unordered = Recent(KEPT_UNITS, lambda table: len(table[0]))
        self._lost = Bounds([(part.physical_start, part.physical_stop) for part in self.lost])
        self.leave_out(())
        self.leaping = frozenset(at for at, rows in self.doubts.items() if any(row.code == LEAP for row in rows))
        self._odd = sorted(at for at, rows in self.doubts.items() if any(row.code == ODD_PROPERTIES for row in rows))
        self.files = {file.base_offset: file for file in self.plan.segments if file.base_offset is not None}

    @property
    def segment_bytes(self) -> int:
        """Length of a segment."""
        return self.plan.segment_bytes

    @property
    def damaged_properties(self) -> list[int] | None:
        """Physical offsets of records with properties that no client writes, ascending; None where it is a habit."""
        return self._odd if len(self._odd) <= HABIT else None

    @property
    def without_keys(self) -> list[int]:
        """Physical offsets of records one of whose keys was damaged, as the index proves, ascending."""
        return sorted(at for at, rows in self.doubts.items() if any(row.code == OF_KEYS for row in rows))

    def leave_out(self, units: Iterable[Unit]) -> None:
        """Forget units that tell nothing."""
        known = frozenset(units)
        self.units = [unit for unit in self.units if unit not in known]
        self._places = [unit.physical_offset for unit in self.units]

    def units_in(self, start: int, stop: int) -> list[Unit]:
        """Return the units that point into a physical range, in order."""
        low = bisect_left(self._places, start)
        return self.units[low : bisect_left(self._places, stop, low)]

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the log, zeros where it has none; within one segment."""
        base = start - start % self.segment_bytes
        segment = self.files.get(base)
        have = 0 if segment is None else max(min(segment.size, self.segment_bytes, stop - base) - (start - base), 0)
        data = b""
        if segment is not None and have:
            data = self._nearby.read(segment.path, start - base, start - base + have).tobytes()
        return data.ljust(stop - start, b"\0")

    def holds_something(self, start: int, stop: int) -> bool:
        """Tell whether a byte within one segment is not zero."""
        base = start - start % self.segment_bytes
        segment = self.files.get(base)
        stop = min(stop, base + segment.size) if segment is not None else start
        return any(
            np.frombuffer(self.read(low, min(low + AT_ONCE, stop)), np.uint8).any()
            for low in range(start, stop, AT_ONCE)
        )

    def lacks(self, unit: Unit) -> bool:
        """Tell whether no record that was read has a unit's number."""
        queue = unit.topic, unit.queue_id
        ranges = self._numbers.get(queue)
        if ranges is None:
            tables = self.concluded.runs.get(queue, ())
            ranges = merged((low, high) for table in tables for low, high in table[[RUN_FIRST, RUN_STOP]].T.tolist())
            self._numbers[queue] = ranges
        return not meeting(ranges, unit.number, unit.number + 1)

    def lost_in(self, start: int, stop: int) -> list[LostRange]:
        """Return the missing numbers that may have lain in a physical range."""
        return [self.lost[i] for i in self._lost.meeting(start, stop).tolist()]

    def size_at(self, place: int) -> int:
        """Return the size that a record at a place names, 0 where it cannot be one."""
        size = int.from_bytes(self.read(place, place + 4), "big", signed=True)
        limit = self.segment_bytes - place % self.segment_bytes
        return size if log.MIN_RECORD_BYTES <= size <= limit else 0

    def record(self, physical_offset: int) -> log.Record | None:
        """Return the record whose head stands at a place."""
        return record_at(self.plan, physical_offset, self._nearby.read)

    def record_from(self, place: int) -> log.Record | None:
        """Return the next intact record from a place on, None behind the last one: none without time and host."""
        at = self.nearest.start_from(place)
        while at is not None:
            record = self.record(at)  # none of one that says another place, which tells no more than those below
            if record is not None and self._tells(at, record):
                return record
            size = self.size_at(at) if record is None else record.size
            at = self.nearest.start_from(at + size) if size > 0 else self.nearest.start_behind(at)
        return None

    def last_record(self) -> log.Record | None:
        """Return the log's last intact record, None if there is none: none without time and host."""
        last = self.nearest.before(BEHIND_ALL)
        while last is not None:
            record = self.record(last.place)
            if record is not None and self._tells(last.place, record):
                return record
            last = self.nearest.before(last.place)
        return None

    def _tells(self, place: int, record: log.Record) -> bool:
        """Tell whether store time and store host of a record are such as may be given to others."""
        return place not in self.leaping and is_host(record.store_host)

    def number_of(self, topic: str, queue_id: int, physical_offset: int, said: int = -1) -> int:
        """Return the number that a queue's unit gives to the record at a place, -1 without one.

        Of several that point there one is damaged: the record's own is believed, if it is ``said``.
        """
        number = self.standing_at(topic, queue_id, physical_offset)
        if number < 0:
            return -1
        found = number - self.shifted.by(self.plan.queue(CONSUMEQUEUE, topic, queue_id), number, number + 1)
        unit = self.unit_of(topic, queue_id, said) if found == number != said >= 0 else None
        return said if unit is not None and unit.physical_offset == physical_offset else found

    def standing_at(self, topic: str, queue_id: int, physical_offset: int, kind: str = CONSUMEQUEUE) -> int:
        """Return at which number a queue's unit stands that points at a place, -1 for none; of a batch queue which one.

        In a file with another name than its own that is not the number of the record.
        """
        queue = self.plan.queue(kind, topic, queue_id)
        if not queue.files:
            return -1
        if queue.ordered:
            return int(numbers_of(queue, self._nearby.read, np.array([physical_offset], np.int64))[0])
        key = kind, topic, queue_id
        table = self._unordered.get(key, lambda: numbers_by_place(queue, self._nearby.read))
        return int(number_in(*table, np.array([physical_offset], np.int64))[0])

    def unit_of(self, topic: str, queue_id: int, number: int) -> Unit | None:
        """Return the unit at a number of a queue, None where there is none, nor one that points anywhere."""
        queue = self.plan.queue(CONSUMEQUEUE, topic, queue_id)
        at = number * queue.unit_bytes
        if not queue.start <= at < queue.stop:
            return None
        return next(units_at(self._nearby.read, queue, at, at + queue.unit_bytes), None)

    def batch_units(self, topic: str, queue_id: int, physical_offset: int) -> list[Unit]:
        """Return the unit of a batch queue that points at a place, none where there is none or it cannot be read."""
        number = self.standing_at(topic, queue_id, physical_offset, BATCHQUEUE)
        if number < 0:
            return []
        queue = self.plan.queue(BATCHQUEUE, topic, queue_id)
        return list(units_at(self._nearby.read, queue, number * queue.unit_bytes, (number + 1) * queue.unit_bytes))


def survey(concluded: Concluded) -> Survey:
    """Return what a finished audit knows of damage.

    Raises:
        UnreadableError: A queue could not be read.
    """
    plan, audit = concluded.plan, concluded.audit
    assert plan.kept >= DOUBT_CODES, "of an audit that folds what speaks against records, sound ones seem doubtful"
    shifted = Shifted(concluded)
    owners = Owners(plan, plan.nearby().read, lambda *queue: concluded.runs.get(queue, ()), audit.findings)
    said = set(surviving(concluded, shifted, owners.of))
    nobodys = frozenset(unit.physical_offset for unit in said if unit.topic == NOBODY.topic)
    telling = (unit for unit in said if (unit.topic, unit.queue_id) not in concluded.foreign)
    named = (unit for unit in telling if unit.topic != NOBODY.topic)
    units = sorted(named, key=lambda unit: (unit.physical_offset, unit))
    doubts: dict[int, list[Finding]] = {}
    of_keys: dict[int, Finding] = {}
    for finding in concluded.doubts:
        if finding.code in DOUBT_CODES and finding.physical_offset is not None:
            for at in _places(plan, finding):
                if finding.code == OF_KEYS:
                    of_keys[at] = finding
                else:
                    doubts.setdefault(at, []).append(finding)
    found = Survey(plan, audit, concluded, shifted, units, [*audit.lost, *audit.misplaced], doubts, nobodys)
    found.leave_out(disbelieved(found))
    for at, finding in suspects(found):
        doubts.setdefault(at, []).append(finding)
    for at in lacking_keys(found, of_keys):
        doubts.setdefault(at, []).append(of_keys[at])
    return found


def _places(plan: AuditPlan, finding: Finding) -> Iterator[int]:
    """Yield the physical offsets of the records that a finding is about: neighbours are one finding."""
    assert finding.physical_offset is not None
    if finding.count == 1:
        yield finding.physical_offset
        return
    base = parse_number(finding.path.rpartition("/")[2]) or 0
    at, stop = finding.physical_offset, base + finding.position + finding.length
    while True:
        yield at
        record = record_at(plan, at)
        at += record.size if record is not None else stop
        if at >= stop:
            return

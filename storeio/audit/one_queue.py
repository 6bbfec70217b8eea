"""One queue over the whole store: what all splits said of it, and what its files hold besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from storeio.audit.light_start import begins_too_high
from storeio.audit.misnumbered import FIELD, units_of
from storeio.audit.misplaced import told
from storeio.audit.missing import NO_NUMBERS, missing_of
from storeio.audit.owners import Owners
from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan, QueueKey
from storeio.audit.shifts import SHIFTED, Owner, as_recorded
from storeio.audit.split import SplitReport
from storeio.checks.batch_numbers import spans_of
from storeio.checks.begun_again import ABOUT_UNITS, BegunAgain, believed, own_stop, without_replaced
from storeio.checks.columns import joined
from storeio.checks.leftover import Leftover
from storeio.checks.numbering import Numbering, Numbers, number_queue
from storeio.checks.queue_files import Queue, Read
from storeio.checks.queue_units import Classed
from storeio.checks.ranges import merged, subtract
from storeio.checks.segments import LogView
from storeio.checks.uncovered import Names, judge_uncovered
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties
from storeio.kernels.group import RUN_ROWS
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT
from storeio.results import LostRange
from storeio.scan import data_stretches

MANY: Final = 16  # times as many wrong units as good ones: the good ones may be chance
FEW: Final = 2  # wrong units, where none is good and some lead amid the log, where no record of the queue begins
FEWER: Final = 4  # units that tell of lost messages for each wrong one


@dataclass(slots=True)
class Said:
    """What all splits said of one queue."""

    runs: Numbers | None
    misplaced: Numbers | None
    covered: list[tuple[int, int]]
    classed: list[Classed]
    unplaced: int
    findings: list[Finding]  # about its units

    @property
    def is_shifted(self) -> bool:
        """Some units stand at other numbers than their records say."""
        return any(finding.code == SHIFTED for finding in self.findings)

    def is_foreign(self, astray: int, lost: int) -> bool:
        """Tell whether nearly all units are of other records than those at their numbers, or ``astray``.

        They are another store's then, maybe. Not if many more tell of ``lost`` messages: then these are damaged.
        """
        lengths = [(name, stop - start) for name, start, stop, _ in self.classed]
        wrong = astray + sum(length for name, length in lengths if name == "garbage")
        good = sum(stop - start for start, stop in self.covered) - sum(length for _, length in lengths)
        many = MANY * good if good else FEW if astray else MANY
        return wrong >= max(many, lost // FEWER) and not self.is_shifted

    def begin_again(self, numbering: Numbering) -> list[BegunAgain]:
        """Leave to later records the units whose number they have; return where the numbers begin again."""
        begun = believed(numbering.begun_again, {finding.physical_offset for finding in self.findings})
        own = [(name, a, own_stop(begun, a, b, at), b, at) for name, a, b, at in self.classed]
        self.classed = [(name, a, stop, at) for name, a, stop, _, at in own if a < stop]
        end = numbering.runs[-1][1]
        behind = merged([(max(stop, end), b) for _, _, stop, b, _ in own if max(stop, end) < b])
        if begun:  # else these are of records that stand there
            self.covered = [rest for covered in self.covered for rest in subtract(covered, behind)]
        return begun

    def leave_out(self, numbering: Numbering) -> set[int]:
        """Forget what units at the numbers of records with wrong ones lack; return such records beside right ones.

        At numbers that only they have, zeros miss nothing; at one that another record has, its unit is that one's.
        """
        wrong = {finding.physical_offset for finding in numbering.findings if finding.code == FIELD}
        beside: set[int] = set()
        if not wrong:
            return beside
        right = merged(numbering.runs)
        kept: list[Classed] = []
        missed: list[tuple[int, int]] = []
        for name, low, high, at in self.classed:
            others = subtract((low, high), right) if at in wrong else None
            if name == "zero" and others == [(low, high)]:
                missed.append((low, high))
            elif name == "garbage" and others == []:
                beside.add(at)
            else:
                kept.append((name, low, high, at))
        self.classed, missed = kept, merged(missed)
        self.covered = [rest for covered in self.covered for rest in subtract(covered, missed)]
        return beside


class AllSaid:
    """What all splits said of each queue."""

    def __init__(self, plan: AuditPlan, reports: Sequence[SplitReport]) -> None:
        self._on_disk = [key for key in plan.queues if key[0] != QUEUE_EXT]
        self._runs = dict(joined([report.runs for report in reports], RUN_ROWS).tables())
        self._misplaced = dict(joined([report.misplaced for report in reports], RUN_ROWS).tables())
        self._covered = dict(joined([report.covered for report in reports], 2).ranges())
        self._classed: dict[QueueKey, list[Classed]] = {}
        self._unplaced: dict[QueueKey, int] = {}
        self._about: dict[tuple[str | None, int | None], list[Finding]] = {}
        for report in reports:
            for finding in report.findings:
                if finding.code in ABOUT_UNITS:
                    self._about.setdefault((finding.topic, finding.queue_id), []).append(finding)
            for key, rows in report.classed.items():
                self._classed.setdefault(key, []).extend(rows)
            for key, count in report.unplaced.items():
                self._unplaced[key] = self._unplaced.get(key, 0) + count

    def queues(self) -> list[QueueKey]:
        """Return all queues, sorted."""
        return sorted({*self._on_disk, *self._runs, *self._covered, *self._classed, *self._unplaced})

    def of(self, key: QueueKey) -> Said:
        """Return what was said of one."""
        return Said(
            self._runs.get(key),
            self._misplaced.get(key),
            merged(self._covered.get(key, [])),  # a unit may be found by records of two splits
            self._classed.get(key, []),
            self._unplaced.get(key, 0),
            self._about.get(key[1:], []),
        )

    def runs(self, topic: str, queue_id: int) -> list[Numbers]:
        """Return the runs of a consume queue, none if it has none."""
        found = self._runs.get((CONSUMEQUEUE, topic, queue_id))
        return [] if found is None else [found]


@dataclass(slots=True)
class Judged:
    """One queue: its numbers, what else stands in its files, and the units in them that are ``others``'."""

    queue: Queue
    said: Said
    numbering: Numbering
    leftover: Leftover
    begun: list[BegunAgain]
    beyond: list[tuple[int, int]]
    others: dict[Owner, Leftover]
    failed: str = ""
    is_foreign: bool = False  # its units tell nothing of its messages
    beside: set[int] = field(default_factory=set)  # physical offsets of records whose number is another one's

    def missing(self, view: LogView, segment_bytes: int) -> list[LostRange]:
        """Return the numbers without a record in its place."""
        missing = missing_of(self.queue, self.numbering, self.leftover, view, segment_bytes)
        if self.said.misplaced is None:
            return missing
        return list(told(missing, self.said.misplaced, is_placed=bool(self.numbering.runs)))


def judge_queue(plan: AuditPlan, read: Read, key: QueueKey, all_said: AllSaid, view: LogView) -> Judged:
    """Return what one queue is like."""
    queue, said = plan.queue(*key), all_said.of(key)
    judged = Judged(queue, said, Numbering(), Leftover(), [], [], {})
    if said.runs is not None:
        judged.numbering = number_queue(queue.topic, queue.queue_id, [said.runs], view)
        judged.beside = said.leave_out(judged.numbering)
        if judged.numbering.begun_again and queue.kind == CONSUMEQUEUE:
            judged.begun = said.begin_again(judged.numbering)
    numbering = judged.numbering
    numbering.records += said.unplaced
    if not queue.files:
        return judged
    try:
        stretches = partial(data_stretches, plan.root)
        said.covered = merged([*said.covered, *units_of(queue, read, numbering.expected)])
        leftover = judge_uncovered(queue, said.covered, numbering.runs, view, read, _namer(plan), stretches)
        if said.covered and queue.topic.startswith(log.LMQ_PREFIX) and not view.min_physical_offset:
            leftover.findings += begins_too_high(plan, read, queue, said.covered[0][0])
        if queue.kind == BATCHQUEUE:
            leftover.spans = spans_of(queue, read, [row[0] for rows in leftover.gone for row in rows])
        leftover.dead_stop = _stop_of(queue, read, leftover.expired)
    except UnreadableError as error:
        judged.failed = str(error)
        return judged
    judged.leftover, judged.beyond = leftover, [row[1:] for row in leftover.beyond]
    about = [*without_replaced(said.findings, {key[1:]: judged.begun}), *leftover.findings]
    judged.others = _given_away(queue, leftover, Owners(plan, read, all_said.runs, about))
    judged.is_foreign = not judged.others and said.is_foreign(leftover.astray, sum(map(len, leftover.gone)))
    if judged.is_foreign:  # then what no record has is no more its than the rest
        leftover.beyond, leftover.damaged, judged.beyond = [], [], []
    if said.is_shifted:
        leftover.beyond = list(as_recorded(plan, read, queue, leftover.beyond))
        leftover.damaged = list(as_recorded(plan, read, queue, leftover.damaged))
    return judged


def _stop_of(queue: Queue, read: Read, last: int) -> int:
    """Return the queue offset behind a unit, 0 without one, and where one of a batch queue is not to be believed."""
    if queue.kind != BATCHQUEUE or last < 0:
        return last + 1
    return spans_of(queue, read, [last]).get(last, NO_NUMBERS)[1]


def _given_away(queue: Queue, leftover: Leftover, owners: Owners) -> dict[Owner, Leftover]:
    """Take the units that are another queue's out of what is left, and return them at that one's numbers."""
    given: dict[Owner, Leftover] = {}
    for file in queue.files if any(leftover.gone) else ():
        if (owner := owners.of(queue, file.path)) is None:
            continue
        first, stop = file.base // queue.unit_bytes, (file.base + file.size) // queue.unit_bytes
        theirs = given.setdefault(owner, Leftover())
        for rows, to in zip(leftover.gone, theirs.gone, strict=True):
            inside = [row for row in rows if first <= row[0] < stop]
            to += [(row[0] - owner.shift, *row[1:]) for row in inside if row[0] >= owner.shift]
            rows[:] = [row for row in rows if not first <= row[0] < stop]
    return given


def _namer(plan: AuditPlan) -> Names:
    """Return the function that tells what the record at a place says it is."""

    def names(physical: int, size: int) -> str:
        record = record_at(plan, physical)
        if record is None or record.size != size:
            return ""
        queue = f"{properties.java_decode(record.topic)}/{record.queue_id}"
        if record.sys_flag & log.SYS_UNNUMBERED:
            return f"no queue, but to be prepared or rolled back for {queue}"
        return f"{queue} queue offset {record.queue_offset}"

    return names

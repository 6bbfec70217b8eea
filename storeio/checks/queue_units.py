"""A split's records against the queue units on disk: what each record implies, and what stands there."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks import ext_units
from storeio.checks.beside import Beside, Known
from storeio.checks.deliver_times import OTHER_LEVELS, is_deliver_time
from storeio.checks.locate import Places, decode
from storeio.checks.queue_files import Queue, Read, by_number
from storeio.checks.ranges import Ranges
from storeio.dispatch import Implied
from storeio.findings import Finding, condense
from storeio.format import consumequeue
from storeio.kernels import tables as w
from storeio.kernels.group import RUN_RECORDS
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Classed = tuple[str, int, int, int]
"""A class of bytes, the half-open range of unit numbers, and where the record of the first one lies."""

MOST_APART: Final = 16  # runs of a queue in one split whose findings are kept apart
NO_FILE: Final = "no file holds this unit"
MAX_QUEUE_OFFSET: Final = 2**55  # more units than any disk holds; such a field is damaged


@dataclass(slots=True)
class Checked:
    """What a split says of one queue: findings, the units that it looked at, and which are no good ones.

    ``apart`` are findings of runs that have the same numbers, not to be joined with those of others. ``covered`` are
    half-open ranges of unit numbers; ``classed`` those of them whose bytes are of another class than ``record``.
    ``stretches`` are physical ranges whose units were looked for; ``whole`` tells that more mattered than these and the
    bytes at the covered numbers: the queue's order, its end, its files.
    """

    findings: list[Finding] = field(default_factory=list)
    apart: list[Finding] = field(default_factory=list)
    covered: Ranges = field(default_factory=list)
    classed: list[Classed] = field(default_factory=list)
    compared: int = 0
    stretches: Ranges = field(default_factory=list)
    whole: bool = False


def ranges_of(mask: Mask) -> Ranges:
    """Return the half-open ranges of indexes where the mask is True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def check_placed(
    queue: Queue, ext: Queue | None, implied: Implied, walked: Walked, read: Read, kept: Container[str] = ()
) -> Checked:
    """Return the comparison of units that stand at the number their record says; ``kept`` is as of ``condense``."""
    checked = Checked(compared=len(implied.record))
    units = implied.units()
    numbers = implied.queue_offset
    if implied.single:  # then these are its runs, which are at hand
        bounds = [0, *itertools.accumulate(implied.runs()[RUN_RECORDS].tolist())]
    else:
        bounds = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    goes_back = 2 < len(bounds) <= MOST_APART + 1 and bool((np.diff(numbers) < 1).any())
    if not queue.files:
        return _without_files(queue, implied, bounds, checked, kept if goes_back else None)
    units_of = by_number(queue, read, numbers, runs=len(bounds) - 1)
    places = Places(queue, read, implied.physical_at(0), implied.physical_at(-1) + 1)
    known: Known = {}  # where numbers are at random each unit lies beside those of many runs
    for a, b in itertools.pairwise(bounds):
        first = int(numbers[a])
        if first < 0 or first > MAX_QUEUE_OFFSET:
            continue  # the record's mark or the queue's numbering says so
        data, absent = units_of(first, first + b - a)
        if not absent and data.tobytes() == units[a:b].tobytes():  # of a few units five times as fast as by numpy
            checked.covered.append((first, first + b - a))
            continue
        rows = slice(a, b)
        run = _Run(queue, ext, implied, walked, read, places, known, rows, first, decode(queue, data), units[rows])
        run.compare(absent, checked)
        if goes_back:
            checked.apart += condense(checked.findings, kept)
            checked.findings = []
    return checked


def _without_files(
    queue: Queue, implied: Implied, bounds: Sequence[int], checked: Checked, apart: Container[str] | None
) -> Checked:
    """Return that no unit is there of a queue without files: of thousands of queues none is looked at unit by unit.

    ``bounds`` are those of its runs, whose findings stay ``apart`` as ``condense`` has it, if that is given.
    """
    for a, b in itertools.pairwise(bounds):
        first = int(implied.queue_offset[a])
        if not 0 <= first <= MAX_QUEUE_OFFSET:
            continue
        checked.whole = True
        checked.findings.append(_at_units(queue, first, b - a, implied.physical_at(a), "CQ_MISSING", NO_FILE))
        if apart is not None:
            checked.apart += condense(checked.findings, apart)
            checked.findings = []
    return checked


def _at_units(queue: Queue, first: int, count: int, physical: int, code: str, detail: str) -> Finding:
    """Return the finding at units that lie in one file, or in none; ``physical`` is where the first record lies."""
    path, position = queue.path_at(first * queue.unit_bytes)
    return Finding(
        code, path, position, count * queue.unit_bytes, queue.topic, queue.queue_id, first, physical, count, detail
    )


@dataclass(slots=True)
class _Run:
    """A run of consecutive units that are not all as they should be."""

    queue: Queue
    ext: Queue | None
    implied: Implied
    walked: Walked
    read: Read
    places: Places
    known: Known
    rows: slice
    first: int
    disk: npt.NDArray[np.void]
    units: npt.NDArray[np.void]

    def compare(self, absent: Ranges, checked: Checked) -> None:
        """Add what differs to ``checked``."""
        size = self.queue.unit_bytes
        gone = np.zeros(len(self.units), bool)
        for low, high in absent:
            gone[low // size - self.first : -(-high // size) - self.first] = True
        placed = (self.disk["physical_offset"] == self.units["physical_offset"]) & (
            self.disk["size"] == self.units["size"]
        )
        same_tags = self.disk["tags_code"] == self.units["tags_code"]
        if self.ext is not None:
            codes, times = self.part(w.R_TAGS_CODE), self.part(w.R_STORE_MS)
            same_tags |= ext_units.agrees(self.ext, self.read, self.disk, codes, times)
        checked.whole |= not (placed & same_tags).all()  # else all is well: tags codes stand in the ext file
        filler = consumequeue.is_pre_blank(self.disk)
        zero = consumequeue.is_zero(self.disk)
        checked.covered += [(self.first + a, self.first + b) for a, b in ranges_of(~gone)]
        self.report(checked, "CQ_MISSING", gone, NO_FILE)
        self.report(checked, "CQ_UNIT_MISSING", ~gone & ~placed & (zero | filler), "zero or filler")
        self.classed(checked, "zero", ~gone & zero)
        self.classed(checked, "blank", ~gone & filler)
        self.tags(checked, ~gone & placed & ~same_tags)
        self.elsewhere(checked, ~placed & (gone | zero | filler), report=False)
        self.elsewhere(checked, ~gone & ~placed & ~zero & ~filler, report=True)

    def part(self, row: int) -> Numbers:
        """Return this run's stretch of a row of the record table."""
        return self.implied.column(row, self.rows)

    def physical_at(self, i: int) -> int:
        """Return where the record of the run's unit ``i`` lies."""
        return self.implied.physical_at(self.rows.start + i)

    def classed(self, checked: Checked, name: str, mask: Mask) -> None:
        """Remember the class of bytes that are no good units."""
        checked.classed += [(name, self.first + a, self.first + b, self.physical_at(a)) for a, b in ranges_of(mask)]

    def report(self, checked: Checked, code: str, mask: Mask, detail: str) -> None:
        """Add one finding for each range of the mask, at the units' place in the queue."""
        for a, b in ranges_of(mask):
            self.at_units(checked, code, a, b, detail)

    def at_units(self, checked: Checked, code: str, a: int, b: int, detail: str) -> None:
        """Add findings for units ``[a, b)`` of the run, one for each file that they lie in."""
        size = self.queue.unit_bytes
        at = a
        while at < b:
            _, position = self.queue.path_at((self.first + at) * size)
            count = min(b - at, max((self.queue.file_bytes - position) // size, 1))
            found = _at_units(self.queue, self.first + at, count, self.physical_at(at), code, detail)
            checked.findings.append(found)
            at += count

    def tags(self, checked: Checked, mask: Mask) -> None:
        """Report units that differ from their record in the tags code alone."""
        marks = self.walked.records[w.R_MARKS, self.implied.record[self.rows]]
        plain = np.abs(self.disk["tags_code"].astype(np.float64)) <= 2**31
        is_delayed = mask & ((marks & w.MARK_SCHEDULED) != 0)
        late = is_delayed & plain
        self.report(checked, "CQ_DELIVER_TIME", late, "the tag's hash stands where the deliver time belongs")
        other = is_delayed & is_deliver_time(self.disk["tags_code"].astype(np.int64), self.part(w.R_STORE_MS))
        self.report(checked, "CQ_DELAY_LEVEL", other, OTHER_LEVELS)
        codes = self.part(w.R_TAGS_CODE)
        wrong = mask & ~late & ~other
        for i in np.flatnonzero(wrong).tolist():
            expected, found = int(codes[i]), int(self.disk["tags_code"][i])
            self.at_units(checked, "CQ_TAGS_CODE", i, i + 1, f"expected {expected}, found {found}")
            self.record_disagrees(checked, i, f"its tags code is {expected}, its unit's {found}")
        self.classed(checked, "garbage", wrong)

    def elsewhere(self, checked: Checked, mask: Mask, *, report: bool) -> None:
        """Look for units that stand at another number; report them and, if asked, what stands here."""
        which = np.flatnonzero(mask)
        if not len(which):
            return
        found = self.places.numbers_of(self.implied.physical(self.rows)[which])
        astray = (found >= 0) & (found != self.first + which)
        beside = Beside(self.queue, self.read, found[astray], self.implied, self.known)
        for i, number in zip(which.tolist(), found.tolist(), strict=True):
            if number >= 0 and number != self.first + i:
                self.misplaced(checked, i, number, beside)
            elif report:
                self.wrong(checked, i)

    def misplaced(self, checked: Checked, i: int, number: int, beside: Beside) -> None:
        """Report a unit found at ``number``: shifted, or its record's queue offset is damaged."""
        checked.covered.append((number, number + 1))
        if beside.are_right(number):
            self.record_disagrees(checked, i, f"its queue offset is {self.first + i}, its unit stands at {number}")
            return
        path, position = self.queue.path_at(number * self.queue.unit_bytes)
        detail = f"the record's queue offset is {self.first + i}"
        checked.findings.append(
            Finding(
                "CQ_SHIFTED", path, position, self.queue.unit_bytes, self.queue.topic, self.queue.queue_id, number,
                self.physical_at(i), 1, detail,
            )
        )  # fmt: skip

    def wrong(self, checked: Checked, i: int) -> None:
        """Report a unit that points at another place than its record, which has no other unit."""
        unit = self.disk[i]
        detail = (
            f"expected offset {int(self.units['physical_offset'][i])} size {int(self.units['size'][i])}, "
            f"found offset {int(unit['physical_offset'])} size {int(unit['size'])}"
        )
        self.at_units(checked, "CQ_UNIT_WRONG", i, i + 1, detail)
        if int(unit["physical_offset"]) == int(self.units["physical_offset"][i]):
            self.record_disagrees(checked, i, detail)
        checked.classed.append(("garbage", self.first + i, self.first + i + 1, self.physical_at(i)))

    def record_disagrees(self, checked: Checked, i: int, detail: str) -> None:
        """Report the record's side of a disagreement, unless its property CRC vouches for it."""
        row = int(self.implied.record[self.rows.start + i])
        checked.findings += record_side(self.walked, row, self.queue, self.first + i, detail)


def record_side(walked: Walked, row: int, queue: Queue, queue_offset: int, detail: str) -> list[Finding]:
    """Return the finding at a record that its unit contradicts; none if its property CRC vouches for it."""
    record = walked.records[:, row]
    marks = int(record[w.R_MARKS])
    if marks & w.MARK_HAS_PROPERTY_CRC and not marks & w.MARK_PROPERTY_CRC:
        return []
    position = int(record[w.R_POSITION])
    physical = walked.split.base_offset + position
    return [
        Finding(
            "LOG_UNIT_DISAGREES", walked.split.path, position, int(record[w.R_SIZE]), queue.topic, queue.queue_id,
            queue_offset, physical, 1, detail,
        )
    ]  # fmt: skip

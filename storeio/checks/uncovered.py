"""The other direction: units on disk that no record of the log implies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.batch_numbers import fitting
from storeio.checks.leftover import Leftover, are_deleted
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.checks.ranges import Ranges, merged, subtract, touching
from storeio.checks.segments import LogView
from storeio.checks.stand_ins import hides_first, seems_first, stand_ins
from storeio.checks.unit_groups import Stretches, Units, grouped, read_units, up_to_holes, wide_gaps
from storeio.findings import Finding
from storeio.format import batchqueue, consumequeue
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Names = Callable[[int, int], str]
"""``names(physical, size)``: what an intact record of that place and size says it is, empty if none."""

LOG_ENDS: Final = "the log ends at"
HIDING: Final = "brokers go on behind the log's first segment there: this queue's messages in it reach no consumer"
SERVED: Final = (
    "the log starts later: for offset 0 brokers give consumers bytes of its first segment, whatever they are"
)
MISNUMBERED: Final = "its queue offsets do not fit those beside it"
NOT_INTACT: Final = "its record is not intact"
MOST_NAMED: Final = 1000  # units of one queue whose record is looked up one by one


def judge_uncovered(
    queue: Queue, covered: Ranges, claimed: Ranges, view: LogView, read: Read, names: Names, stretches: Stretches
) -> Leftover:
    """Return what stands where no record has its unit, in order of unit numbers.

    Args:
        queue: The queue's files.
        covered: Unit numbers that were compared with a record, merged.
        claimed: Unit numbers that records of the log have; where a file is missing their units
            are reported already.
        view: The log.
        read: Reads the queue's files.
        names: Looks up a record.
        stretches: Tells where files are no holes; asked of what is wide.
    """
    result = Leftover()
    size = queue.unit_bytes
    covered_stop = max((high for _, high in covered), default=queue.start // size)
    stop = max(-(-queue.stop // size), covered_stop)
    uncovered, claimed = subtract((queue.start // size, stop), covered), merged(claimed)
    if not uncovered:
        return result
    state = _State(queue, view, read, names, covered, covered_stop)
    gaps = merged(gap for low, high in uncovered for gap in wide_gaps(queue, low, high))
    for gap in gaps:
        for low, high in subtract((gap[0], min(gap[1], covered_stop)), claimed):
            state.absent(result, low, high)
    held = [part for whole in uncovered for part in subtract(whole, gaps)]
    for pieces, hole in up_to_holes(queue, held, stretches):
        for group in grouped(pieces):
            state.judge(read_units(queue, group, claimed, read), result)
        state.hole(result, *hole)
    return result


@dataclass(slots=True)
class _State:
    """Goes through uncovered units in order; ``ended`` once zeros were met behind all covered ones."""

    queue: Queue
    view: LogView
    read: Read
    names: Names
    covered: Ranges
    covered_stop: int
    ended: bool = False
    named: int = 0

    def judge(self, them: Units, result: Leftover) -> None:
        """Judge units that follow those judged before."""
        units, numbers, gone = them.units, them.numbers, them.gone
        physical = units["physical_offset"].astype(np.int64)
        length = units["size"].astype(np.int64)
        zero = ~units.view(np.uint8).reshape(len(units), self.queue.unit_bytes).any(axis=1) & ~gone
        tail = self.tail_of(numbers, zero)
        filler = (physical == 0) & (length == consumequeue.PRE_BLANK_SIZE) & ~gone
        real = (physical >= 0) & (length > 0) & ~filler & ~gone
        if self.queue.kind == BATCHQUEUE:
            real &= batchqueue.is_written(units)
        instead = stand_ins(self.queue, self.covered, them, real & ~tail, self.read)
        inside = numbers < self.covered_stop
        self.report(result, "CQ_GAP", them.unknown & inside, them, "no file holds these units")
        self.report(result, "CQ_HOLE", zero & ~tail & inside, them, "zero units")
        start = min((low for low, _ in self.covered), default=self.queue.last_real)
        late = filler & ((numbers > start) | tail)
        self.report(result, "CQ_PRE_BLANK", late, them, "filler where none belongs")
        self.report(result, "CQ_PRE_BLANK", self.hiding(filler & ~late), them, HIDING)
        self.dirty(result, tail & ~zero & ~filler & ~gone, real, them)
        self.report(result, "CQ_UNIT_ORPHAN", ~real & ~zero & ~filler & ~gone & ~tail, them, "no unit at all")
        self.real(result, real & ~tail & ~instead, them, physical, length)
        self.count(result, "zero", zero, them)
        self.count(result, "blank", filler | instead, them)
        self.count(result, "garbage", ~real & ~zero & ~filler & ~gone, them)

    def hiding(self, filler: Mask) -> Mask:
        """Tell which of the fillers in front of the queue hide its first messages: all or none."""
        if not filler.any() or not self.covered or self.queue.kind != CONSUMEQUEUE or self.view.min_physical_offset:
            return np.zeros(len(filler), np.bool_)
        at = self.covered[0][0] * self.queue.unit_bytes
        first = decode(self.queue, self.queue.read(self.read, at, at + self.queue.unit_bytes)[0])[0]
        physical, is_real = int(first["physical_offset"]), 0 < first["size"] < consumequeue.PRE_BLANK_SIZE
        return filler & (is_real and hides_first(self.queue.topic, physical, self.view.segments[0].file.size))

    def tail_of(self, numbers: Numbers, zero: Mask) -> Mask:
        """Tell which units lie behind the first zero one behind all covered ones."""
        behind = zero & (numbers >= self.covered_stop)
        tail = np.logical_or.accumulate(behind) | self.ended
        self.ended = bool(tail[-1]) if len(tail) else self.ended
        return tail & (numbers >= self.covered_stop)

    def real(self, result: Leftover, mask: Mask, them: Units, physical: Numbers, length: Numbers) -> None:
        """Judge units that look right: expired, behind the log's end, into damage, or at another's record."""
        low, high = self.view.min_physical_offset, self.view.end
        unread = mask & touching(physical, length, self.view.unread)
        rest = mask & ~unread
        below = rest & (physical < low)
        astray = below & (~are_deleted(physical, length, low) | self.behind_the_log(below, them.numbers))
        misnumbered = below & ~astray & ~(fitting(them.units, them.numbers) if self.queue.kind == BATCHQUEUE else below)
        served = below & ~astray & seems_first(self.queue, self.covered, physical, them.numbers)
        wrong = astray | misnumbered | served
        expired, rest = below & ~wrong, rest & ~wrong
        beyond = rest & ~expired & (physical > high - length)
        damaged = rest & ~expired & ~beyond & touching(physical, length, self.view.holes)
        other = rest & ~expired & ~beyond & ~damaged
        result.expired = int(them.numbers[expired][-1]) if expired.any() else result.expired
        self.report(result, "CQ_UNIT_ORPHAN", astray, them, f"points below {low}, where the log starts")
        self.report(result, "CQ_UNIT_ORPHAN", misnumbered, them, MISNUMBERED)
        self.report(result, "CQ_UNIT_ORPHAN", served, them, SERVED)
        self.report(result, "CQ_BEYOND_LOG", beyond, them, f"{LOG_ENDS} {high}")
        self.report(result, "CQ_INTO_DAMAGE", damaged, them, NOT_INTACT)
        result.beyond += _rows(beyond, them.numbers, physical, length)
        result.damaged += _rows(damaged, them.numbers, physical, length)
        result.unread += _rows(unread, them.numbers, physical, length)
        result.units += int((mask & ~below).sum())
        result.astray += int(other.sum())
        self.count(result, "record", expired | damaged | unread, them)
        self.count(result, "stale", beyond | other, them)
        self.count(result, "garbage", wrong, them)
        alive = them.numbers[mask & ~below]
        if len(alive):
            result.stop = int(alive[-1]) + 1
            if result.first_real is None:
                result.first_real = int(alive[0])
        for row in _rows(other, them.numbers, physical, length):
            self.orphan(result, *row)

    def behind_the_log(self, below: Mask, numbers: Numbers) -> Mask:
        """Tell which units that point below the log lie behind the queue's last message that the log has.

        A record with a damaged number tells of no end: the unit there points below the log, too.
        """
        behind = below & (numbers >= self.covered_stop)
        if not behind.any() or not self.covered:
            return np.zeros(len(below), np.bool_)
        stop = self.covered_stop * self.queue.unit_bytes
        last = decode(self.queue, self.queue.read(self.read, stop - self.queue.unit_bytes, stop)[0])[0]
        return behind & bool(last["physical_offset"] >= self.view.min_physical_offset)

    def orphan(self, result: Leftover, number: int, physical: int, length: int) -> None:
        """Report a unit that points between the records of its queue, and what stands there."""
        self.named += 1
        says = self.names(physical, length) if self.named <= MOST_NAMED else ""
        path, position = self.queue.path_at(number * self.queue.unit_bytes)
        detail = f"points at {physical}, {length} bytes: " + (f"a record of {says}" if says else "no record")
        code = self.code("CQ_UNIT_ORPHAN")
        topic, queue_id = self.queue.topic, self.queue.queue_id
        result.findings.append(
            Finding(code, path, position, self.queue.unit_bytes, topic, queue_id, number, physical, 1, detail)
        )
        if says and not says.startswith(f"{topic}/{queue_id} "):
            place = next(
                (s for s in self.view.segments if s.base <= physical < s.base + s.file.size), self.view.segments[0]
            )
            detail = f"unit {number} of {topic}/{queue_id} points at it, but it says {says}"
            result.findings.append(
                Finding(
                    "LOG_UNIT_DISAGREES", place.file.path, physical - place.base, length, topic, queue_id, number,
                    physical, 1, detail,
                )
            )  # fmt: skip

    def dirty(self, result: Leftover, mask: Mask, real: Mask, them: Units) -> None:
        """Report what is not zero behind the end of the queue; ``real`` may be units."""
        self.report(result, "CQ_DIRTY_TAIL", mask, them, "behind the queue's last unit")
        self.count(result, "stale", mask & real, them)

    def code(self, code: str) -> str:
        """Return the code of this queue's kind."""
        if self.queue.kind != BATCHQUEUE:
            return code
        return "BCQ_DIRTY_TAIL" if code == "CQ_DIRTY_TAIL" else "BCQ_UNIT_ORPHAN"

    def report(self, result: Leftover, code: str, mask: Mask, them: Units, detail: str) -> None:
        """Add a finding for each range of the mask, cut at file borders."""
        size = self.queue.unit_bytes
        for a, b in them.ranges(mask):
            at, number = a, int(them.numbers[a])
            for path, position, count in self.by_file(number, number + b - a):
                physical = int(them.units["physical_offset"][at])
                result.findings.append(
                    Finding(
                        self.code(code), path, position, count * size, self.queue.topic, self.queue.queue_id, number,
                        physical, count, detail,
                    )
                )  # fmt: skip
                at, number = at + count, number + count

    def by_file(self, number: int, stop: int) -> Iterator[tuple[str, int, int]]:
        """Yield units cut at file borders: the file, the position in it, how many."""
        size = self.queue.unit_bytes
        while number < stop:
            path, position = self.queue.path_at(number * size)
            count = min(stop - number, max((self.queue.file_bytes - position) // size, 1))
            yield path, position, count
            number += count

    def hole(self, result: Leftover, low: int, high: int) -> None:
        """Judge zero units that need not be read and follow those judged before."""
        size, topic, queue_id, number = self.queue.unit_bytes, self.queue.topic, self.queue.queue_id, low
        for path, position, count in self.by_file(low, min(high, self.covered_stop)):
            code, length = self.code("CQ_HOLE"), count * size
            result.findings.append(
                Finding(code, path, position, length, topic, queue_id, number, 0, count, "zero units")
            )
            number += count
        self.ended |= low < high > self.covered_stop
        self.count_bytes(result, "zero", low, high)

    def absent(self, result: Leftover, low: int, high: int) -> None:
        """Report a wide gap between the files, whole."""
        size, topic, queue_id = self.queue.unit_bytes, self.queue.topic, self.queue.queue_id
        path, position = self.queue.path_at(low * size)
        length, count = (high - low) * size, high - low
        detail = "no file holds these units"
        result.findings.append(
            Finding(self.code("CQ_GAP"), path, position, length, topic, queue_id, low, None, count, detail)
        )

    def count(self, result: Leftover, name: str, mask: Mask, them: Units) -> None:
        """Add the units' bytes to a class of the files that they lie in."""
        for a, b in them.ranges(mask):
            first = int(them.numbers[a])
            self.count_bytes(result, name, first, first + b - a)

    def count_bytes(self, result: Leftover, name: str, first: int, stop: int) -> None:
        """Add the bytes of these units to a class of the files that they lie in."""
        size = self.queue.unit_bytes
        for file, low, high in self.queue.pieces(first * size, stop * size):
            if file is not None:
                row = result.classes.setdefault(file.path, {})
                row[name] = row.get(name, 0) + high - low


def _rows(mask: Mask, numbers: Numbers, physical: Numbers, length: Numbers) -> list[tuple[int, int, int]]:
    """Return (unit number, physical offset, size) of the units in the mask."""
    return list(zip(numbers[mask].tolist(), physical[mask].tolist(), length[mask].tolist(), strict=True))

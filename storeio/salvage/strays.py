"""Files of the commitlog with other names than segments have: what of them the log lacks.

Brokers read the log by the names of its files. What lies across the segments, or beside one under a second name for the
same place, is no part of it; its records may be all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from storeio.audit import AuditPlan, Concluded
from storeio.checks.layout import is_offset
from storeio.checks.places import is_segment, may_belong
from storeio.checks.ranges import Ranges, add, meeting, merged, subtract
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.paths import COMMITLOG, StoreFile
from storeio.salvage.pieces import Piece, ranges_of
from storeio.splits import WalkState, cut
from storeio.walk import walk_split
from storeio.window import Read


class Standing(NamedTuple):
    """An intact record: where it stands in its file, and the physical offset that it names."""

    position: int
    size: int
    physical_offset: int


def strays_of(plan: AuditPlan) -> list[StoreFile]:
    """Return the files of the commitlog whose names are numbers, and not those of segments."""
    size = plan.segment_bytes
    numbered = plan.listing.of_kind(COMMITLOG)
    return [file for file in numbered if not (is_offset(file, size) and is_segment(file.path, size))]


def nameless(plan: AuditPlan) -> list[StoreFile]:
    """Return the files of the commitlog that have no number for a name."""
    files = plan.listing.files
    return [file for file in files if file.kind == COMMITLOG and not file.is_dir and file.base_offset is None]


def intact_records(read: Read, file: StoreFile, segment_bytes: int) -> Iterator[Standing]:
    """Yield the intact records of a file in order, whatever place they name.

    Args:
        read: Reads bytes of the file.
        file: The file; what it has on top of a segment's length belongs to no log.
        segment_bytes: Length of a segment, or up to where it is looked at.
    """
    base = file.base_offset if file.base_offset is not None and is_offset(file, segment_bytes) else 0
    begin: WalkState | None = None
    for split in cut(replace(file, base_offset=base, size=min(file.size, segment_bytes))):
        walked = walk_split(read, split, begin)
        begin = walked.end
        for low, high, kind, _ in walked.spans.T.tolist():
            if kind in (w.RECORD, w.STALE):
                yield from records_between(read, low, high)


def records_between(read: Read, low: int, high: int) -> Iterator[Standing]:
    """Yield the records that stand one behind the other in bytes ``[low, high)`` of a file, known to be intact."""
    data, at = read(low, high), low
    while high - at >= log.MIN_RECORD_BYTES:
        size, physical = log.claim(data[at - low : at - low + log.CLAIM_BYTES].tobytes())
        if not log.MIN_RECORD_BYTES <= size <= high - at:
            break
        yield Standing(at, size, physical)
        at += size


def pushed_out(found: Concluded, file: StoreFile, taken: Ranges) -> Iterator[Piece]:
    """Yield the records of a segment that end behind its length, where bytes that came in have pushed them.

    ``taken`` are merged physical ranges, and grow by theirs. Of a file that cannot be read to its end there are none.
    """
    size, base = found.plan.segment_bytes, file.base_offset or 0
    try:
        records = list(intact_records(partial(found.plan.read, file.path), file, 2 * size))
    except UnreadableError:
        return  # what lies behind a segment's length is no part of the log
    for record in records:
        place = record.physical_offset, record.physical_offset + record.size
        is_own = base <= place[0] and place[1] <= base + size < base + record.position + record.size
        if is_own and not meeting(taken, *place):
            yield Piece(found.plan, file.path, record.position, record.size, place[0])
            add(taken, place)


def lacking(found: Concluded, aside: AuditPlan, strays: list[StoreFile]) -> Iterator[Piece]:
    """Yield what the log lacks of its strays, and where it belongs.

    Of a segment that is not there that is all that may be of it, damage included. Where the log has one, whole records
    go where no intact one is: what else a stray holds may be older than the damage there, or no part of this log.

    Args:
        found: The audit of the store without them.
        aside: The plan of the audit with them.
        strays: The files.
    """
    segments = found.view.segments
    taken = merged(chain.from_iterable(ranges_of(s, w.RECORD, w.BLANK) for s in segments if s.last_record_stop()))
    there = {segment.base for segment in segments}
    others = {segment.base for segment in segments if segment.last_record_stop()}
    size = found.plan.segment_bytes
    held = [(file, list(intact_records(partial(aside.read, file.path), file, size))) for file in strays]
    held.sort(key=lambda row: not _stands_there(*row))  # before copies, which may be shorter or half of something else
    for file, records in held:
        place = _place_of(file, records, others, size)
        if place is None or place[0] in there:
            continue
        base, begin = place
        there.add(base)
        start, stop = max(base, begin), min(base + size, begin + file.size)
        for low, high in subtract((start, stop), taken):
            yield Piece(aside, file.path, low - begin, high - low, low)
        for at, length, physical in records:
            if physical == begin + at and physical + length <= stop:  # the rest gives way to records of another stray
                add(taken, (physical, physical + length))
    for file, records in held:
        for run in runs_of(records):
            yield from _free(found, aside, file, run, taken, others)


def _stands_there(file: StoreFile, records: list[Standing]) -> bool:
    """Tell whether a file's first record lies where the file's name says."""
    return bool(records) and file.base_offset == records[0].physical_offset - records[0].position


def _place_of(file: StoreFile, records: list[Standing], others: set[int], segment_bytes: int) -> tuple[int, int] | None:
    """Return the segment that a file may be, and where its first byte belongs; None where nothing tells."""
    own = file.base_offset
    first = next(runs_of(records), None)
    if first is None:
        # All of it is damaged: it has the place of its name, if that is amid the log.
        is_amid = own is not None and bool(others) and min(others) < own < max(others) and not own % segment_bytes
        return (own, own) if own is not None and is_amid else None
    base = first[0].physical_offset - first[0].physical_offset % segment_bytes
    if not 0 <= base < 2**62 or not may_belong(base, own, others, segment_bytes, is_alone=len(first) == 1):
        return None
    return base, first[0].physical_offset - first[0].position


def runs_of(records: Iterable[Standing]) -> Iterator[list[Standing]]:
    """Yield records that follow one another both where they stand and where they belong."""
    run: list[Standing] = []
    for record in records:
        last = run[-1] if run else record
        joins = all(a + last.size == b for a, b in zip((last[0], last[2]), (record[0], record[2]), strict=True))
        if run and not joins:
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def _free(
    found: Concluded, aside: AuditPlan, file: StoreFile, run: list[Standing], taken: Ranges, others: set[int]
) -> Iterator[Piece]:
    """Yield the records of a run in whose places no intact byte is; a lone one only amid the log: it may be damaged."""
    size = found.plan.segment_bytes
    first, stop = run[0].physical_offset, run[-1].physical_offset + run[-1].size
    base = first - first % size
    amid = found.view.min_physical_offset <= first and stop <= found.view.max_physical_offset
    near = len(run) > 1 and 0 <= base < 2**62 and may_belong(base, file.base_offset, others, size, is_alone=False)
    if stop > base + size or not (amid or near):
        return
    free = [
        record for record in run if not meeting(taken, record.physical_offset, record.physical_offset + record.size)
    ]
    for part in runs_of(free):
        length = part[-1].position + part[-1].size - part[0].position
        yield Piece(aside, file.path, part[0].position, length, part[0].physical_offset)
        add(taken, (part[0].physical_offset, part[0].physical_offset + length))

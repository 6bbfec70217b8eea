"""Records of a store that stand in other places of its log than they name: pieces that go back to their own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from storeio.audit import AuditPlan, Concluded
from storeio.checks.places import may_belong
from storeio.checks.ranges import Ranges, add, meeting, merged, subtract
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels import tables as w
from storeio.paths import StoreFile
from storeio.salvage.doubts import Answer, Doubts
from storeio.salvage.exchanged import PLACE, exchanged
from storeio.salvage.pieces import Piece, records_of
from storeio.salvage.strays import intact_records, nameless, pushed_out, records_between, runs_of
from storeio.salvage.survey import Survey, survey
from storeio.splits import Split
from storeio.walk import walk_split

LOOKED_AT: Final = 8 << 20  # bytes of a file without a number in which a record is looked for


def misplaced(found: Concluded) -> Iterator[Piece]:
    """Yield stretches of intact records whose place in the log is free, and the ones they name.

    A place whose record is accepted but not as it was, and cannot be restored, is free for a whole copy of it. Records
    that stand in one another's places come first; what else lies wrong is seen in the next round.
    """
    if others := exchanged(found):
        yield from others
        return
    taken = merged(records_of(found))
    takers: dict[int, int] = {}  # where damaged records begin, by where they say that they end
    stale = any((segment.spans[w.SPAN_CLASS] == w.STALE).any() for segment in found.view.segments)
    if stale or any(finding.code == PLACE for finding in found.doubts):
        known = survey(found)
        wrong = list(Doubts(known).answers())
        gone = merged((at, at + answer.record.size) for at, answer in wrong if answer.fixed is None)
        taken = [part for row in taken for part in subtract(row, gone)]
        takers = {stop: start for start, stop in gone}
        yield from _told_by_units(known, wrong, taken)
    for segment in found.view.segments:
        kinds = segment.spans[w.SPAN_CLASS]
        alone = not (kinds == w.RECORD).any()
        spans = [span[:2] for span in segment.spans.T.tolist() if span[2:] == [w.STALE, w.WHY_MISPLACED]]
        if alone and spans:  # all of the file goes along; what then still lies wrong is seen in the next round
            yield from _whole(found, segment.file, taken)
            continue
        stops = segment.spans[1, np.isin(kinds, (w.RECORD, w.STALE))].tolist()
        ends = set(segment.spans[1, kinds == w.RECORD].tolist())
        for low, high in [run for span in spans for run in _runs(found, segment.file, *span)]:
            if low in ends and _is_in_place(found, segment.file, low, high):
                continue
            before = stops[bisect_right(stops, low) - 1] if stops and stops[0] <= low else -1
            start = _begin(found, segment.file, (before, low), takers)
            yield from _piece(found, segment.file, start, high, taken)
        if segment.file.size > found.plan.segment_bytes:
            yield from pushed_out(found, segment.file, taken)
    for file in nameless(found.plan):
        if _holds_a_record(found.plan, file):
            yield from _whole(found, file, taken)


def _told_by_units(known: Survey, wrong: Iterable[tuple[int, Answer]], taken: Ranges) -> Iterator[Piece]:
    """Yield the records that brokers accept in a wrong place, if the one that they name is free and their unit says it.

    ``taken``, merged ranges, grows by theirs.
    """
    for at, answer in wrong:
        record, base = answer.record, at - at % known.segment_bytes
        place, stop = record.physical_offset, record.physical_offset + record.size
        if answer.fixed is not None or place == at or place < 0 or subtract((place, stop), taken) != [(place, stop)]:
            continue
        unit = known.unit_of(p.java_decode(record.topic), record.queue_id, record.queue_offset)
        if unit is not None and (unit.physical_offset, unit.size) == (place, record.size) and base in known.files:
            yield Piece(known.plan, known.files[base].path, at - base, record.size, place)
            add(taken, (place, stop))


def _runs(found: Concluded, file: StoreFile, low: int, high: int) -> list[tuple[int, int]]:
    """Return where the runs of records in a stretch lie that moved together: one may have come in, and moved others."""
    runs = list(runs_of(records_between(partial(found.plan.read, file.path), low, high)))
    starts = [low, *(run[0].position for run in runs[1:])]
    return list(zip(starts, [*starts[1:], high], strict=True))


def _is_in_place(found: Concluded, file: StoreFile, low: int, high: int) -> bool:
    """Tell whether records that follow one in its place can lie nowhere else, whatever place they say.

    They would overlap that one, or themselves and leave a gap in front into which no record fits.
    """
    _, physical = log.claim(found.plan.read(file.path, low, low + log.CLAIM_BYTES).tobytes())
    return low - high < physical - (file.base_offset or 0) - low < log.MIN_RECORD_BYTES


def _begin(found: Concluded, file: StoreFile, between: tuple[int, int], takers: Mapping[int, int]) -> int:
    """Return where a stretch of records begins that are not in their places.

    It was found to begin at the second of two positions, the first of which is where those in front of it end. It is
    earlier if the last of these is damaged and has less bytes than it says: it took them of the next one.
    """
    (before, low), base = between, file.base_offset or 0
    taker = takers.get(base + before)
    if taker is None or low - before > log.MOST_RECORD_BYTES:
        return low
    split = Split(file.path, base, file.size, taker - base + 1, low)
    spans = walk_split(partial(found.plan.read, file.path), split).spans.T.tolist()
    return next((begin for begin, end, kind, _ in spans if end == low and kind == w.STALE), low)


def _whole(found: Concluded, file: StoreFile, taken: Ranges) -> Iterator[Piece]:
    """Yield a file none of whose records is in its place, as most of its bytes say where it belongs.

    What was copied into it, or moved in it, and says another place in the same segment, goes to that one, unless the
    rest has intact records there.
    """
    said: dict[int, Ranges] = {}  # by how far the places are from where they are said
    for record in intact_records(partial(found.plan.read, file.path), file, found.plan.segment_bytes):
        if 0 <= record.physical_offset <= 2**62:
            ranges = said.setdefault(record.physical_offset - record.position, [])
            joins = bool(ranges) and ranges[-1][1] == record.position
            start = ranges.pop()[0] if joins else record.position
            ranges.append((start, record.position + record.size))
    if not said:
        return
    most = max(said, key=lambda shift: sum(high - low for low, high in said[shift]))
    low, high = said[most][0]
    base = (low + most) - (low + most) % found.plan.segment_bytes
    there = meeting(taken, base, base + found.plan.segment_bytes)
    if not list(_piece(found, file, low, high, list(there), alone=True)):
        return
    held = merged([*there, *((start + most, stop + most) for start, stop in said[most])])
    for shift, ranges in said.items():
        for start, stop in ranges if shift != most else ():
            inside = max(start + shift, base), min(stop + shift, base + found.plan.segment_bytes)
            for begin, end in subtract(inside, held) if inside[0] < inside[1] else ():
                yield Piece(found.plan, file.path, begin - shift, end - begin, begin)
                add(taken, (begin, end))
    yield from _piece(found, file, low, high, taken, alone=True)


def _holds_a_record(plan: AuditPlan, file: StoreFile) -> bool:
    """Tell whether an intact record lies in a file without a number, not far from its beginning."""
    split = Split(file.path, 0, file.size, 0, min(file.size, LOOKED_AT))
    if not split.stop:
        return False
    kinds = walk_split(partial(plan.read, file.path), split).spans[w.SPAN_CLASS]
    return bool(np.isin(kinds, (w.STALE, w.RECORD)).any())


def _piece(
    found: Concluded, file: StoreFile, low: int, high: int, taken: Ranges, *, alone: bool = False
) -> Iterator[Piece]:
    """Yield what of ``[low, high)`` of a file belongs to free places; ``taken``, merged ranges, grows by them.

    Of a file that is ``alone``, without any record in its place, all goes along that the record's segment has room for.
    """
    record_bytes, physical = log.claim(found.plan.read(file.path, low, low + log.CLAIM_BYTES).tobytes())
    first, end = found.view.min_physical_offset, found.view.max_physical_offset
    if file.base_offset is not None:
        # Of its own segment a record may name a place behind the log's last one, too: bytes in front of it came in or
        # went away. What a cut, a reuse or another name of the file leaves is off by whole segments, or not at all.
        end = max(end, file.base_offset + found.plan.segment_bytes)
    if physical < 0 or physical > 2**62 or (not alone and not first <= physical < end):
        return
    begin, stop = physical, physical + high - low
    if alone:
        base = physical - physical % found.plan.segment_bytes
        others = {segment.base for segment in found.view.segments if segment.last_record_stop()}
        if not may_belong(
            base, file.base_offset, others, found.plan.segment_bytes, is_alone=low + record_bytes >= high
        ):
            return
        begin, stop = max(base, physical - low), min(base + found.plan.segment_bytes, physical - low + file.size)
    for start, limit in subtract((begin, stop), taken):
        if alone or (start, limit) == (begin, stop) or _holds_whole(found, file, (low, high), (start, limit)):
            yield Piece(found.plan, file.path, low + start - physical, limit - start, start)
    if begin < stop:
        add(taken, (begin, stop))


def _holds_whole(found: Concluded, file: StoreFile, span: tuple[int, int], room: tuple[int, int]) -> bool:
    """Tell whether a free part of the places that a span's records name has room for one of them."""
    return any(
        room[0] <= record.physical_offset and record.physical_offset + record.size <= room[1]
        for record in records_between(partial(found.plan.read, file.path), *span)
    )

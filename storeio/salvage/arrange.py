"""Intact bytes of the log that lie elsewhere, put into their places: misnamed and shifted files, and replicas.

A record says where it belongs. A file all of whose records say another place has a wrong name, or lost its beginning;
what another copy of the log holds at the same physical offsets fills holes on whose both sides the copies agree. All
of it is laid into links to the store, so that what follows sees a store whose files are where they should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from storeio.audit import AuditPlan, Concluded
from storeio.checks.places import is_segment, may_belong
from storeio.checks.ranges import Ranges, add, meeting, merged, subtract
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.linked import LinkedStore
from storeio.paths import COMMITLOG, StoreFile, file_name, parse_number
from storeio.salvage.donors import donated
from storeio.salvage.doubts import Doubts
from storeio.salvage.pieces import Piece, records_of
from storeio.salvage.strays import intact_records, lacking, nameless, pushed_out, strays_of
from storeio.salvage.survey import survey
from storeio.salvaged import Moved
from storeio.scan import read_range
from storeio.splits import Split
from storeio.walk import walk_split

ROUNDS: Final = 4  # a file may have been shifted more than once
LOOKED_AT: Final = 8 << 20  # bytes of a file without a number in which a record is looked for
AT_ONCE: Final = 16 << 20


def arranged(
    found: Concluded, donors: Sequence[Concluded], begin: Callable[[], LinkedStore], look: Callable[[Path], Concluded]
) -> tuple[Concluded, list[Moved]]:
    """Return the audit of the store with everything in its place, and what was moved there.

    Args:
        found: The store's own audit.
        donors: Audits of other copies of its log, the best one first.
        begin: Gives the store into which pieces are written; called where there are any.
        look: Audits a store with the settings of this one.
    """
    store: LinkedStore | None = None
    moved: list[Moved] = []
    aside, strays = found.plan, strays_of(found.plan)
    if folders := _in_the_way(found):
        store = begin()
        for path in folders:
            store.rename(path, _free_name(store, path))
        found = look(store.root)
    if strays:  # a log is read by its names: with these among them, a place would be that of two files
        store = store or begin()
        for file in strays:
            store.remove(file.path)
        found = look(store.root)
        if pieces := list(lacking(found, aside, strays)):
            moved += _laid(store, found, pieces)
            found = look(store.root)
    for number in range(ROUNDS + len(donors)):
        pieces = list(_misplaced(found) if number < ROUNDS else donated(survey(found), donors[number - ROUNDS]))
        pieces = [piece for piece in pieces if not _lies_there(found, piece)]
        if number < ROUNDS - 1:
            pieces = _first(pieces, found)
        if not pieces:
            continue
        if store is None:
            store = begin()
        moved += _laid(store, found, pieces)
        found = look(store.root)
    return found, moved


def _in_the_way(found: Concluded) -> list[str]:
    """Return the directories that have the name of a segment: what belongs there has no room, and they may hold it."""
    folders = [file.path for file in found.plan.listing.files if file.kind == COMMITLOG and file.is_dir]
    return [path for path in folders if path.count("/") == 1 and is_segment(path, _size(found))]


def _free_name(store: LinkedStore, path: str) -> str:
    name = f"{path}.directory"
    while store.exists(name):
        name += "_"
    return name


def _laid(store: LinkedStore, found: Concluded, pieces: Sequence[Piece]) -> list[Moved]:
    """Put pieces into their places, clear where they lay, and return what was moved."""
    size = _size(found)
    kept: dict[str, Path] = {}
    if found.plan.root == str(store.root):  # segments that have each other's places are written while they are read
        targets = {path for piece in pieces for path, *_ in _parts(piece, size)}
        kept = {path: store.before(path) for path in targets & {p.path for p in pieces if p.plan is found.plan}}
    for piece in pieces:
        _lay(store, piece, size, kept.get(piece.path) if piece.plan is found.plan else None)
    emptied = _emptied(found, pieces)
    for path in emptied:
        store.remove(path)
    for path, position, length in (*_left_behind(found, pieces, size), *_cut_off(found, pieces)):
        if path not in emptied:
            store.write(path, position, bytes(length))
    return [Moved(f"{p.plan.root}/{p.path}", p.position, p.length, p.physical_offset) for p in pieces]


def _lay(store: LinkedStore, piece: Piece, size: int, kept: Path | None) -> None:
    """Copy a piece to its place; ``kept`` is its file as it was, if that is written, too."""
    read = partial(read_range, str(kept.parent), kept.name) if kept else partial(piece.plan.read, piece.path)
    for path, inside, position, count in _parts(piece, size):
        if not store.exists(path) or store.length(path) < size:
            store.resize(path, size)
        store.write(path, inside, read(position, position + count).tobytes())


def _parts(piece: Piece, size: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield where a piece belongs, segment by segment: path and position, position in its own file, length."""
    at, left, position = piece.physical_offset, piece.length, piece.position
    while left:
        base = at - at % size
        count = min(left, base + size - at, AT_ONCE)
        yield f"{COMMITLOG}/{file_name(base)}", at - base, position, count
        at, left, position = at + count, left - count, position + count


def _lies_there(found: Concluded, piece: Piece) -> bool:
    """Tell whether the log holds the bytes of a piece at its place: there is nothing to move."""
    files = {file.path: file for file in found.plan.segments}
    for path, inside, position, count in _parts(piece, _size(found)):
        if path not in files or files[path].size < inside + count:
            return False
        there = found.plan.read(path, inside, inside + count)
        if there.tobytes() != piece.plan.read(piece.path, position, position + count).tobytes():
            return False
    return True


def _first(pieces: list[Piece], found: Concluded) -> list[Piece]:
    """Return the pieces that go over no file whose records may find their place in the next round; else all."""
    waiting = {s.file.path for s in found.view.segments if (s.spans[w.SPAN_CLASS] == w.STALE).any()}
    waiting -= {s.file.path for s in found.view.segments if (s.spans[w.SPAN_CLASS] == w.RECORD).any()}
    waiting -= {piece.path for piece in pieces if piece.plan is found.plan}
    free = (p for p in pieces if waiting.isdisjoint(path for path, *_ in _parts(p, _size(found))))
    return list(free) or pieces


def _left_behind(found: Concluded, pieces: Sequence[Piece], size: int) -> Iterator[tuple[str, int, int]]:
    """Yield where pieces of this store lay: bytes that stay there would be taken for records of another place again."""
    targets = merged((piece.physical_offset, piece.physical_offset + piece.length) for piece in pieces)
    for piece in pieces:
        base = parse_number(piece.path.rpartition("/")[2])
        if piece.plan is found.plan and base is not None and 0 <= base < 2**62:
            stop = min(piece.position + piece.length, size)
            for low, high in subtract((base + piece.position, base + stop), targets):
                yield piece.path, low - base, high - low


def _cut_off(found: Concluded, pieces: Sequence[Piece]) -> Iterator[tuple[str, int, int]]:
    """Yield what is left of stale records over which pieces were laid: a walk would pass the piece along with them."""
    targets = merged((piece.physical_offset, piece.physical_offset + piece.length) for piece in pieces)
    for segment in found.view.segments:
        for low, high in segment.spans[:2, segment.spans[w.SPAN_CLASS] == w.STALE].T.tolist():
            left = subtract((segment.base + low, segment.base + high), targets)
            if left != [(segment.base + low, segment.base + high)]:
                yield from ((segment.file.path, start - segment.base, stop - start) for start, stop in left)


def _emptied(found: Concluded, pieces: Sequence[Piece]) -> list[str]:
    """Return the files whose records all went elsewhere, and whose own place is none of the log's."""
    names = {piece.path for piece in pieces if piece.plan is found.plan}
    targets = {f"{COMMITLOG}/{file_name(p.physical_offset // _size(found) * _size(found))}" for p in pieces}
    kept = {s.file.path for s in found.view.segments if (s.spans[w.SPAN_CLASS] == w.RECORD).any()}
    low, high = found.view.min_physical_offset, found.view.max_physical_offset
    inside = {s.file.path for s in found.view.segments if low <= s.base < high and s.base % _size(found) == 0}
    return sorted(names - targets - kept - inside)


def _size(found: Concluded) -> int:
    return found.plan.config.commitlog_file_bytes


# ---- Files of the store itself


def _misplaced(found: Concluded) -> Iterator[Piece]:
    """Yield stretches of intact records whose place in the log is free, and the ones they name.

    A place whose record is accepted but not as it was, and cannot be restored, is free for a whole copy of it.
    """
    taken = merged(records_of(found))
    stale = any((segment.spans[w.SPAN_CLASS] == w.STALE).any() for segment in found.view.segments)
    if stale:
        wrong = Doubts(survey(found)).answers()
        gone = merged((at, at + answer.record.size) for at, answer in wrong if answer.fixed is None)
        taken = [part for row in taken for part in subtract(row, gone)]
    for segment in found.view.segments:
        kinds = segment.spans[w.SPAN_CLASS]
        alone = not (kinds == w.RECORD).any()
        spans = [span[:2] for span in segment.spans.T.tolist() if span[2:] == [w.STALE, w.WHY_MISPLACED]]
        if alone and spans:  # all of the file goes along; what then still lies wrong is seen in the next round
            yield from _whole(found, segment.file, taken)
            continue
        for low, high in spans:
            yield from _piece(found, segment.file, low, high, taken)
        if segment.file.size > _size(found):
            yield from pushed_out(found, segment.file, taken)
    for file in nameless(found.plan):
        if _holds_a_record(found.plan, file):
            yield from _whole(found, file, taken)


def _whole(found: Concluded, file: StoreFile, taken: Ranges) -> Iterator[Piece]:
    """Yield a file none of whose records is in its place, as most of its bytes say where it belongs.

    What was copied into it, or moved in it, and says another place in the same segment, goes to that one, unless the
    rest has intact records there.
    """
    said: dict[int, Ranges] = {}  # by how far the places are from where they are said
    for record in intact_records(partial(found.plan.read, file.path), file, _size(found)):
        if 0 <= record.physical_offset <= 2**62:
            ranges = said.setdefault(record.physical_offset - record.position, [])
            joins = bool(ranges) and ranges[-1][1] == record.position
            start = ranges.pop()[0] if joins else record.position
            ranges.append((start, record.position + record.size))
    if not said:
        return
    most = max(said, key=lambda shift: sum(high - low for low, high in said[shift]))
    low, high = said[most][0]
    base = (low + most) - (low + most) % _size(found)
    there = meeting(taken, base, base + _size(found))
    if not list(_piece(found, file, low, high, list(there), alone=True)):
        return
    held = merged([*there, *((start + most, stop + most) for start, stop in said[most])])
    for shift, ranges in said.items():
        for start, stop in ranges if shift != most else ():
            inside = max(start + shift, base), min(stop + shift, base + _size(found))
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
        end = max(end, file.base_offset + _size(found))
    if physical < 0 or physical > 2**62 or (not alone and not first <= physical < end):
        return
    begin, stop = physical, physical + high - low
    if alone:
        base = physical - physical % _size(found)
        others = {segment.base for segment in found.view.segments if segment.last_record_stop()}
        if not may_belong(base, file.base_offset, others, _size(found), is_alone=low + record_bytes >= high):
            return
        begin, stop = max(base, physical - low), min(base + _size(found), physical - low + file.size)
    for start, limit in subtract((begin, stop), taken):
        yield Piece(found.plan, file.path, low + start - physical, limit - start, start)
    if begin < stop:
        add(taken, (begin, stop))

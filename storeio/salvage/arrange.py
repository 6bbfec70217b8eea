"""Intact bytes of the log that lie elsewhere, put into their places: misnamed and shifted files, and replicas.

A record says where it belongs. A file all of whose records say another place has a wrong name, or lost its beginning;
what another copy of the log holds at the same physical offsets fills holes on whose both sides the copies agree. All
of it is laid into links to the store, so that what follows sees a store whose files are where they should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from storeio.audit import Concluded
from storeio.checks.places import is_segment
from storeio.checks.ranges import meeting, merged, subtract
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.linked import LinkedStore
from storeio.paths import COMMITLOG, StoreFile, file_name, parse_number
from storeio.salvage.differing import Otherwise
from storeio.salvage.donors import donated
from storeio.salvage.false_ends import false_ends
from storeio.salvage.misplaced import misplaced
from storeio.salvage.pieces import Piece
from storeio.salvage.strays import lacking, strays_of
from storeio.salvage.survey import survey
from storeio.salvaged import Moved
from storeio.scan import read_range

ROUNDS: Final = 4  # a file may have been shifted more than once, a blank record stand behind another one
AT_ONCE: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Arranged:
    """A store with everything in its place: its audit, what was moved there from where, what donors say besides."""

    found: Concluded
    moved: list[Moved]
    otherwise: list[Otherwise]


def arranged(
    found: Concluded,
    donors: Sequence[Concluded],
    begin: Callable[[Concluded], LinkedStore],
    look: Callable[[Path], Concluded],
) -> Arranged:
    """Return the store with everything in its place.

    Args:
        found: The store's own audit.
        donors: Audits of other copies of its log, the best one first; what is misplaced in one is put into its place
            before it gives anything.
        begin: Gives a store, by its audit, into which pieces are written; called where there are any.
        look: Audits a store with the settings of this one.
    """
    root = found.plan.root
    strays = strays_of(found.plan)
    work = _Arranging(found, begin, look)
    otherwise: list[Otherwise] = []
    aside_names = _folders_aside(work)
    if strays:
        _strays_laid(work, found, strays)
    _open_false_ends(work)
    for number in range(ROUNDS):
        pieces = work.lacking_of(misplaced(work.found))
        work.lay(_first(pieces, work.found) if number < ROUNDS - 1 else pieces, root, work.moved)
    for donor in donors:
        placed = arranged(donor, (), begin, look)
        given = donated(survey(work.found), placed.found)
        if given.otherwise:
            otherwise.append(Otherwise(donor.plan.root, len(given.otherwise), given.otherwise[0]))
        work.lay(work.lacking_of(given.pieces), donor.plan.root, placed.moved)
    return Arranged(work.found, [_as_called(piece, root, aside_names) for piece in work.moved], otherwise)


class _Arranging:
    """A store on the way: its audit so far, the links to it, begun when they are first written, and what was moved."""

    def __init__(
        self, found: Concluded, begin: Callable[[Concluded], LinkedStore], look: Callable[[Path], Concluded]
    ) -> None:
        self.found = found
        self.moved: list[Moved] = []
        self._begin, self._look = begin, look
        self._links: LinkedStore | None = None

    def links(self) -> LinkedStore:
        """Return the links that are written in place of the store."""
        if self._links is None:
            self._links = self._begin(self.found)
        return self._links

    def look_again(self) -> None:
        """Audit what was written."""
        self.found = self._look(self.links().root)

    def lacking_of(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Return the pieces that do not lie at their places yet."""
        return [piece for piece in pieces if not _lies_there(self.found, piece)]

    def lay(self, pieces: Sequence[Piece], origin: str, earlier: Sequence[Moved]) -> None:
        """Put pieces of ``origin``, into which ``earlier`` ones were laid, into their places, if there are any."""
        if pieces:
            self.moved += _laid(self.links(), self.found, pieces, origin, earlier)
            self.look_again()


def _folders_aside(work: _Arranging) -> dict[str, str]:
    """Rename the directories that have a segment's name; return what each one's new name was before."""
    names: dict[str, str] = {}
    for path in _in_the_way(work.found):
        names[name := _free_name(work.links(), path)] = path
        work.links().rename(path, name)
    if names:
        work.look_again()
    return names


def _strays_laid(work: _Arranging, before: Concluded, strays: list[StoreFile]) -> None:
    """Take files that are no segments out of the log, and put what it lacks of them into its place.

    A log is read by its names: with these among them, a place would be that of two files.
    """
    for file in strays:
        work.links().remove(file.path)
    work.look_again()
    work.lay(list(lacking(work.found, before.plan, strays)), before.plan.root, work.moved)


def _open_false_ends(work: _Arranging) -> None:
    """Take out the blank records that close nothing."""
    for _ in range(ROUNDS):
        ends = list(false_ends(work.found))
        if not ends:
            return
        for path, position in ends:
            work.links().write(path, position, bytes(log.BLANK_HEAD_BYTES))
        work.look_again()


def _as_called(piece: Moved, root: str, aside_names: Mapping[str, str]) -> Moved:
    """Return what was moved out of a directory that was in the way with the name that this has in the store."""
    path = piece.source.removeprefix(f"{root}/")
    for name, called in aside_names.items():
        if path.startswith(f"{name}/"):
            return replace(piece, source=f"{root}/{called}{path.removeprefix(name)}")
    return piece


def _in_the_way(found: Concluded) -> list[str]:
    """Return the directories that have the name of a segment: what belongs there has no room, and they may hold it."""
    folders = [file.path for file in found.plan.listing.files if file.kind == COMMITLOG and file.is_dir]
    return [path for path in folders if path.count("/") == 1 and is_segment(path, found.plan.segment_bytes)]


def _free_name(store: LinkedStore, path: str) -> str:
    name = f"{path}.directory"
    while store.exists(name):
        name += "_"
    return name


def _laid(
    store: LinkedStore, found: Concluded, pieces: Sequence[Piece], origin: str, earlier: Sequence[Moved]
) -> list[Moved]:
    """Put pieces into their places, clear where they lay, and return what was moved.

    ``origin`` is the store that the pieces are of, as it was before ``earlier`` pieces were laid into it.
    """
    size = found.plan.segment_bytes
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
    return [moved for piece in pieces for moved in _from_where(piece, origin, earlier)]


def _from_where(piece: Piece, origin: str, earlier: Sequence[Moved]) -> Iterator[Moved]:
    """Yield where the bytes of a piece lay in the store itself: some may have been put into its file before."""
    base = parse_number(piece.path.rpartition("/")[2])
    start = (base or 0) + piece.position
    left = [(start, start + piece.length)]
    for moved in reversed(earlier) if base is not None else ():
        there = moved.physical_offset, moved.physical_offset + moved.length
        for low, high in meeting(left, *there):
            low, high = max(low, there[0]), min(high, there[1])
            at = piece.physical_offset + low - start
            yield Moved(moved.source, moved.position + low - there[0], high - low, at)
        left = [part for row in left for part in subtract(row, [there])]
    for low, high in left:
        at = low - start
        yield Moved(f"{origin}/{piece.path}", piece.position + at, high - low, piece.physical_offset + at)


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
    for path, inside, position, count in _parts(piece, found.plan.segment_bytes):
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
    free = (p for p in pieces if waiting.isdisjoint(path for path, *_ in _parts(p, found.plan.segment_bytes)))
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
    size = found.plan.segment_bytes
    targets = {f"{COMMITLOG}/{file_name(piece.physical_offset // size * size)}" for piece in pieces}
    kept = {s.file.path for s in found.view.segments if (s.spans[w.SPAN_CLASS] == w.RECORD).any()}
    low, high = found.view.min_physical_offset, found.view.max_physical_offset
    inside = {s.file.path for s in found.view.segments if low <= s.base < high and s.base % size == 0}
    return sorted(names - targets - kept - inside)

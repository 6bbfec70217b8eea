"""Where each byte of a file would come from after some actions: ranges of the disk, of the bytes file, or zeros."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

DISK: Final = "disk"  # what the file at ``path`` holds now
BYTES: Final = "bytes"  # the plan's bytes file
ZERO: Final = "zeros"
ANY: Final = "any"  # not known, and of no interest


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a file; it begins at ``place`` of its origin. ``written``: an action wrote this very range."""

    length: int
    origin: str
    place: int = 0
    path: str = ""
    written: bool = False

    def part(self, start: int, stop: int) -> Piece:
        """Return ``[start, stop)`` of the piece."""
        return replace(self, length=stop - start, place=self.place + start)


class Contents:
    """A file as pieces side by side. ``sha256`` is the whole file's digest while it is known."""

    def __init__(self, *pieces: Piece) -> None:
        """Begin with some pieces; those without length do not count."""
        self._pieces: list[Piece] = []
        self._starts: list[int] = []
        self.length = 0
        self.sha256 = ""
        for piece in pieces:
            self._append(piece)

    def _append(self, piece: Piece) -> None:
        if piece.length:
            self._pieces.append(piece)
            self._starts.append(self.length)
            self.length += piece.length

    def _cut_at(self, position: int) -> int:
        """Return the number of the piece that begins at a position, split there if need be."""
        if position >= self.length:
            return len(self._pieces)
        at = bisect_right(self._starts, position) - 1
        start, piece = self._starts[at], self._pieces[at]
        if start == position:
            return at
        self._pieces[at : at + 1] = piece.part(0, position - start), piece.part(position - start, piece.length)
        self._starts.insert(at + 1, position)
        return at + 1

    def pieces(self, position: int, length: int) -> list[Piece]:
        """Return the pieces of a range that lies within the file."""
        first = self._cut_at(position)
        return self._pieces[first : self._cut_at(position + length)]

    def put(self, position: int, piece: Piece) -> None:
        """Replace as many bytes as the piece has; they lie within the file."""
        first = self._cut_at(position)
        stop = self._cut_at(position + piece.length)
        self._pieces[first:stop] = [piece]
        self._starts[first:stop] = [position]
        self.sha256 = ""

    def resize(self, length: int) -> None:
        """Cut the file, or append zeros."""
        self.sha256 = ""
        if length >= self.length:
            self._append(Piece(length - self.length, ZERO))
            return
        at = self._cut_at(length)
        del self._pieces[at:], self._starts[at:]
        self.length = length

"""The bytes behind pieces of contents: read from the store, from the bytes file, or zeros."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storeio.apply.tree import Tree
from storeio.plan.contents import ANY, BYTES, DISK, ZERO, Piece
from storeio.plan.digest import digest_of, zeros, zeros_sha256
from storeio.plan.model import RESIZE, WRITE, ZEROS, Action


@dataclass(frozen=True, slots=True)
class BytesFile:
    """A plan's bytes file: its name in a tree."""

    tree: Tree
    name: str

    def new_bytes(self, action: Action) -> Iterator[bytes]:
        """Yield what an action writes or appends."""
        if action.source == ZEROS:
            yield from zeros(new_length(action))
            return
        with self.tree.reading(self.name) as fd:
            yield from self.tree.read(fd, action.source, action.length, self.name)


def new_length(action: Action) -> int:
    """Return how many bytes an action writes or appends; what it only names counts for nothing."""
    if action.kind == RESIZE:
        return max(action.length - action.old_length, 0)
    return action.length if action.source != ZEROS or action.old_length < 0 or action.kind == WRITE else 0


def old_length(action: Action) -> int:
    """Return how many bytes an action replaces or cuts off."""
    if action.kind == WRITE:
        return action.length
    return max(action.old_length - action.length, 0) if action.kind == RESIZE else 0


def bytes_of(pieces: Iterable[Piece], store: Tree, beside: BytesFile) -> Iterator[bytes]:
    """Yield what the pieces stand for, at most a piece of reading at a time."""
    for piece in pieces:
        assert piece.origin != ANY, "bytes that are not known cannot be read"
        if piece.origin == ZERO:
            yield from zeros(piece.length)
            continue
        tree, path = (store, piece.path) if piece.origin == DISK else (beside.tree, beside.name)
        assert piece.origin in (DISK, BYTES)
        with tree.reading(path) as fd:
            yield from tree.read(fd, piece.place, piece.length, path)


def sha256_of(pieces: list[Piece], store: Tree, beside: BytesFile) -> str:
    """Return the digest of what the pieces stand for."""
    if all(piece.origin == ZERO for piece in pieces):
        return zeros_sha256(sum(piece.length for piece in pieces))
    return digest_of(bytes_of(pieces, store, beside))

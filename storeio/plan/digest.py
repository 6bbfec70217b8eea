"""Digests that plans hold: of zeros, and of a whole directory. Pure, so that who plans needs no code that writes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

PIECE_BYTES: Final = 1 << 20  # the most that is held at a time
NOTHING: Final = hashlib.sha256().hexdigest()
FILE: Final = "file"
DIRECTORY: Final = "directory"
_ZEROS: Final = bytes(PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry below a directory; ``path`` is relative to it. A directory has length 0 and no digest."""

    path: str
    kind: str
    length: int = 0
    sha256: str = ""


def digest_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes that come in pieces, as hexadecimal digits."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def listing_sha256(entries: Iterable[Entry]) -> str:
    """Return the digest of a directory: of all entries below it, at any depth, itself not among them.

    It is the SHA-256 over one line an entry, ``path NUL kind NUL length NUL sha256 LF``, sorted as bytes. ``kind``
    is ``file`` or ``directory``, ``length`` is decimal, names are the bytes on disk, parted by slashes.
    """
    lines = (
        f"{entry.path}\0{entry.kind}\0{entry.length}\0{entry.sha256}\n".encode("utf-8", "surrogateescape")
        for entry in entries
    )
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()


@functools.lru_cache(maxsize=256)
def zeros_sha256(length: int) -> str:
    """Return the digest of so many zeros; takes a second per gigabyte."""
    digest = hashlib.sha256()
    for piece in zeros(length):
        digest.update(piece)
    return digest.hexdigest()


def zeros(length: int) -> Iterator[bytes]:
    """Yield so many zeros in pieces."""
    while length > 0:
        yield _ZEROS[: min(length, PIECE_BYTES)]
        length -= PIECE_BYTES

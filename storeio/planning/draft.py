"""A plan in the making: every action is carried out on the overlay at once, so that the next one builds on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from storeio.linked import LinkedStore
from storeio.plan import model
from storeio.plan.digest import FILE, listing_sha256, zeros_sha256
from storeio.plan.model import Action


@dataclass(frozen=True, slots=True)
class Why:
    """What every action says of itself: risk, reason, findings, and whose queue it is."""

    risk: str
    reason: str
    codes: tuple[str, ...] = ()
    topic: str | None = None
    queue_id: int | None = None


class Draft:
    """Actions so far, and the file with their new bytes."""

    def __init__(self, store: LinkedStore, bytes_path: Path) -> None:
        self.store, self.bytes_path = store, bytes_path
        self.actions: list[Action] = []
        self.bytes_length = 0
        self._bytes: IO[bytes] = bytes_path.open("wb")
        self._digest = hashlib.sha256()

    def close(self) -> str:
        """Close the bytes file; return its digest."""
        self._bytes.close()
        return self._digest.hexdigest()

    def write(self, path: str, position: int, data: bytes, why: Why) -> None:
        """Replace bytes of a file, which reaches so far."""
        source = model.ZEROS
        if data.strip(b"\0"):
            source = self.bytes_length
            self._bytes.write(data)
            self._digest.update(data)
            self.bytes_length += len(data)
        length = self.store.length(path)
        old, new = self._sha256(path, position, position + len(data)), hashlib.sha256(data).hexdigest()
        self._add(Action(model.WRITE, path, position, len(data), length, old, new, source, why.risk, why.reason), why)
        self.store.write(path, position, data)

    def create(self, path: str, length: int, why: Why) -> None:
        """Make a file of zeros where nothing is."""
        zeros = zeros_sha256(length)
        self._add(
            Action(model.CREATE, path, 0, length, model.ABSENT, "", zeros, model.ZEROS, why.risk, why.reason), why
        )
        self.store.resize(path, length)

    def resize(self, path: str, length: int, why: Why) -> None:
        """Cut a file, or append zeros."""
        before = self.store.length(path)
        old = self._sha256(path, length, before) if length < before else ""
        new = zeros_sha256(length - before) if length > before else ""
        self._add(Action(model.RESIZE, path, 0, length, before, old, new, model.ZEROS, why.risk, why.reason), why)
        self.store.resize(path, length)

    def move(self, path: str, why: Why) -> None:
        """Take a file or directory out of the store."""
        if self.store.is_directory(path):
            length, digest = 0, self._listing_sha256(path)
        else:
            length = self.store.length(path)
            digest = self._sha256(path, 0, length)
        self._add(Action(model.MOVE, path, 0, length, length, digest, "", model.ZEROS, why.risk, why.reason), why)
        self.store.remove(path)

    def rename(self, path: str, target: str, why: Why) -> None:
        """Give a file a name that is free."""
        length = self.store.length(path)
        digest = self._sha256(path, 0, length)
        self._add(
            Action(model.RENAME, path, 0, length, length, digest, digest, model.ZEROS, why.risk, why.reason, target),
            why,
        )
        self.store.rename(path, target)

    def _add(self, action: Action, why: Why) -> None:
        self.actions.append(replace(action, codes=why.codes, topic=why.topic, queue_id=why.queue_id))

    def _sha256(self, path: str, start: int, stop: int) -> str:
        return digest_of(self.store.pieces(path, start, stop))

    def _listing_sha256(self, path: str) -> str:
        return listing_sha256(
            replace(entry, sha256=self._sha256(place, 0, entry.length)) if entry.kind == FILE else entry
            for place, entry in self.store.entries(path)
        )


def digest_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes that come in pieces."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()

"""A plan in the making: every action is carried out on the overlay at once, so that the next one builds on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from storeio.errors import UnreadableError, UsageError
from storeio.linked import LinkedStore
from storeio.plan import model
from storeio.plan.digest import FILE, digest_of, listing_sha256, zeros_sha256
from storeio.plan.model import Action
from storeio.plan.overlay import GONE, Folder, Known, Overlay, WrittenError
from storeio.plan.rules import check_action
from storeio.planning.limits import LeftOut, RefusedError, RewrittenError, looker, names_below, require_one_name
from storeio.safe import printable
from storeio.scan import data_stretches

MOST_HOLE_BYTES: Final = 64 << 30  # half a minute to take the digest of


@dataclass(frozen=True, slots=True)
class Why:
    """What every action says of itself: risk, reason, findings, and whose queue it is."""

    risk: str
    reason: str
    codes: tuple[str, ...] = ()
    topic: str | None = None
    queue_id: int | None = None


class Draft:
    """Actions so far, and the file with their new bytes. No action gets in that an apply would refuse.

    ``allow_log`` and ``may_move`` tell whether actions may touch the log, and move aside what is in the way of others.
    """

    def __init__(self, store: LinkedStore, bytes_path: Path) -> None:
        self.store, self.bytes_path = store, bytes_path
        self.actions: list[Action] = []
        self.steps = 0  # actions that were ever added; some may have been taken back
        self.left_out = LeftOut()
        self.allow_log, self.may_move = False, True
        self.bytes_length = 0
        self._bytes: IO[bytes] = bytes_path.open("wb")
        self._digest = hashlib.sha256()
        self._look = looker(store.origin)
        self._order = Overlay(self._look)

    def close(self) -> str:
        """Close the bytes file; return its digest."""
        self._bytes.close()
        return self._digest.hexdigest()

    # ---- Looks. All of them, and all actions, raise ``RefusedError`` where an apply would refuse; nothing was done

    def found(self, path: str) -> Known | None:
        """Return what is at a path after the actions so far."""
        with _refused():
            return self._order.find(path)

    def require_changeable(self, path: str) -> None:
        """Raise unless a file that is there may be changed."""
        with _refused():
            if path not in self._order.names and self._order.find(path) != GONE:
                require_one_name(self.store.origin, path)

    def require_movable(self, path: str) -> None:
        """Raise unless what is there, with all that is in it, can be moved."""
        self._require_no_link_to(path)
        with _refused():
            if isinstance(self._order.find(path), Folder):
                below = names_below(self.store.origin, path, self._look)
                if below != {name for name, _ in self.store.entries(path)}:
                    raise UsageError(f"{printable(path)}: holds more than was listed, or is too deep")

    def _require_no_link_to(self, path: str) -> None:
        with _refused():
            if link := self.store.link_to(path):
                raise UsageError(f"{printable(path)}: the link {printable(link)} leads to it")

    # ---- Actions

    def write(self, path: str, position: int, data: bytes, why: Why) -> None:
        """Replace bytes of a file, which reaches so far."""
        self.require_changeable(path)
        source = self.bytes_length if data.strip(b"\0") else model.ZEROS
        length = self.store.length(path)
        old, new = self._sha256(path, position, position + len(data)), hashlib.sha256(data).hexdigest()
        self._add(Action(model.WRITE, path, position, len(data), length, old, new, source, why.risk, why.reason), why)
        if source != model.ZEROS:
            self._bytes.write(data)
            self._digest.update(data)
            self.bytes_length += len(data)
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
        self.require_changeable(path)
        before = self.store.length(path)
        old = self._sha256(path, length, before) if length < before else ""
        new = zeros_sha256(length - before) if length > before else ""
        self._add(Action(model.RESIZE, path, 0, length, before, old, new, model.ZEROS, why.risk, why.reason), why)
        self.store.resize(path, length)

    def move(self, path: str, why: Why) -> None:
        """Take a file or directory out of the store; a directory with what was to go of it before."""
        inner = self._take_back(path)
        codes = {*why.codes, *(code for action in inner for code in action.codes)}
        try:
            self._move(path, replace(why, codes=tuple(sorted(codes))) if inner else why)
        except RefusedError:
            for action in inner:
                self._order.apply(action)
                self.actions.append(action)
                self.store.remove(action.path)
            raise

    def _take_back(self, path: str) -> list[Action]:
        """Take back moves of what lies in a directory, which no apply moves after something in it, and return them.

        None where anything else was done in it.
        """
        if not self._order.is_changed_below(path):
            return []
        end = len(path) + 1
        inner = [each for each in self.actions if f"{path}/" in (each.path[:end], each.target[:end])]
        if any(each.kind != model.MOVE or each.risk == model.LOG for each in inner):
            return []
        taken = {each.path for each in inner}
        self.actions = [each for each in self.actions if each.path not in taken]
        self._order = Overlay(self._look)
        for action in self.actions:
            self._order.apply(action)
        for action in inner:
            self.store.restore(action.path)
        return inner

    def _move(self, path: str, why: Why) -> None:
        self.require_movable(path)
        if self.store.is_directory(path):
            length, digest = 0, self._listing_sha256(path)
        else:
            length = self.store.length(path)
            digest = self._sha256(path, 0, length)
        self._add(Action(model.MOVE, path, 0, length, length, digest, "", model.ZEROS, why.risk, why.reason), why)
        self.store.remove(path)

    def rename(self, path: str, target: str, why: Why) -> None:
        """Give a file a name that is free."""
        self.require_changeable(path)
        self._require_no_link_to(path)
        length = self.store.length(path)
        digest = self._sha256(path, 0, length)
        self._add(
            Action(model.RENAME, path, 0, length, length, digest, digest, model.ZEROS, why.risk, why.reason, target),
            why,
        )
        self.store.rename(path, target)

    def _add(self, action: Action, why: Why) -> None:
        # A link leads into such a directory: to carry the action out here would write into the store.
        for path in filter(self.store.is_closed, filter(None, (action.path, action.target))):
            raise RefusedError(f"{printable(path)}: lies in a directory that cannot be listed")
        with _refused():
            end = self.bytes_length + (action.length if action.source != model.ZEROS else 0)
            check_action(action, "", end, allow_log=self.allow_log)
            self._order.apply(action)
        self.steps += 1
        self.actions.append(replace(action, codes=why.codes, topic=why.topic, queue_id=why.queue_id))

    def _sha256(self, path: str, start: int, stop: int) -> str:
        self._require_hashable(path, start, stop)
        try:
            return digest_of(self.store.pieces(path, start, stop))
        except UnreadableError as error:
            raise RefusedError(str(error)) from error

    def _require_hashable(self, path: str, start: int, stop: int) -> None:
        """Raise where a sparse file claims more zeros than a digest can be taken of: one or two gigabytes a second."""
        if stop - start > MOST_HOLE_BYTES:
            data = sum(high - low for low, high in data_stretches(str(self.store.root), path, start, stop))
            if stop - start - data > MOST_HOLE_BYTES:
                raise RefusedError(
                    f"{printable(path)}: claims {stop - start - data} bytes that are holes, more than a plan takes a "
                    "digest of; truncate gives it its length back"
                )

    def _listing_sha256(self, path: str) -> str:
        return listing_sha256(
            replace(entry, sha256=self._sha256(place, 0, entry.length)) if entry.kind == FILE else entry
            for place, entry in self.store.entries(path)
        )


@contextmanager
def _refused() -> Iterator[None]:
    """Make what an apply would say of an action what is said of it here."""
    try:
        yield
    except WrittenError as error:
        raise RewrittenError(str(error)) from None
    except UsageError as error:
        raise RefusedError(str(error).removeprefix(": ")) from None

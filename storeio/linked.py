"""A store as it would be after a plan: links to its files, and copies of what the plan changes.

It lies in a directory of its own, so that audits and simulated starts can look at it as at any store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from storeio.errors import UnreadableError, WriteError
from storeio.output.staging import created, explained, write_all
from storeio.output.targets import followed
from storeio.plan.digest import DIRECTORY, FILE, Entry, zeros
from storeio.reading.holes import data_stretches, hole_bytes
from storeio.reading.local_files import open_file
from storeio.remote.mirror import mirrored
from storeio.scan import Listing, changed_since, list_store
from storeio.uris import is_remote

PIECE_BYTES: Final = 1 << 20


class LinkedStore:
    """Files of a store below ``root``; the store's own are only read. Paths are relative, with slashes.

    Nothing is made while nobody asks for ``root`` or changes anything: of a sound store there is nothing to plan.
    """

    def __init__(self, listing: Listing, root: Path) -> None:
        """Take the listing of a store on this machine, which is ``origin``, and a directory that can be made."""
        self._listing, self._root, self._is_made = listing, root, False
        self._inner: dict[str, str] | None = None
        self._kept = 0  # files that were copied before they were written
        self.origin = followed(listing.root)
        self._closed = {path for path, _ in listing.unreadable}

    @property
    def root(self) -> Path:
        """The directory in which everything that the store has is linked: from when this is first asked for.

        Raises:
            WriteError: There is no room for the links.
        """
        if not self._is_made:
            self._link_all()
            self._is_made = True
        return self._root

    def _link_all(self) -> None:
        root = self._root
        with explained(str(root)):
            root.mkdir(parents=True)
            for file in self._listing.files:
                if file.path in self._closed:
                    continue
                if file.is_dir:
                    (root / file.path).mkdir(parents=True, exist_ok=True)
                else:
                    _link(root / file.path, self._source_of(file.path))
            # A link to nothing and a directory that cannot be listed are that here, too, and not taken for cured.
            for path in self._closed:
                if not os.path.lexists(root / path):
                    _link(root / path, self.origin / path)

    def _source_of(self, path: str) -> Path:
        """Return what a name of the store leads to: the store's file, or here the one that a link in the store names.

        Where that goes, the link leads to nothing.
        """
        inner = self._inner_links()
        for link in (path, *map(str, PurePosixPath(path).parents)) if inner else ():
            if link in inner:
                return self._root / f"{inner[link]}{path.removeprefix(link)}"
        return self.origin / path

    def _inner_links(self) -> dict[str, str]:
        """Return where the store's own links lead that lead to other names in it."""
        if self._inner is None:
            top = os.path.realpath(self.origin)
            real = {link: os.path.relpath(os.path.realpath(self.origin / link), top) for link in self._listing.links}
            names = {file.path for file in self._listing.files} if real else set()
            self._inner = {link: path for link, path in real.items() if path in names and path != link}
        return self._inner

    def link_to(self, path: str) -> str | None:
        """Return a link of the store that leads to a name, or below it, and would lead to nothing without that."""
        for link, real in self._inner_links().items():
            leads = real == path or real.startswith(f"{path}/")
            if leads and not link.startswith(f"{path}/") and os.path.lexists(self._place(link)):
                return link
        return None

    def _place(self, path: str) -> str:
        """Return where a name can be looked at; before anything was linked that is in the store itself."""
        return f"{self._root if self._is_made else self.origin}/{path}"

    def is_closed(self, path: str) -> bool:
        """Tell whether a name lies in a directory that could not be listed: nothing is known of what is there."""
        return bool(self._closed) and any(parent.as_posix() in self._closed for parent in PurePosixPath(path).parents)

    def exists(self, path: str) -> bool:
        """Tell whether there is something of this name."""
        return os.path.exists(self._place(path))

    def length(self, path: str) -> int:
        """Return a file's length; that of a link to nothing is 0."""
        place = self._place(path)
        return os.stat(place).st_size if os.path.exists(place) else 0

    def is_directory(self, path: str) -> bool:
        """Tell whether there is a directory of this name."""
        return os.path.isdir(self._place(path))

    def pieces(self, path: str, start: int, stop: int) -> Iterator[bytes]:
        """Yield bytes of a file in pieces of bounded size; holes are not read.

        Raises:
            UnreadableError: It cannot be read, or is shorter.
        """
        try:
            with os.fdopen(open_file(self._place(path)), "rb") as file:
                while start < stop:
                    if hole := hole_bytes(file.fileno(), start, stop):
                        yield from zeros(hole)
                        start += hole
                        continue
                    data = os.pread(file.fileno(), min(PIECE_BYTES, stop - start), start)
                    if not data:
                        raise UnreadableError(f"{path}: became shorter than {stop} bytes while it was read")
                    start += len(data)
                    yield data
        except OSError as error:
            if isinstance(error, UnreadableError):
                raise
            raise UnreadableError(f"{path}: {error.strerror or error}") from error

    def entries(self, path: str) -> Iterator[tuple[str, Entry]]:
        """Yield what lies below a directory: path in the store, and the entry without digest."""
        top = self.root / path
        for place in sorted(top.rglob("*")):
            name = str(place.relative_to(top))
            if place.is_dir():
                yield f"{path}/{name}", Entry(name, DIRECTORY)
            else:
                yield f"{path}/{name}", Entry(name, FILE, self.length(f"{path}/{name}"))

    # ---- Changes, which raise WriteError where there is no room for them

    def own(self, path: str) -> Path:
        """Return a file that may be changed: the store's is copied, holes left out; of a link to nothing there is none.

        Raises:
            UnreadableError: The store's cannot be read.
        """
        place = self.root / path
        if place.is_symlink():
            source, is_there = self._end_of(place), place.exists()
            place.unlink()
            try:
                if is_there:
                    copy_sparse(source, place)
            except OSError as error:
                if isinstance(error, WriteError):
                    raise
                raise UnreadableError(f"{path}: {error.strerror or error}") from error
        return place

    def before(self, path: str) -> Path:
        """Return where a file as it is now can be read, whatever is written into it."""
        place = self.root / path
        if place.is_symlink() and not (source := self._end_of(place)).is_relative_to(self._root):
            return source
        kept = Path(f"{self.root}.before") / f"{self._kept}"
        self._kept += 1
        with explained(str(kept)):
            kept.parent.mkdir(exist_ok=True)
        copy_sparse(place, kept)
        return kept

    def _end_of(self, place: Path) -> Path:
        """Return what a link here leads to: a file of the store, or one here that was copied, or nothing."""
        while place.is_relative_to(self._root) and place.is_symlink():
            place = Path(os.readlink(place))
        return place

    def write(self, path: str, position: int, data: bytes) -> None:
        """Write into a file."""
        place = self.own(path)
        with explained(str(place)), place.open("r+b") as file:
            file.seek(position)
            file.write(data)

    def resize(self, path: str, length: int) -> None:
        """Make a file so long, or a new one of zeros."""
        place = self.own(path)
        with explained(str(place)):
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("ab") as file:
                file.truncate(length)

    def remove(self, path: str) -> None:
        """Take away a file or directory."""
        place = self.root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    def restore(self, path: str) -> None:
        """Put a file or directory back that was removed as the store has it."""
        source = self.origin / path
        with explained(str(self.root / path)):
            if not source.is_dir():
                _link(self.root / path, self._source_of(path))
                return
            for place in (source, *sorted(source.rglob("*"))):
                target = self.root / place.relative_to(self.origin)
                if place.is_dir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    _link(target, self._source_of(place.relative_to(self.origin).as_posix()))

    def rename(self, path: str, target: str) -> None:
        """Give a file another name."""
        with explained(str(self.root / target)):
            (self.root / target).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).rename(self.root / target)


def linked(listing: Listing, scratch: Path) -> LinkedStore:
    """Return links to a store below a directory that can be made; a remote one is copied for that.

    Raises:
        UnreadableError, WriteError: As of ``copied``.
    """
    if is_remote(listing.root):
        listing = copied(listing.root, scratch / "copy")
    return LinkedStore(listing, scratch / "store")


def copied(store: str, target: Path) -> Listing:
    """Return a local copy of a remote store, all of it as it was at one time; its root is ``target``.

    Raises:
        UnreadableError: A file could not be read, or changed meanwhile.
        WriteError: There is no room for it.
    """
    listing = list_store(store)
    for path, reason in listing.unreadable:
        raise UnreadableError(f"{path}: {reason}")
    mirrored(store, listing.files, target)
    for changed in changed_since(listing):
        raise UnreadableError(changed)
    return list_store(target)


def _link(place: Path, target: Path) -> None:
    """Make a link to a file, and the directories that it lies in."""
    place.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(target, place)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file; what is a hole stays one, where the system tells.

    Raises:
        OSError: It cannot be read.
        WriteError: The copy cannot be written.
    """
    with os.fdopen(open_file(source), "rb") as old:
        size = os.fstat(old.fileno()).st_size
        with explained(str(target)):
            new = created(target, size)
        try:
            for start, stop in data_stretches(old.fileno(), 0, size):
                at = start
                while at < stop:
                    data = os.pread(old.fileno(), min(PIECE_BYTES, stop - at), at)
                    if not data:
                        return
                    with explained(str(target)):
                        at += write_all(new, at, data)
        finally:
            os.close(new)

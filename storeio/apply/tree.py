"""A directory tree in which no symbolic link is ever followed and only regular files are opened.

Every path is walked name by name with descriptors, so that nothing outside the tree is reached, whatever is in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from storeio.apply import operations
from storeio.apply.operations import OperationError, naming
from storeio.errors import MismatchError
from storeio.plan.digest import DIRECTORY, FILE, Entry, zeros
from storeio.plan.overlay import GONE, Folder, Gone

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not hold us up


class Tree:
    """One directory and what is below it; ``name`` begins the paths in messages, empty for the store itself.

    ``touched`` turns true when something in it was changed or may have been.
    """

    def __init__(self, fd: int, name: str = "") -> None:
        """Take over the descriptor of the directory."""
        self._fd = fd
        self._name = f"{name}/" if name else ""
        self.touched = False

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def shown(self, path: str) -> str:
        """Return a path as messages name it."""
        return f"{self._name}{path}" if path else self._name.rstrip("/") or "."

    @contextmanager
    def folder(self, path: str = "") -> Iterator[int]:
        """Yield the descriptor of a directory in the tree.

        Raises:
            MismatchError: A name on the way is a symbolic link, or no directory.
            OperationError: It is not there, or cannot be opened.
        """
        fd = os.dup(self._fd)
        try:
            for name in filter(None, path.split("/")):
                try:  # not ``naming``: this is done for each name of each path of each action
                    below = os.open(name, _FOLDER, dir_fd=fd)
                except OSError as error:
                    if error.errno in (errno.ENOTDIR, errno.ELOOP):
                        raise MismatchError(f"{self.shown(path)}: {name} is a link or no directory") from error
                    raise OperationError(error, "open", self.shown(path)) from error
                above, fd = fd, below  # first, so that who is interrupted here closes none twice
                os.close(above)
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def above(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of the directory that holds a path, and the last name."""
        directory, _, name = path.rpartition("/")
        with self.folder(directory) as fd:
            yield fd, name

    def status(self, path: str) -> os.stat_result | None:
        """Return what is known of an entry, itself and not what it links to; None if it is not there.

        Raises:
            MismatchError: It is neither a regular file nor a directory.
        """
        try:
            with self.above(path) as (fd, name), naming("look at", self.shown(path)):
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OperationError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise MismatchError(f"{self.shown(path)}: neither a regular file nor a directory")
        return found

    def look(self, path: str) -> int | Folder | Gone:
        """Return the length of a file, a ``Folder``, or ``GONE``."""
        found = self.status(path)
        if found is None:
            return GONE
        return Folder() if stat.S_ISDIR(found.st_mode) else found.st_size

    @contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """Yield a regular file, open for reading."""
        with self._opened(path, os.O_RDONLY) as fd:
            yield fd

    @contextmanager
    def writing(self, path: str) -> Iterator[int]:
        """Yield a regular file that has one name only, open for reading and writing.

        Raises:
            MismatchError: It is none.
        """
        with self._opened(path, os.O_RDWR) as fd:
            if os.fstat(fd).st_nlink != 1:
                raise MismatchError(f"{self.shown(path)}: has several names; writing would change the others' bytes")
            yield fd

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        if not isinstance(self.look(path), int):
            raise MismatchError(f"{self.shown(path)}: no such file")
        with self.above(path) as (directory, name), naming("open", self.shown(path)):
            fd = os.open(name, flags | _OPEN, dir_fd=directory)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise MismatchError(f"{self.shown(path)}: no regular file")
            yield fd
        finally:
            os.close(fd)

    def below(self, path: str) -> Tree:
        """Return a directory of the tree as a tree of its own."""
        with self.folder(path) as fd:
            return Tree(os.dup(fd), path)

    # ---- Reading

    def read(self, fd: int, position: int, length: int, path: str) -> Iterator[bytes]:
        """Yield a range of an open file in pieces.

        Raises:
            MismatchError: The file ends before the range does.
        """
        while length > 0:
            piece = operations.read_piece(fd, length, position, self.shown(path))
            if not piece:
                raise MismatchError(f"{self.shown(path)}: ends at byte {position}")
            yield piece
            position, length = position + len(piece), length - len(piece)

    def digest(self, path: str, position: int, length: int) -> str:
        """Return the SHA-256 of a range of a file."""
        found = hashlib.sha256()
        with self.reading(path) as fd:
            for piece in self.read(fd, position, length, path):
                found.update(piece)
        return found.hexdigest()

    def is_zero(self, path: str, position: int, length: int) -> bool:
        """Tell whether a range of a file is all zeros."""
        with self.reading(path) as fd:
            return all(piece == next(zeros(len(piece))) for piece in self.read(fd, position, length, path))

    def names(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted."""
        with self.folder(path) as fd, naming("list", self.shown(path)):
            return sorted(os.listdir(fd))

    def listing(self, path: str, *, digests: bool = True) -> list[Entry]:
        """Return all entries below a directory, each directory before what is in it.

        Raises:
            MismatchError: There are links, pipes or the like among them.
        """
        found: list[Entry] = []
        folders = [""]
        while folders:
            inside = folders.pop()
            for name in self.names(_joined(path, inside)):
                below = _joined(inside, name)
                length = self.look(_joined(path, below))
                if isinstance(length, int):
                    sha256 = self.digest(_joined(path, below), 0, length) if digests else ""
                    found.append(Entry(below, FILE, length, sha256))
                elif isinstance(length, Folder):
                    found.append(Entry(below, DIRECTORY))
                    folders.append(below)
        return found

    # ---- Changing

    def pour(self, fd: int, pieces: Iterable[bytes], position: int, path: str) -> None:
        """Write pieces one behind the other into an open file."""
        for piece in pieces:
            self.touched = True  # a write that fails may have written some
            operations.write_all(fd, piece, position, self.shown(path))
            position += len(piece)

    def set_length(self, fd: int, length: int, path: str) -> None:
        """Cut an open file, or append zeros."""
        operations.set_length(fd, length, self.shown(path))
        self.touched = True

    def sync(self, fd: int, path: str) -> None:
        """Return when all of an open file is on the disk."""
        operations.synced(fd, self.shown(path))

    def write_new(self, path: str, pieces: Iterable[bytes]) -> None:
        """Make a file that holds these pieces, and return when it is on the disk, its name aside."""
        fd = self.make_file(path)
        try:
            self.pour(fd, pieces, 0, path)
            self.sync(fd, path)
        finally:
            os.close(fd)

    def sync_folder(self, path: str) -> None:
        """Return when the names in a directory are on the disk."""
        with self.folder(path) as fd:
            operations.synced(fd, self.shown(path))

    def make_folder(self, path: str, mode: int = operations.DIRECTORY_MODE) -> None:
        """Make a directory unless it is there, and have its name on the disk."""
        with self.above(path) as (fd, name):
            if self.look(path) == GONE:
                operations.make_directory(name, fd, self.shown(path), mode)
                self.touched = True
            operations.synced(fd, self.shown(path.rpartition("/")[0]))

    def make_file(self, path: str) -> int:
        """Return a new file, open; nothing may have its name."""
        with self.above(path) as (fd, name):
            made = operations.make_file(name, fd, self.shown(path))
        self.touched = True
        return made

    def remove_file(self, path: str) -> None:
        """Remove a file if it is there, and have that on the disk."""
        self._remove(path, operations.remove_file)

    def remove_folder(self, path: str) -> None:
        """Remove an empty directory if it is there, and have that on the disk."""
        self._remove(path, operations.remove_directory)

    def _remove(self, path: str, operation: Callable[[str, int, str], None]) -> None:
        above = path.rpartition("/")[0]
        if above and self.look(above) == GONE:
            return
        with self.above(path) as (fd, name):
            if self.look(path) != GONE:
                operation(name, fd, self.shown(path))
                self.touched = True
            operations.synced(fd, self.shown(above))  # also where it was gone: whoever removed it may have been killed

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; whatever of it is not there is no error."""
        found = self.look(path)
        if isinstance(found, Folder):
            for entry in reversed(self.listing(path, digests=False)):
                below = _joined(path, entry.path)
                if entry.kind == FILE:
                    self.remove_file(below)
                else:
                    self.remove_folder(below)
            self.remove_folder(path)
        elif found != GONE:
            self.remove_file(path)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path and name else path or name


def open_tree(path: str, name: str = "") -> Tree:
    """Return the tree at a path, to which links may lead; ``name`` begins the paths in messages.

    Raises:
        OperationError: It cannot be opened, or is no directory.
    """
    with naming("open", path):
        return Tree(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), name)

"""The few calls that change anything on a disk, each with a name, so that tests can stop or fail every one of them.

All of them take directories as descriptors and never follow a symbolic link. An error says which file, where and what.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from storeio.plan.digest import zeros
from storeio.reading.holes import hole_bytes

PIECE_BYTES: Final = 1 << 20
FILE_MODE: Final = 0o644  # less the umask
DIRECTORY_MODE: Final = 0o755
PRIVATE_MODE: Final = 0o700  # of what holds copies of messages

Hook = Callable[[str, str, Callable[[], object]], None]
hook: Hook | None = None  # called before every operation: its name, the path, and a call that does half of it


class OperationError(OSError):
    """A call to the operating system failed; ``errno`` is its reason, the text says where."""

    def __init__(self, error: OSError, doing: str, path: str, position: int | None = None) -> None:
        """Keep the reason and the place."""
        super().__init__(error.errno, error.strerror or str(error))
        self.place = f"{path} at byte {position}" if position is not None else path
        self.doing = doing

    def __str__(self) -> str:
        return f"{self.place}: {self.doing}: {self.strerror}"


@contextmanager
def naming(doing: str, path: str, position: int | None = None) -> Iterator[None]:
    """Say of every system error in the block what was done, and where."""
    try:
        yield
    except OperationError:
        raise
    except OSError as error:
        raise OperationError(error, doing, path, position) from error


def _before(name: str, path: str, half: Callable[[], object] = lambda: None) -> None:
    if hook is not None:
        hook(name, path, half)


def write_all(fd: int, data: bytes | memoryview, position: int, path: str) -> None:
    """Write bytes at a position; a short write is carried on."""
    with naming("write", path, position):
        _before("write", path, lambda: os.pwrite(fd, data[: len(data) // 2], position))
        view = memoryview(data)
        while view:
            count = os.pwrite(fd, view, position)
            view, position = view[count:], position + count


def read_piece(fd: int, length: int, position: int, path: str) -> bytes:
    """Return up to ``length`` bytes, at most ``PIECE_BYTES`` of them; none at the file's end.

    Of a hole zeros are returned without reading it: a sparse file may claim far more than the disk holds.
    """
    with naming("read", path, position):
        _before("read", path)
        if hole := hole_bytes(fd, position, position + min(length, PIECE_BYTES)):
            return next(zeros(hole))
        return os.pread(fd, min(length, PIECE_BYTES), position)


def set_length(fd: int, length: int, path: str) -> None:
    """Cut a file, or append zeros, which take no space until they are written."""
    with naming("set length", path, length):
        _before("set length", path)
        os.ftruncate(fd, length)


def synced(fd: int, path: str) -> None:
    """Return when all of a file or directory is on the disk."""
    with naming("fsync", path):
        _before("fsync", path)
        os.fsync(fd)


def make_file(name: str, directory: int, path: str) -> int:
    """Return a new file, open for reading and writing; it belongs to whom its directory belongs to."""
    with naming("create", path):
        _before("create", path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, FILE_MODE, dir_fd=directory)
        try:
            _inherit_owner(fd, directory)
        except OSError:
            os.close(fd)
            os.unlink(name, dir_fd=directory)
            raise
        return fd


def make_directory(name: str, directory: int, path: str, mode: int = DIRECTORY_MODE) -> None:
    """Make a directory; it belongs to whom the one above it belongs to."""
    with naming("make directory", path):
        _before("make directory", path)
        os.mkdir(name, mode, dir_fd=directory)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            _inherit_owner(fd, directory)
        finally:
            os.close(fd)


def _inherit_owner(fd: int, directory: int) -> None:
    """Give what root made to the broker's user: only root can, and only root's files would shut the broker out."""
    if os.geteuid() == 0:
        above = os.fstat(directory)
        os.fchown(fd, above.st_uid, above.st_gid)


def rename(name: str, directory: int, new_name: str, new_directory: int, path: str) -> None:
    """Give an entry another name; the caller has seen that nothing has that name."""
    with naming("rename", path):
        _before("rename", path)
        os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=new_directory)


def remove_file(name: str, directory: int, path: str) -> None:
    """Remove an entry that is no directory."""
    with naming("remove", path):
        _before("remove", path)
        os.unlink(name, dir_fd=directory)


def remove_directory(name: str, directory: int, path: str) -> None:
    """Remove an empty directory."""
    with naming("remove directory", path):
        _before("remove directory", path)
        os.rmdir(name, dir_fd=directory)

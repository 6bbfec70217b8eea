"""A new directory that appears whole or not at all: files are written beside it, flushed, and then it gets its name."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from storeio.errors import WriteError
from storeio.output.partials import left_beside, partial_name

MOST_OPEN: Final = 256  # files; a process may have 1024 by default
REMOVALS: Final = 20  # tries
FLUSHERS: Final = 8  # they wait for the disk, which takes many flushes together
AT_ONCE: Final = 32  # files for each of them at once: handing out one takes longer than flushing it
PIECE_BYTES: Final = 1 << 20  # so that the disk has begun with the first while the next ones are written
BEGIN_BYTES: Final = 64 << 10  # written at once; less than that waits for the end


class Staging:
    """Files that are being written below a directory of its own, ``<directory>.<chance>.partial``. One thread writes.

    Paths are relative, with slashes; whoever names them has made sure that they are plain names.
    """

    def __init__(self, place: Path) -> None:
        """Begin anew, beside where the directory is to be.

        Raises:
            WriteError: It cannot be made.
        """
        self.place = place
        self.name = str(place)  # for reports
        self.notes = left_beside(place)  # what a report has to say of the place
        self.written_bytes = 0
        self._open: dict[str, int] = {}
        self._written: set[str] = set()  # paths, to be flushed in the end
        self._parents: set[str] = set()  # directories that were made for them
        self.partial = place.with_name(partial_name(place.name))
        self._made = _missing(place.parent)
        try:
            with explained(str(place)):
                place.parent.mkdir(parents=True, exist_ok=True)
                self.partial.mkdir()
        except BaseException:
            self.abandon()
            raise

    def _handle(self, path: str, size: int | None = None) -> int:
        """Return a file opened for reading and writing; with ``size`` it is made that long if it is new."""
        handle = self._open.pop(path, None)
        if handle is None:
            if len(self._open) >= MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            handle = self._opened(path, size)
            self._written.add(path)
        self._open[path] = handle
        return handle

    def _opened(self, path: str, size: int | None) -> int:
        place = f"{self.partial}/{path}"
        if size is not None and path not in self._written:
            self._make_parent(path)
            with contextlib.suppress(FileExistsError):  # somebody else wrote it
                return created(place, size)
        return os.open(place, os.O_RDWR | os.O_CLOEXEC)

    def _make_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent not in self._parents:
            os.makedirs(f"{self.partial}/{parent}", exist_ok=True)
            self._parents.add(parent)

    def write(self, path: str, position: int, data: bytes | memoryview, *, size: int) -> None:
        """Write into a file, which is made ``size`` bytes long if it is new; ``data`` may be empty.

        Raises:
            WriteError: It could not be written.
        """
        with explained(path):
            handle, view = self._handle(path, size), memoryview(data).cast("B")
            for at in range(0, len(view), PIECE_BYTES):
                count = write_all(handle, position + at, view[at : at + PIECE_BYTES])
                _begin_flushing(handle, position + at, count)
            self.written_bytes += len(view)

    def require_room(self, needed: int) -> None:
        """Raise if so many bytes do not fit, before the disk is full of the first of them.

        Raises:
            WriteError: They do not.
        """
        with explained(self.name):
            free = shutil.disk_usage(self.partial).free
        if needed > free:
            raise WriteError(f"{self.name}: no space: {needed} bytes are to be written, and {free} are free")

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Return bytes of a file that was written; zeros where nothing was."""
        with explained(path, "read again"):
            return os.pread(self._handle(path), stop - start, start)

    @property
    def shared(self) -> Path | str:
        """Where other processes put files of this output: a directory, or a URI."""
        return self.partial.absolute()

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """Return those of the files that are not there, or not so long, as this process sees it."""
        return [path for path, size in sizes.items() if not _has(self.partial / path, size)]

    def make_directory(self, path: str) -> None:
        """Make a directory.

        Raises:
            WriteError: It could not be made.
        """
        with explained(path):
            (self.partial / path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it; it is gone at once for those who still write there."""
        self._parents.clear()
        left = self.partial / f"{path}.removed"
        with contextlib.suppress(OSError):
            os.rename(self.partial / path, left)
        shutil.rmtree(left, ignore_errors=True)

    def move(self, path: str, target: str) -> None:
        """Give a directory another name, in place of what has it."""
        self._close()
        self._parents.clear()
        with explained(target):
            shutil.rmtree(self.partial / target, ignore_errors=True)
            os.rename(self.partial / path, self.partial / target)
        left = (written for written in self._written if not written.startswith(f"{target}/"))
        self._written = {target + at[len(path) :] if at.startswith(f"{path}/") else at for at in left}

    def _close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()

    def finish(self, jobs: int) -> list[str]:
        """Flush everything to the disk and give the directory its name; return the files' paths, sorted.

        Files that somebody else wrote are on the disk already; their directories may not be.

        Raises:
            WriteError: It could not be written.
        """
        self._close()
        with explained(str(self.place)), ThreadPoolExecutor(max(jobs, FLUSHERS)) as pool:
            files, directories = _below(str(self.partial))
            for paths in (self._written, ["", *directories]):
                places = [f"{self.partial}/{path}" for path in paths]
                count = max(min(len(places) // FLUSHERS, AT_ONCE), 1)
                list(pool.map(_flush_all, (places[at : at + count] for at in range(0, len(places), count))))
            os.rename(self.partial, self.place)  # an empty directory may be there
            flush(self.place.parent)
        return sorted(files)

    def abandon(self) -> None:
        """Remove everything, parents that were made for it included."""
        self._close()
        for _ in range(REMOVALS):  # a worker that is about to be ended may still write
            shutil.rmtree(self.partial, ignore_errors=True)
            if not self.partial.exists():
                break
            time.sleep(0.1)
        for parent in self._made:
            with contextlib.suppress(OSError):
                parent.rmdir()


@contextlib.contextmanager
def staged(place: Path) -> Iterator[Staging]:
    """Give a directory in the making; removed if what is done with it fails."""
    staging = Staging(place)
    try:
        yield staging
    except BaseException:
        staging.abandon()
        raise


@contextlib.contextmanager
def explained(path: str, what: str = "written") -> Iterator[None]:
    """Turn the system's refusal into an error that names the file.

    Raises:
        WriteError: The system refused.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"{path}: could not be {what}: {error.strerror or error}") from error


def created(path: str | os.PathLike[str], size: int) -> int:
    """Return a new file, opened for reading and writing, of this length."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.ftruncate(handle, size)
    except BaseException:
        os.close(handle)
        raise
    return handle


def write_all(handle: int, position: int, data: bytes | memoryview) -> int:
    """Write all of the data at a position; return how many bytes."""
    view = memoryview(data).cast("B")
    total = len(view)
    while len(view):
        count = os.pwrite(handle, view, position)
        position, view = position + count, view[count:]
    return total


def flush(path: str | os.PathLike[str]) -> None:
    """Have a file or directory on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_names(directory: str | os.PathLike[str]) -> None:
    """Have the names in a directory on the disk, where that can be done.

    Not every directory may be opened, and not every file system flushes one.
    """
    with contextlib.suppress(OSError):
        flush(directory)


def _flush_all(paths: Iterable[str]) -> None:
    for path in paths:
        flush(path)


def _begin_flushing(handle: int, position: int, count: int) -> None:
    """Have the disk begin with what was written, while more is derived; ``flush`` waits for it and learns of errors."""
    if count >= BEGIN_BYTES and hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # not every file system takes advice
            # Linux starts to write what is dirty of a range that is not needed, and keeps it until that is done.
            os.posix_fadvise(handle, position, count, os.POSIX_FADV_DONTNEED)


def _has(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size and path.is_file()
    except OSError:
        return False


def _below(place: str) -> tuple[list[str], list[str]]:
    """Return the paths of files and directories below a directory."""
    files: list[str] = []
    directories: list[str] = []
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        with os.scandir(f"{place}/{parent}") as found:
            for entry in found:
                is_directory = entry.is_dir(follow_symlinks=False)
                (directories if is_directory else files).append(f"{parent}{entry.name}")
                if is_directory:
                    waiting.append(f"{parent}{entry.name}/")
    return files, directories


def _missing(place: Path) -> list[Path]:
    """Return the directories that have to be made for one, the deepest first."""
    found = []
    while not place.exists() and place != place.parent:
        found.append(place)
        place = place.parent
    return found

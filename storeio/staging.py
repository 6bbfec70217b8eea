"""A new directory that appears whole or not at all: files are written beside it, flushed, and then it gets its name."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from storeio.errors import UsageError, WriteError

MOST_OPEN: Final = 256  # files; a process may have 1024 by default
PARTIAL: Final = ".partial"


def checked_target(into: str | os.PathLike[str], store: str | os.PathLike[str], option: str = "--into") -> Path:
    """Return the directory that is to be made.

    Raises:
        UsageError: It lies in the store, which is never written, or holds something.
    """
    place, root = Path(into), Path(store)
    if place.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{option} {place}: lies inside the store {root}, which is never written")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{option} {place}: is not empty")
    return place


class Staging:
    """Files that are being written below ``<directory>.partial``. One thread writes.

    Paths are relative, with slashes; whoever names them has made sure that they are plain names.
    """

    def __init__(self, place: Path) -> None:
        """Begin anew; what an earlier run that was killed has left is removed."""
        self.place = place
        self.partial = place.with_name(f"{place.name}{PARTIAL}")
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        self.written_bytes = 0
        self._open: dict[str, int] = {}

    def _handle(self, path: str, size: int | None = None) -> int:
        """Return a file opened for reading and writing; with ``size`` it is made that long if it is new."""
        handle = self._open.pop(path, None)
        if handle is None:
            if len(self._open) >= MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            handle = self._opened(self.partial / path, size)
        self._open[path] = handle
        return handle

    def _opened(self, path: Path, size: int | None) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            if size is None:
                raise
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.ftruncate(handle, size)
        return handle

    def write(self, path: str, position: int, data: bytes | memoryview, *, size: int) -> None:
        """Write into a file, which is made ``size`` bytes long if it is new; ``data`` may be empty.

        Raises:
            WriteError: It could not be written.
        """
        view = memoryview(data).cast("B")
        with _explained(path):
            handle = self._handle(path, size)
            while len(view):
                count = os.pwrite(handle, view, position)
                position, view = position + count, view[count:]
                self.written_bytes += count

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Return bytes of a file that was written; zeros where nothing was."""
        return os.pread(self._handle(path), stop - start, start)

    def move(self, path: str, target: str) -> None:
        """Give a directory another name, in place of what has it."""
        self._close()
        shutil.rmtree(self.partial / target, ignore_errors=True)
        (self.partial / path).rename(self.partial / target)

    def _close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()

    def finish(self, jobs: int) -> list[str]:
        """Flush everything to the disk and give the directory its name; return the files' paths, sorted.

        Raises:
            WriteError: It could not be written.
        """
        self._close()
        files = sorted(p for p in self.partial.rglob("*") if p.is_file())
        with _explained(str(self.place)), ThreadPoolExecutor(jobs) as pool:
            list(pool.map(_flush, files))
            list(pool.map(_flush, [self.partial, *(p for p in self.partial.rglob("*") if p.is_dir())]))
            if self.place.exists():
                self.place.rmdir()
            self.partial.rename(self.place)
            _flush(self.place.parent)
        return [str(p.relative_to(self.partial)) for p in files]

    def abandon(self) -> None:
        """Remove everything."""
        self._close()
        shutil.rmtree(self.partial, ignore_errors=True)


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
def _explained(path: str) -> Iterator[None]:
    """Turn the system's refusal to write into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path}: could not be written: {error.strerror or error}") from error


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Opening a store read-only: its listing, and bytes of its files as arrays.

Nothing here writes, creates or locks. Local files are memory-mapped, a window at a time, so that
memory does not grow with the store. Other roots are URIs, and ``storeio.remote`` reads them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import NotAStoreError, UnreadableError
from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, INDEX, QUEUE_KINDS, StoreFile, describe
from storeio.remote import reading as remote
from storeio.uris import is_remote, place_of, shown

Bytes = npt.NDArray[np.uint8]

SMALL_BYTES: Final = 256 << 10  # up to here a copy is cheaper than a mapping
MADV_POPULATE_READ: Final = 22  # of Linux 5.14 and later; the module does not name it
NOT_POPULATED: Final = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.ENOMEM)
HUGE_PAGE_BYTES: Final = 2 << 20
MOST_KEPT: Final = 16  # files that stay open while a store is read
MAX_DEPTH: Final = 12  # a store is four levels deep; deeper means a loop of links
_EMPTY: Final[Bytes] = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything below a store root, sorted by path; directories only where no files are below.

    ``versions`` tell of each remote file whether it is still the same; of local ones nothing is kept.
    """

    root: str
    files: tuple[StoreFile, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def of_kind(self, kind: str) -> list[StoreFile]:
        """Return the plain files of one kind whose name is a number, by base offset."""
        found = [f for f in self.files if f.kind == kind and not f.is_dir and f.base_offset is not None]
        return sorted(found, key=lambda f: (f.topic or "", f.queue_id or 0, f.base_offset or 0, f.path))

    def get(self, path: str) -> StoreFile | None:
        """Return the entry with this path."""
        return next((f for f in self.files if f.path == path), None)


def list_store(root: str | os.PathLike[str]) -> Listing:
    """Return what lies below ``root``, a local directory or a URI.

    Raises:
        NotAStoreError: No such directory, or nothing in it that a store consists of.
        UnreadableError: A URI that does not answer.
        UsageError: A URI that makes no sense.
    """
    place = place_of(os.fspath(root))
    versions: Mapping[str, str] = {}
    if is_remote(place):
        files, unreadable, versions = remote.list_files(place)
    else:
        place = str(Path(place))
        files, unreadable = _list_directory(Path(place))
    if not any(f.path.split("/")[0] in (COMMITLOG, INDEX, CHECKPOINT, ABORT, *QUEUE_KINDS) for f in files):
        text = "holds no commitlog, queues, index, checkpoint or abort file; not a store"
        raise NotAStoreError(f"{shown(place)}: {text}")
    return Listing(place, tuple(sorted(files, key=lambda f: f.path)), tuple(unreadable), versions)


def changed_since(listing: Listing) -> list[str]:
    """Return what a second look at a remote store tells of files that are not what they were, as path and reason."""
    if not is_remote(listing.root):
        return []
    try:
        _, _, versions = remote.list_files(listing.root)
    except (UnreadableError, NotAStoreError) as error:
        return [f".: could not be listed again: {error}"]
    changed = sorted(path for path, version in listing.versions.items() if versions.get(path) != version)
    return [f"{path}: {'changed' if path in versions else 'went'} while it was read" for path in changed]


def _list_directory(base: Path) -> tuple[list[StoreFile], list[tuple[str, str]]]:
    if not base.is_dir():
        raise NotAStoreError(f"{base}: not a directory")
    files: list[StoreFile] = []
    unreadable: list[tuple[str, str]] = []
    _list_into(base, "", 0, files, unreadable)
    return files, unreadable


def _list_into(base: Path, prefix: str, depth: int, files: list[StoreFile], unreadable: list[tuple[str, str]]) -> None:
    try:
        with os.scandir(base / prefix) as found:
            entries = sorted(found, key=lambda e: e.name)
    except OSError as error:
        unreadable.append((prefix or ".", error.strerror or str(error)))
        return
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        try:
            if entry.is_dir():
                files.append(describe(path, 0, is_dir=True))
                if depth < MAX_DEPTH:
                    _list_into(base, path, depth + 1, files, unreadable)
            else:
                files.append(describe(path, entry.stat().st_size))
        except OSError as error:
            unreadable.append((path, error.strerror or str(error)))


def read_range(root: str, path: str, start: int, stop: int, *, populate_to: int | None = None) -> Bytes:
    """Return bytes ``[start, stop)`` of a file as a read-only array.

    ``root`` is that of a listing. Of a local file small ranges are read, large ones mapped; a mapping goes when the
    array does. Its pages are populated ahead, up to ``populate_to`` if that is given, where the system can.

    Raises:
        UnreadableError: The file cannot be opened or is shorter than ``stop``.
    """
    if stop <= start:
        return _EMPTY
    if is_remote(root):
        return remote.read_range(root, path, start, stop)
    try:
        file = _open_files.opened(os.path.join(root, path))
        if os.fstat(file.handle).st_size < stop:
            raise UnreadableError(f"{path}: became shorter than {stop} bytes while it was read")
        if stop - start <= SMALL_BYTES:
            return _read(file.handle, path, start, stop)
        return _map(file.handle, path, start, stop, stop if populate_to is None else populate_to)
    except OSError as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"{path}: {error.strerror or error}") from error


def open_file(path: str | os.PathLike[str]) -> int:
    """Return a handle of a file, for reading. A pipe among the files must not hold us up, nor a device give bytes.

    Raises:
        OSError: It cannot be opened or is none.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return handle


class _OpenFile:
    """A file opened for reading; closed when nobody has it any more."""

    def __init__(self, path: str) -> None:
        self.handle = open_file(path)
        status = os.fstat(self.handle)
        self.identity = status.st_dev, status.st_ino

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.handle)


class _OpenFiles:
    """The files that were read last, kept open while somebody has asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._files: dict[str, _OpenFile] = {}

    def opened(self, path: str) -> _OpenFile:
        """Return the file that now has this path.

        Raises:
            OSError: It cannot be opened.
        """
        status = os.stat(path)
        with self._lock:
            file = self._files.pop(path, None)
            if file is None or file.identity != (status.st_dev, status.st_ino):
                file = _OpenFile(path)
            if self._askers:
                self._files[path] = file
                if len(self._files) > MOST_KEPT:
                    del self._files[next(iter(self._files))]
            return file

    def ask(self, more: int) -> None:
        """Count those who want files kept open; without any, none is."""
        with self._lock:
            self._askers += more
            if not self._askers:
                self._files.clear()


_open_files: Final = _OpenFiles()


@contextlib.contextmanager
def kept_open() -> Iterator[None]:
    """Keep files open from one ``read_range`` to the next, in all threads; of remote ones also what was read last.

    The system then knows that a file is read from one end to the other: it reads ahead, and in huge
    pages, where each new handle would begin with small ones.
    """
    for ask in (_open_files.ask, remote.keep):
        ask(1)
    try:
        yield
    finally:
        for ask in (_open_files.ask, remote.keep):
            ask(-1)


def _read(handle: int, path: str, start: int, stop: int) -> Bytes:
    """Return a range by reading it; a mapping costs more than it saves."""
    data = os.pread(handle, stop - start, start)
    while len(data) < stop - start:
        more = os.pread(handle, stop - start - len(data), start + len(data))
        if not more:
            raise UnreadableError(f"{path}: became shorter than {stop} bytes while it was read")
        data += more
    return np.frombuffer(data, dtype=np.uint8)


def _map(handle: int, path: str, start: int, stop: int, populate_to: int) -> Bytes:
    """Return a range by mapping it, pages up to ``populate_to`` in place.

    In huge pages where the file system has them: what is then read from the disk is read in large
    pieces, and a mapping of it costs next to nothing, where small pages cost a third of the audit.
    """
    low = start - start % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(handle, stop - low, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=low)
    if stop - low >= HUGE_PAGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            mapped.madvise(mmap.MADV_HUGEPAGE)
    if low < populate_to:
        _populate(mapped, path, low, min(populate_to, stop))
    return np.frombuffer(mapped, dtype=np.uint8)[start - low :]


def _populate(mapped: mmap.mmap, path: str, low: int, stop: int) -> None:
    """Put the pages of a mapping of ``path`` from ``low`` on in place, so that an error is one here.

    Raises:
        UnreadableError: The disk does not give the bytes; touching them would end the process.
    """
    if not sys.platform.startswith("linux"):
        return  # pages come as they are touched
    try:
        _madvise()(mapped, stop - low)
    except OSError as error:
        if error.errno not in NOT_POPULATED:
            raise UnreadableError(f"{path}: bytes {low} to {stop}: the disk does not give all of them") from error
        # An older kernel, or no room: pages come as they are touched.


@functools.cache
def _madvise() -> Callable[[mmap.mmap, int], None]:
    """Return what populates the first bytes of a mapping; unlike Python's own it lets other threads go on."""
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def populate(mapped: mmap.mmap, length: int) -> None:
        address = np.frombuffer(mapped, np.uint8).ctypes.data
        if function(address, length, MADV_POPULATE_READ) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return populate


def data_stop(root: str, path: str, size: int) -> int:
    """Return a position from which on a file is nothing but holes, as its file system says; ``size`` if unknown.

    Queue and index files are made at full length and filled from the front: what was never
    written need not be read to know that it is zero. Other file systems than local ones do not tell.
    """
    if is_remote(root) or not size:
        return size
    try:
        handle = open_file(os.path.join(root, path))
    except OSError:
        return size
    try:
        stop = 0
        while stop < size:
            start = os.lseek(handle, stop, os.SEEK_DATA)
            stop = os.lseek(handle, start, os.SEEK_HOLE)
    except OSError as error:
        return stop if error.errno == errno.ENXIO else size
    except AttributeError:
        return size  # a system that does not tell
    finally:
        os.close(handle)
    return min(stop, size)

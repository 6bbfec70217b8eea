"""Bytes of files of this machine as arrays: small ranges are read, large ones mapped, so that memory does not grow."""

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
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError
from storeio.reading.holes import data_stretches, is_sparse, lies_in_memory

Bytes = npt.NDArray[np.uint8]

SMALL_BYTES: Final = 256 << 10  # up to here a copy is cheaper than a mapping
MADV_POPULATE_READ: Final = 22  # of Linux 5.14 and later; the module does not name it
NOT_POPULATED: Final = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.ENOMEM)
MAP_NORESERVE: Final = 0x4000  # of Linux, where alone files are told to lie in memory
HUGE_PAGE_BYTES: Final = 2 << 20
MOST_KEPT: Final = 64  # files that stay open while a store is read, of all threads
_EMPTY: Final[Bytes] = np.empty(0, np.uint8)


def read_bytes(root: str, path: str, start: int, stop: int, *, populate_to: int | None = None) -> Bytes:
    """Return bytes ``[start, stop)`` of a file below a directory as a read-only array.

    Small ranges are read, large ones mapped; a mapping goes when the array does. Its pages are populated ahead, up to
    ``populate_to`` if that is given, where the system can. Holes stay holes.

    Raises:
        UnreadableError: The file cannot be opened or is shorter than ``stop``.
    """
    if stop <= start:
        return _EMPTY
    with _Told(path):
        file = _open_files.opened(os.path.join(root, path))
        if stop - start > SMALL_BYTES:
            status = os.fstat(file.handle)
            if status.st_size < stop:
                raise _shorter(path, stop)  # touching what is mapped there would end the process
            if is_sparse(status) and (stretches := _to_copy(file.handle, start, stop)) is not None:
                return _around_holes(file.handle, path, start, stop, stretches)
            return _map(file.handle, path, start, stop, stop if populate_to is None else populate_to)
        data = os.pread(file.handle, stop - start, start)
        if len(data) == stop - start:  # as it nearly always is, and then cheaper than filling a room
            return np.frombuffer(data, np.uint8)
        room = np.empty(stop - start, np.uint8)
        _fill(file.handle, path, start, room)
        room.flags.writeable = False
        return room


def open_file(path: str | os.PathLike[str]) -> int:
    """Return a handle of a file, for reading. A pipe among the files must not hold us up, nor a device give bytes.

    Raises:
        OSError: It cannot be opened or is none.
    """
    return _opened(path)[0]


def _opened(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return handle, status


def _fill(handle: int, path: str, start: int, room: Bytes) -> None:
    """Read from ``start`` on until the room is full."""
    done, places = 0, room.data
    while done < len(room):
        count = os.preadv(handle, [places[done:]], start + done)
        if not count:
            raise _shorter(path, start + len(room))
        done += count


class _Told:
    """Raises what the system says of a file as ``UnreadableError``."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise what it is to be."""
        if isinstance(error, OSError) and not isinstance(error, UnreadableError):
            raise UnreadableError(f"{self.path}: {error.strerror or error}") from error


def _shorter(path: str, stop: int) -> UnreadableError:
    return UnreadableError(f"{path}: became shorter than {stop} bytes while it was read")


class _OpenFile:
    """A file opened for reading; closed when nobody has it any more."""

    def __init__(self, path: str) -> None:
        self.handle, status = _opened(path)
        self.identity = status.st_dev, status.st_ino

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.handle)


class _OpenFiles:
    """The files that were read last, kept open while somebody has asked for it.

    Each thread has its own: the system remembers one place of a handle, to read ahead from there, and two threads
    that read a file at two places would have it forget that again and again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._files: dict[tuple[int, str], _OpenFile] = {}  # by thread and path

    def opened(self, path: str) -> _OpenFile:
        """Return the file that now has this path.

        Raises:
            OSError: It cannot be opened.
        """
        key = threading.get_ident(), path
        with self._lock:
            file = self._files.pop(key, None)
        # Nobody waits while the disk is asked.
        if file is not None:
            status = os.stat(path)
            file = file if file.identity == (status.st_dev, status.st_ino) else None
        if file is None:
            file = _OpenFile(path)
        with self._lock:
            if self._askers:
                self._files[key] = file
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


def keep(more: int) -> None:
    """Count those who want files kept open from one read to the next.

    The system then knows that a file is read from one end to the other: it reads ahead, and in huge
    pages, where each new handle would begin with small ones.
    """
    _open_files.ask(more)


def _to_copy(handle: int, start: int, stop: int) -> list[tuple[int, int]] | None:
    """Return what of a range of a file is no hole, if that is to be copied, with zeros around it; None: to be mapped.

    Little is copied: the file of a queue with a few units is a hole but for a page, and a mapping has a page in place
    for each of the hole. Of a file in memory everything is that has holes: a page of them that is mapped is filled. The
    file would take memory with each look at it, up to all that it claims, and tell of no hole there any more.
    """
    most = stop - start - 1 if lies_in_memory(handle) else SMALL_BYTES
    found, total = [], 0
    for low, high in data_stretches(handle, start, stop):
        found.append((low, high))
        total += high - low
        if total > most:
            return None
    return found


def _around_holes(handle: int, path: str, start: int, stop: int, stretches: Iterable[tuple[int, int]]) -> Bytes:
    """Return a range of a file of which only these stretches are looked at."""
    room = np.frombuffer(mmap.mmap(-1, stop - start, flags=mmap.MAP_PRIVATE | MAP_NORESERVE), np.uint8)
    for low, high in stretches:
        _fill(handle, path, low, room[low - start : high - start])
    room.flags.writeable = False
    return room


def _map(handle: int, path: str, start: int, stop: int, populate_to: int) -> Bytes:
    """Return a range by mapping it, pages up to ``populate_to`` in place.

    In huge pages where the file system has them: what is then read from the disk is read in large
    pieces, and a mapping of it costs next to nothing, where small pages cost a third of the audit.
    """
    low = start - start % (HUGE_PAGE_BYTES if stop - start >= HUGE_PAGE_BYTES else mmap.ALLOCATIONGRANULARITY)
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


def data_stop(path: str, size: int) -> int:
    """Return a position from which on a file is nothing but holes, as its file system says; ``size`` if unknown.

    So it is of a file that is shorter by now: whoever reads it finds that out.
    """
    try:
        handle, status = _opened(path)
    except OSError:
        return size
    try:
        stop = 0 if status.st_size >= size else size
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

"""Ranges of a remote store's files in windows of bounded size.

Small ranges come from blocks that are kept while somebody has asked for it: an audit looks at many small neighbours,
and each request costs a round trip. Large ranges are read window by window, and very large ones into a file without a
name on the local disk, which is mapped: memory depends neither on the file nor on the store.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError
from storeio.remote import failures
from storeio.remote.filesystem import Place, opened
from storeio.remote.trouble import ShortError, tried

Bytes = npt.NDArray[np.uint8]

WINDOW_BYTES: Final = 8 << 20  # of one request
BLOCK_BYTES: Final = 1 << 20  # what a small range brings along
MOST_BLOCKS: Final = 64  # kept a process
SMALL_BYTES: Final = BLOCK_BYTES // 4
SPOOLED_BYTES: Final = 96 << 20  # more than this goes through the disk; a split and what it reads ahead is less
MOST_OPEN: Final = 1024  # files known to be there, with their sizes
UNLIKELY: Final = (0xA7, 0x5C)  # two that differ; files seldom end a window with either


class _Kept:
    """Files that were opened and blocks that were read, while somebody has asked for them to be kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._files: dict[tuple[str, str], list[Any]] = {}
        self._blocks: dict[tuple[str, str, int], Bytes] = {}

    def ask(self, more: int) -> None:
        """Count those who want files and blocks kept."""
        with self._lock:
            self._askers += more
            if not self._askers:
                self._files.clear()
                self._blocks.clear()

    def take(self, place: Place, path: str, least: int) -> Any:
        """Return the opened file, for one reader alone, which has at least so many bytes as far as one can tell now.

        Raises:
            OSError: It cannot be opened.
        """
        with self._lock:
            idle = self._files.get((place.root, path))
            known = idle.pop() if idle else None
        if known is not None and known.size() >= least:
            return known
        return place.fs.open_input_file(place.path(path))

    def give(self, place: Place, path: str, file: Any) -> None:
        """Keep a file that was taken for the next reader; one that met trouble may not be what it was, and is not."""
        with self._lock:
            if self._askers:
                self._files.setdefault((place.root, path), []).append(file)
                if len(self._files) > MOST_OPEN:
                    del self._files[next(iter(self._files))]

    def block(self, root: str, path: str, number: int) -> Bytes | None:
        """Return a block that is kept; it was used last then."""
        with self._lock:
            found = self._blocks.pop((root, path, number), None)
            if found is not None:
                self._blocks[root, path, number] = found
            return found

    def keep(self, root: str, path: str, number: int, data: Bytes) -> None:
        """Keep a block, and let go of the one that was not used for longest."""
        with self._lock:
            if self._askers:
                self._blocks[root, path, number] = data
                if len(self._blocks) > MOST_BLOCKS:
                    del self._blocks[next(iter(self._blocks))]


_kept: Final = _Kept()
keep: Final = _kept.ask


def read_range(root: str, path: str, start: int, stop: int) -> Bytes:
    """Return bytes ``[start, stop)`` of a file as a read-only array; ``start < stop``. A failure is noted.

    Raises:
        UnreadableError: The file cannot be read, or is shorter than ``stop``.
    """
    try:
        return _range(opened(root), path, start, stop)
    except UnreadableError as error:
        failures.note(root, str(error))
        raise


def _range(place: Place, path: str, start: int, stop: int) -> Bytes:
    if stop - start <= SMALL_BYTES:
        return _from_blocks(place, path, start, stop)
    _length(place, path, stop)  # before memory is taken by it
    if stop - start > SPOOLED_BYTES:
        return _spooled(place, path, start, stop)
    data = np.empty(stop - start, np.uint8)
    for low, window in windows(place, path, start, stop):
        data[low - start : low - start + len(window)] = window
    data.flags.writeable = False
    return data


def windows(place: Place, path: str, start: int, stop: int) -> Iterator[tuple[int, Bytes]]:
    """Yield a range in pieces of bounded size, each with its position.

    Raises:
        UnreadableError: As of ``read_range``.
    """
    for low in range(start, stop, WINDOW_BYTES):
        yield low, _fetch(place, path, low, min(low + WINDOW_BYTES, stop))


def _spooled(place: Place, path: str, start: int, stop: int) -> Bytes:
    """Return a range by way of a file without a name, in the directory for temporary files, which is mapped."""
    try:
        with tempfile.TemporaryFile(prefix="storeio-") as file:
            file.truncate(stop - start)
            for low, window in windows(place, path, start, stop):
                if window.any():  # what stays zero takes no room
                    file.seek(low - start)
                    file.write(window.data)
            file.flush()
            return np.frombuffer(mmap.mmap(file.fileno(), stop - start, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        if isinstance(error, UnreadableError):
            raise
        where = tempfile.gettempdir()
        raise UnreadableError(f"{path}: no room for {stop - start} bytes in {where}: {error.strerror}") from error


def _from_blocks(place: Place, path: str, start: int, stop: int) -> Bytes:
    first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
    parts = [_block(place, path, number, stop) for number in range(first, last + 1)]
    data = parts[0] if len(parts) == 1 else np.concatenate(parts)
    found = data[start - first * BLOCK_BYTES : stop - first * BLOCK_BYTES]
    found.flags.writeable = False
    return found


def _block(place: Place, path: str, number: int, stop: int) -> Bytes:
    """Return a block of a file, the last one as long as the file is; it reaches up to ``stop`` if that lies in it."""
    low = number * BLOCK_BYTES
    needed = min(stop, low + BLOCK_BYTES)
    kept = _kept.block(place.root, path, number)
    if kept is not None and low + len(kept) >= needed:
        return kept
    size = _length(place, path, needed)
    data = _fetch(place, path, low, min(low + BLOCK_BYTES, size))
    _kept.keep(place.root, path, number, data)
    return data


def _length(place: Place, path: str, least: int) -> int:
    """Return a file's size, which is at least ``least``."""

    def work() -> int:
        file = _kept.take(place, path, least)
        found: int = file.size()
        _kept.give(place, path, file)
        return found

    size = tried(work, path, "", place.limits, place.health)
    if size < least:
        raise UnreadableError(f"{path}: became shorter than {least} bytes while it was read")
    return size


def _fetch(place: Place, path: str, start: int, stop: int) -> Bytes:
    """Return what one request brings, asked for again where it brings too little."""

    def work() -> Bytes:
        file = _kept.take(place, path, stop)
        if file.size() < stop:
            raise UnreadableError(f"{path}: became shorter than {stop} bytes while it was read")
        data = np.empty(stop - start, np.uint8)
        fill(file, start, data)
        _kept.give(place, path, file)
        data.flags.writeable = False
        return data

    return tried(work, path, f"bytes {start} to {stop}", place.limits, place.health)


def fill(file: Any, start: int, data: Bytes) -> None:
    """Fill ``data`` with bytes of an opened file, which nobody else reads meanwhile.

    The S3 client of Arrow says that all bytes came where a server sent fewer, and leaves what was in memory in place of
    the rest. So the last byte is given a value before that cannot be left if they came; twice, since it may be that.

    Raises:
        ShortError: Fewer bytes came.
    """
    for unlikely in UNLIKELY:
        data[-1] = unlikely
        file.seek(start)
        count = file.readinto(data)
        if count != len(data):
            raise ShortError(f"only {count} bytes came")
        if data[-1] != unlikely:
            return
    raise ShortError(f"fewer than {len(data)} bytes came")

"""Files of a store that cannot be read, whole or in some blocks, as on a failing disk or for another user.

Tests may be root's, whom no mode keeps out, so what the system is asked for is answered here. Compiled code asks it
without Python: it is kept from that, and all goes the usual way.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storeio.errors import UnreadableError
from storeio.reading import local_files, many_files

Ranges = list[tuple[int, int]]


class Faults:
    """What cannot be read of the files below a directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root.resolve()
        self.denied: set[str] = set()
        self.unlisted: set[str] = set()
        self.blocks: dict[str, Ranges] = {}
        for name in ("open", "scandir", "pread", "preadv"):
            monkeypatch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
        monkeypatch.setattr(local_files, "_map", self._map(local_files._map))
        monkeypatch.setattr(many_files, "addresses", lambda: None)

    def deny(self, path: str) -> None:
        """Have a file, or a directory's names, be forbidden."""
        (self.unlisted if (self.root / path).is_dir() else self.denied).add(str(self.root / path))

    def fail(self, path: str, start: int, stop: int) -> None:
        """Have bytes of a file be unreadable."""
        self.blocks.setdefault(str(self.root / path), []).append((start, stop))

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, *more: Any, **named: Any) -> int:
            if "dir_fd" not in named and os.path.realpath(path) in self.denied:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return real(path, *more, **named)

        return opened

    def _scandir(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def listed(path: Any = ".") -> Any:
            if not isinstance(path, int) and os.path.realpath(path) in self.unlisted:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return real(path)

        return listed

    def _readable(self, handle: int, start: int, count: int) -> int:
        """Return how many bytes can be read from a place on.

        Raises:
            OSError: None.
        """
        bad = self.blocks.get(os.path.realpath(f"/proc/self/fd/{handle}"), [])
        first = min((low for low, high in bad if low < start + count and high > start), default=start + count)
        if first <= start and count:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return first - start

    def _pread(self, real: Callable[..., bytes]) -> Callable[..., bytes]:
        return lambda handle, count, start: real(handle, self._readable(handle, start, count), start)

    def _preadv(self, real: Callable[..., int]) -> Callable[..., int]:
        def read(handle: int, rooms: list[memoryview], start: int) -> int:
            (room,) = rooms
            return real(handle, [room[: self._readable(handle, start, len(room))]], start)

        return read

    def _map(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def mapped(handle: int, path: str, start: int, stop: int, populate_to: int) -> Any:
            bad = self.blocks.get(os.path.realpath(f"/proc/self/fd/{handle}"), [])
            if any(low < stop and high > start for low, high in bad):
                raise UnreadableError(f"{path}: bytes {start} to {stop}: the disk does not give all of them")
            return real(handle, path, start, stop, populate_to)

        return mapped


def failing(real: Callable[..., Any], number: int, error: int) -> Callable[..., Any]:
    """Return the function with its so-manieth call failing."""
    left = [number]

    def call(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(error, os.strerror(error))
        return real(*arguments)

    return call

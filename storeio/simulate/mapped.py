"""Fixed-size files of one directory as the broker keeps them: names, and how far each is written.

Positions are numbers in memory only; truncation changes them and deletes files, never bytes.

Source: ``MappedFileQueue``, ``MappedFile``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format.properties import java_long
from storeio.paths import file_name
from storeio.simulate.disk import Disk
from storeio.simulate.ends import QueuesStopError, RefusesError
from storeio.simulate.java import as_long, quotient, remainder
from storeio.simulate.rules import Rules

Bytes = npt.NDArray[np.uint8]

LENGTH: str = "length not matched message store config value"
NAME_BYTES: Final = 255  # what file systems take for one name


@dataclass(slots=True)
class Mapped:
    """One file; ``wrote`` is its read and write position, below 0 where the log or queue ends below 0."""

    path: str
    base: int
    size: int
    wrote: int
    first: bool = False  # made by this start, in an empty directory

    @property
    def stop(self) -> int:
        """Position behind the file's last byte; negative, as for a broker, where a name near 2^63 leads beyond that."""
        return as_long(self.base + self.size)

    @property
    def end(self) -> int:
        """Position behind what is written of it, likewise."""
        return as_long(self.base + self.wrote)


class MappedQueue:
    """The files of a directory in the order in which they were loaded."""

    def __init__(self, disk: Disk, directory: str, size: int) -> None:
        self.disk, self.directory, self.size = disk, _plain(directory), size
        self.files: list[Mapped] = []
        self._rises = True  # each file begins and ends where the one before it does, or behind that

    def load(self, rules: Rules) -> None:
        """List the directory.

        Raises:
            RefusesError: A file that no broker of this line passes over.
        """
        entries = self.disk.entries(self.directory)
        for i, entry in enumerate(entries):
            path = f"{self.directory}/{entry.name}"
            if entry.is_dir and rules.skips_directories:
                continue
            if entry.size == 0 and not entry.is_dir and rules.drops_empty_last and i == len(entries) - 1:
                self.disk.delete(path)
                continue
            if entry.is_dir or entry.size != self.size:
                kind = "a directory" if entry.is_dir else f"{entry.size} bytes long"
                raise RefusesError(f"{path} is {kind}, expected a file of {self.size} bytes", LENGTH, path)
            base = java_long(entry.name)
            if base is None:
                raise RefusesError(f"{path}: the name is no number", "NumberFormatException", path)
            self._take(Mapped(path, base, self.size, self.size))

    def truncate(self, offset: int) -> list[Mapped]:
        """Set the positions for an end at ``offset``; return the files behind it, which are deleted."""
        gone: list[Mapped] = []
        for file in self.files:
            if file.stop > offset:
                if offset >= file.base:
                    file.wrote = remainder(offset, self.size)
                else:
                    gone.append(file)
        for file in reversed(gone):
            self._forget(file)
        for file in gone:
            self.disk.delete(file.path)
        return gone

    def drop(self, file: Mapped) -> None:
        """Unlink a file."""
        self._forget(file)
        self.disk.delete(file.path)

    def _take(self, file: Mapped) -> None:
        last = self.files[-1] if self.files else file
        self._rises &= last.base <= file.base and last.stop <= file.stop
        self.files.append(file)

    def _forget(self, file: Mapped) -> None:
        if self.files[-1] is file:  # thousands go from the end
            self.files.pop()
        else:
            self.files.remove(file)

    def append_file(self, base: int) -> Mapped:
        """Make a file of zeros behind the others; one that is there keeps its bytes.

        Raises:
            QueuesStopError: No such file can be made; the broker tries thirty times, a second each.
        """
        path = self._path(base)
        if self._obstacle(path):
            raise QueuesStopError(f"no file {path!r} can be made")
        self.disk.create(path, self.size)
        file = Mapped(path, base, self.size, 0, first=not self.files)
        self._take(file)
        return file

    def _path(self, base: int) -> str:
        """Return the path of the file that a broker makes at a position."""
        return f"{self.directory}/{'-' if base < 0 else ''}{file_name(abs(base))}"

    @property
    def in_the_way(self) -> str:
        """The path of what lies where the next file would be made, or one of its directories; else empty."""
        return self._obstacle(self._path(self.files[-1].stop if self.files else 0))

    def _obstacle(self, path: str) -> str:
        """Return what keeps a file system from taking a path, empty if nothing.

        A topic out of damaged bytes may hold anything: then it is the path itself.
        """
        parts = path.split("/")
        if "\0" in path or any(len(part.encode("utf-8", "replace")) > NAME_BYTES for part in parts):
            return path
        above = ("/".join(parts[:i]) for i in range(1, len(parts)))
        files = (name for name in above if self.disk.is_file(name))
        return next(files, path if self.disk.is_directory(path) else "")

    @property
    def min_offset(self) -> int:
        """Where the first file begins, -1 without files."""
        return self.files[0].base if self.files else -1

    @property
    def max_offset(self) -> int:
        """Where the last file is written to, 0 without files."""
        return self.files[-1].end if self.files else 0

    def find(self, offset: int, *, or_first: bool = False) -> Mapped | None:
        """Return the file that holds an offset. Source: ``findMappedFileByOffset``."""
        found = self._found_among(self.files, offset, rises=self._rises)
        return found or (self.files[0] if or_first and self.files else None)

    def base_behind(self, offset: int) -> int | None:
        """Return the lowest place at which a file begins behind an offset, None if none does."""
        if not self._rises:
            return min((file.base for file in self.files if file.base > offset), default=None)
        i = bisect_right(self.files, offset, key=lambda file: file.base)
        return self.files[i].base if i < len(self.files) else None

    def _found_among(self, files: Sequence[Mapped], offset: int, *, rises: bool = False) -> Mapped | None:
        if not files or not files[0].base <= offset < files[-1].stop:
            return None
        i = quotient(offset, self.size) - quotient(files[0].base, self.size)
        if 0 <= i < len(files) and files[i].base <= offset < files[i].stop:
            return files[i]
        if rises:
            i = bisect_right(files, offset, key=lambda file: file.stop)
            return files[i] if files[i].base <= offset else None
        return next((file for file in files if file.base <= offset < file.stop), None)

    @property
    def hides(self) -> str:
        """The path of the file that takes what is new, where readers look for that elsewhere; else empty.

        Files are written from where they are, and read at an offset's remainder by their length.
        """
        if not self.files:
            return ""
        *others, last = self.files
        if last.wrote >= last.size:
            others, last = self.files, Mapped(self._path(last.stop), last.stop, self.size, 0)
        is_found = self._found_among([*others, last], last.end) is last
        return "" if is_found and last.end >= 0 and remainder(last.end, self.size) == last.wrote else last.path

    def append(self, file: Mapped, data: bytes) -> bool:
        """Append to a file that has room; tell whether it has.

        Below 0 nothing can be written, of which the broker only logs the exception: the position moves on.
        """
        if file.wrote + len(data) > file.size:
            return False
        if file.wrote >= 0:
            self.disk.write(file.path, file.wrote, data)
        file.wrote += len(data)
        return True

    def read(self, file: Mapped, start: int, stop: int) -> Bytes:
        """Return bytes of a file."""
        return self.disk.read(file.path, start, stop)


def _plain(path: str) -> str:
    """Return a path without empty and ``.`` parts, with ``..`` resolved; it never leaves the store."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)

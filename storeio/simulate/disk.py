"""A store's files as a start would change them: an overlay in memory over files that are only read.

What is written is kept by pages, so a changed file costs what was changed of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.paths import StoreFile

Bytes = npt.NDArray[np.uint8]
Read = Callable[[str, int, int], Bytes]
"""``read(path, start, stop)``: exactly these bytes of a file of the store."""

NOWHERE: Final = "a link to where no file can be made"
PAGE: Final = 4096
CHUNK: Final = 16 << 20
PIECE: Final = 64 << 10  # read at once where records are looked at one by one


@dataclass(slots=True)
class File:
    """One file: its length, whether it is a directory, and the pages that differ from the store's."""

    path: str
    size: int
    is_dir: bool = False
    special: str = ""  # what it is, if it is neither file nor directory, in words; it cannot be mapped
    made: bool = False  # by the start; nothing of it is in the store
    stored: int = 0  # bytes of it that the store has
    pages: dict[int, bytearray | memoryview] = field(default_factory=dict)
    pinned: Bytes | None = None  # the first pages, side by side
    digest: str = ""  # if it was asked for and nothing was written since


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a directory."""

    name: str
    is_dir: bool
    size: int
    special: str = ""


class Disk:
    """The files of one store. Reads go to the store where nothing was written."""

    def __init__(self, files: Iterable[StoreFile], read: Read, directories: Iterable[str] = ()) -> None:
        self._read = read
        self.files = {
            f.path: File(f.path, f.size, f.is_dir, f.special, stored=0 if f.is_dir else f.size) for f in files
        }
        self.deleted: list[str] = []
        self.made: list[str] = []
        self._children: dict[str, set[str]] = {}
        for path in (*self.files, *directories):
            self._enter(path)

    def _enter(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition("/")
            names = self._children.setdefault(parent, set())
            if name in names:
                return
            names.add(name)
            path = parent

    def entries(self, directory: str) -> list[Entry]:
        """Return what lies in a directory, by name as Java sorts names: by UTF-16 units."""
        found = []
        for name in self._children.get(directory, ()):
            path = f"{directory}/{name}" if directory else name
            file = self.files.get(path)
            if file is not None:
                found.append(Entry(name, file.is_dir, file.size, file.special))
            elif path in self._children:
                found.append(Entry(name, True, 0))
        return sorted(found, key=lambda e: e.name.encode("utf-16-be", "surrogatepass"))

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file or directory."""
        file = self.files.get(path)
        return bool(self._children.get(path)) or (file is not None and file.special != NOWHERE)

    def is_file(self, path: str) -> bool:
        """Tell whether there is a plain file of this name."""
        file = self.files.get(path)
        return file is not None and not file.is_dir

    def is_directory(self, path: str) -> bool:
        """Tell whether there is a directory of this name."""
        file = self.files.get(path)
        return bool(self._children.get(path)) or (file is not None and file.is_dir)

    def no_file(self, path: str) -> str:
        """Return what lies there that no broker can open as a file, in words; empty if nothing does."""
        file = self.files.get(path)
        return "a directory" if self.is_directory(path) else file.special if file is not None else ""

    def size(self, path: str) -> int:
        """Return a file's length, 0 if there is none."""
        file = self.files.get(path)
        return file.size if file else 0

    def create(self, path: str, size: int) -> None:
        """Make a file of zeros, or make one longer."""
        file = self.files.get(path)
        if file is None:
            self.files[path] = File(path, size, made=True)
            self.made.append(path)
            self._enter(path)
        else:
            file.size = max(file.size, size)
            file.digest = ""

    def delete(self, path: str) -> None:
        """Unlink a file."""
        if self.files.pop(path, None) is not None:
            self.deleted.append(path)
            parent, _, name = path.rpartition("/")
            self._children[parent].discard(name)

    def read(self, path: str, start: int, stop: int) -> Bytes:
        """Return bytes of a file; a view of the store's where nothing of them was written."""
        return self.read_of(self.files[path], start, stop)

    def read_of(self, file: File, start: int, stop: int) -> Bytes:
        """Return bytes of a file, which may have been deleted since; otherwise as ``read``."""
        first, last = start // PAGE, -(-stop // PAGE)
        touched = (
            [n for n in range(first, last) if n in file.pages]
            if len(file.pages) > last - first
            else [n for n in file.pages if first <= n < last]
        )
        if not touched and stop <= file.stored:
            return self._read(file.path, start, stop)
        data = np.zeros(max(stop - start, 0), np.uint8)
        known = min(stop, file.stored)
        if known > start:
            data[: known - start] = self._read(file.path, start, known)
        for n in touched:
            low, high = max(n * PAGE, start), min((n + 1) * PAGE, stop)
            data[low - start : high - start] = np.frombuffer(file.pages[n], np.uint8)[low - n * PAGE : high - n * PAGE]
        return data

    def write(self, path: str, position: int, data: bytes | memoryview) -> None:
        """Write into a file, which is long enough."""
        file = self.files[path]
        file.digest = ""
        at = 0
        while at < len(data):
            n, inside = divmod(position + at, PAGE)
            count = min(PAGE - inside, len(data) - at)
            page = file.pages.get(n)
            if page is None and count == PAGE:
                file.pages[n] = bytearray(data[at : at + PAGE])
            else:
                if page is None:
                    whole = self.read(path, n * PAGE, min((n + 1) * PAGE, file.size)).tobytes()
                    page = file.pages[n] = bytearray(whole.ljust(PAGE, b"\0"))
                page[inside : inside + count] = data[at : at + count]
            at += count

    def pin(self, path: str, stop: int) -> Bytes:
        """Return a file's first bytes, up to ``stop`` at least, to be changed in place; ``write`` changes them, too."""
        file = self.files[path]
        pages = -(-stop // PAGE)
        if file.pinned is None or len(file.pinned) < pages * PAGE:
            pinned = np.zeros(pages * PAGE, np.uint8)
            if file.stored or file.pages:
                known = min(len(pinned), file.size)
                pinned[:known] = self.read(path, 0, known)
            view = pinned.data
            file.pages.update((n, view[n * PAGE : (n + 1) * PAGE]) for n in range(pages))
            file.pinned = pinned
        return file.pinned

    def content(self, path: str) -> Iterator[Bytes]:
        """Yield a file's bytes in pieces of bounded size."""
        for _, piece in self.pieces(path, 0, self.files[path].size):
            yield piece

    def pieces(self, path: str, start: int, stop: int, count: int = CHUNK) -> Iterator[tuple[int, Bytes]]:
        """Yield bytes of a file in pieces of bounded size, each with its position."""
        for at in range(start, stop, count):
            yield at, self.read(path, at, min(at + count, stop))

    def stretches(self, path: str, stored: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return where a file may have other bytes than zeros, in order, if the store's has some in ``stored``."""
        file = self.files[path]
        # The start counts always: what a running broker's header was once may lie where zeros are now.
        found = [(0, PAGE), *stored, *((n * PAGE, (n + 1) * PAGE) for n in file.pages)]
        merged: list[tuple[int, int]] = []
        for start, stop in sorted((start, min(stop, file.size)) for start, stop in found if start < file.size):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(stop, merged[-1][1])
            else:
                merged.append((start, stop))
        return merged

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file."""
        file = self.files[path]
        if not file.digest or file.pinned is not None:  # pinned bytes change without a word
            found = hashlib.sha256()
            for piece in self.content(path):
                found.update(piece.data)
            file.digest = found.hexdigest()
        return file.digest

    def changed(self, path: str) -> bool:
        """Tell whether a file's bytes may differ from the store's."""
        file = self.files[path]
        return file.made or bool(file.pages) or file.size != file.stored

    def below(self, prefixes: Sequence[str]) -> list[str]:
        """Return the files below some directories, sorted."""
        return sorted(p for p, f in self.files.items() if not f.is_dir and p.split("/")[0] in prefixes)


class FileBytes:
    """Bytes of a file of the store as if they were all there: read piece by piece as they are asked for."""

    def __init__(self, read: Callable[[int, int], Bytes], size: int) -> None:
        self._read, self._size = read, size
        self._start = 0
        self._piece = memoryview(b"")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> memoryview:
        start, stop, _ = wanted.indices(self._size)
        if not self._start <= start <= stop <= self._start + len(self._piece):
            if stop - start > PIECE:
                return self._read(start, stop).data
            self._start = start
            self._piece = self._read(start, min(start + PIECE, self._size)).data
        return self._piece[start - self._start : stop - self._start]

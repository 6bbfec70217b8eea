"""Index files as the broker loads them and adds keys.

Source: ``IndexService``, ``IndexFile``, ``IndexHeader``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format import commitlog as log
from storeio.format import index as format_
from storeio.format import properties as text
from storeio.simulate.disk import Disk, File
from storeio.simulate.ends import JavaError
from storeio.simulate.java import MAX_INT, as_long
from storeio.simulate.message import Request
from storeio.simulate.rules import Rules

Entries = npt.NDArray[np.void]
AT_ONCE: Final = 1 << 20  # units that are looked at
HEADER: Final = struct.Struct(">qqqqii")
UNIT: Final = struct.Struct(">iqii")
DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class IndexFile:
    """One index file; the header's fields are in memory and on the disk alike."""

    path: str
    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots: int = 0
    count: int = 1

    def header(self) -> bytes:
        """Return the 40 bytes."""
        return HEADER.pack(self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.slots, self.count)


class Index:
    """All index files of a store."""

    def __init__(self, disk: Disk, slots: int, units: int, rules: Rules, now_ms: int) -> None:
        self.disk, self.slots, self.units, self.rules, self.now_ms = disk, slots, units, rules, now_ms
        self.bytes = format_.file_length(slots, units)
        self.files: list[IndexFile] = []
        self.destroyed: list[tuple[IndexFile, File]] = []

    def load(self, *, clean: bool, index_timestamp_ms: int) -> str:
        """Map files; after a crash delete those newer than the checkpoint. Return the path at which loading stops."""
        for entry in self.disk.entries("index"):
            path = f"index/{entry.name}"
            if text.java_long(entry.name) is None:
                continue
            if self.disk.no_file(path):
                return path
            self.disk.create(path, self.bytes)  # a shorter file is extended
            fields = HEADER.unpack(self.disk.read(path, 0, HEADER.size).tobytes())
            file = IndexFile(path, *fields)
            file.count = max(file.count, 1)
            if not clean and file.end_ms > index_timestamp_ms:
                self.destroyed.append((file, self.disk.files[path]))
                self.disk.delete(path)
                continue
            self.files.append(file)
        return ""

    def build(self, request: Request) -> None:
        """Add the keys of a record, unless the last file is ahead of it.

        Raises:
            JavaError: As of ``last``.
        """
        file = self.last()
        if request.offset < file.end_offset or request.transaction == log.SYS_ROLLBACK:
            return
        found = request.properties
        keys = [found[text.UNIQUE_KEY]] if text.UNIQUE_KEY in found else []
        keys += [key for key in text.java_split(found.get(text.KEYS, ""), " ") if key]
        if self.rules.tag_keys and found.get(text.TAGS):
            keys.append(f"T#{found[text.TAGS]}")
        for key in keys:
            file = self.last()
            self.put(file, text.key_hash(f"{request.topic}#{key}"), request.offset, request.store_ms)

    def entries(self, file: IndexFile, of: File | None = None) -> Iterator[Entries]:
        """Yield the units of a file that the header counts, in pieces; ``of`` is the file where it was deleted."""
        of = self.disk.files[file.path] if of is None else of
        first = format_.units_start(self.slots)
        for number in range(1, min(file.count, self.units), AT_ONCE):
            stop = min(number + AT_ONCE, file.count, self.units)
            low, high = (first + format_.UNIT_BYTES * at for at in (number, stop))
            yield self.disk.read_of(of, low, high).view(format_.UNIT)

    @property
    def obstacle(self) -> str:
        """What lies in place of the directory, below which no file can be made; empty if nothing does."""
        return "index" if self.disk.is_file("index") else ""

    def last(self) -> IndexFile:
        """Return the file that takes the next key; made if there is none or the last one is full.

        Raises:
            JavaError: None can be made: the broker unlocks what it has not locked.
        """
        if self.files and self.files[-1].count < self.units:
            return self.files[-1]
        if self.obstacle:
            raise JavaError("no index file can be made: index is no directory")
        before = self.files[-1] if self.files else None
        file = IndexFile(self._fresh_path())
        self.disk.create(file.path, self.bytes)
        if before is not None:
            if before.end_offset > 0:
                file.begin_offset = file.end_offset = before.end_offset
            if before.end_ms > 0:
                file.begin_ms = file.end_ms = before.end_ms
        self.write_header(file, fresh=True)
        self.files.append(file)
        return file

    def _fresh_path(self) -> str:
        """Return the path of a new file: the time, behind those in the names of the files that are there.

        A broker's clock may be in another zone than this one; names of times that nowhere have come stay behind.
        """
        latest = format_.named_at(self.now_ms + DAY_MS)
        names = [text.java_long(entry.name) or 0 for entry in self.disk.entries("index")]
        last = max((name for name in names if name <= latest), default=0)
        return format_.file_path(max(format_.named_at(self.now_ms), last + 1))

    def write_header(self, file: IndexFile, *, fresh: bool = False) -> None:
        """Write what is known of a file; a fresh one has no count yet."""
        header = file.header()
        self.disk.write(file.path, 0, header[:36] + bytes(4) if fresh else header)

    def put(self, file: IndexFile, value: int, offset: int, store_ms: int) -> None:
        """Add a key by its hash to a file that has room."""
        slot_at = 40 + 4 * (value % self.slots)
        (slot,) = struct.unpack(">i", self.disk.read(file.path, slot_at, slot_at + 4).tobytes())
        if slot <= 0 or slot > file.count:
            slot = 0
        passed_ms = as_long(store_ms - file.begin_ms)
        seconds = 0 if file.begin_ms <= 0 or passed_ms < 0 else min(passed_ms // 1000, MAX_INT)
        at = 40 + 4 * self.slots + UNIT.size * file.count
        self.disk.write(file.path, at, UNIT.pack(value, offset, seconds, slot))
        self.disk.write(file.path, slot_at, struct.pack(">i", file.count))
        if file.count <= 1:
            file.begin_offset, file.begin_ms = offset, store_ms
        if slot == 0:
            file.slots += 1
        file.count += 1
        file.end_offset, file.end_ms = offset, store_ms
        self.write_header(file)

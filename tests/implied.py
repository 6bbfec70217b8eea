"""What a log's other files must hold, derived from its records in the obvious way.

``derive`` goes from records to queues, ext units and index entries: one record at a time, one file a bytearray. It
shares no code with ``storeio``, so it is the oracle of queue and index checks; the tests prove it against stores of
real brokers, byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import slow

PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
Files = dict[str, bytearray]  # path below the store root -> content


@dataclass(frozen=True)
class Settings:
    """Sizes and switches of the broker that is imitated; the defaults are those of 5.3.3, but small."""

    segment_bytes: int = 16384
    units_per_file: int = 50
    batch_units_per_file: int = 300_000
    index_slots: int = 50
    index_units: int = 200
    ext: bool = False
    ext_bytes: int = 4096
    multi_dispatch: bool = False
    batch_topics: frozenset[str] = frozenset()
    property_crc: bool = False
    trailing_separator: bool = True  # 4.9.1 to 5.1.4 strip it
    tag_keys: bool = False  # since 5.4.0


@dataclass
class Queue:
    """One consume queue as ``ConsumeQueue`` fills it: ``wrote`` is its end in bytes, None before its first unit."""

    directory: str
    file_bytes: int
    wrote: int | None = None
    max_physical: int = -1

    def put(self, files: Files, offset: int, size: int, tags_code: int, queue_offset: int) -> None:
        """Append one unit unless the queue is ahead of it; spec 4.2."""
        if offset + size <= self.max_physical:
            return
        expected = queue_offset * 20
        if self.wrote is None:
            self.wrote = expected - expected % self.file_bytes
            while self.wrote < expected:
                self._append(files, struct.pack(">qiq", 0, 2**31 - 1, 0))
        elif queue_offset != 0 and expected < self.wrote:
            return
        self.max_physical = offset + size
        self._append(files, struct.pack(">qiq", offset, size, tags_code))

    def _append(self, files: Files, unit: bytes) -> None:
        assert self.wrote is not None
        _put(files, self.directory, self.file_bytes, self.wrote, unit)
        self.wrote += len(unit)


def _put(files: Files, directory: str, file_bytes: int, at: int, unit: bytes) -> None:
    """Write at a byte position of a queue, into the file that holds it."""
    base = at - at % file_bytes
    content = files.setdefault(f"{directory}/{base:020d}", bytearray(file_bytes))
    content[at - base : at - base + len(unit)] = unit


@dataclass
class Index:
    """The index files in order of creation, as ``IndexFile.putKey`` fills them; spec 5.2."""

    slots: int
    units: int
    files: list[bytearray] = field(default_factory=list)

    def count(self) -> int:
        """Return indexCount of the last file."""
        return max(int(struct.unpack_from(">i", self.files[-1], 36)[0]), 1)

    def touch(self) -> None:
        """Make the last file one that has room."""
        if self.files and self.count() < self.units:
            return
        new = bytearray(40 + self.slots * 4 + self.units * 20)
        struct.pack_into(">i", new, 36, 1)
        if self.files:
            end_ms, end_offset = struct.unpack_from(">q", self.files[-1], 8)[0], self.end_offset()
            struct.pack_into(">qqqq", new, 0, end_ms, end_ms, end_offset, end_offset)
        self.files.append(new)

    def end_offset(self) -> int:
        """Return endPhyOffset of the last file."""
        return int(struct.unpack_from(">q", self.files[-1], 24)[0])

    def put(self, key_hash: int, offset: int, store_ms: int) -> None:
        """Append one entry."""
        self.touch()
        data, n = self.files[-1], self.count()
        slot_at = 40 + 4 * (key_hash % self.slots)
        (previous,) = struct.unpack_from(">i", data, slot_at)
        (begin_ms,) = struct.unpack_from(">q", data, 0)
        seconds = int((store_ms - begin_ms) / 1000) if begin_ms > 0 else 0
        seconds = max(0, min(seconds, 2**31 - 1))
        struct.pack_into(">iqii", data, 40 + 4 * self.slots + 20 * n, key_hash, offset, seconds, previous)
        struct.pack_into(">i", data, slot_at, n)
        if n == 1:
            struct.pack_into(">q", data, 0, store_ms)
            struct.pack_into(">q", data, 16, offset)
        struct.pack_into(">q", data, 8, store_ms)
        struct.pack_into(">q", data, 24, offset)
        (used,) = struct.unpack_from(">i", data, 32)
        struct.pack_into(">ii", data, 32, used + (previous == 0), n + 1)


@dataclass
class Derived:
    """What a log implies: queue files by path, index files in order."""

    files: Files
    index: list[bytearray]


def derive(
    records: list[slow.Head], settings: Settings, *, tag_keys: Callable[[slow.Head], bool] | None = None
) -> Derived:
    """Return what a broker that dispatched these records, in log order and from the first, has on disk.

    ``tag_keys`` says of which records the tag was indexed, where several brokers wrote one store.
    """
    files: Files = {}
    queues: dict[tuple[str, int], Queue] = {}
    ext_ends: dict[str, int] = {}
    batch_ends: dict[str, int] = {}
    index = Index(settings.index_slots, settings.index_units)
    tagged = tag_keys or (lambda head: settings.tag_keys)
    for head in records:
        topic = slow.java_text(head.topic)
        if head.sys_flag & 0xC not in (PREPARED, ROLLBACK):
            if topic in settings.batch_topics:
                _put_batch(files, batch_ends, topic, head, settings)
            else:
                code = _ext_address(files, ext_ends, topic, head, settings) if settings.ext else head.tags_code
                _queue(queues, topic, head.queue_id, settings).put(
                    files, head.physical, head.size, code, head.queue_offset
                )
                if settings.multi_dispatch:
                    _put_light(files, queues, head, settings)
        index.touch()
        if head.physical >= index.end_offset():
            for key_hash, kind in head.keys:
                if kind != "TAGS" or tagged(head):
                    index.put(key_hash, head.physical, head.store_ms)
    return Derived(files, index.files)


def _queue(queues: dict[tuple[str, int], Queue], topic: str, queue_id: int, settings: Settings) -> Queue:
    directory = f"consumequeue/{topic}/{queue_id}"
    return queues.setdefault((topic, queue_id), Queue(directory, 20 * settings.units_per_file))


def _put_light(files: Files, queues: dict[tuple[str, int], Queue], head: slow.Head, settings: Settings) -> None:
    """Append a unit to each light queue that the message names; spec 3.4.

    5.x passes over some topics, whose messages have the lists of others. Those end with a separator as its own do.
    """
    passed_over = head.topic.startswith((b"%RETRY%", b"rmq_sys_")) or head.topic == SCHEDULE.encode()
    if passed_over and head.raw.endswith(b"\x02"):
        return
    listed, numbered = (head.pairs.get(f"INNER_MULTI_{name}", "") for name in ("DISPATCH", "QUEUE_OFFSET"))
    names, numbers = slow.java_split(listed, ","), slow.java_split(numbered, ",")
    if listed.strip() and numbered.strip() and len(names) == len(numbers):
        for name, number in zip(names, numbers, strict=True):
            queue_id = 0 if name.startswith("%LMQ%") else head.queue_id
            _queue(queues, name, queue_id, settings).put(files, head.physical, head.size, head.tags_code, int(number))


def _put_batch(files: Files, ends: dict[str, int], topic: str, head: slow.Head, settings: Settings) -> None:
    directory = f"batchconsumequeue/{topic}/{head.queue_id}"
    at = ends.get(directory, 0)
    unit = struct.pack(
        ">qiqqqhii", head.physical, head.size, head.tags_code, head.store_ms, head.batch_base, head.batch_size, -1, 0
    )
    _put(files, directory, 46 * settings.batch_units_per_file, at, unit)
    ends[directory] = at + 46


def _ext_address(files: Files, ends: dict[str, int], topic: str, head: slow.Head, settings: Settings) -> int:
    """Append an ext unit without bitmap and return the address that the consume queue unit stores; spec 4.4."""
    directory = f"consumequeue_ext/{topic}/{head.queue_id}"
    at = ends.get(directory, 0)
    if at % settings.ext_bytes + 20 > settings.ext_bytes - 4:
        _put(files, directory, settings.ext_bytes, at, b"\xff\xff")
        at += settings.ext_bytes - at % settings.ext_bytes
    _put(files, directory, settings.ext_bytes, at, struct.pack(">hqqh", 20, head.tags_code, head.store_ms, 0))
    ends[directory] = at + 20
    return at - 2**63

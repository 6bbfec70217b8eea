"""The broker's check of one record, step by step, and the dispatch request that it makes.

Slow and exact: it decides where records end that the compiled walk does not accept, and proves the
walk in the tests.

Source: ``CommitLog.checkMessageAndReturnSize``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

from storeio.format import commitlog as log
from storeio.format import properties as text
from storeio.simulate.disk import FileBytes
from storeio.simulate.ends import CrashesError, JavaError
from storeio.simulate.java import MAX_INT, as_int, as_long
from storeio.simulate.rules import Rules

SCRATCH_BYTES: Final = 1 << 20  # maxCheckMessageReuseBufferSize
SPARE_BYTES: Final = 16 << 20  # of the old objects' room, for all but the record that is looked at
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError: Java heap space"


@dataclass(slots=True)
class Request:
    """What a record asks queues and index for; ``offset`` is what its field says, ``at`` where it lies."""

    topic: str
    queue_id: int
    offset: int
    at: int
    size: int
    tags_code: int
    store_ms: int
    queue_offset: int
    sys_flag: int
    base: int
    batch: int
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def transaction(self) -> int:
        """Transaction bits."""
        return self.sys_flag & log.SYS_TRANSACTION


@dataclass(slots=True)
class Checked:
    """Answer of the check; ``end`` is where parsing stopped."""

    size: int
    good: bool
    end: int = 0
    request: Request | None = None


def most_at_once(heap_bytes: int) -> int:
    """Return the bytes that a broker can allocate at once: a JVM keeps a third of its heap for young objects."""
    return heap_bytes * 2 // 3 - SPARE_BYTES


class Checker:
    """Checks records of one thread: since 5.5.1 its scratch array outlives a record."""

    def __init__(self, rules: Rules, delays_ms: tuple[int, ...], heap_bytes: int, *, late_delays: bool) -> None:
        self.rules, self.delays_ms, self.late_delays = rules, delays_ms, late_delays
        self._most = most_at_once(heap_bytes)
        self._scratch = 0

    def met(self, size: int) -> None:
        """Take note of an accepted record that was not checked here; at most SCRATCH_BYTES long."""
        self._scratch = max(self._scratch, size)

    def check(self, data: memoryview | FileBytes, at: int, base: int, *, crc: bool, body: bool) -> Checked:
        """Return the answer for the record at ``data[at]``; ``data`` ends where the broker's buffer does.

        Raises:
            CrashesError: The record claims more memory than there is.
        """
        reader = _Reader(data, at)
        try:
            return self._check(reader, at, base, crc=crc, body=body)
        except JavaError:
            return Checked(-1, False, reader.at)

    def _room(self, total: int) -> int:
        """Return how long the array is into which fields are read."""
        if total < 0:
            raise JavaError("negative array size")
        if total > self._most:
            raise CrashesError(f"a record claims {total} bytes, and the heap has no room for them", OUT_OF_MEMORY)
        if not self.rules.no_negative_size or total > SCRATCH_BYTES:
            return total
        self._scratch = max(self._scratch, total)
        return self._scratch

    def _check(self, r: _Reader, at: int, base: int, *, crc: bool, body: bool) -> Checked:
        left = len(r.data) - at
        if self.rules.size_within_file and left <= 4:
            return Checked(-1, False, at)
        total = r.number(">i", 4)
        if self.rules.no_negative_size and total < 0:
            return Checked(-1, False, r.at)
        if self.rules.size_within_file and left - 4 < as_int(total - 4):
            return Checked(-1, False, r.at)
        magic = r.number(">i", 4)
        if magic == log.MAGIC_BLANK:
            return Checked(0, True, r.at)
        if magic != log.MAGIC_V1 and not (magic == log.MAGIC_V2 and self.rules.long_topics):
            return Checked(-1, False, r.at)
        room = self._room(total)
        body_crc, queue_id, _flag = struct.unpack(">iii", r.take(12))
        queue_offset, physical, sys_flag, _born = struct.unpack(">qqiq", r.take(28))
        born, store = log.host_bytes(sys_flag)
        r.take(born, room)
        store_ms = r.number(">q", 8)
        r.take(store, room)
        r.take(12)  # reconsume times, prepared transaction offset
        length = r.number(">i", 4)
        if length > 0 and body:
            content = r.take(length, room)
            if crc and zlib.crc32(content) & log.CRC_MASK != body_crc:
                return Checked(-1, False, r.at)
        elif length > 0:
            r.skip(length)
        topic_length = r.number(">h", 2) if magic == log.MAGIC_V2 else r.number(">b", 1)
        topic = text.java_decode(bytes(r.take(topic_length, room)))
        properties_length = r.number(">h", 2)
        raw = bytes(r.take(properties_length, room)) if properties_length > 0 else b""
        found = text.parse(raw)
        tags_code = self._tags_code(topic, found, store_ms)
        if log.record_size(sys_flag, magic, length, topic_length, properties_length) != total:
            return Checked(total, False, r.at)
        first, count = queue_offset, 1
        if text.INNER_NUM in found and text.INNER_BASE in found and self.rules.batch_queues:
            first, count = _parsed(text.java_long(found[text.INNER_BASE])), _short(found[text.INNER_NUM])
        request = Request(
            topic, queue_id, physical, base + at, total, tags_code, store_ms, queue_offset, sys_flag, first, count,
            found,
        )  # fmt: skip
        return Checked(total, True, r.at, request)

    def _tags_code(self, topic: str, found: dict[str, str], store_ms: int) -> int:
        tags = found.get(text.TAGS, "")
        code = text.java_hash(tags) if tags else 0
        if topic != log.SCHEDULE_TOPIC or text.DELAY not in found:
            return code
        level = _parsed(text.java_int(found[text.DELAY]))
        level = min(level, 0 if self.late_delays else len(self.delays_ms) - 1)
        return as_long(store_ms + self.delays_ms[level]) if level > 0 else code


@dataclass(slots=True)
class _Reader:
    """A Java buffer: reading past its end throws."""

    data: memoryview | FileBytes
    at: int

    def take(self, count: int, room: int = MAX_INT) -> memoryview:
        """Return the next bytes, which have to fit into an array of ``room``."""
        if count < 0 or count > room or self.at + count > len(self.data):
            raise JavaError("buffer underflow")
        self.at += count
        return self.data[self.at - count : self.at]

    def skip(self, count: int) -> None:
        """Move on."""
        if self.at + count > len(self.data):
            raise JavaError("position beyond the limit")
        self.at += count

    def number(self, form: str, count: int) -> int:
        """Return the next number."""
        return int(struct.unpack(form, self.take(count))[0])


def _parsed(value: int | None) -> int:
    if value is None:
        raise JavaError("NumberFormatException")
    return value


def _short(value: str) -> int:
    number = _parsed(text.java_int(value))
    if not -(2**15) <= number < 2**15:
        raise JavaError("NumberFormatException")
    return number

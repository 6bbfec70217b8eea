"""Builds small stores as a broker would.

``StoreBuilder`` places records by the broker's rules (queue offsets, blank records, batches that stay whole); what lies
beside the log is as ``implied`` derives it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import slow
from implied import PREPARED, ROLLBACK, SCHEDULE, Settings, derive

from storeio.format import commitlog as log
from storeio.format.commitlog import Host, Record

LOCAL = Host(bytes((127, 0, 0, 1)), 10911)
LOCAL_V6 = Host(bytes.fromhex("20010db8000000000000000000000001"), 10911)


@dataclass
class Placed:
    """Where a message went."""

    physical_offset: int
    queue_offset: int
    raw: bytes


class StoreBuilder:
    """Appends messages as a broker does; ``close`` writes the store directory.

    Args:
        root: Directory to make; None for a log in memory only.
        base: Physical offset at which the log begins, a multiple of ``segment_bytes``.
        start_ms: Store time of the first message; each later one is ``step_ms`` newer.
        sizes: Fields of ``Settings``.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        base: int = 0,
        start_ms: int = 1_700_000_000_000,
        step_ms: int = 7,
        settings: Settings | None = None,
        **sizes: object,
    ) -> None:
        self.root = root
        self.settings = settings or Settings(**sizes)  # type: ignore[arg-type]
        self.now_ms = start_ms
        self.step_ms = step_ms
        self.base = base
        self.segments: list[bytearray] = []
        self.left = 0  # bytes free in the last segment
        self.next_offsets: dict[tuple[str, int], int] = {}
        self.messages = 0

    @property
    def end(self) -> int:
        """Return the physical offset at which the next record would lie, were there room."""
        return self.base + len(self.segments) * self.settings.segment_bytes - self.left

    def message(
        self,
        topic: str,
        queue_id: int = 0,
        body: bytes = b"",
        *,
        tags: str | None = None,
        keys: str | None = None,
        unique_key: str | None = None,
        delay: int | None = None,
        lmq: tuple[str, ...] = (),
        inner: int | None = None,
        properties: Mapping[str, str] | bytes | None = None,
        transaction: int = 0,
        sys_flag: int = 0,
        compressed: bool = False,
        born_host: Host = LOCAL,
        store_host: Host = LOCAL,
        queue_offset: int | None = None,
        store_ms: int | None = None,
        born_ms: int | None = None,
        flag: int = 0,
        reconsume: int = 0,
        prepared: int = 0,
    ) -> Placed:
        """Append one message; properties given as bytes are stored as they are."""
        if delay is not None and topic != SCHEDULE:
            pairs = {"REAL_TOPIC": topic, "REAL_QID": str(queue_id), **dict(properties or {})}  # type: ignore[arg-type]
            properties, topic, queue_id = pairs, SCHEDULE, delay - 1
        number = self._number(topic, queue_id, transaction, inner or 1) if queue_offset is None else queue_offset
        if isinstance(properties, bytes):
            text = properties
        else:
            given: dict[str, str | None] = {
                "TAGS": tags,
                "KEYS": keys,
                "UNIQ_KEY": unique_key,
                "DELAY": None if delay is None else str(delay),
            }
            if lmq:
                given |= {"INNER_MULTI_DISPATCH": ",".join(lmq), "INNER_MULTI_QUEUE_OFFSET": self._light(lmq)}
            if inner is not None:
                given |= {"INNER_NUM": str(inner), "INNER_BASE": str(number)}
            text = self._properties({**given, **(properties or {})})
        flags = sys_flag | transaction | (0x80 if inner is not None else 0) | (0x1 if compressed else 0)
        flags |= (0x10 if len(born_host.address) == 16 else 0) | (0x20 if len(store_host.address) == 16 else 0)
        stored = zlib.compress(body) if compressed else body
        time_ms = self._time() if store_ms is None else store_ms
        record = Record(
            0, log.MAGIC_V1 if len(topic) <= 127 else log.MAGIC_V2, log.body_crc(stored), queue_id, flag, number, 0,
            flags, time_ms - 3 if born_ms is None else born_ms, born_host, time_ms, store_host, reconsume, prepared,
            stored, topic.encode(), text,
        )  # fmt: skip
        return self._append([record])[0]

    def batch(self, topic: str, queue_id: int, bodies: list[bytes], *, tags: str | None = None) -> list[Placed]:
        """Append a client batch: one record a message, one store time, all in one segment."""
        time_ms = self._time()
        records = [
            Record(
                0, log.MAGIC_V1, log.body_crc(body), queue_id, 0, self._number(topic, queue_id, 0, 1), 0, 0, time_ms,
                LOCAL, time_ms, LOCAL, 0, 0, body, topic.encode(), self._properties({"TAGS": tags}),
            )
            for body in bodies
        ]  # fmt: skip
        return self._append(records)

    def raw(self, data: bytes) -> int:
        """Append any bytes as if they were a record; return where they lie."""
        self.make_room(len(data))
        at = self.end
        self._put(data)
        return at

    def segment_files(self) -> list[tuple[int, bytes]]:
        """Return base offset and bytes of each segment."""
        step = self.settings.segment_bytes
        return [(self.base + n * step, bytes(data)) for n, data in enumerate(self.segments)]

    def records(self) -> list[slow.Head]:
        """Return all records as the slow decoder reads them."""
        return [head for base, data in self.segment_files() for head in slow.SlowWalk(data, base).records]

    def close(self, *, clean: bool = True) -> Path:
        """Write the store: log, queues, index, checkpoint, lock; ``abort`` unless it stopped cleanly."""
        assert self.root is not None, "a log in memory has no directory"
        records = self.records()
        derived = derive(records, self.settings)
        files: dict[str, bytes | bytearray] = dict(derived.files)
        files |= {f"commitlog/{base:020d}": data for base, data in self.segment_files()}
        files |= {f"index/{20231114221320000 + n:017d}": data for n, data in enumerate(derived.index)}
        queued = [head.store_ms for head in records if head.sys_flag & 0xC not in (PREPARED, ROLLBACK)]
        rolled = struct.unpack_from(">q", derived.index[-2], 8)[0] if len(derived.index) > 1 else 0
        times = (records[-1].store_ms if records else 0, queued[-1] if queued else 0, rolled)
        files["checkpoint"] = struct.pack(">qqq", *times).ljust(4096, b"\0")
        files["lock"] = b"lock"
        if not clean:
            files["abort"] = b"4711"
        for path, data in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return self.root

    def _time(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms - self.step_ms

    def _number(self, topic: str, queue_id: int, transaction: int, count: int) -> int:
        """Return the queue offset of the next message; prepared and rolled-back ones have 0 and take none."""
        if transaction in (PREPARED, ROLLBACK):
            return 0
        number = self.next_offsets.get((topic, queue_id), 0)
        self.next_offsets[topic, queue_id] = number + count
        return number

    def _light(self, names: tuple[str, ...]) -> str:
        return ",".join(str(self._number(name, 0, 0, 1)) for name in names)

    def _properties(self, pairs: Mapping[str, str | None]) -> bytes:
        text = "\x02".join(f"{name}\x01{value}" for name, value in pairs.items() if value)
        if text and self.settings.trailing_separator:
            text += "\x02"
        return text.encode()

    def _append(self, records: list[Record]) -> list[Placed]:
        extra = 20 if self.settings.property_crc else 0
        texts = []
        for record in records:
            open_end = extra and record.properties and not record.properties.endswith(b"\x02")
            texts.append(record.properties + (b"\x02" if open_end else b""))
        lengths = [
            log.record_size(record.sys_flag, record.magic, len(record.body), len(record.topic), len(text) + extra)
            for record, text in zip(records, texts, strict=True)
        ]
        self.make_room(sum(lengths))
        placed = []
        for record, text, size in zip(records, texts, lengths, strict=True):
            at = self.end
            raw = encode(record, text + bytes(extra), size=size, physical_offset=at)
            if extra:
                digits = f"{zlib.crc32(raw[:-20]) & 0x7FFFFFFF}"[::-1].ljust(10, "0")
                raw = raw[:-20] + b"__CRC32#\x01" + digits.encode() + b"\x02"
            self._put(raw)
            placed.append(Placed(at, record.queue_offset, raw))
        self.messages += len(records)
        return placed

    def make_room(self, size: int) -> None:
        """Go to a new segment, behind a blank record, where these bytes and 8 more do not fit."""
        assert size + 8 <= self.settings.segment_bytes, "no segment is that large"
        if size + 8 > self.left:
            if self.segments:
                self._put(log.encode_blank(self.left))
            self.segments.append(bytearray(self.settings.segment_bytes))
            self.left = self.settings.segment_bytes

    def _put(self, data: bytes) -> None:
        at = self.settings.segment_bytes - self.left
        self.segments[-1][at : at + len(data)] = data
        self.left -= len(data)


def encode(record: Record, properties: bytes, *, size: int, physical_offset: int) -> bytes:
    """Return a record's bytes with these three set."""
    values = {name: getattr(record, name) for name in Record.__dataclass_fields__}
    values |= {"properties": properties, "size": size, "physical_offset": physical_offset}
    return log.encode_record(Record(**values))


def inner_body(bodies: Iterable[bytes], properties: bytes = b"TAGS\1inner\2") -> bytes:
    """Return the body of an inner batch as clients write it, with these messages. Source: ``MessageDecoder``."""
    return b"".join(
        struct.pack(">5i", 22 + len(body) + len(properties), 0, 0, 0, len(body)) + body
        + struct.pack(">h", len(properties)) + properties
        for body in bodies
    )  # fmt: skip


def forged(
    physical_offset: int, *, topic: str = "forged", body: bytes = b"not a message", store_ms: int = 1, inner: int = 0
) -> bytes:
    """Return an intact record for a place, fit to lie inside a message body; with ``inner`` messages it is a batch."""
    flags = log.SYS_INNER_BATCH if inner else 0
    said = b"INNER_NUM\1%d\2INNER_BASE\0010\2" % inner if inner else b""
    record = Record(
        0, log.MAGIC_V1, log.body_crc(body), 0, 0, 0, 0, flags, store_ms, LOCAL, store_ms, LOCAL, 0, 0, body,
        topic.encode(), said,
    )  # fmt: skip
    size = log.record_size(flags, log.MAGIC_V1, len(body), len(topic), len(said))
    return encode(record, said, size=size, physical_offset=physical_offset)

"""Commitlog records: variable-length messages, laid out one after the other in segments.

A record's fields up to the body sit at fixed places but for the two hosts, which take 8 bytes
(IPv4) or 20 (IPv6) each. Nothing marks a record's end but its size; a blank record closes a
segment. ``DEFAULT_*`` is what a broker uses unless its configuration says otherwise.

Source: ``CommitLog.checkMessageAndReturnSize``, ``MessageExtEncoder`` and ``MessageDecoder``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

MAGIC_V1: Final = 0xDAA320A7 - 2**32
MAGIC_V2: Final = 0xDAA320AB - 2**32  # two-byte topic length, since 5.1.0
MAGIC_BLANK: Final = 0xCBD43194 - 2**32

SIZE_AT: Final = 0
MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48

IPV4_HOST_BYTES: Final = 8
IPV6_HOST_BYTES: Final = 20
MOST_LOG_BYTES: Final = 1 << 50  # farther no log reaches; what points there is damaged
BLANK_HEAD_BYTES: Final = 8  # a record never touches the last 8 bytes of a segment
MIN_RECORD_BYTES: Final = 91  # V1, IPv4 hosts, nothing in it, topic of length 0
MOST_RECORD_BYTES: Final = (4 << 20) + (64 << 10)  # what brokers accept unless they are told otherwise
MOST_READ_BYTES: Final = 64 << 20  # of one record whose size may be damaged: what claims more is not read
LEAST_INNER_BYTES: Final = 22  # of a message in the body of an inner batch: five numbers, and a length of properties
CRC_MASK: Final = 0x7FFFFFFF  # the broker keeps 31 bits

SYS_COMPRESSED: Final = 0x1
SYS_MULTI_TAGS: Final = 0x2
SYS_TRANSACTION: Final = 0xC
SYS_PREPARED: Final = 0x4
SYS_COMMIT: Final = 0x8
SYS_ROLLBACK: Final = 0xC
SYS_UNNUMBERED: Final = 0x4  # is in prepared and rolled back ones, which have no number in their queue but 0
SYS_BORN_V6: Final = 0x10
SYS_STORE_V6: Final = 0x20
SYS_NEED_UNWRAP: Final = 0x40
SYS_INNER_BATCH: Final = 0x80
SYS_COMPRESSION_TYPE: Final = 0x700
SYS_NO_TYPE: Final = 0x400  # is in the compression types from 4 on, of which no version has one
SYS_KNOWN: Final = 0x7FF

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
LMQ_PREFIX: Final = "%LMQ%"

_FIXED = struct.Struct(">iiiiiqqiq")
_CLAIM = struct.Struct(f">i{PHYSICAL_OFFSET_AT - 4}xq")
CLAIM_BYTES: Final = _CLAIM.size  # of a record's head, up to where it belongs


@dataclass(frozen=True, slots=True)
class Host:
    """An address and its port, as stored: 4 or 16 bytes, port as a signed 32-bit number."""

    address: bytes
    port: int

    def __str__(self) -> str:
        if len(self.address) == 4:
            return f"{'.'.join(str(b) for b in self.address)}:{self.port}"
        import ipaddress

        return f"[{ipaddress.IPv6Address(self.address)}]:{self.port}"

    def encode(self) -> bytes:
        """Return the stored form."""
        return self.address + struct.pack(">i", self.port)


@dataclass(frozen=True, slots=True)
class Record:
    """One message as stored. ``size`` and ``body_crc`` are what the bytes say, right or wrong."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: bytes
    properties: bytes


def unset_flags(sys_flag: int) -> int:
    """Return the bits that no broker sets: unknown ones, unknown compression types where nothing is compressed."""
    unknown = sys_flag & ~SYS_KNOWN
    return unknown if sys_flag & SYS_COMPRESSED else unknown | sys_flag & SYS_NO_TYPE


def fits_batch(sys_flag: int, *, is_batch: bool) -> bool:
    """Tell whether a system flag's bits of inner batches are such as brokers set for a record that is one, or none.

    ``is_batch`` says that it has both properties of one. Source: ``SendMessageProcessor``, ``DefaultMessageStore``.
    """
    return bool(sys_flag & SYS_INNER_BATCH) == is_batch and (is_batch or not sys_flag & SYS_NEED_UNWRAP)


def fits_number(sys_flag: int, queue_offset: int) -> bool:
    """Tell whether a record may have a queue offset: prepared and rolled back ones have 0. Source: ``CommitLog``."""
    return not (sys_flag & SYS_UNNUMBERED and queue_offset)


def host_bytes(sys_flag: int) -> tuple[int, int]:
    """Return the bytes that the born host and the store host take."""
    born = IPV6_HOST_BYTES if sys_flag & SYS_BORN_V6 else IPV4_HOST_BYTES
    store = IPV6_HOST_BYTES if sys_flag & SYS_STORE_V6 else IPV4_HOST_BYTES
    return born, store


def record_size(sys_flag: int, magic: int, body: int, topic: int, properties: int) -> int:
    """Return the size that the broker's formula gives (``calMsgLength``); lengths in bytes."""
    born, store = host_bytes(sys_flag)
    topic_length_bytes = 2 if magic == MAGIC_V2 else 1
    return 74 + born + store + max(body, 0) + topic_length_bytes + topic + max(properties, 0)


def encode_record(record: Record) -> bytes:
    """Return the record's bytes with its size and body CRC as given, so that wrong ones can be made."""
    born, store = host_bytes(record.sys_flag)
    if (len(record.born_host.address) + 4, len(record.store_host.address) + 4) != (born, store):
        raise ValueError("host lengths do not fit the sys_flag")
    topic_length = struct.pack(">h" if record.magic == MAGIC_V2 else ">b", len(record.topic))
    return b"".join(
        (
            _FIXED.pack(
                record.size,
                record.magic,
                record.body_crc,
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.physical_offset,
                record.sys_flag,
                record.born_timestamp_ms,
            ),
            record.born_host.encode(),
            struct.pack(">q", record.store_timestamp_ms),
            record.store_host.encode(),
            struct.pack(">iqi", record.reconsume_times, record.prepared_transaction_offset, len(record.body)),
            record.body,
            topic_length,
            record.topic,
            struct.pack(">h", len(record.properties)),
            record.properties,
        )
    )


def body_crc(body: bytes) -> int:
    """Return the CRC that the broker stores for a body, 31 bits; 0 for an empty one."""
    return zlib.crc32(body) & CRC_MASK


def encode_blank(size: int) -> bytes:
    """Return the 8 bytes that close a segment with ``size`` bytes left."""
    return struct.pack(">ii", size, MAGIC_BLANK)


def messages_in(body: bytes) -> int | None:
    """Return how many messages the body of an inner batch holds, None for one that is none, or is compressed.

    Source: ``MessageDecoder.countInnerMsgNum``, by which a broker writes INNER_NUM.
    """
    at = count = 0
    while len(body) - at >= LEAST_INNER_BYTES:
        size = int.from_bytes(body[at : at + 4], "big", signed=True)
        if not LEAST_INNER_BYTES <= size <= len(body) - at:
            return None
        at, count = at + size, count + 1
    return count if count and at == len(body) else None


def claim(head: bytes | memoryview) -> tuple[int, int]:
    """Return size and physical offset as the first ``CLAIM_BYTES`` of a record name them; they may be damaged."""
    size, physical_offset = _CLAIM.unpack_from(head)
    return size, physical_offset


def decode_record(data: bytes | memoryview) -> Record:
    """Return the record that starts at the first byte; nothing is checked but that it fits.

    Args:
        data: From the record's first byte, at least as long as its fields need.

    Raises:
        ValueError: A length leads past the end of ``data``; the message names the field.
    """
    view = memoryview(data)
    if len(view) < BORN_HOST_AT:
        raise ValueError(f"{len(view)} bytes are less than a record head")
    size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_ms = _FIXED.unpack_from(view)
    born, store = host_bytes(sys_flag)
    at = BORN_HOST_AT
    born_host, at = _host(view, at, born)
    store_ms, at = _number(view, at, ">q", "store timestamp")
    store_host, at = _host(view, at, store)
    reconsume, at = _number(view, at, ">i", "reconsume times")
    prepared, at = _number(view, at, ">q", "prepared transaction offset")
    length, at = _number(view, at, ">i", "body length")
    body, at = _take(view, at, max(length, 0), "body")
    length, at = _number(view, at, ">h" if magic == MAGIC_V2 else ">b", "topic length")
    topic, at = _take(view, at, length, "topic")
    length, at = _number(view, at, ">h", "properties length")
    properties, at = _take(view, at, max(length, 0), "properties")
    return Record(
        size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_ms, born_host,
        store_ms, store_host, reconsume, prepared, body, topic, properties,
    )  # fmt: skip


def _take(view: memoryview, at: int, length: int, what: str) -> tuple[bytes, int]:
    if length < 0 or length > len(view) - at:
        raise ValueError(f"{what} of {length} bytes at byte {at} does not fit into {len(view)} bytes")
    return bytes(view[at : at + length]), at + length


def _number(view: memoryview, at: int, form: str, what: str) -> tuple[int, int]:
    raw, after = _take(view, at, struct.calcsize(form), what)
    return int(struct.unpack(form, raw)[0]), after


def _host(view: memoryview, at: int, length: int) -> tuple[Host, int]:
    raw, after = _take(view, at, length, "host")
    return Host(raw[:-4], int(struct.unpack(">i", raw[-4:])[0])), after

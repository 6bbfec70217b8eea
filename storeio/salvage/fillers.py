"""Records that a salvage writes where others were lost: fillers that stand for nothing, tombstones that keep a number.

Both are ordinary records of the exact size that is asked for, so that brokers read on behind them. A filler is a
rolled back message, which no broker dispatches; a tombstone takes the queue offset of a message that is gone.

Source: ``CommitLog.checkMessageAndReturnSize``, ``MessageExtEncoder``; what readers need of such records is in
``docs/salvage.md``.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from storeio.dispatch import is_dispatched
from storeio.format import commitlog as log
from storeio.format import properties as p

FILLER_TOPIC: Final = b"storeio_filler"
TOMBSTONE: Final = "STOREIO_TOMBSTONE"
"""The property by which applications know a tombstone, and drop it."""

MOST_BYTES: Final = 4 << 20  # of one filler: 4.x reads all of a record into memory before it looks at it
LEAST_BYTES: Final = log.MIN_RECORD_BYTES + 1  # a topic has at least one character
LONGEST_V1_TOPIC: Final = 127
NOBODY: Final = log.Host(bytes(4), 0)


@dataclass(frozen=True, slots=True)
class Bytes:
    """New bytes of a log: ``head``, then so many zeros, then ``tail``."""

    head: bytes
    zeros: int
    tail: bytes

    def __len__(self) -> int:
        return len(self.head) + self.zeros + len(self.tail)

    def whole(self) -> bytes:
        """Return all of them."""
        return self.head + bytes(self.zeros) + self.tail


@dataclass(frozen=True, slots=True)
class Setting:
    """What a new record takes over from where it stands: time and host; whether records have a property CRC."""

    store_ms: int
    host: log.Host = NOBODY
    property_crc: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """What a tombstone says of the message that it stands for; ``store_ms`` where that is known, else 0."""

    topic: bytes
    queue_id: int
    queue_offset: int
    properties: Mapping[str, str]
    sys_flag: int = 0
    store_ms: int = 0


def filler(physical_offset: int, size: int, setting: Setting) -> Bytes:
    """Return a rolled back message of exactly this size.

    Raises:
        ValueError: No record is so small, or so large.
    """
    room = size - log.MIN_RECORD_BYTES
    if not 1 <= room <= MOST_BYTES:
        raise ValueError(f"no filler has {size} bytes")
    topic = FILLER_TOPIC[:room]
    extra = p.PROPERTY_CRC_BYTES if setting.property_crc and room - len(topic) >= p.PROPERTY_CRC_BYTES else 0
    lost = Lost(topic, 0, 0, {}, log.SYS_ROLLBACK)
    return _record(physical_offset, size, lost, b"", setting, extra)


def is_filler(topic: bytes, sys_flag: int, body: bytes) -> bool:
    """Tell whether a record is one that ``filler`` returns."""
    ours = bool(topic) and FILLER_TOPIC.startswith(topic)
    return ours and sys_flag & log.SYS_TRANSACTION == log.SYS_ROLLBACK and not body.strip(b"\0")


def tombstone(physical_offset: int, size: int, lost: Lost, setting: Setting) -> Bytes:
    """Return a record of exactly this size that takes a lost message's number.

    The mark and then the property CRC are left out where they do not fit; what ``lost`` has is needed.

    Raises:
        ValueError: It does not fit, or is longer than brokers read at once.
    """
    room = size - least_tombstone(lost)
    if room < 0 or size > MOST_BYTES + log.MIN_RECORD_BYTES:
        raise ValueError(f"no tombstone of {lost.topic!r} has {size} bytes")
    extra = p.PROPERTY_CRC_BYTES if setting.property_crc and room >= p.PROPERTY_CRC_BYTES else 0
    mark = _mark(lost)
    text = _text(lost.properties)
    if room - extra > len(mark):  # and at least one byte of body: without one, clients get none at all
        text += mark
    if not extra and p.MULTI_DISPATCH in lost.properties and not is_dispatched(p.java_decode(lost.topic)):
        text = text.removesuffix(p.PROPERTY.encode())  # else its lists would count as copied, ``dispatch.is_copied``
    return _record(physical_offset, size, lost, text, setting, extra)


def may_be_new(body: bytes, properties: bytes) -> bool:
    """Tell whether a record may be one of these, as far as its content goes: the smallest have neither mark nor CRC."""
    return not body.strip(b"\0") and p.UNIQUE_KEY not in p.parse(properties)


def least_tombstone(lost: Lost) -> int:
    """Return the bytes of the smallest tombstone for a message."""
    magic = log.MAGIC_V1 if len(lost.topic) <= LONGEST_V1_TOPIC else log.MAGIC_V2
    return log.record_size(lost.sys_flag, magic, 0, len(lost.topic), len(_text(lost.properties)))


def usual_tombstone(lost: Lost, setting: Setting) -> int:
    """Return the bytes of a tombstone that has all: the mark, a byte of body, and the property CRC where records do."""
    crc = p.PROPERTY_CRC_BYTES if setting.property_crc else 0
    return least_tombstone(lost) + len(_mark(lost)) + 1 + crc


def _mark(lost: Lost) -> bytes:
    return _text({TOMBSTONE: str(lost.queue_offset)})


def _text(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}{p.NAME_VALUE}{value}{p.PROPERTY}" for name, value in properties.items()).encode()


def _record(physical_offset: int, size: int, lost: Lost, text: bytes, setting: Setting, extra: int) -> Bytes:
    """Return a record whose body are the zeros that its size takes."""
    magic = log.MAGIC_V1 if len(lost.topic) <= LONGEST_V1_TOPIC else log.MAGIC_V2
    body = size - log.record_size(lost.sys_flag, magic, 0, len(lost.topic), len(text) + extra)
    host = setting.host if len(setting.host.address) == log.IPV4_HOST_BYTES - 4 else NOBODY
    store_ms = setting.store_ms
    record = log.Record(
        size, magic, crc_of_zeros(body), lost.queue_id, 0, lost.queue_offset, physical_offset, lost.sys_flag,
        store_ms, host, store_ms, host, 0, 0, b"", lost.topic, text + bytes(extra),
    )  # fmt: skip
    raw = log.encode_record(record)
    body_at = log.BORN_HOST_AT + 2 * log.IPV4_HOST_BYTES + 24
    head, tail = raw[: body_at - 4] + struct.pack(">i", body), raw[body_at:]
    if extra:
        found = zlib.crc32(tail[:-extra], _over_zeros(zlib.crc32(head), body)) & log.CRC_MASK
        tail = tail[:-extra] + p.property_crc(found)
    return Bytes(head, body, tail)


@functools.lru_cache(maxsize=4096)
def crc_of_zeros(count: int) -> int:
    """Return the CRC that a broker stores for a body of so many zeros."""
    return zlib.crc32(bytes(count)) & log.CRC_MASK if count else 0


def _over_zeros(value: int, count: int) -> int:
    return zlib.crc32(bytes(count), value)

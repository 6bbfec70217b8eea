"""One damaged record: the field that was damaged, where all that is known leaves one answer.

Each hypothesis changes one field of the head, of the lengths, or the topic, and must then agree with everything: the
size formula with where the record ends, the body with its CRC, the record with its place, its queue unit and its
property CRC. Two hypotheses that both agree are none. A body is never changed.

Source: ``CommitLog.checkMessageAndReturnSize`` for what a sound record is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.paths import is_legal_topic

MOST_PORT: Final = 2**16 - 1
FAR_MS: Final = 10 * 366 * 86_400_000  # no clock is so far off
JUST_BEFORE_MS: Final = 60_000
MOST_TRIED: Final = 1 << 22  # bytes of a record whose lengths are searched for


class Unit(NamedTuple):
    """A queue unit that survived, and so tells of a record: its queue, number, place, size and tags code.

    One of a batch queue stands for ``messages``, the first of which has the number.
    """

    topic: str
    queue_id: int
    number: int
    physical_offset: int
    size: int
    tags_code: int
    messages: int = 1


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a record from elsewhere.

    ``ends`` are the sizes that it may have, each with what says so. ``unit`` is the queue unit that points at it.
    ``numbers`` are the queue offsets that are missing where it lies, by topic and queue id. ``property_crc`` says
    that records here have one, ``near_ms`` is the store time of what follows. ``leaps``
    says that the record's own leaps out of those around it.
    """

    physical_offset: int
    ends: Sequence[tuple[int, str]]
    unit: Unit | None = None
    numbers: dict[tuple[str, int], range] | None = None
    property_crc: bool = False
    near_ms: int | None = None
    leaps: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One field that gets other bytes: name, position in the record, its bytes before and after."""

    field: str
    position: int
    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class Restored:
    """A record as it was, the field that was changed, and what decided."""

    raw: bytes
    record: log.Record
    change: Change
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Try:
    """A hypothesis: this field becomes these bytes, and the record is so long."""

    field: str
    position: int
    new: bytes
    size: int
    says: str = ""


def restored(data: bytes, known: Known) -> Restored | None:
    """Return the record that begins at the first byte, None unless exactly one changed field explains everything.

    Args:
        data: From the record's first byte on, as far as it may reach.
        known: What is known of it.
    """
    found: dict[bytes, Restored] = {}
    for attempt in hypotheses(data, known):
        old = data[attempt.position : attempt.position + len(attempt.new)]
        if old == attempt.new or attempt.size > len(data):
            continue
        raw = data[: attempt.position] + attempt.new + data[attempt.position + len(old) : attempt.size]
        agreed = agrees(raw, known)
        if agreed is None:
            continue
        record, evidence = agreed
        change = Change(attempt.field, attempt.position, old, attempt.new)
        found.setdefault(raw, Restored(raw, record, change, tuple(dict.fromkeys((attempt.says, *evidence)))))
        if len(found) > 1:
            return None
    return next(iter(found.values()), None)


def agrees(raw: bytes, known: Known) -> tuple[log.Record, tuple[str, ...]] | None:
    """Return the record that all these bytes are and what vouches for it, None where something contradicts."""
    record = whole_record(raw)
    if record is None or record.physical_offset != known.physical_offset:
        return None
    topic = p.java_decode(record.topic)
    if record.sys_flag & ~log.SYS_KNOWN or not is_name(topic) or not is_likely(record, known.near_ms):
        return None
    evidence = ["size formula"]
    if record.body:
        evidence.append("body CRC")
    if known.unit is not None:
        said = (known.unit.topic, known.unit.queue_id, known.unit.number, known.unit.size)
        if said != (topic, record.queue_id, record.queue_offset, record.size):
            return None
        evidence.append("queue unit")
    vouched = property_crc_agrees(raw)
    if vouched is False or (vouched is None and known.property_crc):
        return None
    if vouched:
        evidence.append("property CRC")
    if known.unit is None and not vouched and known.numbers is not None and enters_queue(record):
        missing = known.numbers.get((topic, record.queue_id))
        if missing is not None and record.queue_offset not in missing:
            return None
        if missing is not None:
            evidence.append("queue offsets of neighbours")
    return record, tuple(evidence)


def whole_record(raw: bytes) -> log.Record | None:
    """Return the record that these bytes are, with its size and body CRC right; None if they are none."""
    try:
        record = log.decode_record(raw)
    except ValueError:
        return None
    if record.magic not in (log.MAGIC_V1, log.MAGIC_V2) or record.size != len(raw):
        return None
    lengths = len(record.body), len(record.topic), len(record.properties)
    if log.record_size(record.sys_flag, record.magic, *lengths) != len(raw):
        return None
    return record if not record.body or log.body_crc(record.body) == record.body_crc else None


def is_likely(record: log.Record, near_ms: int | None) -> bool:
    """Tell whether a record's numbers are such as brokers write."""
    hosts = all(0 <= host.port <= MOST_PORT for host in (record.born_host, record.store_host))
    times = record.store_timestamp_ms > 0 and record.born_timestamp_ms > 0
    apart = abs(record.born_timestamp_ms - record.store_timestamp_ms)
    near = near_ms is None or abs(record.store_timestamp_ms - near_ms) < FAR_MS
    numbers = min(record.queue_id, record.queue_offset, record.reconsume_times, record.prepared_transaction_offset)
    return hosts and times and apart < FAR_MS and near and numbers >= 0


def enters_queue(record: log.Record) -> bool:
    """Tell whether a record has a number in its queue: prepared and rolled back ones have none."""
    return record.sys_flag & log.SYS_TRANSACTION in (0, log.SYS_COMMIT)


def is_name(topic: str) -> bool:
    """Tell whether a topic is one that brokers write."""
    return is_legal_topic(topic) or topic.startswith(log.LMQ_PREFIX)


def property_crc_agrees(raw: bytes) -> bool | None:
    """Tell whether a record's property CRC is that of its bytes; None without one. Spec 2.6."""
    tail = raw[-p.PROPERTY_CRC_BYTES :]
    name = f"{p.PROPERTY_CRC}{p.NAME_VALUE}".encode()
    if len(raw) < log.MIN_RECORD_BYTES + p.PROPERTY_CRC_BYTES or not tail.startswith(name) or tail[-1:] != b"\x02":
        return None
    digits = tail[len(name) : -1]
    return digits.isdigit() and int(digits[::-1]) == zlib.crc32(raw[: -len(tail)]) & log.CRC_MASK


# ---- Hypotheses


def hypotheses(data: bytes, known: Known) -> Iterator[Try]:
    """Yield every change of one field that something suggests."""
    if len(data) < log.BORN_HOST_AT:
        return
    for size, says in known.ends:
        if log.MIN_RECORD_BYTES <= size <= len(data):
            for maker in _MAKERS:
                yield from (replace(attempt, says=says) for attempt in maker(data, size, known))


def _sizes(data: bytes, size: int, known: Known) -> Iterator[Try]:
    yield Try("size", log.SIZE_AT, struct.pack(">i", size), size)


def _magics(data: bytes, size: int, known: Known) -> Iterator[Try]:
    for magic in (log.MAGIC_V1, log.MAGIC_V2):
        yield Try("magic", log.MAGIC_AT, struct.pack(">i", magic), size)


def _places(data: bytes, size: int, known: Known) -> Iterator[Try]:
    yield Try("physical_offset", log.PHYSICAL_OFFSET_AT, struct.pack(">q", known.physical_offset), size)


def _sys_flags(data: bytes, size: int, known: Known) -> Iterator[Try]:
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    seen = set()
    if flag & ~log.SYS_KNOWN:
        seen.add(flag & log.SYS_KNOWN)
    seen.update(flag ^ bits for bits in (log.SYS_BORN_V6, log.SYS_STORE_V6, log.SYS_BORN_V6 | log.SYS_STORE_V6))
    for value in sorted(seen):
        yield Try("sys_flag", log.SYS_FLAG_AT, struct.pack(">i", value), size)


def _queues(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """What the unit says; without one, the only number that is missing in the record's own queue."""
    if known.unit is not None:
        yield Try("queue_id", log.QUEUE_ID_AT, struct.pack(">i", known.unit.queue_id), size)
        yield Try("queue_offset", log.QUEUE_OFFSET_AT, struct.pack(">q", known.unit.number), size)
    elif known.numbers:
        (queue_id,) = struct.unpack_from(">i", data, log.QUEUE_ID_AT)
        for (_, number), missing in known.numbers.items():
            if number == queue_id and len(missing) == 1:
                yield Try("queue_offset", log.QUEUE_OFFSET_AT, struct.pack(">q", missing[0]), size)
            yield Try("queue_id", log.QUEUE_ID_AT, struct.pack(">i", number), size)


def _times(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The store time with one bit changed, if that leads to just before what follows; nothing else of it is known."""
    if not known.leaps or known.near_ms is None:
        return
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    at = log.BORN_HOST_AT + log.host_bytes(flag)[0]
    value = int.from_bytes(data[at : at + 8], "big")
    for bit in range(64):
        if known.near_ms - JUST_BEFORE_MS <= value ^ 1 << bit <= known.near_ms:
            yield Try("store_timestamp", at, (value ^ 1 << bit).to_bytes(8, "big"), size)


def _prepared(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Only messages of transactions name another record's place."""
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    if not flag & log.SYS_TRANSACTION:
        yield Try("prepared_transaction_offset", _body_at(data) - 12, bytes(8), size)


def _body_crcs(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The CRC of the body that is there: only a property CRC can vouch for that."""
    if property_crc_agrees(data[:size]) is False:
        body_at = _body_at(data)
        (length,) = struct.unpack_from(">i", data, body_at - 4)
        if 0 < length <= size - body_at:
            crc = log.body_crc(data[body_at : body_at + length])
            yield Try("body_crc", log.BODY_CRC_AT, struct.pack(">i", crc), size)


def _body_lengths(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Body lengths behind which topic and properties fill the record; the body's CRC then decides."""
    body_at = _body_at(data)
    if size > MOST_TRIED or body_at > size:
        return
    wide = 2 if struct.unpack_from(">i", data, log.MAGIC_AT)[0] == log.MAGIC_V2 else 1
    (crc,) = struct.unpack_from(">i", data, log.BODY_CRC_AT)
    running, at = 0, body_at
    for length in topic_places(data, body_at, size, wide):
        running = zlib.crc32(data[at : body_at + length], running)
        at = body_at + length
        if not length or running & log.CRC_MASK == crc:
            yield Try("body_length", body_at - 4, struct.pack(">i", length), size)


def topic_places(data: bytes, body_at: int, size: int, wide: int) -> Iterator[int]:
    """Yield the body lengths, rising, behind which a topic and properties end exactly at ``size``."""
    for at in range(body_at, size - wide - 2):
        topic = int.from_bytes(data[at : at + wide], "big")
        after = at + wide + topic
        if topic and after + 2 <= size and after + 2 + int.from_bytes(data[after : after + 2], "big") == size:
            yield at - body_at


def _topic_lengths(data: bytes, size: int, known: Known) -> Iterator[Try]:
    at, wide = _topic_at(data, size)
    if at is None:
        return
    for length in range(1, min(size - at - wide - 2, 256 if wide == 2 else 127) + 1):
        after = at + wide + length
        if after + 2 + int.from_bytes(data[after : after + 2], "big") == size:
            yield Try("topic_length", at, length.to_bytes(wide, "big"), size)


def _topics(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The topic that the unit names, or one of those that miss numbers here, if it is as long."""
    at, wide = _topic_at(data, size)
    if at is None:
        return
    length = int.from_bytes(data[at : at + wide], "big")
    names = [known.unit.topic] if known.unit is not None else sorted({topic for topic, _ in known.numbers or ()})
    for name in names:
        raw = name.encode()
        if len(raw) == length:
            yield Try("topic", at + wide, raw, size)


def _properties_lengths(data: bytes, size: int, known: Known) -> Iterator[Try]:
    at, wide = _topic_at(data, size)
    if at is None:
        return
    after = at + wide + int.from_bytes(data[at : at + wide], "big")
    length = size - after - 2
    if 0 <= length <= 32767 and is_text(data[after + 2 : size]):
        yield Try("properties_length", after, length.to_bytes(2, "big"), size)


def is_text(raw: bytes) -> bool:
    """Tell whether bytes are properties as clients write them."""
    pieces = [piece for piece in raw.split(b"\x02") if piece]
    return all(0 < piece.find(b"\x01") < len(piece) - 1 for piece in pieces)


def _bits(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Every single bit outside the body: only where a property CRC over all of the record decides."""
    if property_crc_agrees(data[:size]) is not False:
        return
    at, _ = _topic_at(data, size)
    places = [*range(log.QUEUE_ID_AT, _body_at(data) - 4), *(range(at, size - p.PROPERTY_CRC_BYTES) if at else ())]
    for place in places:
        for bit in range(8):
            flipped = bytes((data[place] ^ 1 << bit,))
            if _crc_with(data, size, place, flipped):
                yield Try(field_at(place, _body_at(data), at or size), place, flipped, size)


def _crc_with(data: bytes, size: int, place: int, new: bytes) -> bool:
    raw = data[:place] + new + data[place + 1 : size]
    return property_crc_agrees(raw) is True


_MAKERS: Final[tuple[Callable[[bytes, int, Known], Iterator[Try]], ...]] = (
    _sizes, _magics, _places, _sys_flags, _queues, _times, _prepared, _body_crcs, _body_lengths, _topic_lengths,
    _topics, _properties_lengths, _bits,
)  # fmt: skip


def _body_at(data: bytes) -> int:
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    return log.BORN_HOST_AT + sum(log.host_bytes(flag)) + 24


def _topic_at(data: bytes, size: int) -> tuple[int | None, int]:
    """Return where the topic's length stands, None where the body's length leads out; and how wide it is."""
    wide = 2 if struct.unpack_from(">i", data, log.MAGIC_AT)[0] == log.MAGIC_V2 else 1
    body_at = _body_at(data)
    if body_at > size:
        return None, wide
    (length,) = struct.unpack_from(">i", data, body_at - 4)
    at = body_at + max(length, 0)
    return (at if at <= size - wide - 2 else None), wide


def field_at(place: int, body_at: int, topic_at: int) -> str:
    """Return the name of the field that holds a byte of a record."""
    fields = (
        (log.SIZE_AT, "size"), (log.MAGIC_AT, "magic"), (log.BODY_CRC_AT, "body_crc"), (log.QUEUE_ID_AT, "queue_id"),
        (log.FLAG_AT, "flag"), (log.QUEUE_OFFSET_AT, "queue_offset"), (log.PHYSICAL_OFFSET_AT, "physical_offset"),
        (log.SYS_FLAG_AT, "sys_flag"), (log.BORN_TIMESTAMP_AT, "born_timestamp"), (log.BORN_HOST_AT, "hosts and times"),
        (body_at, "body"), (topic_at, "topic and properties"),
    )  # fmt: skip
    return [name for start, name in fields if start <= place][-1]

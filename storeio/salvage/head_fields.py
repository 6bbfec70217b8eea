"""Fields of a record's head: those that its unit tells, and those whose values have bounds that no broker leaves."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels import tables as w
from storeio.salvage.evidence import FAR_MS, MOST_PORT, Known, Unit, property_crc_agrees
from storeio.salvage.tries import Try, body_at_in, topic_at_in

PORT_BYTES: Final = 4  # the upper two are zero
BEFORE_BODY_BYTES: Final = 16  # number of times, prepared offset, body length
LOW_BYTES: Final = 0x00FFFFFF
FAR_PLACE: Final = 1 << 50  # no log reaches so far
FAR_NUMBER: Final = 1 << 40  # nor does a queue
FAR_QUEUE: Final = 1 << 10  # topics have a few queues, hundreds at most
HEAD: Final = struct.Struct(">ii4xi4xqq")  # size, magic, queue id, queue offset, physical offset
MOST_TIMES: Final = 1 << 10  # brokers give up after 16, unless they are told another number


def hosts(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """A port of which one byte is wrong beyond doubt; a store host as the neighbours name it."""
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    born, store = log.host_bytes(flag)
    for field, at, wide in (("born_host", log.BORN_HOST_AT, born), ("store_host", log.BORN_HOST_AT + born + 8, store)):
        host = data[at : at + wide]
        high, low = host[-PORT_BYTES:-2], host[-2:]
        if len(host) < wide:
            continue
        if any(high) and not all(high):
            yield Try(field, at, host[:-PORT_BYTES] + bytes(2) + low, size, f"no port is over {MOST_PORT}")
        is_wrong = any(high) or property_crc_agrees(data[:size]) is False
        if field == "store_host" and is_wrong and known.store_host is not None and len(known.store_host) == wide:
            yield Try(field, at, known.store_host, size, "its neighbours' store host")


def reconsume_times(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """How often a message was given back, by the bytes that are not wrong."""
    at = body_at_in(data) - BEFORE_BODY_BYTES
    if at + 4 > len(data):
        return
    (times,) = struct.unpack_from(">i", data, at)
    if times < 0 and times & LOW_BYTES <= MOST_TIMES:
        yield Try("reconsume_times", at, struct.pack(">i", times & LOW_BYTES), size, "its other bytes")


def born_times(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """When a message was born, where one byte puts that years away from when it was stored: no clock is so far off.

    As usual that was shortly before; of a message that was given back or delayed maybe much earlier.
    """
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    at, stored_at = log.BORN_TIMESTAMP_AT, log.BORN_HOST_AT + log.host_bytes(flag)[0]
    if stored_at + 8 > len(data) or known.near_ms is None:
        return
    stored, said = int.from_bytes(data[stored_at : stored_at + 8], "big", signed=True), data[at : at + 8]
    if abs(stored - known.near_ms) >= FAR_MS or _is_born(said, stored - FAR_MS, stored + FAR_MS):
        return
    tried = [said[:k] + bytes((byte,)) + said[k + 1 :] for k in range(8) for byte in range(256)]
    for early, late in ((w.BORN_EARLY_MS, w.BORN_LATE_MS), (FAR_MS, FAR_MS)):
        answers = {born for born in tried if _is_born(born, stored - early, stored + late)}
        if len(answers) == 1:
            yield Try("born_timestamp", at, answers.pop(), size, "its store time")
            return


def _is_born(born: bytes, first_ms: int, last_ms: int) -> bool:
    return max(first_ms, 0) < int.from_bytes(born, "big", signed=True) < last_ms


def unnumbered(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The bit of a system flag that says whether a record has a number in its queue, where that number says otherwise.

    It has one if a unit points at it or the queue lacks just this number; none if it is 0 and the queue goes on as if
    the record were not there. A number that nothing else tells of is none.
    """
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    queue_id, _, number = struct.unpack_from(">iiq", data, log.QUEUE_ID_AT)
    other = Try("sys_flag", log.SYS_FLAG_AT, struct.pack(">i", flag ^ log.SYS_UNNUMBERED), size, "its queue offset")
    if not flag & log.SYS_UNNUMBERED:
        if known.is_stranger and not number and not known.numbers:
            yield other
        return
    at, wide = topic_at_in(data, size)
    topic = data[at + wide :][: int.from_bytes(data[at : at + wide], "big")] if at is not None else b""
    missing = (known.numbers or {}).get((p.java_decode(topic), queue_id), ())
    if known.unit is not None or (number and number in missing):
        yield other
    elif number:
        yield Try("queue_offset", log.QUEUE_OFFSET_AT, bytes(8), size, "its system flag")


def as_its_unit(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """All that the unit and the place of a record tell of its head, where two fields are damaged.

    The body, which has its CRC, topic and tags vouch for it: of a record without a body nothing is tried. Nor where all
    that it says may be true of another message, which an earlier life of the log left, nor out of the order of times.
    """
    unit, at = known.unit, body_at_in(data)
    if unit is None or size != unit.size or at >= size:
        return
    (length,) = struct.unpack_from(">i", data, at - 4)
    (crc,) = struct.unpack_from(">i", data, log.BODY_CRC_AT)
    (physical,) = struct.unpack_from(">q", data, log.PHYSICAL_OFFSET_AT)
    if physical != known.physical_offset and 0 <= physical < FAR_PLACE:
        return
    if is_older(data, known) or _is_later(data, known) or not _is_damaged(data):
        return
    if not 0 < length < size - at or log.body_crc(data[at : at + length]) != crc:
        return
    (magic,) = struct.unpack_from(">i", data, log.MAGIC_AT)
    for one in (magic,) if magic in (log.MAGIC_V1, log.MAGIC_V2) else (log.MAGIC_V1, log.MAGIC_V2):
        told = (
            ("size", log.SIZE_AT, struct.pack(">i", size)), ("magic", log.MAGIC_AT, struct.pack(">i", one)),
            ("queue_id", log.QUEUE_ID_AT, struct.pack(">i", unit.queue_id)),
            ("queue_offset", log.QUEUE_OFFSET_AT, struct.pack(">q", unit.number)),
            ("physical_offset", log.PHYSICAL_OFFSET_AT, struct.pack(">q", known.physical_offset)),
        )  # fmt: skip
        wrong = [(name, start, new) for name, start, new in told if data[start : start + len(new)] != new]
        head, first = bytearray(data[: wrong[-1][1] + len(wrong[-1][2])]), wrong[0][1]
        for _, start, new in wrong:
            head[start : start + len(new)] = new
        if not _has_its_tags(bytes(head) + data[len(head) : size], unit):
            continue
        fields = tuple((name, start, len(new)) for name, start, new in wrong)
        yield Try("head", first, bytes(head[first:]), size, "queue unit", fields)


def is_older(data: bytes, known: Known) -> bool:
    """Tell whether a record was stored before the one in front of it: an earlier life of the log left it there.

    Its unit, which knows of another record of the same size, does not make it that one.
    """
    return known.before_ms is not None and _stored_ms(data) < known.before_ms


def _stored_ms(data: bytes) -> int:
    at = log.BORN_HOST_AT + log.host_bytes(struct.unpack_from(">i", data, log.SYS_FLAG_AT)[0])[0]
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def _is_later(data: bytes, known: Known) -> bool:
    """Tell whether a record was stored after what follows."""
    return known.near_ms is not None and _stored_ms(data) > known.near_ms


def _is_damaged(data: bytes) -> bool:
    """Tell whether a head says something that is true of no message: of a whole one nothing shows whose it is."""
    size, magic, queue_id, number, physical = HEAD.unpack_from(data)
    return (
        not log.MIN_RECORD_BYTES <= size <= log.MOST_RECORD_BYTES
        or magic not in (log.MAGIC_V1, log.MAGIC_V2)
        or not 0 <= queue_id < FAR_QUEUE
        or not 0 <= number < FAR_NUMBER
        or not 0 <= physical < FAR_PLACE
    )


def _has_its_tags(raw: bytes, unit: Unit) -> bool:
    """Tell whether these bytes are a record with the tags that its unit tells of; of a batch, with its number.

    Units of delayed messages tell of other things, and those of queues with ext files of addresses.
    """
    try:
        record = log.decode_record(raw)
    except ValueError:
        return False
    said = p.parse(record.properties)
    if p.INNER_NUM in said:
        return p.java_long(said.get(p.INNER_BASE, "")) == unit.number
    return p.java_hash(said.get(p.TAGS, "")) == unit.tags_code

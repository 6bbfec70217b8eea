"""Every change of one field of a damaged record that something suggests; each still has to agree with all the rest."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.evidence import Known, Unit, bytes_apart, is_text, property_crc_agrees, told_property_crc
from storeio.salvage.head_fields import HEAD, as_its_unit, born_times, hosts, is_older, reconsume_times, unnumbered
from storeio.salvage.one_byte import single_bytes
from storeio.salvage.property_fields import delay_levels, inner_numbers
from storeio.salvage.tries import Maker, Try, body_at_in, topic_at_in

LAST_NUMBER: Final = 2**63 - 1
MOST_TRIED: Final = 1 << 22  # bytes of a record whose lengths are searched for
MOST_FLIPPED: Final = 1 << 16  # bytes of a record each of whose bits is tried
MOST_BYTES_TRIED: Final = 1 << 11  # of which all 255 changes are tried: one in 4,000 records then has one by chance


def hypotheses(data: bytes, known: Known) -> Iterator[Try]:
    """Yield every change of one field that something suggests."""
    if len(data) < log.BORN_HOST_AT:
        return
    for size, says in known.ends:
        if log.MIN_RECORD_BYTES <= size <= len(data):
            wrong = wrong_fields(data, size, known.physical_offset, known.unit)
            if wrong > 1:  # one change cannot mend both; a head that differs in more is that of another record
                yield from as_its_unit(data, size, known) if wrong == 2 else ()
                continue
            for maker in _makers(data, size, is_wrong=wrong > 0):
                yield from (replace(attempt, says=attempt.says or says) for attempt in maker(data, size, known))


def wrong_fields(head: bytes, size: int, place: int, unit: Unit | None) -> int:
    """Return how many fields of a record's head cannot be what stood there, whatever else is true.

    Args:
        head: The record's first ``log.BORN_HOST_AT`` bytes, or more.
        size: The size that it is to have.
        place: Its physical offset.
        unit: The queue unit that points at it, if any.
    """
    found, magic, queue_id, number, physical = HEAD.unpack_from(head)
    wrong = int(found != size) + int(magic not in (log.MAGIC_V1, log.MAGIC_V2)) + int(physical != place)
    if unit is not None:
        wrong += int(queue_id != unit.queue_id) + int(number != unit.number)
    return wrong


def _makers(data: bytes, size: int, *, is_wrong: bool) -> Sequence[Maker]:
    """Return what can explain a record at all; ``is_wrong`` says that one known field of its head is."""
    adds = adds_up(data, size)
    if not has_its_body(data, size):
        return () if is_wrong else _OF_THE_BODY if adds else _OF_ITS_LENGTH
    return _MAKERS if is_wrong or not adds else _OF_THE_SOUND


def has_its_body(data: bytes, size: int) -> bool:
    """Tell whether a record of a size holds the body that its head names; one without any does."""
    body_at = body_at_in(data)
    if body_at > size:
        return False
    (length,) = struct.unpack_from(">i", data, body_at - 4)
    (crc,) = struct.unpack_from(">i", data, log.BODY_CRC_AT)
    return length <= 0 or (length <= size - body_at and log.body_crc(data[body_at : body_at + length]) == crc)


def adds_up(data: bytes, size: int) -> bool:
    """Tell whether a record's own lengths add up to a size, without which it is none."""
    at, wide = topic_at_in(data, size)
    if at is None:
        return False
    after = at + wide + int.from_bytes(data[at : at + wide], "big")
    return after + 2 <= size and after + 2 + int.from_bytes(data[after : after + 2], "big") == size


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
    if unset := log.unset_flags(flag):
        seen.add(flag & ~unset)
    seen.update(flag ^ bits for bits in (log.SYS_BORN_V6, log.SYS_STORE_V6, log.SYS_BORN_V6 | log.SYS_STORE_V6))
    seen.add(flag ^ log.SYS_NEED_UNWRAP)
    if not flag & log.SYS_INNER_BATCH or _has_text(data[:size]):  # else those of a batch are damaged
        seen.add(flag ^ log.SYS_INNER_BATCH)
    for value in sorted(seen):
        yield Try("sys_flag", log.SYS_FLAG_AT, struct.pack(">i", value), size)


def _has_text(raw: bytes) -> bool:
    """Tell whether these bytes are a record's whose properties are as clients write them; its size may be wrong."""
    try:
        return is_text(log.decode_record(raw).properties)
    except ValueError:
        return False


def _queues(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """What the unit says; without one, the only number that is missing in the record's own queue."""
    if known.unit is not None and is_older(data, known):
        return
    if known.unit is not None:
        yield Try("queue_id", log.QUEUE_ID_AT, struct.pack(">i", known.unit.queue_id), size)
        yield Try("queue_offset", log.QUEUE_OFFSET_AT, struct.pack(">q", known.unit.number), size)
    elif known.numbers:
        (queue_id,) = struct.unpack_from(">i", data, log.QUEUE_ID_AT)
        for (_, number), missing in known.numbers.items():
            if number == queue_id and len(missing) == 1 and missing[0] <= LAST_NUMBER:
                yield Try("queue_offset", log.QUEUE_OFFSET_AT, struct.pack(">q", missing[0]), size)
            yield Try("queue_id", log.QUEUE_ID_AT, struct.pack(">i", number), size)


def _times(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Where the store time leaps, those that others leave."""
    if known.stored is not None:
        (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
        at = log.BORN_HOST_AT + log.host_bytes(flag)[0]
        says = f"its {' and '.join(known.stored.told_by)}"
        for answer in known.stored.answers(int.from_bytes(data[at : at + 8], "big")):
            yield Try("store_timestamp", at, answer.to_bytes(8, "big"), size, says)


def _prepared(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Only messages of transactions name another record's place."""
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    if not flag & log.SYS_TRANSACTION:
        yield Try("prepared_transaction_offset", body_at_in(data) - 12, bytes(8), size)


def _body_crcs(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The CRC of the body that is there: where a property CRC vouches for that, or one byte of it alone is wrong.

    A body that was changed has a CRC with three bytes of the old one once in two million times.
    """
    body_at, vouched = body_at_in(data), property_crc_agrees(data[:size])
    (length,) = struct.unpack_from(">i", data, body_at - 4)
    if vouched or not 0 <= length <= size - body_at:
        return
    crc = struct.pack(">i", log.body_crc(data[body_at : body_at + length]))
    said = data[log.BODY_CRC_AT : log.BODY_CRC_AT + len(crc)]
    if vouched is False:
        yield Try("body_crc", log.BODY_CRC_AT, crc, size)
    elif bytes_apart(crc, said) == 1:
        yield Try("body_crc", log.BODY_CRC_AT, crc, size, "three bytes of the body's CRC")


def _property_crcs(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The property CRC that the rest has, where one byte of it alone is another: then it is not the rest."""
    at = size - p.PROPERTY_CRC_BYTES
    if at >= log.MIN_RECORD_BYTES:
        crc = p.property_crc(zlib.crc32(data[:at]) & log.CRC_MASK)
        if bytes_apart(crc, data[at:size]) == 1:
            yield Try("properties", at, crc, size, "the rest of its property CRC")


def _body_lengths(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Body lengths behind which topic and properties fill the record; the body's CRC then decides."""
    body_at = body_at_in(data)
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
    raw = np.frombuffer(data, np.uint8, size)
    at = np.arange(body_at, max(size - wide - 2, body_at))
    topic = raw[at].astype(np.int64)
    if wide == 2:
        topic = topic << 8 | raw[at + 1]
    after = at + wide + topic
    fits = (topic > 0) & (after + 2 <= size)
    at, after = at[fits], after[fits]
    length = raw[after].astype(np.int64) << 8 | raw[after + 1]
    yield from (at[after + 2 + length == size] - body_at).tolist()


def _topic_lengths(data: bytes, size: int, known: Known) -> Iterator[Try]:
    at, wide = topic_at_in(data, size)
    if at is None:
        return
    for length in range(1, min(size - at - wide - 2, 256 if wide == 2 else 127) + 1):
        after = at + wide + length
        if after + 2 + int.from_bytes(data[after : after + 2], "big") == size:
            yield Try("topic_length", at, length.to_bytes(wide, "big"), size)


def _topics(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The topic that the unit names, or one of those that miss numbers here, if it is as long."""
    at, wide = topic_at_in(data, size)
    if at is None:
        return
    length = int.from_bytes(data[at : at + wide], "big")
    names = [known.unit.topic] if known.unit is not None else sorted({topic for topic, _ in known.numbers or ()})
    for name in names:
        raw = name.encode()
        if len(raw) == length:
            yield Try("topic", at + wide, raw, size)
    for name in known.topics:
        yield Try("topic", at + wide, name.encode(), size, "the only topic like it")


def _properties_lengths(data: bytes, size: int, known: Known) -> Iterator[Try]:
    at, wide = topic_at_in(data, size)
    if at is None:
        return
    after = at + wide + int.from_bytes(data[at : at + wide], "big")
    length = size - after - 2
    if 0 <= length <= 32767 and is_text(data[after + 2 : size]):
        yield Try("properties_length", after, length.to_bytes(2, "big"), size)


def _single_bytes(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Every single bit outside the body, and every byte if these are few: only where a property CRC decides."""
    at, _ = topic_at_in(data, size)
    stop = size - p.PROPERTY_CRC_BYTES
    head = range(log.QUEUE_ID_AT, min(body_at_in(data) - 4, stop))
    rest = range(at if at is not None else stop, stop)
    yield from _one_byte(data, size, [head, rest])


def _flag_bytes(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """Every byte of a system flag, which says where the body is: only where a property CRC decides."""
    yield from _one_byte(data, size, [range(log.SYS_FLAG_AT, log.BORN_TIMESTAMP_AT)])


def _one_byte(data: bytes, size: int, regions: Sequence[range]) -> Iterator[Try]:
    raw = data[:size]
    if size > MOST_FLIPPED or property_crc_agrees(raw) is not False or (wanted := told_property_crc(raw)) is None:
        return
    covered, few = raw[: -p.PROPERTY_CRC_BYTES], sum(map(len, regions)) <= MOST_BYTES_TRIED
    for place, change in single_bytes(covered, zlib.crc32(covered) & log.CRC_MASK ^ wanted, regions):
        if few or change.bit_count() == 1:
            field = field_at(place, body_at_in(data), topic_at_in(data, size)[0] or size)
            yield Try(field, place, bytes((data[place] ^ change,)), size)


_MAKERS: Final[tuple[Maker, ...]] = (
    _sizes, _magics, _places, _sys_flags, unnumbered, _queues, inner_numbers, delay_levels, _times, born_times,
    _prepared, _body_crcs, _body_lengths, _topic_lengths, _topics, _properties_lengths, _single_bytes,
)  # fmt: skip

_OF_THE_SOUND: Final = (
    _sys_flags, unnumbered, _queues, inner_numbers, delay_levels, _times, born_times, _prepared, _body_crcs, _topics,
    hosts, reconsume_times, _property_crcs, _single_bytes,
)  # fmt: skip
"""What is left to be tried where every length and every field that is known from elsewhere agrees."""

_OF_THE_BODY: Final = (_sys_flags, _body_crcs, _flag_bytes)
"""What is left where the body has another CRC and the lengths add up: what moves the body, and the CRC itself."""

_OF_ITS_LENGTH: Final = (_sys_flags, _body_lengths, _flag_bytes)
"""What is left where neither is right."""


def field_at(place: int, body_at: int, topic_at: int) -> str:
    """Return the name of the field that holds a byte of a record."""
    fields = (
        (log.SIZE_AT, "size"), (log.MAGIC_AT, "magic"), (log.BODY_CRC_AT, "body_crc"), (log.QUEUE_ID_AT, "queue_id"),
        (log.FLAG_AT, "flag"), (log.QUEUE_OFFSET_AT, "queue_offset"), (log.PHYSICAL_OFFSET_AT, "physical_offset"),
        (log.SYS_FLAG_AT, "sys_flag"), (log.BORN_TIMESTAMP_AT, "born_timestamp"), (log.BORN_HOST_AT, "hosts and times"),
        (body_at, "body"), (topic_at, "topic and properties"),
    )  # fmt: skip
    return [name for start, name in fields if start <= place][-1]

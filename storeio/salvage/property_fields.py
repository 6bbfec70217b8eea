"""Properties of which the rest of the record tells: an inner batch's numbers, and the level of a delayed message.

Source: ``SendMessageProcessor`` for INNER_NUM, ``CommitLog.asyncPutMessages`` for INNER_BASE,
``ScheduleMessageService.delayLevel2QueueId`` for DELAY.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.evidence import (
    Known,
    body_messages,
    has_fitting_level,
    nearly,
    property_crc_agrees,
    whole_record,
)
from storeio.salvage.tries import Try


def inner_numbers(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The number in the head as the properties say it, and properties of which one byte is wrong.

    Of the number in the head only a property CRC tells that the properties are right. A property is known but for that
    byte: its name, the number in the head, and what the body or the queue unit says of messages.
    """
    record = whole_record(data[:size])
    if record is None or not record.sys_flag & log.SYS_INNER_BATCH:
        return
    said = p.parse(record.properties)
    number, count = p.java_long(said.get(p.INNER_BASE, "")), p.java_short(said.get(p.INNER_NUM, ""))
    if number is not None and property_crc_agrees(data[:size]) is False:
        yield Try("queue_offset", log.QUEUE_OFFSET_AT, struct.pack(">q", number), size)
    start = size - len(record.properties)
    for name, value in (
        (p.INNER_BASE, record.queue_offset if number is None else None),
        (p.INNER_NUM, _messages(record, known) if count is None else None),
    ):
        for place, byte in _one_byte_off(record.properties, name, value) if value is not None else ():
            yield Try("properties", start + place, bytes((byte,)), size, "the batch's other fields")


def delay_levels(data: bytes, size: int, known: Known) -> Iterator[Try]:
    """The level of a delayed message, where one byte of it or of its name is wrong: its queue is that of its level."""
    record = whole_record(data[:size])
    if record is None or record.topic != log.SCHEDULE_TOPIC.encode() or has_fitting_level(record):
        return
    start = size - len(record.properties)
    for place, byte in _one_byte_off(record.properties, p.DELAY, record.queue_id + 1):
        yield Try("properties", start + place, bytes((byte,)), size, "its queue id")


def _messages(record: log.Record, known: Known) -> int | None:
    """Return how many messages a batch has; a unit of one may be of no batch queue."""
    held = body_messages(record)
    if held is None and known.unit is not None and known.unit.messages > 1:
        return known.unit.messages
    return held


def _one_byte_off(raw: bytes, name: str, value: int) -> Iterator[tuple[int, int]]:
    """Yield places in properties, and the byte there with which a property has this value."""
    wanted = f"{name}{p.NAME_VALUE}{value}".encode()
    for piece, is_last in ((wanted + p.PROPERTY.encode(), False), (wanted, True)):
        for start in nearly(raw, piece):
            if not is_last or start + len(piece) == len(raw):
                yield from ((start + k, want) for k, want in enumerate(piece) if raw[start + k] != want)

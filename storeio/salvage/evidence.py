"""What is known of a record from elsewhere, and whether bytes agree with all of it.

Source: ``CommitLog.checkMessageAndReturnSize`` for what a sound record is.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels.text import is_bad_text
from storeio.paths import is_legal_topic

MOST_PORT: Final = 2**16 - 1
NEARBY_MS: Final = 60_000  # that a record was stored before or behind its only neighbour
_CRC_NAME: Final = f"{p.PROPERTY_CRC}{p.NAME_VALUE}".encode()
_DELAY_NAME: Final = f"{p.DELAY}{p.NAME_VALUE}".encode()
_BATCH_NAMES: Final = tuple(f"{name}{p.NAME_VALUE}".encode() for name in (p.INNER_NUM, p.INNER_BASE))
RARELY: Final = 256  # one time of so many within bounds ends in given bytes by chance
FAR_MS: Final = 10 * 366 * 86_400_000  # no clock is so far off


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


class Stored(NamedTuple):
    """When a record was stored as all but itself tell: first and last moment, None where nothing bounds it."""

    first_ms: int | None = None
    last_ms: int | None = None
    told_by: tuple[str, ...] = ()

    def within(self, first_ms: int | None, last_ms: int, told_by: str) -> Stored:
        """Return the bounds made tighter by others, of which the first may be unknown."""
        first = max((ms for ms in (self.first_ms, first_ms) if ms is not None), default=None)
        last = last_ms if self.last_ms is None else min(self.last_ms, last_ms)
        return Stored(first, last, tuple(dict.fromkeys((*self.told_by, told_by))))

    def answers(self, value: int) -> list[int]:
        """Return what a time may have been before it became this one: the only one, else those one bit, or byte, away.

        Else the one that has the same last bytes, if those are so many that no time within the bounds has them by
        chance. Next to a single neighbour it was stored within a minute. Nothing where nothing bounds it.
        """
        if self.first_ms is None and self.last_ms is None:
            return []
        first = self.first_ms if self.first_ms is not None else (self.last_ms or 0) - NEARBY_MS
        last = self.last_ms if self.last_ms is not None else first + NEARBY_MS
        bits = [value ^ 1 << bit for bit in range(64)]
        single = [value & ~(0xFF << shift) | byte << shift for shift in range(0, 64, 8) for byte in range(256)]
        fitting = (
            [ms for ms in tried if max(first, 1) <= ms <= last]
            for tried in ([first] if first == last else [], bits, single)
        )
        return next(filter(None, fitting), []) or self._with_last_bytes(value, max(first, 1), last)

    @staticmethod
    def _with_last_bytes(value: int, first: int, last: int) -> list[int]:
        """Return the time within bounds that ends in the same bytes as a value, as many as can be."""
        for kept in range(6, 1, -1):
            step = 1 << 8 * kept
            ms = first + (value - first) % step
            if ms <= last and (last - first) * RARELY < step:
                return [ms]
        return []

    def holds(self, ms: int) -> bool:
        """Tell whether a time lies within the bounds."""
        return (self.first_ms is None or self.first_ms <= ms) and (self.last_ms is None or ms <= self.last_ms)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a record from elsewhere.

    ``ends`` are the sizes that it may have, each with what says so. ``unit`` is the queue unit that points at it.
    ``numbers`` are the queue offsets that are missing where it lies, by topic and queue id. ``property_crc`` says
    that records here have one, ``before_ms`` is the store time of the record in front, ``near_ms`` of what follows.
    ``stored`` bounds a store time that leaps out of those around it. ``store_host`` is the one that the records before
    and behind it name, as stored. ``is_stranger`` says that its queue goes on as if it were not there, ``topics`` what
    one that is no text may be. ``is_vouched`` says that the unit of its own number points at it: it is no copy."""

    physical_offset: int
    ends: Sequence[tuple[int, str]]
    unit: Unit | None = None
    numbers: dict[tuple[str, int], range] | None = None
    property_crc: bool = False
    before_ms: int | None = None
    near_ms: int | None = None
    stored: Stored | None = None
    store_host: bytes | None = None
    is_stranger: bool = False
    topics: Sequence[str] = ()
    is_vouched: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One field that gets other bytes: name, position in the record, its bytes before and after."""

    field: str
    position: int
    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class Restored:
    """A record as it was, the fields that were changed, and what decided."""

    raw: bytes
    record: log.Record
    changes: tuple[Change, ...]
    evidence: tuple[str, ...]


def agrees(raw: bytes, known: Known) -> tuple[log.Record, tuple[str, ...]] | None:
    """Return the record that all these bytes are and what vouches for it, None where something contradicts."""
    record = whole_record(raw)
    if record is None or record.physical_offset != known.physical_offset:
        return None
    topic = p.java_decode(record.topic)
    if not has_fitting_flags(record) or not is_name(topic) or not is_likely(record, known.near_ms):
        return None
    if not has_readable_numbers(record) or contradicts_itself(record):
        return None
    if has_fitting_level(record) is False:
        return None
    if known.stored is not None and not known.stored.holds(record.store_timestamp_ms):
        return None
    evidence = ["size formula"]
    if record.body:
        evidence.append("body CRC")
    if known.unit is not None:
        said = (known.unit.topic, known.unit.queue_id, known.unit.number, known.unit.size)
        if said != (topic, record.queue_id, record.queue_offset, record.size) or not enters_queue(record):
            return None
        evidence.append("queue unit")
    vouched = property_crc_agrees(raw)
    if vouched is False or (vouched is None and known.property_crc):
        return None
    if vouched:
        evidence.append("property CRC")
    if known.unit is None and not vouched and known.numbers is not None and enters_queue(record):
        missing = known.numbers.get((topic, record.queue_id))
        if missing is None and known.is_stranger:  # whatever else is changed, it stays one
            return None
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


def bytes_apart(one: bytes, other: bytes) -> int:
    """Return in how many bytes two values of one length differ."""
    return sum(map(operator.ne, one, other))


def nearly(raw: bytes, piece: bytes) -> list[int]:
    """Return where in properties one begins that differs from the bytes of a ``piece`` in one byte at most."""
    starts = [0, *(at + 1 for at, byte in enumerate(raw) if byte == ord(p.PROPERTY))]
    parts = ((start, raw[start : start + len(piece)]) for start in starts)
    whole = ((start, part) for start, part in parts if len(part) == len(piece))
    return [start for start, part in whole if bytes_apart(part, piece) <= 1]


def has_fitting_flags(record: log.Record) -> bool:
    """Tell whether a record's system flag is one that brokers give such a record.

    Properties of a batch of which one byte is wrong are no other record's.
    """
    said = p.parse(record.properties)
    is_batch = p.INNER_NUM in said and p.INNER_BASE in said
    if not is_batch and any(nearly(record.properties, name) for name in _BATCH_NAMES):
        return False
    fits = log.fits_batch(record.sys_flag, is_batch=is_batch) and log.fits_number(record.sys_flag, record.queue_offset)
    return fits and not log.unset_flags(record.sys_flag)


def has_readable_numbers(record: log.Record) -> bool:
    """Tell whether an inner batch's numbers and a delayed message's level are some: else brokers end the log there.

    Source: ``CommitLog.checkMessageAndReturnSize``.
    """
    said = p.parse(record.properties)
    if record.topic == log.SCHEDULE_TOPIC.encode() and p.java_int(said.get(p.DELAY, "0")) is None:
        return False
    base, count = said.get(p.INNER_BASE), said.get(p.INNER_NUM)
    return not base or not count or (p.java_long(base) is not None and p.java_short(count) is not None)


def body_messages(record: log.Record) -> int | None:
    """Return how many messages the body of an inner batch holds, None for a body that does not tell."""
    return None if record.sys_flag & log.SYS_COMPRESSED else log.messages_in(record.body)


def contradicts_itself(record: log.Record) -> bool:
    """Tell whether an inner batch says another number in its head than in its properties, or has other messages."""
    said = p.parse(record.properties)
    if not (p.INNER_NUM in said and p.INNER_BASE in said):
        return False
    held = body_messages(record)
    is_held = held is None or held == p.java_short(said[p.INNER_NUM])
    return not is_held or p.java_long(said[p.INNER_BASE]) != record.queue_offset


def is_text(raw: bytes) -> bool:
    """Tell whether bytes are properties as clients write them."""
    return not is_bad_text(np.frombuffer(raw, np.uint8), 0, len(raw)) and p.odd_piece(raw) is None


def has_fitting_level(record: log.Record) -> bool | None:
    """Tell whether a delayed message lies in the queue of its level; None for other messages.

    Source: ``CommitLog.asyncPutMessage``: the schedule topic has a queue for each level, from level 1 on.
    """
    if record.topic != log.SCHEDULE_TOPIC.encode():
        return None
    level = p.parse(record.properties).get(p.DELAY)
    if level is None:  # maybe since its name is damaged
        return False if nearly(record.properties, _DELAY_NAME) else None
    return p.java_int(level) == record.queue_id + 1


def is_likely(record: log.Record, near_ms: int | None) -> bool:
    """Tell whether a record's numbers are such as brokers write."""
    hosts = is_host(record.born_host) and is_host(record.store_host)
    times = record.store_timestamp_ms > 0 and record.born_timestamp_ms > 0
    apart = abs(record.born_timestamp_ms - record.store_timestamp_ms)
    near = near_ms is None or abs(record.store_timestamp_ms - near_ms) < FAR_MS
    prepared = record.prepared_transaction_offset
    numbers = min(record.queue_id, record.queue_offset, record.reconsume_times, prepared)
    placed = numbers >= 0 and (not prepared or prepared < record.physical_offset)
    return hosts and times and apart < FAR_MS and near and placed


def is_host(host: log.Host) -> bool:
    """Tell whether a host's port is one."""
    return 0 <= host.port <= MOST_PORT


def enters_queue(record: log.Record) -> bool:
    """Tell whether a record has a number in its queue: prepared and rolled back ones have none."""
    return record.sys_flag & log.SYS_TRANSACTION in (0, log.SYS_COMMIT)


def is_name(topic: str) -> bool:
    """Tell whether a topic is one that brokers write."""
    return is_legal_topic(topic) or topic.startswith(log.LMQ_PREFIX)


def property_crc_agrees(raw: bytes) -> bool | None:
    """Tell whether a record's property CRC is that of its bytes; None without one. Spec 2.6."""
    tail = raw[-p.PROPERTY_CRC_BYTES :]
    if len(raw) < log.MIN_RECORD_BYTES + p.PROPERTY_CRC_BYTES or not tail.startswith(_CRC_NAME) or tail[-1:] != b"\x02":
        return None
    return told_property_crc(raw) == zlib.crc32(raw[: -len(tail)]) & log.CRC_MASK


def told_property_crc(raw: bytes) -> int | None:
    """Return the CRC that a record's last property says; None where that is no number."""
    digits = raw[-p.PROPERTY_CRC_BYTES + len(_CRC_NAME) : -1]
    return int(digits[::-1]) if digits.isdigit() else None

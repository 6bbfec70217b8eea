"""What a pull consumer gets of each queue: it follows the broker's next offset from min to max.

Source: ``DefaultMessageStore.getMessage``, ``MessageDecoder.decode``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from storeio.format import commitlog as log
from storeio.simulate.broker import Broker
from storeio.simulate.consumequeue import UNIT, ConsumeQueue
from storeio.simulate.ends import JavaError
from storeio.simulate.rules import Rules

FOUND: Final = "FOUND"
MOST_MESSAGES: Final = 32
FILTERED_BYTES: Final = 16000  # of units that one pull looks at
TRANSFERRED_BYTES: Final = 256 << 10


@dataclass(slots=True)
class Consumed:
    """Counts over all queues, by queue, and what was odd: queue, asked offset, status."""

    messages: int = 0
    undecodable: int = 0
    skipped: int = 0
    odd: list[tuple[str, int, int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Pulled:
    """One answer: status, next offset, buffers as (unit, bytes)."""

    status: str
    next_offset: int
    buffers: list[tuple[int, memoryview]] = field(default_factory=list)
    skipped: int = 0


def consume(broker: Broker) -> Consumed:
    """Return what consumers get from all queues."""
    total = Consumed()
    for key in sorted(broker.queues):
        for asked, pulled in _pulls(broker, broker.queues[key]):
            if not pulled.buffers:
                total.odd.append((*key, asked, pulled.status))
            total.skipped += pulled.skipped
            for _, data in pulled.buffers:
                if decodes(data, broker.rules):
                    total.messages += 1
                else:
                    total.undecodable += 1
                    total.odd.append((*key, asked, "UNDECODABLE"))
    return total


def _pulls(broker: Broker, queue: ConsumeQueue) -> Iterator[tuple[int, Pulled]]:
    offset, stop = queue.min_offset, queue.max_offset
    while offset < stop:
        pulled = pull(broker, queue, offset)
        yield offset, pulled
        offset = pulled.next_offset if pulled.next_offset > offset else offset + 1


def pull(broker: Broker, queue: ConsumeQueue, offset: int) -> Pulled:
    """Return the answer to one pull at an offset between the queue's min and max."""
    position = offset * UNIT
    file = queue.files.find(position) if position >= queue.min_position else None
    at = position % queue.files.size
    if file is None or at >= file.wrote:
        return Pulled("OFFSET_FOUND_NULL", offset - offset % _units(queue) + _units(queue))
    units = queue.units(file, at, file.wrote)
    pulled = Pulled("NO_MATCHED_MESSAGE", offset)
    taken = 0
    next_file: int | None = None
    for i in range(len(units)):
        physical, size = int(units[i]["physical_offset"]), int(units[i]["size"])
        behind = next_file is not None and physical < next_file
        if broker.rules.checked_magic:
            if i * UNIT > FILTERED_BYTES or _full(pulled, taken, size):
                break
        elif i * UNIT >= FILTERED_BYTES or (not behind and _full(pulled, taken, size)):
            break
        pulled.next_offset = offset + i + 1
        if behind:
            pulled.skipped += 1
            continue
        data = _message(broker, physical, size)
        if data is None:
            if taken == 0:
                pulled.status = "MESSAGE_WAS_REMOVING"
            next_file = physical + broker.log.size - physical % broker.log.size
            pulled.skipped += 1
            continue
        pulled.buffers.append((offset + i, data))
        taken += size
        pulled.status = FOUND
        next_file = None
    return pulled


def _units(queue: ConsumeQueue) -> int:
    return queue.files.size // UNIT


def _full(pulled: Pulled, taken: int, size: int) -> bool:
    if taken == 0 or not pulled.buffers:
        return False
    return len(pulled.buffers) >= MOST_MESSAGES or taken + size > TRANSFERRED_BYTES


def _message(broker: Broker, offset: int, size: int) -> memoryview | None:
    file = broker.log.find(offset, or_first=offset == 0)
    if file is None:
        return None
    at = offset % broker.log.size
    end = (at + size + 2**31) % 2**32 - 2**31
    if end > file.wrote:
        return None
    if size < 0 or at + size > file.size:
        raise JavaError("IllegalArgumentException")
    return broker.bytes_of(file, at, at + size)


def decodes(data: memoryview, rules: Rules) -> bool:
    """Tell whether a client's decoder makes a message of a buffer; it checks lengths and ports."""
    try:
        return _decoded(data, rules)
    except struct.error:
        return False


def _decoded(data: memoryview, rules: Rules) -> bool:
    _, magic, _, _, _, _, _, sys_flag, _ = struct.unpack_from(">iiiiiqqiq", data)
    if rules.checked_magic and magic != log.MAGIC_V1 and not (magic == log.MAGIC_V2 and rules.long_topics):
        return False
    born, store = log.host_bytes(sys_flag)
    at = log.BORN_HOST_AT + born
    ports = [struct.unpack_from(">i", data, at - 4)[0], struct.unpack_from(">i", data, at + 8 + store - 4)[0]]
    if not all(0 <= port <= 0xFFFF for port in ports):
        return False
    at += 8 + store + 12
    (length,) = struct.unpack_from(">i", data, at)
    at += 4 + max(length, 0)
    wide = rules.long_topics and magic == log.MAGIC_V2
    (topic,) = struct.unpack_from(">h" if wide else ">b", data, at)
    at += (2 if wide else 1) + topic
    if topic < 0 or at > len(data):
        return False
    (properties,) = struct.unpack_from(">h", data, at)
    return at + 2 + max(properties, 0) <= len(data)

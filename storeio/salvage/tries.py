"""One change of a damaged record that is tried, where the fields lie that move with others, and what they add up to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from storeio.format import commitlog as log
from storeio.salvage.evidence import Known

MOST_BEFORE_BODY: Final = log.BORN_HOST_AT + 2 * log.IPV6_HOST_BYTES + 24


@dataclass(frozen=True, slots=True)
class Try:
    """A hypothesis: this field becomes these bytes, and the record is so long.

    Of several fields, ``fields`` are name, position and length of each, and the bytes reach from the first to the last.
    """

    field: str
    position: int
    new: bytes
    size: int
    says: str = ""
    fields: tuple[tuple[str, int, int], ...] = ()


Maker = Callable[[bytes, int, Known], Iterator[Try]]
"""Yields tries for the bytes from a record's first one on, and the size that it is to have."""


def body_at_in(data: bytes) -> int:
    """Return where a record's body begins, as its system flag says."""
    (flag,) = struct.unpack_from(">i", data, log.SYS_FLAG_AT)
    return log.BORN_HOST_AT + sum(log.host_bytes(flag)) + 24


def topic_at_in(data: bytes, size: int) -> tuple[int | None, int]:
    """Return where the topic's length stands, None where the body's length leads out; and how wide it is."""
    wide = 2 if struct.unpack_from(">i", data, log.MAGIC_AT)[0] == log.MAGIC_V2 else 1
    body_at = body_at_in(data)
    if body_at > size:
        return None, wide
    (length,) = struct.unpack_from(">i", data, body_at - 4)
    at = body_at + max(length, 0)
    return (at if at <= size - wide - 2 else None), wide


def formula(read: Callable[[int, int], bytes], room: int) -> int:
    """Return the size that a record's own lengths add up to, 0 where one of them leads out of the room.

    Args:
        read: Gives bytes ``[start, stop)`` of the record.
        room: How many bytes it can give, at least those before the hosts.
    """
    head = read(0, min(MOST_BEFORE_BODY, room))
    (magic,) = struct.unpack_from(">i", head, log.MAGIC_AT)
    at = body_at_in(head)
    if magic not in (log.MAGIC_V1, log.MAGIC_V2) or at > len(head):
        return 0
    at += max(int.from_bytes(head[at - 4 : at], "big", signed=True), 0)
    for width, least in ((2 if magic == log.MAGIC_V2 else 1, 0), (2, -(1 << 15))):
        if at + width > room:
            return 0
        length = int.from_bytes(read(at, at + width), "big", signed=True)
        if length < least:
            return 0
        at += width + max(length, 0)
    return at if at <= room else 0

"""One change of a damaged record that is tried, and where the fields lie that move with others."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from storeio.format import commitlog as log
from storeio.salvage.evidence import Known


@dataclass(frozen=True, slots=True)
class Try:
    """A hypothesis: this field becomes these bytes, and the record is so long."""

    field: str
    position: int
    new: bytes
    size: int
    says: str = ""


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

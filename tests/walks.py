"""What the tests of the walk share: windows that refuse what is outside, and rows to compare with the slow decoder."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import slow
from hypothesis import HealthCheck, settings

from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.splits import Split
from storeio.walk import Walked, walk_split
from storeio.window import Bytes

QUIET = settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck))
KINDS = {t.UNIQUE_KEY: "UNIQ_KEY", t.KEYS: "KEYS", t.TAGS: "TAGS"}
Row = tuple[object, ...]


@dataclass
class Reader:
    """Serves windows of a segment, each a copy without anything around it, and refuses what is outside."""

    data: Bytes
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, start: int, stop: int) -> Bytes:
        assert 0 <= start <= stop <= len(self.data)
        self.asked.append((start, stop))
        window = self.data[start:stop].copy()
        window.flags.writeable = False
        return window


def walk_whole(base: int, data: bytes) -> Walked:
    """Return the sequential walk over one segment."""
    return walk_split(Reader(np.frombuffer(data, np.uint8)), Split("", base, len(data), 0, len(data)))


def rows_of(walked: Walked) -> list[Row]:
    """Return one row a record: all columns, the queue by name, the keys."""
    keys: dict[int, list[tuple[int, str]]] = {}
    for key_hash, record, kind in walked.keys.T.tolist():
        keys.setdefault(record, []).append((key_hash, KINDS[kind]))
    rows: list[Row] = []
    for n, column in enumerate(walked.records.T.tolist()):
        queue = walked.queues[column[w.R_QUEUE]]
        rows.append((*column[: w.R_QUEUE], *queue, *column[w.R_QUEUE + 1 :], keys.get(n, [])))
    return rows


def row_of(head: slow.Head) -> Row:
    """Return the same row of a slowly decoded record."""
    return (
        head.position, head.size, head.topic, head.queue_id, head.queue_offset, head.tags_code, head.store_ms,
        head.sys_flag, head.marks, head.physical, head.body_length, head.properties_at, head.properties_length,
        head.batch_base, head.batch_size, head.born_ms, host_number(head.store_host),
        host_number(head.born_host), head.flag, head.keys,
    )  # fmt: skip


def host_number(host: bytes) -> int:
    """Return the number that stands for a store host: its first 8 bytes, the other 4-byte numbers mixed in."""
    (value, *others) = struct.unpack(">qiii" if len(host) == 20 else ">q", host)
    for other in others:
        value = value % 2**57 * 31 + other
    return int(value)

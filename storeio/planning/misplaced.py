"""Intact records that stand elsewhere than they say, and that the log lacks: once it is mended it has them.

Until then nothing may be taken from queues and index that points at them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from storeio.findings import Finding
from storeio.format import batchqueue, consumequeue
from storeio.format import commitlog as log
from storeio.paths import COMMITLOG, describe, file_name
from storeio.plan.digest import FILE
from storeio.planning.draft import Draft
from storeio.salvage.evidence import whole_record
from storeio.salvage.strays import Standing, intact_records, runs_of
from storeio.window import Bytes

AT_ONCE: Final = 16 << 20
TELLS_OF_RECORDS: Final = ("LOG_SEGMENT_MISNAMED", "LOG_STALE", "MISALIGNED_NAME", "STRAY_FILE", "STRAY_DIRECTORY")
UNITS: Final = {  # that point at no record of the log
    "CQ_BEYOND_LOG": consumequeue.decode, "CQ_UNIT_ORPHAN": consumequeue.decode, "BCQ_UNIT_ORPHAN": batchqueue.decode,
}  # fmt: skip
KEYS: Final = ("INDEX_BEYOND_LOG", "INDEX_UNIT_ORPHAN")

Queue = tuple[str, int]


def misplaced(draft: Draft, findings: Iterable[Finding], segment_bytes: int) -> dict[int, int]:
    """Return size by physical offset of the records of files that findings name which the log lacks."""
    paths: set[str] = set()
    for finding in findings:
        if finding.code in TELLS_OF_RECORDS and finding.path.startswith(f"{COMMITLOG}/"):
            paths.update(_files(draft, finding.path))
    found = (record for path in sorted(paths) for record in lacking(draft, path, segment_bytes))
    return {record.physical_offset: record.size for record in found}


def _files(draft: Draft, path: str) -> list[str]:
    if draft.store.is_directory(path):
        return [name for name, entry in draft.store.entries(path) if entry.kind == FILE]
    return [path] if draft.store.exists(path) else []


def misplaced_in(draft: Draft, finding: Finding, segment_bytes: int) -> bool:
    """Tell whether there is such a record in the bytes that a finding is about."""
    stop = finding.position + finding.length
    return any(finding.position <= row.position < stop for row in lacking(draft, finding.path, segment_bytes))


def lacking(draft: Draft, path: str, segment_bytes: int) -> list[Standing]:
    """Return the intact records of a file that do not stand in the log where they say; for which there is room."""

    def read(start: int, stop: int) -> Bytes:
        return np.frombuffer(b"".join(draft.store.pieces(path, start, stop)), np.uint8)

    file = describe(path, draft.store.length(path))
    runs = runs_of(intact_records(read, file, segment_bytes))
    return [row for run in runs if not _stands(draft, path, run, segment_bytes) for row in run]


def _stands(draft: Draft, path: str, run: Sequence[Standing], segment_bytes: int) -> bool:
    """Tell whether the log has the bytes of a run of records of a file where these say."""
    first, length = run[0], run[-1].position + run[-1].size - run[0].position
    position = first.physical_offset % segment_bytes
    target = f"{COMMITLOG}/{file_name(first.physical_offset - position)}"
    if (path, first.position) == (target, position):
        return True
    reaches = draft.store.exists(target) and position + length <= min(draft.store.length(target), segment_bytes)
    if first.physical_offset < 0 or not reaches:
        return False
    for low in range(0, length, AT_ONCE):
        count = min(AT_ONCE, length - low)
        pairs = ((path, first.position + low), (target, position + low))
        own, theirs = (b"".join(draft.store.pieces(name, at, at + count)) for name, at in pairs)
        if own != theirs:
            return False
    return True


def intact_record_at(draft: Draft, path: str, position: int) -> log.Record | None:
    """Return the intact record at a position of a segment, if there is one: bytes may be missing in front of it."""
    return whole_record(record_bytes(draft, path, position))


def record_bytes(draft: Draft, path: str, position: int) -> bytes:
    """Return the bytes of what may be a record at a position of a segment, none where its size cannot be one's."""
    length = draft.store.length(path)
    if length - position < log.MIN_RECORD_BYTES:
        return b""
    (size,) = struct.unpack(">i", b"".join(draft.store.pieces(path, position, position + 4)))
    if not log.MIN_RECORD_BYTES <= size <= min(length - position, log.MOST_READ_BYTES):
        return b""
    return b"".join(draft.store.pieces(path, position, position + size))


def queues_pointing_at(draft: Draft, findings: Iterable[Finding], records: dict[int, int]) -> set[Queue]:
    """Return the queues, topic and queue id, with a unit that points at one of some records and at none of the log."""
    found: set[Queue] = set()
    for finding in findings if records else ():
        queue = finding.topic, finding.queue_id
        if finding.code not in UNITS or queue[0] is None or queue[1] is None or not draft.store.exists(finding.path):
            continue
        stop = finding.position + finding.length
        stop = min(stop, draft.store.length(finding.path))
        data = b"".join(draft.store.pieces(finding.path, finding.position, stop))
        decode = UNITS[finding.code]
        units = decode(data[: len(data) - len(data) % decode(b"").dtype.itemsize])
        pairs = zip(units["physical_offset"].tolist(), units["size"].tolist(), strict=True)
        if any(records.get(physical) == size for physical, size in pairs):
            found.add((queue[0], queue[1]))
    return found


def index_points_at(findings: Iterable[Finding], records: dict[int, int]) -> bool:
    """Tell whether units of the index point at some records, as far as findings name the first of several."""
    return any(f.code in KEYS and f.physical_offset in records for f in findings)

"""The end of the log as queues and indexes knew it: what of it is lost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from storeio.checks.queue_files import Queue
from storeio.checks.segments import LogView
from storeio.findings import Finding
from storeio.paths import COMMITLOG, CONSUMEQUEUE, file_name


def lost_tail(
    view: LogView, units: Sequence[tuple[int, int]], index_offsets: Sequence[int], segment_bytes: int
) -> list[Finding]:
    """Return a finding for each segment that held records behind the end of the log.

    Args:
        view: The log.
        units: (physical offset, size) of queue units that point behind its end.
        index_offsets: Physical offsets of index units that do.
        segment_bytes: The configured segment size.

    One pointer alone may be a damaged unit; it counts if it names the very next record, or the
    first one of the next segment. Several that lie apart do not all lie.
    """
    end = view.end
    starts = sorted({offset for offset, _ in units} | set(index_offsets))
    next_segment = (end // segment_bytes + 1) * segment_bytes if end % segment_bytes else end
    follows = any(offset in (end, next_segment) for offset in starts)
    limit = end + max(segment_bytes, 1) * 1024  # further away nothing is plausible
    starts = [offset for offset in starts if offset < limit]
    if not starts or (len(starts) < 2 and not follows):
        return []
    stop = max([offset + size for offset, size in units if offset < limit] + [starts[-1] + 1])
    findings = []
    at = end
    while at < stop:
        base = at // segment_bytes * segment_bytes
        upto = min(stop, base + segment_bytes)
        count = bisect_left(starts, upto) - bisect_left(starts, at)
        if count:
            path = f"{COMMITLOG}/{file_name(base)}"
            detail = f"{count} records that queues or indexes point at, up to physical offset {upto}"
            findings.append(
                Finding("LOG_TAIL_LOST", path, at - base, upto - at, physical_offset=at, count=count, detail=detail)
            )
        at = base + segment_bytes
    return findings


def maybe_missing(queues: Iterable[Queue], view: LogView, units: Sequence[tuple[int, int]]) -> list[Finding]:
    """Return a finding for each queue whose last file is full, where the lost tail holds unnamed records.

    Its next file may have gone with the tail; nothing else in the store could tell.
    """
    at = view.end
    unnamed = False
    for offset, size in sorted(units):
        unnamed |= offset > at
        at = max(at, offset + size)
    if not unnamed or not units:
        return []
    findings = []
    for queue in queues:
        last = queue.files[-1] if queue.files else None
        if queue.kind == CONSUMEQUEUE and last is not None and last.used_bytes == last.size == queue.file_bytes:
            path, position = queue.path_at(last.base + last.size)
            detail = "its last file is full, and the lost tail of the log holds records that no unit names"
            findings.append(Finding("CQ_MAYBE_MISSING", path, position, 0, queue.topic, queue.queue_id, detail=detail))
    return findings

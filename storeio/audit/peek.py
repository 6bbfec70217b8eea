"""A single record read by its physical offset, for the rare questions that need one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.paths import StoreFile

if TYPE_CHECKING:  # a plan asks for records itself
    from storeio.audit.plan import AuditPlan

Read = Callable[[str, int, int], npt.NDArray[np.uint8]]


def record_at(plan: AuditPlan, physical: int, read: Read | None = None) -> log.Record | None:
    """Return the record whose head stands at a physical offset, None where none does.

    The head must name that offset and a size that fits; the body is not checked. ``read`` reads bytes of a file, the
    plan's own way if not given.
    """
    read = read or plan.read
    number = _segment_at(plan, physical)
    if number < 0:
        return None
    segment = plan.segments[number]
    record = record_in(read, segment.path, physical - (segment.base_offset or 0), segment.size)
    return record if record is not None and record.physical_offset == physical else None


def record_in(read: Read, path: str, position: int, size: int) -> log.Record | None:
    """Return the record whose head stands at a position of a segment of this size, None where none does.

    No more is read than a record may have, whatever its head claims; where it says that it lies, its caller looks at.
    """
    if not 0 <= position <= size - log.MIN_RECORD_BYTES:
        return None
    try:
        head = read(path, position, position + log.BORN_HOST_AT).tobytes()
        length = int.from_bytes(head[:4], "big", signed=True)
        if not log.MIN_RECORD_BYTES <= length <= min(log.MOST_READ_BYTES, size - position):
            return None
        record = log.decode_record(read(path, position, position + length).tobytes())
    except (ValueError, UnreadableError):
        return None
    return record if record.magic in (log.MAGIC_V1, log.MAGIC_V2) else None


def _segment_at(plan: AuditPlan, physical: int) -> int:
    """Return which segment holds a physical offset, -1 for none: its own, and what lies across segments without one."""
    base = physical - physical % plan.segment_bytes
    number = bisect_right(plan.segments, base, key=_base_of) - 1
    if number >= 0 and _base_of(plan.segments[number]) == base:
        return number
    return bisect_right(plan.segments, physical, key=_base_of) - 1


def _base_of(segment: StoreFile) -> int:
    return segment.base_offset or 0

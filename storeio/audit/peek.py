"""A single record read by its physical offset, for the rare questions that need one."""

from __future__ import annotations

from typing import Final

from storeio.audit.plan import AuditPlan
from storeio.checks.numbering import place_of
from storeio.checks.segments import LogView
from storeio.errors import UnreadableError
from storeio.format import commitlog as log

MOST_RECORD_BYTES: Final = 64 << 20  # what claims more is not looked up


def record_at(plan: AuditPlan, view: LogView, physical: int) -> log.Record | None:
    """Return the record whose head stands at a physical offset, None where none does.

    The head must name that offset and a size that fits; the body is not checked.
    """
    if not view.segments:
        return None
    path, position = place_of(view, physical)
    size = next(s.file.size for s in view.segments if s.file.path == path)
    if not 0 <= position <= size - log.MIN_RECORD_BYTES:
        return None
    try:
        head = plan.read(path, position, position + log.BORN_HOST_AT).tobytes()
        length = int.from_bytes(head[:4], "big", signed=True)
        if not log.MIN_RECORD_BYTES <= length <= min(MOST_RECORD_BYTES, size - position):
            return None
        record = log.decode_record(plan.read(path, position, position + length).tobytes())
    except (ValueError, UnreadableError):
        return None
    magic = record.magic in (log.MAGIC_V1, log.MAGIC_V2)
    return record if magic and record.physical_offset == physical else None

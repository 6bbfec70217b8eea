"""The JSON object of an audit, as scripts rely on it; ``docs/check.md`` explains every key.

Keys are never removed or renamed. Output is ASCII: names from damaged bytes reach a terminal or a log only as
``\\uXXXX`` escapes. A path that is not UTF-8 holds lone surrogates, as Python's ``os.fsdecode`` gives them.
"""

from __future__ import annotations

import json
from typing import Any

from storeio import __version__
from storeio.findings import Finding
from storeio.results import Audit, FileResult, LostRange, QueueResult, Reading, Unfinished
from storeio.uris import named, shown

Object = dict[str, Any]


def audit_object(audit: Audit | Unfinished) -> Object:
    """Return the audit as plain objects, lists, strings and numbers; of one that ran out of time what is known."""
    if isinstance(audit, Unfinished):
        return _unfinished(audit)
    made = {
        **_head(audit),
        "bytes": audit.bytes_by_kind(),
        "log": {
            "min_physical_offset": audit.log.min_physical_offset,
            "max_physical_offset": audit.log.max_physical_offset,
            "records": audit.log.records,
            "segments": audit.log.segments,
            "first_store_timestamp_ms": audit.log.first_store_timestamp_ms,
            "last_store_timestamp_ms": audit.log.last_store_timestamp_ms,
        },
        "queues": [_queue(q) for q in audit.queues],
        "index": [
            {
                "path": i.path,
                "entries": i.entries,
                "begin_physical_offset": i.begin_physical_offset,
                "end_physical_offset": i.end_physical_offset,
            }
            for i in audit.index
        ],
        "checks": dict(audit.checks),
        "findings": [finding_object(f) for f in audit.findings],
        "lost_messages": [_lost(r) for r in audit.lost],
        "misplaced_messages": [_lost(r) for r in audit.misplaced],
        "unread_messages": [_lost(r) for r in audit.unread],
        "failed": list(audit.failed),
        "files": [_file(f) for f in audit.files],
        "bands": [{"path": b.path, "start": b.start, "stop": b.stop, "byte_class": b.byte_class} for b in audit.bands],
    }
    return made if audit.reading is None else {**made, "reading": _reading(audit.reading)}


def _unfinished(audit: Unfinished) -> Object:
    return {
        **_head(audit),
        "findings": [finding_object(f) for f in audit.findings],
        "failed": list(audit.failed),
        "reading": _reading(audit.reading),
    }


def _head(audit: Audit | Unfinished) -> Object:
    return {
        "tool": audit.tool,
        "version": audit.version,
        "store": audit.store,
        "started_ms": audit.started_ms,
        "seconds": round(audit.seconds, 6),
        "crc_engine": audit.crc_engine,
        "settings": {s.name: {"value": s.value, "source": s.source} for s in audit.settings},
        "verdict": audit.verdict,
        "exit_code": audit.exit_code,
    }


def _reading(reading: Reading) -> Object:
    return {
        "bytes_read": reading.bytes_read,
        "parts": reading.parts,
        "parts_known": reading.parts_known,
        "parts_rechecked": reading.parts_rechecked,
        "due_bytes": reading.due_bytes,
        "left_bytes": reading.left_bytes,
        "left": [{"path": path, "start": start, "stop": stop} for path, start, stop in reading.left],
    }


def failure_object(store: str, error: str, exit_code: int) -> Object:
    """Return the object of a store that could not be audited at all: no verdict, but a reason."""
    return {
        "tool": "storeio",
        "version": __version__,
        "store": named(store),
        "verdict": None,
        "exit_code": exit_code,
        "error": shown(error),
    }


def to_json(value: Object) -> str:
    """Return one line of ASCII, without its end."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")  # the one control character that json leaves as it is


def finding_object(finding: Finding) -> Object:
    """Return one finding; what does not apply is null."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "path": finding.path,
        "position": finding.position,
        "length": finding.length,
        "topic": finding.topic,
        "queue_id": finding.queue_id,
        "queue_offset": finding.queue_offset,
        "physical_offset": finding.physical_offset,
        "count": finding.count,
        "detail": finding.detail,
        "remedy": finding.remedy,
    }


def _file(file: FileResult) -> Object:
    return {
        "path": file.path,
        "kind": file.kind,
        "topic": file.topic,
        "queue_id": file.queue_id,
        "size": file.size,
        "classes": {name: count for name, count in file.classes.items() if count},
    }


def _queue(queue: QueueResult) -> Object:
    return {
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "kind": queue.kind,
        "min_queue_offset": queue.min_queue_offset,
        "max_queue_offset": queue.max_queue_offset,
        "units": queue.units,
        "in_log": queue.in_log,
        "lost": [list(r) for r in queue.lost],
    }


def _lost(lost: LostRange) -> Object:
    return {
        "topic": lost.topic,
        "queue_id": lost.queue_id,
        "first_queue_offset": lost.first_queue_offset,
        "stop_queue_offset": lost.stop_queue_offset,
        "physical_start": lost.physical_start,
        "physical_stop": lost.physical_stop,
        "evidence": lost.evidence,
    }

"""Rows of the tables ``runs``, ``files``, ``byte_classes``, ``queues``, ``findings``, ``checks``, ``lost_messages``.

One declared column list a table; a row is a dict with exactly these keys. Columns are only ever added, at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from storeio.findings import SEVERITIES, Finding
from storeio.results import (
    BYTE_CLASSES,
    Audit,
    FileResult,
    IndexResult,
    LogResult,
    LostRange,
    QueueResult,
    Reading,
    Unfinished,
    messages_in,
)

Row = dict[str, Any]

STRING, INT, LONG, DOUBLE, BINARY = "string", "int", "long", "double", "binary"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``type`` is ``string``, ``int`` (32 bits), ``long`` (64 bits) or ``double``."""

    name: str
    type: str
    nullable: bool
    meaning: str


def must(name: str, kind: str, meaning: str) -> Column:
    """Return a column that every row fills."""
    return Column(name, kind, False, meaning)


def may(name: str, kind: str, meaning: str) -> Column:
    """Return a column that may be null."""
    return Column(name, kind, True, meaning)


_KEY: Final = (
    must("run_id", STRING, "the run that wrote the row"),
    must("store", STRING, "the store root, as the run was given it"),
)

TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "runs": (
        *_KEY,
        must("tool", STRING, "storeio"),
        must("version", STRING, "version of the tool"),
        must("crc_engine", STRING, "what computed the body CRCs"),
        must("arguments", STRING, "how the run was called"),
        must("settings", STRING, "JSON object: setting to value and source"),
        must("input_fingerprint", STRING, "SHA-256 over the paths and sizes of all files that were looked at"),
        must("started_ms", LONG, "start of the audit of this store, Unix ms"),
        must("seconds", DOUBLE, "how long it took"),
        must("bytes", LONG, "bytes of all files"),
        must("files", LONG, "number of files"),
        must("segments", LONG, "commitlog segments"),
        must("records", LONG, "valid records"),
        must("min_physical_offset", LONG, "where the commitlog begins"),
        must("max_physical_offset", LONG, "end of the last valid record"),
        may("first_store_timestamp_ms", LONG, "store time of the first record, Unix ms"),
        may("last_store_timestamp_ms", LONG, "store time of the last record, Unix ms"),
        *(must(f"{severity}s", LONG, f"rows in findings with severity {severity}") for severity in SEVERITIES),
        must("lost_messages", LONG, "messages that no intact record holds"),
        must("verdict", STRING, "sound or damaged; incomplete if time ran out and the known parts are sound"),
        must("exit_code", INT, "0 sound, 4 damage found, +8 something could not be read, or time ran out"),
        may("failed", STRING, "what could not be read, a line each"),
        may("bytes_read", LONG, "bytes that an incremental audit read; null of others, which read all"),
        may("parts", LONG, "splits and whole files of an incremental audit"),
        may("parts_known", LONG, "of them taken over from earlier runs"),
        may("parts_rechecked", LONG, "of them looked at again by rotation"),
        may("due_bytes", LONG, "that rotation would have read, had there been time"),
        may("left_parts", LONG, "of which nothing is known, since time ran out; 0 of a complete audit"),
        may("left_bytes", LONG, "bytes of these"),
        may(
            "misplaced_messages",
            LONG,
            "messages that the log lacks in their place and an intact record elsewhere holds",
        ),
        may("unread_messages", LONG, "messages that nothing but what could not be read may hold"),
    ),
    "files": (
        *_KEY,
        must("path", STRING, "relative to the store root"),
        must("kind", STRING, "directory or kind of file"),
        may("topic", STRING, "of a queue's file"),
        may("queue_id", INT, "of a queue's file"),
        must("size", LONG, "bytes on disk; 0 for a file that should be there"),
        *(must(f"{name}_bytes", LONG, f"bytes of class {name}") for name in BYTE_CLASSES),
        may("entries", LONG, "units of an index file"),
        may("begin_physical_offset", LONG, "of an index file: its header's first physical offset"),
        may("end_physical_offset", LONG, "of an index file: its header's last physical offset"),
    ),
    "byte_classes": (
        *_KEY,
        must("kind", STRING, "directory or kind of file"),
        must("byte_class", STRING, ", ".join(BYTE_CLASSES)),
        must("bytes", LONG, "bytes of this kind and class, zero included"),
    ),
    "queues": (
        *_KEY,
        must("topic", STRING, ""),
        must("queue_id", INT, ""),
        must("kind", STRING, "cq or bcq"),
        must("min_queue_offset", LONG, "first queue offset on disk"),
        must("max_queue_offset", LONG, "queue offset behind the last unit"),
        must("units", LONG, "units on disk"),
        must("in_log", LONG, "records that belong to the queue"),
        must("lost", LONG, "messages that no intact record holds; ranges stand in lost_messages"),
    ),
    "findings": (
        *_KEY,
        must("code", STRING, "see docs/findings.md"),
        must("severity", STRING, ", ".join(SEVERITIES)),
        must("path", STRING, "relative to the store root"),
        must("position", LONG, "byte of the file"),
        must("length", LONG, "bytes from there on"),
        may("topic", STRING, "of the affected queue"),
        may("queue_id", INT, "of the affected queue"),
        may("queue_offset", LONG, "first affected unit"),
        may("physical_offset", LONG, "first affected place of the commitlog"),
        must("count", LONG, "neighbours that this row stands for"),
        must("detail", STRING, "what was seen and what was expected"),
        must("remedy", STRING, "what helps"),
    ),
    "checks": (
        *_KEY,
        must("check", STRING, "what was looked at"),
        must("count", LONG, "how many of it, zero included"),
    ),
    "lost_messages": (
        *_KEY,
        must("topic", STRING, ""),
        must("queue_id", INT, ""),
        must("first_queue_offset", LONG, "first lost message"),
        must("stop_queue_offset", LONG, "behind the last lost message"),
        must("messages", LONG, "how many are lost"),
        must("physical_start", LONG, "they lay between this physical offset"),
        must("physical_stop", LONG, "and this one"),
        must("evidence", STRING, "what tells of them"),
    ),
}


def table_rows(audit: Audit | Unfinished, *, run_id: str, arguments: str = "") -> dict[str, list[Row]]:
    """Return the rows of every table, in the order of ``TABLES``.

    Of an audit that ran out of time only ``findings`` has any, and ``runs``, with 0 where nothing is known.
    """
    if isinstance(audit, Unfinished):
        return _unfinished_rows(audit, run_id, arguments)
    parts: dict[str, Iterable[Sequence[Any]]] = {
        "runs": [_run(audit, arguments)],
        "files": _files(audit),
        "byte_classes": (
            (kind, name, row[name]) for kind, row in audit.bytes_by_kind().items() for name in BYTE_CLASSES
        ),
        "queues": map(_queue, audit.queues),
        "findings": map(_finding, audit.findings),
        "checks": audit.checks.items(),
        "lost_messages": map(_lost, audit.lost),
    }
    return {table: _dicts(table, (run_id, audit.store), values) for table, values in parts.items()}


def _dicts(table: str, key: tuple[str, str], values: Iterable[Sequence[Any]]) -> list[Row]:
    names = [column.name for column in TABLES[table]]
    return [dict(zip(names, map(_clean, (*key, *row)), strict=True)) for row in values]


def _clean(value: Any) -> Any:
    return valid_text(value) if isinstance(value, str) else value


def valid_text(text: str) -> str:
    """Return the text as every table takes it: bytes of a path that are no UTF-8 become ``\\udcNN``, as in the JSON."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def fingerprint(files: Iterable[FileResult]) -> str:
    """Return a digest that changes when a file comes, goes or changes its size."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.path):
        digest.update(f"{file.path}\0{file.size}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _run(audit: Audit, arguments: str) -> Sequence[Any]:
    log = audit.log
    return (
        audit.tool,
        audit.version,
        audit.crc_engine,
        arguments,
        json.dumps({s.name: {"value": s.value, "source": s.source} for s in audit.settings}),
        fingerprint(audit.files),
        audit.started_ms,
        float(audit.seconds),
        sum(file.size for file in audit.files),
        len(audit.files),
        log.segments,
        log.records,
        log.min_physical_offset,
        log.max_physical_offset,
        log.first_store_timestamp_ms,
        log.last_store_timestamp_ms,
        *(sum(1 for f in audit.findings if f.severity == severity) for severity in SEVERITIES),
        messages_in(audit.lost),
        audit.verdict,
        audit.exit_code,
        "\n".join(audit.failed) or None,
        *_reading(audit.reading),
        messages_in(audit.misplaced),
        messages_in(audit.unread),
    )


def _reading(reading: Reading | None) -> Sequence[Any]:
    if reading is None:
        return (None,) * 7
    parts = (reading.parts, reading.parts_known, reading.parts_rechecked)
    return (reading.bytes_read, *parts, reading.due_bytes, len(reading.left), reading.left_bytes)


def _unfinished_rows(audit: Unfinished, run_id: str, arguments: str) -> dict[str, list[Row]]:
    empty = Audit(
        audit.store, audit.version, audit.crc_engine, audit.started_ms, audit.seconds, audit.settings,
        files=[], log=LogResult(0, 0, 0, 0), queues=[], index=[], checks={}, findings=audit.findings,
        failed=audit.failed, reading=audit.reading,
    )  # fmt: skip
    rows = table_rows(empty, run_id=run_id, arguments=arguments)
    runs = [{**row, "verdict": audit.verdict, "exit_code": audit.exit_code} for row in rows["runs"]]
    return {name: [] for name in TABLES} | {"runs": runs, "findings": rows["findings"]}


def _files(audit: Audit) -> Iterable[Sequence[Any]]:
    index = {i.path: i for i in audit.index}
    for f in audit.files:
        classes = (f.classes.get(name, 0) for name in BYTE_CLASSES)
        yield (f.path, f.kind, f.topic, f.queue_id, f.size, *classes, *_index(index.get(f.path)))


def _index(file: IndexResult | None) -> Sequence[Any]:
    return (file.entries, file.begin_physical_offset, file.end_physical_offset) if file else (None, None, None)


def _queue(queue: QueueResult) -> Sequence[Any]:
    lost = sum(stop - first for first, stop in queue.lost)
    offsets = (queue.min_queue_offset, queue.max_queue_offset)
    return (queue.topic, queue.queue_id, queue.kind, *offsets, queue.units, queue.in_log, lost)


def _finding(f: Finding) -> Sequence[Any]:
    place = (f.path, f.position, f.length, f.topic, f.queue_id, f.queue_offset, f.physical_offset)
    return (f.code, f.severity, *place, f.count, f.detail, f.remedy)


def _lost(r: LostRange) -> Sequence[Any]:
    messages = r.stop_queue_offset - r.first_queue_offset
    offsets = (r.first_queue_offset, r.stop_queue_offset, messages, r.physical_start, r.physical_stop)
    return (r.topic, r.queue_id, *offsets, r.evidence)

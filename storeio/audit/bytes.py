"""Every byte of every audited file in exactly one class; the sums are checked here."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from storeio.audit.plan import AuditPlan
from storeio.audit.queues import QueueVerdicts
from storeio.checks.queue_files import UNIT_BYTES
from storeio.checks.segments import LogView
from storeio.errors import AuditError, UnreadableError
from storeio.format import checkpoint
from storeio.paths import (
    ABORT,
    BATCHQUEUE,
    CHECKPOINT,
    COMMITLOG,
    CONSUMEQUEUE,
    INDEX,
    LOCK,
    QUEUE_EXT,
    StoreFile,
)
from storeio.results import FileResult

_AUDITED = (COMMITLOG, CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT, INDEX, CHECKPOINT, ABORT, LOCK)


def byte_results(
    plan: AuditPlan, view: LogView, verdicts: QueueVerdicts, unread: Collection[str] = ()
) -> list[FileResult]:
    """Return every audited file with its bytes by class, files that are missing included.

    Of ``unread`` files, and others that could not be read, the bytes that have no class count as missing.

    Raises:
        AuditError: The classes of a file do not add up to its size.
    """
    known: dict[str, dict[str, int]] = {**view.classes, **verdicts.classes}
    failed = {report.file.path for report in plan.file_reports if report.failed} | set(unread)
    for report in plan.file_reports:
        if report.classes:
            known[report.file.path] = dict(report.classes)
    kept = {file.path: file.size for queue in plan.queues.values() for file in queue.files}
    results = []
    for file in plan.listing.files:
        if file.is_dir or file.kind not in _AUDITED:
            continue
        classes = known.pop(file.path, None)
        if file.path in failed:
            classes = {name: count for name, count in (classes or {}).items() if name != "missing"}
            classes["missing"] = max(file.size - sum(classes.values()), 0)
        elif classes is None:
            classes = _of_small(plan, file)
        results.append(_checked(file, classes, _surplus(plan, file, kept.get(file.path, 0)), file.path in failed))
    for path, classes in known.items():
        if classes.get("missing"):
            results.append(FileResult(path, path.split("/")[0], 0, classes))
    return sorted(results, key=lambda result: result.path)


def _checked(file: StoreFile, classes: dict[str, int], allowed: int, failed: bool) -> FileResult:
    """Return the result of a file after adding up; so many bytes are allowed to have no class yet.

    A queue file may end in a part of a unit, and begin with one if its name is wrong, and any file may be longer than
    it should be: such a rest is nobody's and counts as garbage.
    """
    classes = {name: count for name, count in classes.items() if count}
    total = sum(count for name, count in classes.items() if name != "missing")
    rest = file.size - total
    if 0 < rest <= allowed:
        classes["garbage"] = classes.get("garbage", 0) + rest
    elif rest and not failed:
        raise AuditError(f"{file.path}: {file.size} bytes, but its classes add up to {total}: {classes}")
    return FileResult(file.path, file.kind, file.size, classes, file.topic, file.queue_id)


def _surplus(plan: AuditPlan, file: StoreFile, kept: int) -> int:
    """Return how many bytes of a file belong to no log and no queue, at most; ``kept`` ones are its queue's."""
    if file.kind == COMMITLOG:
        return max(file.size - plan.segment_bytes, 0)
    if file.kind not in UNIT_BYTES or file.topic is None or file.queue_id is None:
        return 0
    unit = UNIT_BYTES[file.kind]
    ends = 1 if (file.base_offset or 0) % unit == 0 else 2  # at which it may have a part of a unit
    return file.size - kept + ends * (unit - 1)


def _of_small(plan: AuditPlan, file: StoreFile) -> dict[str, int]:
    """Return the classes of files that are no logs, queues or indexes; what is unknown is garbage."""
    if file.kind in (ABORT, LOCK):
        return {"record": file.size}
    if file.kind != CHECKPOINT:
        return {"garbage": file.size}
    try:
        data = plan.read(file.path, 0, min(file.size, checkpoint.FILE_BYTES))
    except UnreadableError:
        return {"garbage": file.size}
    fields = min(checkpoint.CHECKPOINT_BYTES, file.size)
    dirty = int(np.count_nonzero(data[fields:])) + max(file.size - checkpoint.FILE_BYTES, 0)
    return {"record": fields, "garbage": dirty, "zero": file.size - fields - dirty}

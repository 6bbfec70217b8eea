"""The audit on one node: the tasks on threads; the compiled loops leave the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from storeio.audit.conclusion import Concluded, concluded
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_tasks, prepare, run_file_task, with_files
from storeio.audit.split import SplitReport, audit_split
from storeio.errors import UnreadableError
from storeio.results import Audit
from storeio.scan import kept_open
from storeio.splits import Split

FILES_PHASE: Final = "queues and index"
LOG_PHASE: Final = "commitlog"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit is: bytes done and in all, and what it does now."""

    done_bytes: int
    total_bytes: int
    phase: str


class _Meter:
    """Counts bytes from several threads and tells who asked."""

    def __init__(self, total_bytes: int, tell: Callable[[Progress], None] | None) -> None:
        self._total = total_bytes
        self._tell = tell
        self._done = 0
        self._lock = threading.Lock()

    def add(self, count: int, phase: str) -> None:
        """Count bytes as done."""
        with self._lock:
            self._done += count
            if self._tell is not None:
                self._tell(Progress(self._done, self._total, phase))


def check(
    root: str | os.PathLike[str],
    *,
    given: Mapping[str, str] | None = None,
    jobs: int | None = None,
    split_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Return the audit of the store at ``root``, which is only read.

    Args:
        root: The store directory.
        given: Broker settings by name; what is not given is told from the files.
        jobs: Threads, by default one a core.
        split_bytes: Bytes of the log that one task walks.
        progress: Called from worker threads after each task.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A given setting is unknown or has a bad value.
    """
    return look_at_store(root, given=given, jobs=jobs, split_bytes=split_bytes, progress=progress).audit


@kept_open()
def look_at_store(
    root: str | os.PathLike[str],
    *,
    given: Mapping[str, str] | None = None,
    jobs: int | None = None,
    split_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Concluded:
    """Return the audit of the store at ``root`` with what it was made of; takes and raises what ``check`` does."""
    plan = prepare(os.fspath(root), given=given, split_bytes=split_bytes)
    meter = _Meter(plan.total_bytes, progress)
    failed: list[str] = []
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        plan = look_at_files(plan, pool, meter.add)
        found = list(pool.map(lambda split: _split(plan, split, meter, failed), plan.splits))
    reports = [report for report in found if report is not None]
    return concluded(plan, reports, lambda split, begin: audit_split(plan, split, begin), failed=failed)


def look_at_files(plan: AuditPlan, pool: Executor, add: Callable[[int, str], None]) -> AuditPlan:
    """Return the plan with what its files say of themselves; ``add`` is called with bytes done and what they are."""

    def look(task: FileTask) -> FileReport:
        report = run_file_task(plan, task)
        add(task.file.size, FILES_PHASE)
        return report

    # The largest first, since the splits wait for the last.
    return with_files(plan, pool.map(look, sorted(file_tasks(plan), key=lambda task: -task.file.size)))


def _split(plan: AuditPlan, split: Split, meter: _Meter, failed: list[str]) -> SplitReport | None:
    try:
        return audit_split(plan, split)
    except UnreadableError as error:
        failed.append(f"{split.path}: {error}")
        return None
    finally:
        meter.add(split.stop - split.start, LOG_PHASE)

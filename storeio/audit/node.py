"""The audit on one node: the tasks on threads; the compiled loops leave the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from storeio.audit.conclusion import Concluded, concluded
from storeio.audit.files import run_file_tasks, with_files
from storeio.audit.learned import learned
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_tasks, prepare
from storeio.audit.split import SplitReport, audit_split, why_unread
from storeio.audit.unfinished import unfinished, without_untold
from storeio.errors import UnreadableError
from storeio.results import Audit, AuditCancelled, Progress, Reading, Unfinished
from storeio.scan import kept_open
from storeio.splits import Split

FILES_PHASE: Final = "queues and index"
LOG_PHASE: Final = "commitlog"
FILES_APART: Final = 256  # of the largest files each is a task
FILES_TOGETHER: Final = 64  # of the others


class _Meter:
    """Counts bytes from several threads and tells who asked."""

    def __init__(self, total_bytes: int, tell: Callable[[Progress], None] | None) -> None:
        self._total = total_bytes
        self._tell = tell
        self._done = 0
        self._lock = threading.Lock()

    def expect(self, count: int) -> None:
        """Expect so many bytes more."""
        with self._lock:
            self._total += count

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
        AuditCancelled: A ``KeyboardInterrupt`` ended it while it was reading; it carries what is known so far.
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
    run = _Run(plan, _Meter(plan.total_bytes, progress))
    try:
        with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
            run.plan = look_at_files(plan, pool, run.keep_file)
            list(pool.map(run.look_at_split, plan.splits))
            if run.learn():
                list(pool.map(run.look_at_split, plan.splits))
    except KeyboardInterrupt:
        raise AuditCancelled(run.known()) from None
    plan = run.plan
    return concluded(plan, run.reports(), lambda split, begin: audit_split(plan, split, begin), failed=run.failed)


def look_at_files(plan: AuditPlan, pool: Executor, keep: Callable[[FileReport], None]) -> AuditPlan:
    """Return the plan with what its files say of themselves; ``keep`` is given each report, from any thread."""

    def look(tasks: Sequence[FileTask]) -> list[FileReport]:
        reports = run_file_tasks(plan, tasks)
        for report in reports:
            keep(report)
        return reports

    # The largest first, since the splits wait for the last; many small ones are more work to hand out than to look at.
    tasks = sorted(file_tasks(plan), key=lambda task: -task.file.size)
    parts = [[task] for task in tasks[:FILES_APART]]
    parts += [tasks[at : at + FILES_TOGETHER] for at in range(FILES_APART, len(tasks), FILES_TOGETHER)]
    return with_files(plan, chain.from_iterable(pool.map(look, parts)))


@dataclass(slots=True)
class _Run:
    """What is known so far, from several threads."""

    plan: AuditPlan
    meter: _Meter
    files: list[FileReport] = field(default_factory=list)
    splits: dict[Split, SplitReport] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def keep_file(self, report: FileReport) -> None:
        """Keep what a file said of itself."""
        self.files.append(report)
        self.meter.add(report.file.size, FILES_PHASE)

    def look_at_split(self, split: Split) -> None:
        """Audit what starts in a split."""
        try:
            self.splits[split] = audit_split(self.plan, split)
        except UnreadableError as error:
            self.failed.append(why_unread(split, error))
        finally:
            self.meter.add(split.stop - split.start, LOG_PHASE)

    def reports(self) -> list[SplitReport]:
        """Return the reports of the splits that could be read, in order."""
        return [self.splits[split] for split in self.plan.splits if split in self.splits]

    def learn(self) -> bool:
        """Tell whether the splits have told what they must all be audited again for."""
        plan = learned(self.plan, self.reports())
        if plan is self.plan:
            return False
        self.plan = plan
        self.splits.clear()
        self.failed.clear()
        self.meter.expect(sum(split.stop - split.start for split in plan.splits))
        return True

    def known(self) -> Unfinished:
        """Return what can be said without the rest."""
        tasks, looked = file_tasks(self.plan), {report.file.path for report in self.files}
        left = [(task.file.path, 0, task.file.size) for task in tasks if task.file.path not in looked]
        left += [(split.path, split.start, split.stop) for split in self.plan.splits if split not in self.splits]
        count = len(tasks) + len(self.plan.splits)
        read = self.plan.total_bytes - sum(stop - start for _, start, stop in left)
        reading = Reading(read, count, 0, 0, left=tuple(left))
        splits = without_untold(self.plan, self.splits)
        return unfinished(self.plan, self.files, splits, reading, self.failed, cancelled=True)

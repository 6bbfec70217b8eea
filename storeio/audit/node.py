"""The audit on one node: the tasks on threads; the compiled loops leave the interpreter's lock."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from storeio.audit.conclusion import Concluded, concluded
from storeio.audit.files import have_same_index, run_file_tasks
from storeio.audit.learned import learned
from storeio.audit.looks import FileLooks
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_tasks, prepare
from storeio.audit.split import SplitReport, audit_split, why_unread
from storeio.audit.unfinished import unfinished, without_untold
from storeio.errors import UnreadableError
from storeio.results import Audit, AuditCancelled, Progress, Reading, Unfinished
from storeio.scan import kept_open
from storeio.splits import Split
from storeio.turns import thread_count

FILES_PHASE: Final = "queues and index"
LOG_PHASE: Final = "commitlog"
TRIES: Final = 3  # where a running broker deletes files meanwhile


class _Meter:
    """Counts bytes from several threads and tells who asked."""

    def __init__(self, total_bytes: int, tell: Callable[[Progress], None] | None) -> None:
        self._total = total_bytes
        self._tell = tell
        self._done = {FILES_PHASE: 0, LOG_PHASE: 0}
        self._again = 0  # bytes of splits that were forgotten
        self._lock = threading.Lock()

    def forget_splits(self) -> None:
        """Expect those bytes of the log once more that are done, whatever was expected again before."""
        with self._lock:
            self._total += self._done[LOG_PHASE] - self._again
            self._again = self._done[LOG_PHASE]

    def add(self, count: int, phase: str) -> None:
        """Count bytes as done."""
        with self._lock:
            self._done[phase] += count
            if self._tell is not None:
                self._tell(Progress(sum(self._done.values()), self._total, phase))


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
    kept: frozenset[str] = frozenset(),
) -> Concluded:
    """Return the audit of the store at ``root`` with what it was made of; takes and raises what ``check`` does.

    Of codes that are ``kept`` each finding is in ``doubts``, however many there are, as ``prepare`` says.
    """
    plan = partial(prepare, os.fspath(root), given=given, split_bytes=split_bytes, kept=kept)
    for _ in range(TRIES - 1):
        found = _looked_at(plan(), jobs, progress)
        if not has_lost_files(found.plan, found.audit):
            return found
    return _looked_at(plan(), jobs, progress)


def has_lost_files(plan: AuditPlan, found: Audit) -> bool:
    """Tell whether a running broker deleted files before they were read, as with old ones every night: look again."""
    paths = (why.partition(": ")[0] for why in found.failed)
    return plan.moment is not None and any(not os.path.lexists(f"{plan.root}/{path}") for path in paths)


def _looked_at(plan: AuditPlan, jobs: int | None, progress: Callable[[Progress], None] | None) -> Concluded:
    run = _Run(plan, _Meter(plan.total_bytes, progress))
    try:
        with _threads(thread_count(jobs)) as pool:
            run.look_at_all(pool)
            if run.learn():
                _finish(run.hand_out_splits(pool))
    except KeyboardInterrupt:
        raise AuditCancelled(run.known()) from None
    plan, failed = run.plan, sorted(run.failed)  # whichever thread was first
    return concluded(plan, run.reports(), lambda split, begin: audit_split(plan, split, begin), failed=failed)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[Executor]:
    """Give threads; if the block fails, what they have not begun is left undone."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _finish(looks: Iterable[Future[None]]) -> None:
    """Wait for all, and raise what one of them raises."""
    for look in looks:
        look.result()


@dataclass(slots=True)
class _Run:
    """What is known so far, from several threads."""

    plan: AuditPlan
    meter: _Meter
    files: list[FileReport] = field(default_factory=list)
    splits: dict[Split, SplitReport] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    presumed: bool = False  # the splits are compared with what index files are only presumed to be

    def look_at_all(self, pool: Executor) -> None:
        """Look at files and splits; again at the splits if an index file is not what they were made to presume."""
        looks = FileLooks(self.plan, pool, self._look_at_files)
        self.plan, self.presumed = looks.presumed(), True
        splits, told = self.hand_out_splits(pool), looks.told()
        if not have_same_index(self.plan, told):
            for split in splits:
                split.cancel()
            wait(splits)
            self._forget_splits()
            splits = []
        self.plan, self.presumed = told, False
        _finish(splits or self.hand_out_splits(pool))

    def _look_at_files(self, plan: AuditPlan, tasks: Sequence[FileTask]) -> list[FileReport]:
        """Return what files say of themselves, and keep it."""
        reports = run_file_tasks(plan, tasks)
        for report in reports:
            self.files.append(report)
            self.meter.add(report.file.size, FILES_PHASE)
        return reports

    def hand_out_splits(self, pool: Executor) -> list[Future[None]]:
        """Have all splits audited."""
        return [pool.submit(self._look_at_split, self.plan, split) for split in self.plan.splits]

    def _look_at_split(self, plan: AuditPlan, split: Split) -> None:
        """Audit what starts in a split."""
        try:
            self.splits[split] = audit_split(plan, split, piece_bytes=plan.piece_bytes)
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
        self._forget_splits()
        return True

    def _forget_splits(self) -> None:
        """Forget what splits have told, before they are looked at again."""
        self.splits.clear()
        self.failed.clear()
        self.meter.forget_splits()

    def known(self) -> Unfinished:
        """Return what can be said without the rest."""
        tasks, looked = file_tasks(self.plan), {report.file.path for report in self.files}
        left = [(task.file.path, 0, task.file.size) for task in tasks if task.file.path not in looked]
        told = {} if self.presumed else self.splits
        left += [(split.path, split.start, split.stop) for split in self.plan.splits if split not in told]
        count = len(tasks) + len(self.plan.splits)
        read = self.plan.total_bytes - sum(stop - start for _, start, stop in left)
        reading = Reading(read, count, 0, 0, left=tuple(left))
        splits = without_untold(self.plan, told)
        return unfinished(self.plan, self.files, splits, reading, sorted(self.failed), cancelled=True)

"""One store in an incremental audit: which parts there are, what is known of them, what is to be done, the result.

Whoever runs it (``in_steps`` has the order) looks at ``file_work``, then at ``split_work``, hands in what was found,
and asks for the result. Work that was not done for want of time is just not handed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from storeio.audit.conclusion import conclude
from storeio.audit.files import run_file_task, with_files
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_tasks
from storeio.audit.split import SplitReport, audit_split, why_unread
from storeio.audit.unfinished import unfinished
from storeio.errors import UnreadableError
from storeio.fingerprints import UNKNOWN, fingerprints, is_same
from storeio.incremental.choice import CHANGED, DUE, NEW, due
from storeio.incremental.evidence import Evidence, Now, audit_with_evidence, holds
from storeio.incremental.telling import Telling
from storeio.incremental.verdicts import (
    FORMS,
    PartKey,
    SplitVerdict,
    Verdict,
    file_key,
    packed,
    settings_of,
    split_key,
    store_name,
    unpacked_file,
    unpacked_split,
)
from storeio.incremental.watched import watched
from storeio.report.rows import valid_text
from storeio.results import Audit, Reading, Unfinished
from storeio.scan import failed_since
from storeio.splits import Split

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """A part to look at, and how urgent: ``choice.NEW`` first."""

    rank: int
    part: T


@dataclass(frozen=True, slots=True)
class FileLook:
    """A file's report, and how many bytes were read for it."""

    report: FileReport
    read_bytes: int


@dataclass(frozen=True, slots=True)
class SplitLook:
    """A split's report, on what it rests, and how many bytes were read for both; ``failed`` where it was unreadable."""

    report: SplitReport | None
    evidence: Evidence | None
    read_bytes: int
    failed: str = ""


def look_at_file(plan: AuditPlan, task: FileTask) -> FileLook:
    """Return what one file says of itself."""
    counted = watched(plan)
    return FileLook(run_file_task(counted, task), counted.read_bytes)


def look_at_split(plan: AuditPlan, split: Split) -> SplitLook:
    """Return the audit of what starts in a split."""
    try:
        return SplitLook(*audit_with_evidence(plan, split))
    except UnreadableError as error:
        return SplitLook(None, None, 0, why_unread(split, error))


@dataclass(slots=True)
class StoreRun:
    """One store in one run. ``kept`` are verdicts of earlier runs by part, ``recheck`` the share to look at again."""

    plan: AuditPlan
    kept: dict[PartKey, Verdict]
    recheck: Fraction
    run_id: str
    settings: str = ""
    now: dict[str, str] = field(default_factory=dict)
    due: set[PartKey] = field(default_factory=set)
    files: dict[FileTask, FileReport] = field(default_factory=dict)
    splits: dict[Split, SplitReport] = field(default_factory=dict)
    taken_over: set[PartKey] = field(default_factory=set)  # known from earlier runs, and not looked at in this one
    looked: set[PartKey] = field(default_factory=set)
    unreadable: dict[Split, str] = field(default_factory=dict)  # with the reason
    read_bytes: int = 0
    state: Now | None = None
    telling: Telling = field(default_factory=Telling)
    by_files: AuditPlan | None = None  # the plan with what only files say
    is_stale: bool = False  # a file turned out to have changed after splits had been judged by what was kept of it

    def __post_init__(self) -> None:
        """Take the fingerprints, before anything is read, and choose what to look at again."""
        self.now = fingerprints(self.plan.listing)
        # A mapped file's times do not tell what a broker writes into it.
        self.now |= dict.fromkeys(filter(self.plan.is_written, self.now), UNKNOWN)
        self.settings = settings_of(self.plan)
        keys = [*map(file_key, file_tasks(self.plan)), *map(split_key, self.plan.splits)]
        current = (self.kept[key] for key in keys if key in self.kept)
        self.due = set(due([v for v in current if self._is_current(v)], self.recheck))

    def _is_current(self, verdict: Verdict) -> bool:
        """Tell whether a verdict is of these settings, and nobody has written to its file."""
        return verdict.settings == self.settings and is_same(verdict.fingerprint, self._fingerprint(verdict.path))

    def _fingerprint(self, path: str) -> str:
        found = self.now.get(path, UNKNOWN)
        return found if valid_text(path) == path else UNKNOWN  # two files may look alike in a table

    def _rank(self, key: PartKey) -> int:
        return CHANGED if key in self.kept else NEW

    def file_work(self) -> list[Work[FileTask]]:
        """Return the files to look at, having taken over what is known of the others, of due ones, too."""
        work = []
        for task in file_tasks(self.plan):
            key = file_key(task)
            verdict = self.kept.get(key)
            report = unpacked_file(verdict, task) if verdict is not None and self._is_current(verdict) else None
            if report is not None:
                self.files[task] = report
                self.taken_over.add(key)
            if report is None or key in self.due:
                work.append(Work(self._rank(key) if report is None else DUE, task))
        return work

    def take_file(self, task: FileTask, look: FileLook) -> Verdict | None:
        """Take what was found of a file; return the verdict to keep, if it is worth it."""
        key = file_key(task)
        if key in self.taken_over and look.report != self.files[task]:
            self.now[task.file.path] = UNKNOWN  # it changed, and its times do not say so: believe nothing of it
            self.is_stale = True
        self.files[task] = look.report
        self._looked_at(key, look.read_bytes)
        if look.report.failed:
            return None
        return self._verdict(key, task.file.path, look.read_bytes, packed(look.report))

    def split_work(self) -> list[Work[Split]]:
        """Return the splits to look at, having taken over what still holds; none while files are missing for that."""
        tasks = file_tasks(self.plan)
        self.is_stale = False
        if any(task not in self.files for task in tasks):
            self.splits.clear()
            return []
        self.by_files = with_files(self.plan, [self.files[task] for task in tasks])
        self.plan = self.telling.taught(self.by_files, self.unreadable)
        work = self._judged()
        before, self.plan = self.plan, self.telling.taught(self.by_files, self.unreadable)
        return work if before.facts == self.plan.facts else self._judged()

    def is_untold(self) -> bool:
        """Tell whether splits said what the others did not know; ``split_work`` then has what to look at again."""
        plan = self.by_files
        return plan is not None and self.telling.taught(plan, self.unreadable).facts != self.plan.facts

    def _judged(self) -> list[Work[Split]]:
        """Return the splits to look at, having taken over what still holds by the plan as it is."""
        counted = watched(self.plan)
        self.splits.clear()
        self.state = Now(counted, self.now)
        work = []
        for split in self.plan.splits:
            key = split_key(split)
            report = self._known(self.state, split)
            if report is not None:
                self.splits[split] = report
            if report is not None and key not in self.looked:
                self.taken_over.add(key)
            else:
                self.taken_over.discard(key)
            if report is None or key in self.due - self.looked:
                work.append(Work(self._rank(key) if report is None else DUE, split))
        self.read_bytes += counted.read_bytes
        return work

    def _known(self, now: Now, split: Split) -> SplitReport | None:
        verdict = self.kept.get(split_key(split))
        if verdict is None or not self._is_current(verdict):
            return None
        known = unpacked_split(self.plan, verdict, split)
        if known is None:
            return None
        self.telling.take(known.report)
        return known.report if holds(now, known.evidence) else None

    def take_split(self, split: Split, look: SplitLook) -> Verdict | None:
        """Take what was found of a split; return the verdict to keep, if it is worth it."""
        key = split_key(split)
        self._looked_at(key, look.read_bytes)
        if look.report is None or look.evidence is None or self.state is None:
            self.splits.pop(split, None)
            self.unreadable[split] = look.failed
            self.telling.drop(split)
            return None
        self.splits[split] = look.report
        self.unreadable.pop(split, None)
        self.telling.take(look.report)
        if look.report.bad:
            return None  # to be asked for again in the next run
        index_paths = [file.path for file in self.plan.index]
        value = SplitVerdict(look.report, look.evidence.dated(self.state), index_paths)
        return self._verdict(key, split.path, look.read_bytes, packed(value))

    def _looked_at(self, key: PartKey, read_bytes: int) -> None:
        self.read_bytes += read_bytes
        self.taken_over.discard(key)
        self.looked.add(key)

    def _verdict(self, key: PartKey, path: str, read_bytes: int, content: str) -> Verdict | None:
        fingerprint = self._fingerprint(path)
        if fingerprint == UNKNOWN or failed_since(self.plan.listing):  # it may have been judged without those bytes
            return None
        verdict = Verdict(
            self.run_id, store_name(self.plan.root), *key, looked_ms=time.time_ns() // 1_000_000, read_bytes=read_bytes,
            fingerprint=fingerprint, settings=self.settings, form=FORMS[key[0]], content=content, digest="",
        ).sealed()  # fmt: skip
        self.kept[key] = verdict
        return verdict

    def result(self) -> Audit | Unfinished:
        """Return the audit, or as much of it as is known.

        Raises:
            AuditError: What was taken over and what was read now do not fit together.
        """
        tasks = file_tasks(self.plan)
        left = [(t.file.path, 0, t.file.size) for t in tasks if t not in self.files]
        known = {*self.splits, *self.unreadable}
        left += [(split.path, split.start, split.stop) for split in self.plan.splits if split not in known]
        failed = [self.unreadable[split] for split in self.plan.splits if split in self.unreadable]
        if left:
            files = [self.files[task] for task in tasks if task in self.files]
            return unfinished(self.plan, files, self.splits, self._reading(0, left), failed)
        counted = watched(self.plan)
        reports = [self.splits[split] for split in self.plan.splits if split in self.splits]
        audit = conclude(counted, reports, lambda split, begin: audit_split(counted, split, begin), failed=failed)
        audit.reading = self._reading(counted.read_bytes, [])
        return audit

    def _reading(self, read_bytes: int, left: Iterable[tuple[str, int, int]]) -> Reading:
        late = self.due & self.taken_over
        return Reading(
            bytes_read=self.read_bytes + read_bytes,
            parts=len(file_tasks(self.plan)) + len(self.plan.splits),
            parts_known=len(self.taken_over),
            parts_rechecked=len(self.due & self.looked),
            due_bytes=sum(self.kept[key].read_bytes for key in late),
            left=tuple(left),
        )


DoFiles = Callable[[Sequence[StoreRun], Sequence[Sequence[Work[FileTask]]]], None]
DoSplits = Callable[[Sequence[StoreRun], Sequence[Sequence[Work[Split]]]], None]


def in_steps(runs: Sequence[StoreRun], do_files: DoFiles, do_splits: DoSplits) -> None:
    """Have the work of all stores done: all that is new or has changed before any of the share.

    Args:
        runs: The stores.
        do_files, do_splits: Look at parts of each store, the most urgent first, and hand in what was found.
    """
    files = [run.file_work() for run in runs]
    do_files(runs, [_of(work, due=False) for work in files])
    splits = dict(enumerate(run.split_work() for run in runs))
    do_splits(runs, [_of(work, due=False) for work in splits.values()])
    do_files(runs, [_of(work, due=True) for work in files])

    def judge_again(stale: Sequence[int]) -> None:
        splits.update({number: runs[number].split_work() for number in stale})
        do_splits([runs[number] for number in stale], [_of(splits[number], due=False) for number in stale])

    judge_again([number for number, run in enumerate(runs) if run.is_stale or run.is_untold()])
    do_splits(runs, [_of(work, due=True) for work in splits.values()])
    judge_again([number for number, run in enumerate(runs) if run.is_untold()])


def _of(work: Sequence[Work[T]], *, due: bool) -> list[Work[T]]:
    return [each for each in work if (each.rank == DUE) == due]

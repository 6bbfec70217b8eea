"""Incremental audits on Spark: little work is done by the driver at once, much of it in waves by the workers.

After each wave its verdicts are kept, so that a run that is killed loses one wave at most; of little work they are
left to the caller, in ``Runner.pending``. When time is up no further part is begun, here or there.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from storeio import audit
from storeio.audit import AuditPlan, FileTask, Progress
from storeio.checks.index_stretch import IndexFiles
from storeio.incremental.store_run import FileLook, SplitLook, StoreRun, Work, in_steps, look_at_file, look_at_split
from storeio.incremental.verdicts import Verdict
from storeio.results import Audit, Unfinished
from storeio.scan import kept_open
from storeio.splits import Split
from udfs.checks import LOCAL_BYTES, LOCAL_FILES, Phase, Tell, on_workers

T = TypeVar("T")
R = TypeVar("R")

Keep = Callable[[list[Verdict]], None]
Outcome = Audit | Unfinished | Exception

WAVE_BYTES: Final = 16 << 30  # for each core: some seconds of work, against one for keeping its verdicts


@dataclass(frozen=True, slots=True)
class Runner:
    """What the work of a run needs: the session, when to stop, where verdicts go, who is told."""

    spark: SparkSession
    deadline_ms: int | None
    keep: Keep
    tell: Tell | None
    pending: list[Verdict] = field(default_factory=list)  # not kept yet: little work, quickly done again

    def is_late(self) -> bool:
        """Tell whether time is up."""
        return is_late(self.deadline_ms)


def is_late(deadline_ms: int | None) -> bool:
    """Tell whether a time has come, Unix ms; never if it is None."""
    return deadline_ms is not None and time.time_ns() // 1_000_000 >= deadline_ms


def in_time(deadline_ms: int | None, work: Callable[[AuditPlan, T], R], plan: AuditPlan, part: T) -> R | None:
    """Return the result of the work, None if it is too late to begin."""
    return None if is_late(deadline_ms) else work(plan, part)


def audit_incrementally(runs: Sequence[StoreRun], runner: Runner) -> list[Outcome]:
    """Return the audit of each store, as much of it as there was time for, or why there is none.

    Raises:
        WorkersError: Spark could not finish; verdicts of the waves before are kept.
    """
    files: Phase[FileTask, FileLook | None] = Phase(
        audit.FILES_PHASE,
        functools.partial(in_time, runner.deadline_ms, look_at_file),
        lambda task: task.file.size,
    )
    splits: Phase[Split, SplitLook | None] = Phase(
        audit.LOG_PHASE,
        functools.partial(in_time, runner.deadline_ms, look_at_split),
        lambda split: split.stop - split.start,
    )
    in_steps(
        runs,
        lambda some, work: _do(runner, some, work, files, StoreRun.take_file),
        lambda some, work: _do(runner, some, work, splits, StoreRun.take_split),
    )
    return [_result(runner, run) for run in runs]


def _do(
    runner: Runner,
    runs: Sequence[StoreRun],
    work: Sequence[Sequence[Work[T]]],
    phase: Phase[T, R | None],
    take: Callable[[StoreRun, T, R], Verdict | None],
) -> None:
    """Do the work, the most urgent first, wave by wave; hand in what was found, and keep the verdicts."""
    rows = [(each.rank, number, each.part) for number, part in enumerate(work) for each in part]
    rows.sort(key=lambda row: row[0])
    total = sum(phase.size(part) for *_, part in rows)
    done = 0
    wave_bytes = WAVE_BYTES * runner.spark.sparkContext.defaultParallelism
    for wave in _waves(rows, phase, wave_bytes):
        if runner.is_late():
            return
        items: list[list[T]] = [[] for _ in runs]
        for _, number, part in wave:
            items[number].append(part)
        found = _results(runner, runs, items, phase, done, total)
        verdicts = [
            take(run, part, look)
            for run, parts, looks in zip(runs, items, found, strict=True)
            for part, look in zip(parts, looks, strict=True)
            if look is not None
        ]
        runner.pending.extend(verdict for verdict in verdicts if verdict is not None)
        if sum(phase.size(part) for *_, part in wave) > LOCAL_BYTES:
            runner.keep(runner.pending)
            runner.pending.clear()
        done += sum(phase.size(part) for *_, part in wave)


def _waves(rows: Sequence[tuple[int, int, T]], phase: Phase[T, R], enough: int) -> Iterator[list[tuple[int, int, T]]]:
    sizes = itertools.accumulate((phase.size(part) for *_, part in rows), initial=0)
    numbered = zip((before // enough for before in sizes), rows, strict=False)
    for _, wave in itertools.groupby(numbered, key=lambda row: row[0]):
        yield [row for _, row in wave]


def _results(
    runner: Runner,
    runs: Sequence[StoreRun],
    items: Sequence[Sequence[T]],
    phase: Phase[T, R | None],
    done: int,
    total: int,
) -> list[list[R | None]]:
    """Return what comes of each item, done by the driver if it is little, else by the workers."""
    plans = [replace(run.plan, file_reports=[]) for run in runs]  # only the driver needs them
    few = sum(map(len, items)) <= LOCAL_FILES and sum(phase.size(i) for part in items for i in part) <= LOCAL_BYTES
    if few:
        with kept_open(), ThreadPoolExecutor() as pool:
            futures = [
                [pool.submit(phase.work, p, item) for item in part] for p, part in zip(plans, items, strict=True)
            ]
            return [[future.result() for future in part] for part in futures]
    tell = runner.tell
    told = tell and (lambda p: tell(Progress(done + p.done_bytes, total, p.phase)))
    return on_workers(runner.spark.sparkContext, plans, items, phase, told)


def _result(runner: Runner, run: StoreRun) -> Outcome:
    try:
        return run.result()
    except Exception as error:  # one store's trouble must not keep the others from their reports
        if not run.taken_over or runner.is_late():
            return error
    # What was taken over does not fit to what lies there now, though nothing says that it changed: read all of it.
    bare = replace(run.plan, file_reports=[], queues={}, index=IndexFiles())
    return audit_incrementally([StoreRun(bare, {}, run.recheck, run.run_id)], runner)[0]

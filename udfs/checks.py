"""The audit's tasks as Spark jobs: the plans travel to the workers once, reports come back.

A worker opens the bytes itself. Neighbouring tasks share a Spark task until it has enough bytes: starting
one costs sixty milliseconds, in which a worker audits three splits.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from storeio import audit
from storeio.audit import AuditPlan, Concluded, FileReport, FileTask, Progress, SplitReport
from storeio.errors import StoreError, UnreadableError
from storeio.paths import QUEUE_KINDS
from storeio.process import stop_still
from storeio.remote.failures import note, noted_since
from storeio.results import Audit
from storeio.scan import kept_open
from storeio.splits import Split

T = TypeVar("T")
R = TypeVar("R")
Tell = Callable[[Progress], None]

SLICES_PER_CORE: Final = 4  # at most: a slow task at the end costs a quarter of a core's time
SLICE_BYTES: Final = 2 << 30  # at least, unless cores would be idle: 0.7 s, ten times what starting a task takes
MOST_ITEMS: Final = 8192  # of one Spark task
LOCAL_FILES: Final = 256  # so few, with so few bytes, the driver has looked at before a job has started
LOCAL_BYTES: Final = 512 << 20
CARRIED_BYTES: Final = 1 << 18  # of plans that go along with each task
TELL_SECONDS: Final = 0.2
WRITE_FAILED: Final = "[TASK_WRITE_FAILED]"
BY_SYSTEM: Final = re.compile(r"Caused by: java\.n?io\.[\w.$]*Exception: (.+)")
OURS: Final = re.compile(r"^storeio\.errors\.\w+: ")  # in front of words that are meant for people
CAUSED: Final = re.compile("(The above exception was the direct cause|During handling of the above exception).*:")


class WorkersError(StoreError, OSError):
    """Spark could not finish the tasks: workers were lost, or a task failed again and again."""


@dataclass(frozen=True, slots=True)
class Phase(Generic[T, R]):
    """One job: what is done to each item of a plan, how many bytes an item is, and what it is called.

    A Spark task has ``most`` of them: the memory of a worker does not grow with the number of small files.
    """

    name: str
    work: Callable[[AuditPlan, T], R]
    size: Callable[[T], int]
    most: int = MOST_ITEMS


def split_report(plan: AuditPlan, split: Split) -> SplitReport | str:
    """Return the report of a split, or why it could not be read."""
    try:
        return audit.audit_split(plan, split)
    except UnreadableError as error:
        return audit.why_unread(split, error)


FILES: Final[Phase[Sequence[FileTask], list[FileReport]]] = Phase(
    audit.FILES_PHASE,
    audit.run_file_tasks,
    lambda tasks: sum(task.file.size for task in tasks),
    MOST_ITEMS // audit.FILES_TOGETHER,
)
SPLITS: Final = Phase(audit.LOG_PHASE, split_report, lambda split: split.stop - split.start)


def audit_stores(spark: SparkSession, plans: Sequence[AuditPlan], tell: Tell | None = None) -> list[Audit | Exception]:
    """Return the audit of each store, or why there is none; raises what ``conclude_stores`` does."""
    found = conclude_stores(spark, plans, tell)
    return [one.audit if isinstance(one, Concluded) else one for one in found]


def conclude_stores(
    spark: SparkSession, plans: Sequence[AuditPlan], tell: Tell | None = None
) -> list[Concluded | Exception]:
    """Return the audit of each store with what it was made of, or why there is none.

    Raises:
        WorkersError: Spark could not finish; nothing is known of any store.
    """
    context = spark.sparkContext
    if audit.few_bytes([(p, audit.file_tasks(p)) for p in plans], files=LOCAL_FILES, data_bytes=LOCAL_BYTES):
        with ThreadPoolExecutor() as pool:
            plans = [audit.FileLooks(plan, pool).told() for plan in plans]
    else:
        files = on_workers(context, plans, [_together(audit.file_tasks(plan)) for plan in plans], FILES, tell)
        plans = [audit.with_files(plan, chain.from_iterable(found)) for plan, found in zip(plans, files, strict=True)]
    found: list[list[SplitReport | str]] = on_workers(context, plans, [p.splits for p in plans], SPLITS, tell)
    again = {n: plan for n, plan in enumerate(map(_learned, plans, found)) if plan is not plans[n]}
    if again:
        told = on_workers(context, list(again.values()), [p.splits for p in again.values()], SPLITS, tell)
        for number, reports in zip(again, told, strict=True):
            plans[number], found[number] = again[number], reports
    return [_concluded(plan, reports) for plan, reports in zip(plans, found, strict=True)]


def _learned(plan: AuditPlan, found: Sequence[SplitReport | str]) -> AuditPlan:
    """Return the plan by which the splits must be audited again, or the same plan."""
    return audit.learned(plan, [report for report in found if isinstance(report, SplitReport)])


def _together(tasks: Sequence[FileTask]) -> list[Sequence[FileTask]]:
    """Return tasks as items of a job: queue files, of which there may be many, together, and each index alone."""
    queues = [task for task in tasks if task.file.kind in QUEUE_KINDS]
    groups = [queues[at : at + audit.FILES_TOGETHER] for at in range(0, len(queues), audit.FILES_TOGETHER)]
    return [*groups, *([task] for task in tasks if task.file.kind not in QUEUE_KINDS)]


def _concluded(plan: AuditPlan, found: Sequence[SplitReport | str]) -> Concluded | Exception:
    reports = [report for report in found if isinstance(report, SplitReport)]
    failed = [report for report in found if isinstance(report, str)]
    try:
        return audit.concluded(plan, reports, lambda split, begin: audit.audit_split(plan, split, begin), failed=failed)
    except Exception as error:  # one store's trouble must not keep the others from their reports
        return error


def on_workers(
    context: SparkContext,
    plans: Sequence[AuditPlan],
    items: Sequence[Sequence[T]],
    phase: Phase[T, R],
    tell: Tell | None = None,
) -> list[list[R]]:
    """Return the results for the items of each plan, in order, made by the workers in one job."""
    flat = [(number, item) for number, part in enumerate(items) for item in part]
    found: list[list[R]] = [[] for _ in plans]
    if not flat:
        return found
    work, size = phase.work, phase.size
    total = sum(size(item) for _, item in flat)
    enough = slice_bytes(total, context.defaultParallelism)
    groups = list(grouped(flat, lambda row: size(row[1]), enough, phase.most))
    given = sent(context, [plan.for_workers() for plan in plans])
    done = context.accumulator(0) if tell is not None else None

    def run(group: list[tuple[int, T]]) -> Iterator[tuple[int, R, list[str]]]:
        plans = given.value
        with kept_open():
            for number, item in group:
                began_ns = time.monotonic_ns()
                result = work(plans[number], item)
                yield number, result, noted_since(plans[number].root, began_ns)
                if done is not None:
                    done.add(size(item))

    try:
        with workers_named(phase.name), telling(tell, lambda: Progress(done.value if done else 0, total, phase.name)):
            for number, result, failed in context.parallelize(groups, len(groups)).flatMap(run).collect():
                found[number].append(result)
                for text in failed:
                    note(plans[number].root, text)  # as if this process had read
    finally:
        dropped(given)
    return found


@dataclass(frozen=True, slots=True)
class Carried(Generic[T]):
    """A value that goes along with each task."""

    value: T


def sent(context: SparkContext, value: T) -> Broadcast[T] | Carried[T]:
    """Return a value as workers get it: with each task, or once where it is large, which takes a while."""
    small = len(pickle.dumps(value)) <= CARRIED_BYTES
    return Carried(value) if small else context.broadcast(value)


def dropped(given: Broadcast[T] | Carried[T]) -> None:
    """Free what was sent, here and on all workers."""
    if isinstance(given, Broadcast):
        given.destroy()


@contextlib.contextmanager
def workers_named(work: str) -> Iterator[None]:
    """Run the block; what Spark raises becomes one line that names the work.

    Raises:
        WorkersError: Spark raised.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        stop_still(error)  # py4j closes its connection, which Spark uses once more
        raise WorkersError(f"Spark could not finish the {work}: {reason(error)}") from error


def slice_bytes(total: int, cores: int) -> int:
    """Return how many bytes one Spark task is to have: few tasks a core, and no idle core."""
    return min(max(total // (SLICES_PER_CORE * cores), SLICE_BYTES), -(-total // cores))


@contextlib.contextmanager
def telling(tell: Tell | None, progress: Callable[[], Progress]) -> Iterator[None]:
    """Tell how far the job is, again and again, while the block runs."""
    ended = threading.Event()

    def keep_telling(tell: Tell) -> None:
        while not ended.wait(TELL_SECONDS):
            tell(progress())

    if tell is not None:
        threading.Thread(target=keep_telling, args=(tell,), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def reason(error: Exception) -> str:
    """Return the line of Spark's many that says what went wrong.

    A worker's own exception, that which was raised last of those that led to each other, else what the JVM raised,
    without its class if it says more, else the first line. Where that is a write, why the system refused it, too.
    """
    lines = CAUSED.split(str(error))[-1].splitlines()
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt)\b", line)]
    if not raised and isinstance(error, Py4JError):  # its first line names the call, the next is ": CLASS: MESSAGE"
        raised = [re.sub(r"^: (?:(?:[\w$]+\.)+[\w$]+: (?=\S))*", "", line) for line in lines if line.startswith(": ")]
    said = OURS.sub("", next(iter(raised or lines), type(error).__name__))
    refused = BY_SYSTEM.findall(str(error)) if said.startswith(WRITE_FAILED) else []
    return f"{said} ({refused[-1]})" if refused else said


def grouped(items: Sequence[T], size: Callable[[T], int], enough: int, most: int = MOST_ITEMS) -> Iterator[list[T]]:
    """Yield neighbouring items together until they reach ``enough``, or are as many as a worker is to hold."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if total >= enough or len(group) >= most:
            yield group
            group, total = [], 0
    if group:
        yield group

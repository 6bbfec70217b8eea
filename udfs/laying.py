"""A rebuild's second job: files are laid by workers, each of them whole by one, from what the first job spilled."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark import Accumulator, SparkContext

from storeio.audit import AuditPlan, Progress
from storeio.errors import StoreError
from storeio.rebuild.lay import FileLaid, Target, lay_parcel
from storeio.rebuild.old import old_units
from storeio.rebuild.parcels import Parcel, parcels
from storeio.rebuild.shares import Orders
from storeio.rebuild.tally import shape_of
from storeio.remote.failures import noted_since
from storeio.scan import kept_open
from udfs.checks import Tell, dropped, grouped, sent, telling, workers_named
from udfs.memory import freed_at_end

PARCEL_BYTES: Final = 64 << 20  # of the files that a worker lays; units of queues it holds, so that it has no more
FILES_PHASE: Final = "queues and index"

Task = list[tuple[int, Parcel]]
"""What one Spark task lays: parcels, with the numbers of their stores."""


@dataclass(frozen=True, slots=True)
class Output:
    """One store's files: what they are of, what they are, and where they go."""

    plan: AuditPlan
    orders: Orders
    place: Path | str


def laid_by_workers(
    context: SparkContext, outputs: Sequence[Output | None], tell: Tell | None
) -> list[tuple[int, FileLaid | Exception]]:
    """Return what was written, or why it was not, with the number of its store; those without orders have no files.

    Raises:
        WorkersError: Spark could not finish.
    """
    files = [file for output in outputs if output is not None for file in output.orders.files]
    if not files:
        return []
    total = sum(file.weight for file in files)
    share = -(-total // context.defaultParallelism)
    tasks = tasks_of([output.orders if output else None for output in outputs], share)
    given = sent(context, [(output.plan.root, target_of(output)) if output else None for output in outputs])
    done = context.accumulator(0)
    work = context.parallelize(tasks, len(tasks)).flatMap(lambda task: lay_files(given.value, task, done))
    tasks.clear()  # Spark has them
    try:
        with workers_named(FILES_PHASE), telling(tell, lambda: Progress(done.value, total, FILES_PHASE)):
            return work.collect()
    finally:
        dropped(given)


def target_of(output: Output) -> Target:
    """Return what workers need to know of a store for all its files."""
    plan, orders = output.plan, output.orders
    with_gaps = {key for key, placed in orders.placed.items() if placed.gaps}
    return Target(output.place, orders.sizes, shape_of(plan), old_units(plan, orders.intact, with_gaps))


def tasks_of(orders: Sequence[Orders | None], share: int) -> list[Task]:
    """Return the tasks: files of about ``share`` bytes each, or of ``PARCEL_BYTES`` if that is less; facts are dropped.

    Files of the index come first: they are the heaviest, and a core that gets one late has the others wait. Those of
    a queue stay together as far as they can, since what they hold lies together.
    """
    files = [(store, number, file) for store, of in enumerate(orders) if of for number, file in enumerate(of.files)]
    files.sort(key=lambda row: row[2].index is None)
    groups = list(grouped(files, lambda row: row[2].weight, max(min(share, PARCEL_BYTES), 1)))
    numbers: list[dict[int, list[int]]] = [{} for _ in orders]  # of a store's files, by task
    for task, group in enumerate(groups):
        for store, number, _ in group:
            numbers[store].setdefault(task, []).append(number)
    tasks: list[Task] = [[] for _ in groups]
    for store, of in enumerate(orders):
        if of:
            for task, parcel in zip(numbers[store], parcels(of, numbers[store].values()), strict=True):
                tasks[task].append((store, parcel))
            of.facts.clear()  # what is needed of them is in the parcels now, for many queues as much again
    return tasks


def lay_files(
    given: Sequence[tuple[str, Target] | None], task: Task, done: Accumulator[int] | None = None
) -> Iterator[tuple[int, FileLaid | Exception]]:
    """Write the files of a task; of a parcel with one that cannot be written, no more than those in front of it."""
    with kept_open(), freed_at_end():
        for store, parcel in task:
            of_store = given[store]
            assert of_store is not None  # only such stores have files
            root, target = of_store
            began_ns = time.monotonic_ns()
            try:
                for file, laid in lay_parcel(parcel, target):
                    laid.failed = noted_since(root, began_ns)
                    yield store, laid
                    began_ns = time.monotonic_ns()
                    if done is not None:
                        done.add(file.weight)
            except (StoreError, OSError) as error:  # a full disk is one store's
                yield store, error

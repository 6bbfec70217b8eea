"""A rebuild's second job: pieces of files are shuffled and sorted by file and place, and one task writes each file."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from pyspark import RDD, Accumulator, SparkContext

from storeio.audit import AuditPlan, Progress
from storeio.rebuild.derive import Derived
from storeio.rebuild.index import Shape
from storeio.rebuild.lay import FileLaid, lay_in
from storeio.rebuild.old import StoreUnits, old_units
from storeio.rebuild.packed import packed
from storeio.rebuild.shares import Orders, Piece, shared_out, truly
from storeio.rebuild.tally import shape_of
from storeio.remote.failures import noted_since
from storeio.scan import kept_open
from udfs.checks import MOST_ITEMS, Tell, dropped, sent, telling, workers_named
from udfs.memory import freed_at_end

LEAST_BYTES: Final = 64 << 20  # that a task which writes is to have, unless cores would be idle
FILES_PHASE: Final = "queues and index"

Numbers = npt.NDArray[np.int64]
Item = tuple[int, int, "Derived | str"]
"""Number of the store, number of the split, and what it holds or why it could not be read."""
Key = tuple[int, int, int]
"""Number of the task, of a file among its files, and a place in the file: what pieces are sorted by."""

OutFileOf = tuple[int, int, int]
"""Number of the store, number of a file among its files, and the file's weight."""


@dataclass(frozen=True, slots=True)
class Output:
    """One store's files: what they are of, what they are, and where they go."""

    plan: AuditPlan
    orders: Orders
    place: Path | str


@dataclass(frozen=True, slots=True)
class Job:
    """What workers need of one store; ``tasks`` has of each file its task and which of the task's files it is."""

    root: str
    orders: Orders
    place: Path | str
    old: StoreUnits
    shape: Shape
    tasks: Numbers


@dataclass(frozen=True, slots=True)
class Jobs:
    """What workers need of all stores, and the store and number of the files of each task."""

    stores: list[Job | None]
    files: list[Numbers]


def laid_by_workers(
    context: SparkContext, held: RDD[Item], outputs: Sequence[Output | None], tell: Tell | None
) -> list[tuple[int, FileLaid]]:
    """Return what was written, with the number of its store; those without orders have no files.

    Raises:
        WorkersError: Spark could not finish.
    """
    files = [
        (store, number, file.weight)
        for store, output in enumerate(outputs)
        for number, file in enumerate(output.orders.files if output else [])
    ]
    if not files:
        return []
    total = sum(weight for *_, weight in files)
    enough = min(max(total // (4 * context.defaultParallelism), LEAST_BYTES), -(-total // context.defaultParallelism))
    groups = evenly(files, -(-total // max(enough, 1)))
    given = sent(context, jobs_of(outputs, [np.array(group, np.int64)[:, :2] for group in groups]))
    done = context.accumulator(0)
    try:
        shuffled = held.mapPartitions(lambda items: pieces_of(given.value, items)).repartitionAndSortWithinPartitions(
            len(groups), lambda key: key[0]
        )
        with workers_named(FILES_PHASE), telling(tell, lambda: Progress(done.value, total, FILES_PHASE)):
            return shuffled.mapPartitionsWithIndex(
                lambda task, rows: lay_files(given.value, task, rows, done)
            ).collect()
    finally:
        dropped(given)


def evenly(files: Sequence[OutFileOf], tasks: int, most: int = MOST_ITEMS) -> list[list[OutFileOf]]:
    """Return the files of each task, in order: about the same weight, and at most so many files, for each.

    One index file may weigh as much as all queues: in the order of their names, one task would have both.
    """
    count = max(tasks, -(-len(files) // most), 1)
    groups: list[list[OutFileOf]] = [[] for _ in range(count)]
    lightest = [(0, number) for number in range(count)]
    for file in sorted(files, key=lambda file: -file[2]):
        weight, number = heapq.heappop(lightest)
        groups[number].append(file)
        if len(groups[number]) < most:
            heapq.heappush(lightest, (weight + file[2], number))
    return [sorted(group) for group in groups if group]


def jobs_of(outputs: Sequence[Output | None], files: list[Numbers]) -> Jobs:
    """Return what workers are told: as small as many queues allow."""
    stores: list[Job | None] = []
    for store, output in enumerate(outputs):
        if output is None:
            stores.append(None)
            continue
        plan, orders = output.plan, output.orders
        tasks = np.zeros((len(orders.files), 2), np.int64)
        for task, rows in enumerate(files):
            places = np.flatnonzero(rows[:, 0] == store)
            tasks[rows[places, 1], 0], tasks[rows[places, 1], 1] = task, places
        with_gaps = {key for key, placed in orders.placed.items() if placed.gaps}
        old = old_units(plan, orders.intact, with_gaps)
        stores.append(Job(plan.root, packed(orders), output.place, old, shape_of(plan), tasks))
    return Jobs(stores, files)


def pieces_of(jobs: Jobs, items: Iterable[Item]) -> Iterator[tuple[Key, Piece]]:
    """Yield the pieces of files that splits hold, with what they are sorted by."""
    with kept_open(), freed_at_end():
        for store, number, found in items:
            job = jobs.stores[store]
            if job is None or isinstance(found, str):
                continue
            true = truly(job.root, job.orders, number, found)
            if true is not None:
                for file, position, piece in shared_out(job.orders, number, true):
                    task, place = job.tasks[file].tolist()
                    yield (task, place, position), piece


def lay_files(
    jobs: Jobs, task: int, pieces: Iterable[tuple[Key, Piece]], done: Accumulator[int] | None = None
) -> Iterator[tuple[int, FileLaid]]:
    """Write a task's files from its sorted pieces; a file may have none."""
    by_file = itertools.groupby(pieces, lambda row: row[0][1])
    following = next(by_file, None)
    with kept_open(), freed_at_end():
        for n, (store, number) in enumerate(jobs.files[task].tolist()):
            job = jobs.stores[store]
            assert job is not None  # only such stores have files
            file = job.orders.files[number]
            here: Iterator[Piece] = iter(())
            if following is not None and following[0] == n:
                here = (piece for _, piece in following[1])
            began_ns = time.monotonic_ns()
            laid = lay_in(number, file, here, job.place, job.old, job.shape)
            laid.failed = noted_since(job.root, began_ns)
            yield store, laid
            if following is not None and following[0] == n:
                following = next(by_file, None)
            if done is not None:
                done.add(file.weight)

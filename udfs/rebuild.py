"""The rebuild's tasks as Spark jobs: splits are derived once, and their pieces go to the one task that lays each file.

First job: workers derive splits, keep what they found on their disks and tell the driver small facts. Second job:
pieces of files are shuffled, sorted by file and place, and each file is written by one task. A task holds a split or a
few pieces, never more of the store.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from pyspark import RDD, Accumulator, Broadcast, SparkContext, StorageLevel

from storeio.audit import AuditPlan, Progress
from storeio.errors import StoreError, UnreadableError, WriteError
from storeio.paths import CHECKPOINT
from storeio.rebuild.cuts import Place
from storeio.rebuild.derive import Derived, QueueKey, Wanted
from storeio.rebuild.lay import WRITING, FileLaid, lay_in
from storeio.rebuild.queues import OldUnits, queue_built
from storeio.rebuild.shares import (
    Facts,
    Orders,
    Piece,
    Stitched,
    derived_again,
    facts_of,
    keys_to_look_up,
    looked_up,
    orders_of,
    shared_out,
    stitched,
    truly,
)
from storeio.rebuild.tally import Tally, old_units, shape_of
from storeio.rebuilt import Rebuilt
from storeio.scan import changed_since, kept_open
from storeio.splits import Split
from storeio.staging import Staging
from udfs.checks import Carried, Tell, grouped, sent, slice_bytes, told, workers_named

LEAST_BYTES: Final = 64 << 20  # that a task which writes is to have, unless cores would be idle
LOG_PHASE: Final = "commitlog"
FILES_PHASE: Final = "queues and index"

Item = tuple[int, int, "Derived | str"]
"""Number of the store, number of the split, and what it holds or why it could not be read."""
Key = tuple[int, int, int]
"""Number of the task, of a file among its files, and a place in the file: what pieces are sorted by."""
T = TypeVar("T")
Sent = Broadcast[T] | Carried[T]
Given = list[tuple[AuditPlan, Wanted]]


@dataclass(slots=True)
class Building:
    """One store's rebuild: what it is of, where it goes, and how far it is."""

    plan: AuditPlan
    wanted: Wanted
    tally: Tally
    staging: Staging
    facts: list[Facts] = field(default_factory=list)
    parts: Stitched | None = None
    orders: Orders | None = None
    laid: list[FileLaid] = field(default_factory=list)
    error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Give this store up; the others go on."""
        self.error = self.error or error
        self.orders = None


@dataclass(frozen=True, slots=True)
class Second:
    """What workers need for the second job: of each store, and the store and number of the files of each task."""

    plans: list[AuditPlan]
    orders: list[Orders | None]
    places: list[Path | str]
    tasks: list[list[tuple[int, int]]]


def rebuild_stores(context: SparkContext, builds: Sequence[Building], tell: Tell | None = None) -> None:
    """Write the files of each store below its staging directory; what went wrong is in ``error`` of each.

    Raises:
        WorkersError: Spark could not finish.
    """
    given = sent(context, [(bare(build.plan), build.wanted) for build in builds])
    held: RDD[Item] = _derived(context, builds, given, done := context.accumulator(0)).persist(StorageLevel.DISK_ONLY)
    total = sum(split.stop - split.start for build in builds for split in build.plan.splits)
    try:
        with workers_named(LOG_PHASE), told(tell, lambda: Progress(done.value, total, LOG_PHASE)):
            said = held.map(_told).collect()
        for store, facts in said:
            if isinstance(facts, Facts):
                builds[store].facts.append(facts)
            else:
                builds[store].fail(UnreadableError(facts))
        _decide(held, builds, given)
        _lay(context, held, builds, tell)
    finally:
        held.unpersist()
        _drop(given)


def bare(plan: AuditPlan) -> AuditPlan:
    """Return the plan without what only the driver needs."""
    return replace(plan, file_reports=[], splits=[])


def _derived(
    context: SparkContext, builds: Sequence[Building], given: Sent[Given], done: Accumulator[int]
) -> RDD[Item]:
    """Return what the splits of all stores hold, neighbours in one task."""
    work = [
        (store, number, split) for store, build in enumerate(builds) for number, split in enumerate(build.plan.splits)
    ]
    total = sum(split.stop - split.start for *_, split in work)
    enough = slice_bytes(total, context.defaultParallelism)
    groups = list(grouped(work, lambda row: row[2].stop - row[2].start, enough))

    def derive(group: list[tuple[int, int, Split]]) -> Iterator[Item]:
        with kept_open():
            for store, number, split in group:
                plan, wanted = given.value[store]
                try:
                    yield store, number, derived_again(plan, wanted, split)
                except UnreadableError as error:
                    yield store, number, str(error)
                done.add(split.stop - split.start)

    return context.parallelize(groups, max(len(groups), 1)).flatMap(derive)


def _told(item: Item) -> tuple[int, Facts | str]:
    store, number, found = item
    return store, found if isinstance(found, str) else facts_of(number, found)


def _decide(held: RDD[Item], builds: Sequence[Building], given: Sent[Given]) -> None:
    """Stitch the splits of each store, place its queues and cut its index."""
    for build in builds:
        if build.error is None:
            with _attempt(build):
                build.parts = stitched(build.plan, build.wanted, build.facts, build.tally)
        build.facts.clear()
    wanted = [keys_to_look_up(build.plan, build.parts) if build.parts else set[Place]() for build in builds]
    begins = [build.parts.begins if build.parts else {} for build in builds]

    def look(item: Item) -> list[tuple[int, tuple[Place, tuple[int, int]]]]:
        store, number, found = item
        places = [place for place in wanted[store] if place.split == number]
        if not places or isinstance(found, str):
            return []
        if number in begins[store]:
            plan, log_wanted = given.value[store]
            found = derived_again(plan, log_wanted, found.split, begins[store][number])
        return [(store, answer) for answer in looked_up(found, places)]

    times: list[dict[Place, tuple[int, int]]] = [{} for _ in builds]
    if any(wanted):
        with workers_named(LOG_PHASE):
            for store, (place, answer) in held.flatMap(look).collect():
                times[store][place] = answer
    for build, known in zip(builds, times, strict=True):
        if build.parts is not None:
            with _attempt(build):
                build.orders = orders_of(build.tally, build.parts, known)
            build.parts = None


def _lay(context: SparkContext, held: RDD[Item], builds: Sequence[Building], tell: Tell | None) -> None:
    """Have all files written."""
    for build in builds:
        if build.orders is not None:
            with _attempt(build):
                for directory in sorted({file.path.rpartition("/")[0] for file in build.orders.files} | {WRITING}):
                    build.staging.make_directory(directory)
    files = [
        (store, number, file.weight)
        for store, build in enumerate(builds)
        for number, file in enumerate(build.orders.files if build.orders else [])
    ]
    if not files:
        return
    total = sum(weight for *_, weight in files)
    enough = min(max(total // (4 * context.defaultParallelism), LEAST_BYTES), -(-total // context.defaultParallelism))
    groups = grouped(files, lambda row: row[2], max(enough, 1))
    tasks = [[(store, number) for store, number, _ in group] for group in groups]
    second = sent(
        context,
        Second(
            [bare(b.plan) for b in builds],
            [b.orders for b in builds],
            [b.staging.shared for b in builds],
            tasks,
        ),
    )
    done = context.accumulator(0)
    try:
        shuffled = held.mapPartitions(lambda items: pieces_of(second.value, items)).repartitionAndSortWithinPartitions(
            len(tasks), lambda key: key[0]
        )
        with workers_named(FILES_PHASE), told(tell, lambda: Progress(done.value, total, FILES_PHASE)):
            found = shuffled.mapPartitionsWithIndex(lambda task, pieces: lay_files(second.value, task, pieces, done))
            for store, laid in found.collect():
                builds[store].laid.append(laid)
    finally:
        _drop(second)


def pieces_of(second: Second, items: Iterable[Item]) -> Iterator[tuple[Key, Piece]]:
    """Yield the pieces of files that splits hold, with what they are sorted by."""
    places = {file: (task, n) for task, files in enumerate(second.tasks) for n, file in enumerate(files)}
    with kept_open():
        for store, number, found in items:
            orders = second.orders[store]
            if orders is None or isinstance(found, str):
                continue
            true = truly(second.plans[store], orders, number, found)
            if true is not None:
                for file, position, piece in shared_out(orders, number, true):
                    yield (*places[store, file], position), piece


def lay_files(
    second: Second, task: int, pieces: Iterable[tuple[Key, Piece]], done: Accumulator[int] | None = None
) -> Iterator[tuple[int, FileLaid]]:
    """Write a task's files from its sorted pieces; a file may have none."""
    by_file = itertools.groupby(pieces, lambda row: row[0][1])
    following = next(by_file, None)
    olds: dict[int, OldUnits] = {}  # by store: to find one queue's files takes going through all of them
    with kept_open():
        for n, (store, number) in enumerate(second.tasks[task]):
            orders = second.orders[store]
            assert orders is not None  # only such stores have files
            plan, file = second.plans[store], orders.files[number]
            if store not in olds:
                olds[store] = old_units(plan, orders.intact)
            here: Iterator[Piece] = iter(())
            if following is not None and following[0] == n:
                here = (piece for _, piece in following[1])
            yield (
                store,
                lay_in(number, file, here, second.places[store], olds[store], shape_of(plan)),
            )
            if following is not None and following[0] == n:
                following = next(by_file, None)
            if done is not None:
                done.add(file.weight)


def finish(build: Building, jobs: int) -> Rebuilt:
    """Return what was built of a store, after its directory got its name.

    Raises:
        WriteError: It could not be written, or workers wrote where the driver does not see it.
    """
    orders, staging = build.orders, build.staging
    assert orders is not None  # it has not failed
    for path in staging.missing({file.path: file.size for file in orders.files}):
        raise WriteError(f"{path}: workers do not write where this process reads; --into must be shared")
    if changed := changed_since(build.plan.listing):
        raise UnreadableError(changed[0])
    data = build.tally.checkpoint(orders.cuts.rolled_ms)
    if data is not None:
        staging.write(CHECKPOINT, 0, data, size=len(data))
    staging.remove(WRITING)
    kept: dict[QueueKey, int] = {}
    for laid in build.laid:
        for key, count in laid.kept.items():
            kept[key] = kept.get(key, 0) + count
    queues = [queue_built(key, placed, kept.get(key, 0)) for key, placed in orders.placed.items()]
    written = staging.written_bytes + sum(laid.written_bytes for laid in build.laid)
    names = staging.finish(jobs)
    index = [file.index for file in orders.files if file.index is not None]
    entries = sum(file.stop - file.first for file in index)
    return build.tally.rebuilt(queues, staging, names, written, len(index), entries)


@contextlib.contextmanager
def _attempt(build: Building) -> Iterator[None]:
    """Run the block for one store; its trouble is that of no other."""
    try:
        yield
    except (StoreError, OSError) as error:
        build.fail(error)


def _drop(given: Sent[T]) -> None:
    if isinstance(given, Broadcast):
        given.destroy()

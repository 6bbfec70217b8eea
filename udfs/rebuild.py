"""The rebuild as Spark jobs: splits are derived once, and their pieces go to the one task that lays each file.

First job: workers derive splits, keep what they found on their disks and tell the driver small facts. The second job
is ``laying``'s. A task holds a split or a few pieces, never more of the store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark import RDD, Accumulator, Broadcast, SparkContext, StorageLevel

from storeio.audit import AuditPlan, Progress, Told, all_told
from storeio.errors import UnreadableError, WriteError
from storeio.paths import CHECKPOINT
from storeio.rebuild.cuts import Place
from storeio.rebuild.derive import Wanted, derive_split
from storeio.rebuild.lay import WRITING, FileLaid
from storeio.rebuild.queues import queue_built
from storeio.rebuild.shares import (
    Facts,
    Orders,
    Stitched,
    facts_of,
    keys_to_look_up,
    looked_up,
    orders_of,
    stitched,
)
from storeio.rebuild.stretches import QueueKey
from storeio.rebuild.tally import Tally, told_more
from storeio.rebuilt import Rebuilt
from storeio.remote.failures import note
from storeio.scan import kept_open, require_same
from storeio.splits import Split
from storeio.staging import Staging
from udfs.checks import Carried, Tell, dropped, grouped, sent, slice_bytes, telling, workers_named
from udfs.laying import Item, Output, laid_by_workers
from udfs.memory import freed_at_end

LOG_PHASE: Final = "commitlog"

Given = list[tuple[str, Wanted]]
"""Of each store where it lies and what is wanted of it."""


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

    def learn(self) -> bool:
        """Take what records tell of queues of which nothing is left; tell whether that is new."""
        told = all_told(facts.found.told for facts in self.parts.facts) if self.parts else Told()
        before, self.wanted = self.wanted, told_more(self.plan, self.wanted, told)
        return self.wanted is not before

    def begin(self) -> None:
        """Forget what splits said."""
        self.tally, self.parts = Tally(self.plan, self.wanted, self.tally.parts), None

    def fail(self, error: Exception) -> None:
        """Give this store up; the others go on."""
        self.error = self.error or error
        self.orders = None


def rebuild_stores(context: SparkContext, builds: Sequence[Building], tell: Tell | None = None) -> None:
    """Write the files of each store below its staging directory; what went wrong is in ``error`` of each.

    Raises:
        WorkersError: Spark could not finish.
    """
    while not _rebuilt(context, builds, tell):
        pass


def _rebuilt(context: SparkContext, builds: Sequence[Building], tell: Tell | None) -> bool:
    """Write the files; False, having written none, if records told of queues of which nothing is left."""
    given = sent(context, [(build.plan.root, build.wanted) for build in builds])
    held: RDD[Item] = _derived(context, builds, given, done := context.accumulator(0)).persist(StorageLevel.DISK_ONLY)
    total = sum(split.stop - split.start for build in builds for split in build.plan.splits)
    try:
        with workers_named(LOG_PHASE), telling(tell, lambda: Progress(done.value, total, LOG_PHASE)):
            said = held.map(_told).collect()
        for store, facts in said:
            if isinstance(facts, Facts):
                builds[store].facts.append(facts)
            else:
                builds[store].fail(UnreadableError(facts))
        if _stitch(builds):
            return False
        _decide(held, builds, given)
        _lay(context, held, builds, tell)
        return True
    finally:
        held.unpersist()
        dropped(given)


def _derived(
    context: SparkContext, builds: Sequence[Building], given: Broadcast[Given] | Carried[Given], done: Accumulator[int]
) -> RDD[Item]:
    """Return what the splits of all stores hold, neighbours in one task."""
    work = [
        (store, number, split) for store, build in enumerate(builds) for number, split in enumerate(build.plan.splits)
    ]
    total = sum(split.stop - split.start for *_, split in work)
    enough = slice_bytes(total, context.defaultParallelism)
    groups = list(grouped(work, lambda row: row[2].stop - row[2].start, enough))

    def derive(group: list[tuple[int, int, Split]]) -> Iterator[Item]:
        with kept_open(), freed_at_end():
            for store, number, split in group:
                root, wanted = given.value[store]
                try:
                    yield store, number, derive_split(root, split, wanted)
                except UnreadableError as error:
                    yield store, number, str(error)
                done.add(split.stop - split.start)

    return context.parallelize(groups, max(len(groups), 1)).flatMap(derive)


def _told(item: Item) -> tuple[int, Facts | str]:
    store, number, found = item
    return store, found if isinstance(found, str) else facts_of(number, found)


def _stitch(builds: Sequence[Building]) -> bool:
    """Stitch the splits of each store; tell whether to begin again, because records told more of what is wanted."""
    is_again = False
    for build in builds:
        if build.error is None:
            with _attempt(build):
                build.parts = stitched(build.plan, build.wanted, build.facts, build.tally)
                is_again |= build.learn()
        build.facts.clear()
    if is_again:
        for build in builds:
            build.begin()
    return is_again


def _decide(held: RDD[Item], builds: Sequence[Building], given: Broadcast[Given] | Carried[Given]) -> None:
    """Place the queues of each store and cut its index."""
    wanted = [keys_to_look_up(build.plan, build.parts) if build.parts else set[Place]() for build in builds]
    begins = [build.parts.begins if build.parts else {} for build in builds]

    def look(item: Item) -> list[tuple[int, tuple[Place, tuple[int, int]]]]:
        store, number, found = item
        places = [place for place in wanted[store] if place.split == number]
        if not places or isinstance(found, str):
            return []
        if number in begins[store]:
            root, log_wanted = given.value[store]
            found = derive_split(root, found.split, log_wanted, begins[store][number])
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
    outputs = [
        None if build.orders is None else Output(build.plan, build.orders, build.staging.shared) for build in builds
    ]
    for store, laid in laid_by_workers(context, held, outputs, tell):
        builds[store].laid.append(laid)
        for text in laid.failed:
            note(builds[store].plan.root, text)  # as if this process had read


def finish(build: Building, jobs: int) -> Rebuilt:
    """Return what was built of a store, after its directory got its name.

    Raises:
        UsageError: A queue was asked for that the store has not.
        WriteError: It could not be written, or workers wrote where the driver does not see it.
    """
    orders, staging = build.orders, build.staging
    assert orders is not None  # it has not failed
    for path in staging.missing({file.path: file.size for file in orders.files}):
        raise WriteError(f"{path}: workers do not write where this process reads; --into must be shared")
    require_same(build.plan.listing)
    build.tally.require_known((topic, number) for _, topic, number in orders.placed)
    data = build.tally.checkpoint(orders.cuts.rolled_ms, orders.cuts.last_ms)
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
    """Run the block for one store; its trouble, of whatever kind, is that of no other."""
    try:
        yield
    except Exception as error:  # one that nobody expected is told as such, with the store's name
        build.fail(error)

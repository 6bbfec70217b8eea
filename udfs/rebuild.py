"""The rebuild as Spark jobs: splits are derived once, and each file is laid by one task.

First job: workers derive splits, spill what they found into files below the output in the making, and tell the driver
small facts. The second job is ``laying``'s: what a file holds is read from there. A task holds a few splits or the
units of a few files, never more of the store, and Spark's own processes none of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final

from pyspark import Accumulator, SparkContext

from storeio.audit import AuditPlan, Progress, Told, all_told
from storeio.errors import StoreError, WriteError
from storeio.output.staging import Staging
from storeio.paths import CHECKPOINT
from storeio.rebuild.derive import Derived, Wanted, derive_split
from storeio.rebuild.lay import FileLaid
from storeio.rebuild.queues import queue_built
from storeio.rebuild.shares import Facts, Orders, Stitched, facts_of, orders_of, stitched
from storeio.rebuild.spill import WRITING
from storeio.rebuild.stretches import QueueKey
from storeio.rebuild.tally import Tally, told_more
from storeio.rebuilt import Rebuilt
from storeio.remote.failures import note
from storeio.scan import kept_open, require_same
from storeio.splits import Split
from udfs.checks import Tell, dropped, grouped, sent, slice_bytes, telling, workers_named
from udfs.laying import Output, laid_by_workers
from udfs.memory import freed_at_end

LOG_PHASE: Final = "commitlog"


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
    for build in builds:
        if build.error is None:
            with _attempt(build):
                build.staging.make_directory(WRITING)
    for store, told in _derived(context, builds, tell):
        if isinstance(told, Facts):
            builds[store].facts.append(told)
        else:
            builds[store].fail(told)
    if _stitch(builds):
        return False
    _lay(context, builds, tell)
    return True


def _derived(
    context: SparkContext, builds: Sequence[Building], tell: Tell | None
) -> list[tuple[int, Facts | Exception]]:
    """Return what the splits of all stores say, with the store's number, neighbours in one task; or why they cannot."""
    work = [
        (store, number, split)
        for store, build in enumerate(builds)
        if build.error is None
        for number, split in enumerate(build.plan.splits)
    ]
    total = sum(split.stop - split.start for *_, split in work)
    enough = slice_bytes(total, context.defaultParallelism)
    groups = list(grouped(work, lambda row: row[2].stop - row[2].start, enough))
    given = sent(context, [(build.plan.root, build.wanted, build.staging.shared) for build in builds])
    done = context.accumulator(0)

    def derive(group: list[tuple[int, int, Split]]) -> Iterator[tuple[int, Facts | Exception]]:
        with kept_open(), freed_at_end():
            for store, of_store in groupby(group, key=itemgetter(0)):
                root, wanted, place = given.value[store]
                splits = ((number, split) for _, number, split in of_store)
                try:
                    found = _each_derived(root, wanted, splits, done)
                    yield from ((store, facts) for facts in facts_of(place, found))
                except (StoreError, OSError) as error:  # what cannot be read or written is one store's
                    yield store, error

    try:
        with workers_named(LOG_PHASE), telling(tell, lambda: Progress(done.value, total, LOG_PHASE)):
            return context.parallelize(groups, max(len(groups), 1)).flatMap(derive).collect()
    finally:
        dropped(given)


def _each_derived(
    root: str, wanted: Wanted, splits: Iterable[tuple[int, Split]], done: Accumulator[int]
) -> Iterator[tuple[int, Derived]]:
    """Yield what each split holds, with its number."""
    for number, split in splits:
        yield number, derive_split(root, split, wanted)
        done.add(split.stop - split.start)


def _stitch(builds: Sequence[Building]) -> bool:
    """Stitch the splits of each store; tell whether to begin again, because records told more of what is wanted."""
    is_again = False
    for build in builds:
        if build.error is None:
            with _attempt(build):
                build.parts = stitched(build.plan, build.wanted, build.facts, build.tally, build.staging.shared)
                is_again |= build.learn()
        build.facts.clear()
    if is_again:
        for build in builds:
            build.begin()
    return is_again


def _lay(context: SparkContext, builds: Sequence[Building], tell: Tell | None) -> None:
    """Place the queues of each store and cut its index, and have all files written."""
    for build in builds:
        if build.parts is not None:
            with _attempt(build):
                build.orders = orders_of(build.tally, build.parts, build.staging.shared)
                for directory in sorted({file.path.rpartition("/")[0] for file in build.orders.files}):
                    build.staging.make_directory(directory)
            build.parts = None
    outputs = [
        None if build.orders is None else Output(build.plan, build.orders, build.staging.shared) for build in builds
    ]
    for store, laid in laid_by_workers(context, outputs, tell):
        if isinstance(laid, Exception):
            builds[store].fail(laid)
            continue
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
    queues = build.tally.with_dead(queues, build.plan, staging)
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

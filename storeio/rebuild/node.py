"""``storeio rebuild`` on one node: splits are derived by several threads, and laid into files in log order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from storeio.audit import AuditPlan, Progress, Told, all_told, prepare
from storeio.compiled import load_ahead, loading
from storeio.kernels.group import group_by_queue, runs_by_queue
from storeio.kernels.place import pick_keys, put_keys
from storeio.kernels.walk import walk
from storeio.output.publishing import begun, target_of
from storeio.output.staging import Staging
from storeio.paths import CHECKPOINT, COMMITLOG
from storeio.rebuild.derive import Derived, Wanted, behind, derive_split
from storeio.rebuild.index import IndexWriter
from storeio.rebuild.old import old_units
from storeio.rebuild.queues import QueueWriter
from storeio.rebuild.tally import Names, Tally, shape_of, sizes_of, told_more, wanted_of
from storeio.rebuilt import INDEXES, PARTS, Rebuilt
from storeio.scan import kept_open, require_listed, require_same
from storeio.splits import Split, WalkState
from storeio.turns import thread_count, turn

PHASE: Final = "commitlog"
AHEAD: Final = 2  # splits that wait to be laid, so that no thread waits while one is


@kept_open()
def rebuild(
    root: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    given: Mapping[str, str] | None = None,
    queues: Names | None = None,
    parts: Iterable[str] = PARTS,
    broker: str | None = None,
    jobs: int | None = None,
    split_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Rebuilt:
    """Return what was built of the store at ``root``, which is only read, into the new directory ``into``.

    Args:
        root: The store directory, or its URI.
        into: A directory or URI that is new or empty; it appears whole or not at all.
        given: Broker settings by name; what is not given is told from the files.
        queues: Topics, or topic and queue id, that are wanted; None for all.
        parts: Any of ``queues``, ``index``, ``checkpoint``.
        broker: Version as which tags are indexed, where the store does not tell.
        jobs: Threads that read, by default one a core.
        split_bytes: Bytes of the log that one task walks.
        progress: Called after each task.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A bad setting or version, a queue that the store has not, or ``into`` is not free.
        UnreadableError: A segment could not be read.
        WriteError: A file could not be written.
    """
    with loading(walk):
        place = target_of(into, root)
        plan = prepare(os.fspath(root), given=given, split_bytes=split_bytes)
        require_listed(plan.listing, (COMMITLOG,))
        parts = tuple(parts)
        wanted = wanted_of(plan, queues, parts, broker)
    threads = thread_count(jobs)
    try:
        return _built(plan, wanted, frozenset(parts), place, threads, progress)
    except _UntoldError:
        asked = replace(wanted, queues=frozenset(), index=False)
        told = all_told(derived.told for derived in in_order(plan, asked, threads))
        return _built(plan, told_more(plan, wanted, told), frozenset(parts), place, threads, progress)


class _UntoldError(Exception):
    """A record tells of queues of which nothing is left, and which were not known of."""


def _built(
    plan: AuditPlan, wanted: Wanted, parts: frozenset[str], place: Path | str, threads: int,
    progress: Callable[[Progress], None] | None,
) -> Rebuilt:  # fmt: skip
    with begun(place) as staging:
        build = Build(plan, wanted, parts, staging)
        done, total = 0, sum(split.stop - split.start for split in plan.splits)
        told = {Told()}
        for derived in in_order(plan, wanted, threads):
            if derived.told not in told and told_more(plan, wanted, derived.told) is not wanted:
                raise _UntoldError
            told.add(derived.told)
            build.add(derived)
            done += derived.split.stop - derived.split.start
            if progress is not None:
                progress(Progress(done, total, PHASE))
        return build.finish(threads)


def in_order(plan: AuditPlan, wanted: Wanted, threads: int) -> Iterator[Derived]:
    """Yield what each split holds, in log order and stitched: as if one thread had walked all of it.

    A few splits are derived ahead, so that memory does not grow with the log.
    """

    def derive(split: Split, begin: WalkState | None = None) -> Derived:
        return derive_split(plan.root, split, wanted, begin, piece_bytes=plan.piece_bytes)

    waiting: deque[Future[Derived]] = deque()
    left = iter(plan.splits)
    before: Derived | None = None
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                while len(waiting) <= threads + AHEAD and (split := next(left, None)) is not None:
                    waiting.append(pool.submit(derive, split))
                if not waiting:
                    return
                if before is None:  # while the first splits are walked, whose threads would wait for these
                    load_ahead(group_by_queue, runs_by_queue, pick_keys, put_keys)
                before = behind(waiting.popleft().result(), before, derive)
                yield before
        finally:
            for future in waiting:
                future.cancel()


class Build:
    """One rebuild while it is made: takes what each split holds, in order."""

    def __init__(
        self, plan: AuditPlan, wanted: Wanted, parts: frozenset[str], staging: Staging, own: AuditPlan | None = None
    ) -> None:
        """Begin; ``own`` is of the store whose queues were the log's, where that is another one."""
        self.staging, self.wanted, self.own = staging, wanted, own or plan
        self.tally = Tally(plan, wanted, parts)
        self.queues = QueueWriter(staging, sizes_of(plan))
        self.index = IndexWriter(staging if INDEXES in parts else None, shape_of(plan))

    def add(self, found: Derived) -> None:
        """Take what the next split holds."""
        self.tally.add(found)
        with turn(len(found.stretches)):
            self.queues.add_all(found.stretches)
        if found.keys is not None:
            self.index.add(found.keys, found.first_ms)

    def finish(self, jobs: int, look: Callable[[], object] | None = None) -> Rebuilt:
        """Write what is left, give the directory its name, and return what it holds; ``look`` is called in between."""
        staging, index = self.staging, self.index
        index.close()  # first, so that the disk writes its many slots meanwhile
        queues = self.queues.finish(old_units(self.tally.plan, self.tally.intact()), self.tally.view())
        queues = self.tally.with_dead(queues, self.own, staging)
        self.tally.require_known((queue.topic, queue.queue_id) for queue in queues)
        data = self.tally.checkpoint(index.rolled_ms, index.last_ms)
        if data is not None:
            staging.write(CHECKPOINT, 0, data, size=len(data))
        require_same(self.tally.plan.listing)
        if look is not None:
            look()
        files = staging.finish(jobs)
        made = (len(index.files), index.entries) if index.staging else (0, 0)
        return self.tally.rebuilt(queues, staging, files, staging.written_bytes, *made)

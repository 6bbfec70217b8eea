"""``storeio rebuild`` on one node: splits are derived by several threads, and laid into files in log order."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import __version__, crc
from storeio.audit import AuditPlan, Progress, prepare
from storeio.checks.queue_files import Queue, QueueFile
from storeio.checks.segments import Segment, view_log
from storeio.codes import ERROR, WARNING
from storeio.config import default
from storeio.errors import UnreadableError
from storeio.findings import condense
from storeio.format import checkpoint, consumequeue
from storeio.paths import CHECKPOINT, CONSUMEQUEUE
from storeio.rebuild.checkpoint import checkpoint_bytes
from storeio.rebuild.derive import Derived, QueueKey, Wanted, derive_split, nothing
from storeio.rebuild.evidence import evidence_of
from storeio.rebuild.index import IndexWriter
from storeio.rebuild.queues import FileSizes, OldUnits, QueueWriter, Units
from storeio.rebuild.results import Rebuilt
from storeio.scan import kept_open
from storeio.splits import AGAIN, NOTHING, Split, WalkState, carry_times, continues, drop_before, merge_spans
from storeio.staging import Staging, checked_target, staged

PHASE: Final = "commitlog"
QUEUES: Final = "queues"
INDEXES: Final = "index"
CHECKPOINTS: Final = "checkpoint"
PARTS: Final = (QUEUES, INDEXES, CHECKPOINTS)
Numbers = npt.NDArray[np.int64]
Names = frozenset[tuple[str, int | None]]


@kept_open()
def rebuild(
    root: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    given: Mapping[str, str] | None = None,
    queues: Names | None = None,
    parts: Iterable[str] = PARTS,
    jobs: int | None = None,
    split_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Rebuilt:
    """Return what was built of the store at ``root``, which is only read, into the new directory ``into``.

    Args:
        root: The store directory.
        into: A directory that is new or empty; it appears whole or not at all.
        given: Broker settings by name; what is not given is told from the files.
        queues: Topics, or topic and queue id, that are wanted; None for all.
        parts: Any of ``queues``, ``index``, ``checkpoint``.
        jobs: Threads that read, by default one a core.
        split_bytes: Bytes of the log that one task walks.
        progress: Called after each task.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A bad setting, or ``into`` is not free.
        UnreadableError: A segment could not be read.
        WriteError: A file could not be written.
    """
    place = checked_target(into, root)
    plan = prepare(os.fspath(root), given=given, split_bytes=split_bytes)
    threads = jobs or os.cpu_count() or 1
    with staged(place) as staging:
        build = Build(plan, wanted_of(plan, queues, frozenset(parts)), frozenset(parts), staging)
        done, total = 0, sum(split.stop - split.start for split in plan.splits)
        for derived in in_order(plan, build.wanted, threads):
            build.add(derived)
            done += derived.split.stop - derived.split.start
            if progress is not None:
                progress(Progress(done, total, PHASE))
        return replace(build.finish(threads), into=os.fspath(into))


def wanted_of(plan: AuditPlan, queues: Names | None, parts: frozenset[str]) -> Wanted:
    """Return what is to be derived of a store."""
    known = evidence_of(plan)
    return Wanted(
        plan.config.delays_ms,
        known.batch_topics,
        known.light,
        known.ext,
        INDEXES in parts and plan.config.index_enabled,
        known.tags_from,
        queues if QUEUES in parts else frozenset(),
    )


def in_order(plan: AuditPlan, wanted: Wanted, threads: int) -> Iterator[Derived]:
    """Yield what each split holds, in log order and stitched: as if one thread had walked all of it.

    A few splits are derived ahead, so that memory does not grow with the log.
    """

    def derive(split: Split, begin: WalkState | None = None) -> Derived:
        return derive_split(lambda start, stop: plan.read(split.path, start, stop), split, wanted, begin)

    waiting: deque[Future[Derived]] = deque()
    left = iter(plan.splits)
    before: Derived | None = None
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                while len(waiting) <= threads and (split := next(left, None)) is not None:
                    waiting.append(pool.submit(derive, split))
                if not waiting:
                    return
                before = settled(waiting.popleft().result(), before, derive)
                yield before
        finally:
            for future in waiting:
                future.cancel()


def settled(found: Derived, before: Derived | None, again: Callable[[Split, WalkState], Derived]) -> Derived:
    """Return a split's result as it is behind that of the split before it."""
    if before is None or before.split.path != found.split.path:
        return found
    fate = continues(found.split, before.end, skipped_until=found.skipped_until, asked=found.asked)
    if fate == AGAIN:
        return again(found.split, before.end)
    if fate == NOTHING:
        return nothing(found.split, before.end)
    spans = drop_before(found.spans, before.end.position)
    return replace(found, end=carry_times(found.end, before.end), spans=spans)


class Build:
    """One rebuild while it is made: takes what each split holds, in order."""

    def __init__(self, plan: AuditPlan, wanted: Wanted, parts: frozenset[str], staging: Staging) -> None:
        self.plan, self.wanted, self.parts, self.staging = plan, wanted, parts, staging
        sizes = FileSizes(plan.config.queue_file_bytes, plan.config.batch_file_bytes, plan.config.ext_file_bytes)
        self.queues = QueueWriter(staging, sizes, old_units(plan))
        usual = int(default("maxHashSlotNum")), int(default("maxIndexNum"))
        self.index = IndexWriter(staging, *(plan.index_shape or usual))
        self._spans: dict[str, list[Numbers]] = {}
        self._records = 0
        self._last: tuple[int, int] | None = None
        self._last_queued: tuple[int, int] | None = None
        self._left_out: dict[str, int] = {}

    def add(self, found: Derived) -> None:
        """Take what the next split holds."""
        self._spans.setdefault(found.split.path, []).append(found.spans)
        for stretch in found.stretches:
            self.queues.add(stretch)
        if found.keys is not None:
            self.index.add(found.keys, found.first_ms)
        self._records += found.records
        self._last = found.last or self._last
        self._last_queued = found.last_queued or self._last_queued
        for name, count in found.left_out.items():
            self._left_out[name] = self._left_out.get(name, 0) + count

    def finish(self, jobs: int) -> Rebuilt:
        """Write what is left, give the directory its name, and return what it holds."""
        plan = self.plan
        queues = self.queues.finish()
        self.index.close()
        if CHECKPOINTS in self.parts:
            data = checkpoint_bytes(
                self._last, self._last_queued, rolled_index_ms=self.index.rolled_ms, flushed_offset=_flushed(plan)
            )
            self.staging.write(CHECKPOINT, 0, data, size=len(data))
        written = self.staging.written_bytes
        files = self.staging.finish(jobs)
        segments = [Segment(file, merge_spans(self._spans.get(file.path, []))) for file in plan.segments]
        view = view_log(segments, plan.config.commitlog_file_bytes)
        return Rebuilt(
            plan.root, __version__, str(self.staging.place), crc.ENGINE, plan.started_ms,
            (time.time_ns() // 1_000_000 - plan.started_ms) / 1000, plan.config.settings, self._records,
            view.min_physical_offset, view.max_physical_offset, queues, len(self.index.files), self.index.entries,
            files, written, [f for f in condense(view.findings) if f.severity in (ERROR, WARNING)], self._left_out,
            self._notes(),
        )  # fmt: skip

    def _notes(self) -> list[str]:
        """Return sentences on what the store's own files decided."""
        wanted = self.wanted
        notes = []
        if wanted.light:
            notes.append("light queues are built from the records' multi-dispatch lists")
        if wanted.ext:
            notes.append("queue ext units are built without filter bitmaps, which no log tells")
        if wanted.index:
            tags = (
                "without tags" if wanted.tags_from is None else f"with tags from physical offset {wanted.tags_from} on"
            )
            notes.append(f"the index is built {tags}")
        return notes


def old_units(plan: AuditPlan) -> OldUnits:
    """Return what reads units of the store's own queues, zeros where it has none."""
    files: dict[QueueKey, list[QueueFile]] = {}
    for file in plan.listing.of_kind(CONSUMEQUEUE):
        if file.topic is not None and file.queue_id is not None and file.base_offset is not None:
            key = CONSUMEQUEUE, file.topic, file.queue_id
            size = min(file.size, plan.config.queue_file_bytes)
            files.setdefault(key, []).append(QueueFile(file.path, file.base_offset, size))

    def read(key: QueueKey, first: int, stop: int) -> Units:
        queue = Queue(*key, plan.config.queue_file_bytes, tuple(files.get(key, ())))
        size = consumequeue.UNIT_BYTES
        try:
            data, _ = queue.read(plan.read, first * size, stop * size)
        except UnreadableError:
            data = np.zeros((stop - first) * size, np.uint8)
        return consumequeue.decode(data.tobytes())

    return read


def _flushed(plan: AuditPlan) -> int:
    """Return the old checkpoint's masterFlushedOffset, which only it tells; 0 where it cannot be true."""
    entry = plan.listing.get(CHECKPOINT)
    if entry is None or entry.is_dir or entry.size < checkpoint.CHECKPOINT_BYTES:
        return 0
    try:
        fields = checkpoint.decode(plan.read(CHECKPOINT, 0, checkpoint.CHECKPOINT_BYTES).tobytes())
    except UnreadableError:
        return 0
    value = int(fields["master_flushed_offset"])
    end = max(((f.base_offset or 0) + f.size for f in plan.segments), default=0)
    return value if 0 <= value <= end else 0

"""What an audit has to do: listing, settings, splits, and the files that are looked at whole."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks import ext_units, index_structure
from storeio.checks.packed import PackedQueues
from storeio.checks.queue_files import Queue, QueueFile, gather, summarize_file
from storeio.config import StoreConfig, infer_config
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import index as index_format
from storeio.index_files import index_shape_of
from storeio.nearby import Nearby
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, INDEX, QUEUE_EXT, StoreFile
from storeio.scan import Fill, Listing, data_stop, filler, list_store, read_range
from storeio.splits import DEFAULT_SPLIT_BYTES, Split, cut

SPLITS: Final = 16  # that the log of a small store is cut into
LEAST_SPLIT_BYTES: Final = 8 << 20  # what a split costs besides its bytes is no more than they do
LEAST_QUEUE_BYTES: Final = 16 << 10  # the same for each queue: nearly every split has units of it to look up

Bytes = npt.NDArray[np.uint8]
QueueKey = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file that is looked at whole."""

    file: StoreFile


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one file says of itself; ``failed`` where it could not be read."""

    file: StoreFile
    summary: QueueFile | None = None
    findings: tuple[Finding, ...] = ()
    classes: dict[str, int] = field(default_factory=dict)
    index: index_structure.IndexStructure | None = None
    failed: str = ""


@dataclass(slots=True)
class AuditPlan:
    """Everything that a task needs to know of the store; travels to Spark workers."""

    root: str
    started_ms: int
    listing: Listing
    config: StoreConfig
    segments: list[StoreFile]
    splits: list[Split]
    index_shape: tuple[int, int] | None
    queues: Mapping[QueueKey, Queue] = field(default_factory=dict)
    index: list[index_structure.IndexStructure] = field(default_factory=list)
    file_reports: list[FileReport] = field(default_factory=list)

    @property
    def rolled_index_ms(self) -> int:
        """End of the last index file that is full and has a successor, 0 without; needs what the files say."""
        rolled = [s.end_timestamp_ms for s in self.index[:-1] if s.entries >= s.units - 1]
        return rolled[-1] if rolled else 0

    @property
    def batch_topics(self) -> set[str]:
        """Topics that have batch queue directories."""
        return {topic for kind, topic, _ in self.queues if kind == BATCHQUEUE}

    @property
    def multi_dispatch(self) -> bool:
        """Whether light queues are dispatched: as configured, else whether any lies on disk."""
        if self.config.multi_dispatch is not None:
            return self.config.multi_dispatch
        return any(topic.startswith(log.LMQ_PREFIX) for kind, topic, _ in self.queues if kind == CONSUMEQUEUE)

    @property
    def log_directories(self) -> str:
        """Where the commitlog is configured to lie, empty where that is below the root as usual."""
        value = next((s.value for s in self.config.settings if s.name == "storePathCommitLog"), "")
        return "" if value.strip().rstrip("/") in ("", f"{self.root.rstrip('/')}/{COMMITLOG}") else value

    @property
    def total_bytes(self) -> int:
        """Bytes that the tasks will read."""
        return sum(f.size for f in self.segments) + sum(t.file.size for t in file_tasks(self))

    def read(self, path: str, start: int, stop: int, *, populate_to: int | None = None) -> Bytes:
        """Return bytes of a file of the store, as ``scan.read_range``."""
        return read_range(self.root, path, start, stop, populate_to=populate_to)

    def filler(self, path: str) -> Fill | None:
        """Return what puts bytes of a file of the store into an array, as ``scan.filler``."""
        return filler(self.root, path)

    def nearby(self, *, window_bytes: int = 64 << 10, most: int = 64) -> Nearby:
        """Return what reads small pieces of the store's files that lie near each other; by default, units of queues."""
        sizes = {file.path: file.size for file in self.listing.files}
        return Nearby(self.read, sizes, window_bytes=window_bytes, most=most)

    def for_workers(self) -> AuditPlan:
        """Return the plan as it travels: without what only the driver asks for, and small with many queues."""
        return replace(
            self, listing=Listing(self.root, ()), file_reports=[], splits=[], queues=PackedQueues(self.queues)
        )

    def queue(self, kind: str, topic: str, queue_id: int) -> Queue:
        """Return a queue, one without files where the store has none."""
        found = self.queues.get((kind, topic, queue_id))
        return found or Queue(kind, topic, queue_id, _file_bytes(self.config, kind))


def _file_bytes(config: StoreConfig, kind: str) -> int:
    return {
        CONSUMEQUEUE: config.queue_file_bytes,
        BATCHQUEUE: config.batch_file_bytes,
        QUEUE_EXT: config.ext_file_bytes,
    }[kind]


def prepare(
    root: str, *, given: Mapping[str, str] | None = None, split_bytes: int | None = None, listing: Listing | None = None
) -> AuditPlan:
    """Return the plan of an audit; reads the listing and the heads of index files only.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A given setting is unknown or has a bad value.
    """
    started_ms = time.time_ns() // 1_000_000
    listing = listing or list_store(root)
    config = infer_config(listing, given or {})
    segments = listing.of_kind(COMMITLOG)
    segments = [f for i, f in enumerate(segments) if i == 0 or f.base_offset != segments[i - 1].base_offset]
    size = split_bytes or split_size(segments, listing)
    splits = [
        split
        for segment in segments
        if segment.base_offset is not None and segment.base_offset >= 0
        for split in cut(_bounded(segment, config.commitlog_file_bytes), size)
    ]
    return AuditPlan(listing.root, started_ms, listing, config, segments, splits, index_shape_of(listing, config))


def split_size(segments: Iterable[StoreFile], listing: Listing) -> int:
    """Return how much of the log one task walks: of a small log less, so that there is work for many.

    It depends on the store alone, so that an audit is the same wherever it runs.
    """
    log_bytes = sum(f.size for f in segments)
    queues = {(f.topic, f.queue_id) for f in listing.files if f.kind in (CONSUMEQUEUE, BATCHQUEUE)}
    least = max(LEAST_SPLIT_BYTES, LEAST_QUEUE_BYTES * len(queues))
    return min(max(log_bytes // SPLITS, least), DEFAULT_SPLIT_BYTES)


def _bounded(segment: StoreFile, segment_bytes: int) -> StoreFile:
    """Return the segment cut at the configured size; what a file has on top belongs to no log."""
    return replace(segment, size=min(segment.size, segment_bytes))


def file_tasks(plan: AuditPlan) -> list[FileTask]:
    """Return the files that are looked at whole: queues, ext files and indexes."""
    kinds = (CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT, INDEX)
    return [FileTask(f) for kind in kinds for f in plan.listing.of_kind(kind) if f.base_offset is not None]


def few_bytes(work: Iterable[tuple[AuditPlan, Sequence[FileTask]]], *, files: int, data_bytes: int) -> bool:
    """Tell whether what is looked at whole is no more than so many files with so many bytes, holes not counted."""
    for plan, tasks in work:
        for task in tasks:
            files -= 1
            if files < 0:
                return False
            data_bytes -= data_stop(plan.root, task.file.path, task.file.size)
            if data_bytes < 0:
                return False
    return True


def run_file_task(plan: AuditPlan, task: FileTask) -> FileReport:
    """Return what one file says of itself."""
    try:
        return _looked_at(plan, task.file)
    except UnreadableError as error:
        return FileReport(task.file, failed=str(error))


def _looked_at(plan: AuditPlan, file: StoreFile) -> FileReport:
    zero_from = data_stop(plan.root, file.path, file.size)

    def read(start: int, stop: int) -> Bytes:
        return plan.read(file.path, start, stop, populate_to=zero_from)

    if file.kind in (CONSUMEQUEUE, BATCHQUEUE):
        return FileReport(file, summarize_file(file, read(0, zero_from)))  # what follows is zero anyway
    if file.kind == QUEUE_EXT:
        findings, classes = ext_units.check_chain(file, read(0, file.size))
        return FileReport(file, QueueFile(file.path, file.base_offset or 0, file.size), tuple(findings), classes)
    if plan.index_shape is None and not read(0, file.size)[index_format.HEADER_BYTES :].any():
        head = min(index_format.HEADER_BYTES, file.size)  # no unit yet: its shape matters to nobody
        return FileReport(file, classes={"record": head, "zero": file.size - head})
    if plan.index_shape is None:
        finding = Finding(
            "INDEX_HEADER", file.path, 0, file.size, detail="slots and units cannot be told from any file"
        )
        return FileReport(file, findings=(finding,), classes={"garbage": file.size})
    structure = index_structure.check_structure(file.path, read, file.size, *plan.index_shape, zero_from=zero_from)
    return FileReport(file, findings=structure.findings, classes=structure.classes, index=structure)


def with_files(plan: AuditPlan, reports: Iterable[FileReport]) -> AuditPlan:
    """Return the plan with what the files say of themselves, which the splits need."""
    reports = list(reports)
    summarized = [(r.file, r.summary) for r in reports if r.summary is not None]
    queues = {
        (kind, queue.topic, queue.queue_id): queue
        for kind in (CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT)
        for queue in gather(kind, _file_bytes(plan.config, kind), summarized)
    }
    index = sorted((r.index for r in reports if r.index is not None), key=lambda s: s.path)
    return replace(plan, queues=queues, index=index, file_reports=reports)

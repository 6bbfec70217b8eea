"""What an audit has to do: listing, settings, splits, and the files that are looked at whole."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit.moment import Moment
from storeio.audit.running import moment_of
from storeio.checks import index_structure
from storeio.checks.index_stretch import IndexFiles
from storeio.checks.layout import is_offset
from storeio.checks.packed import PackedQueues
from storeio.checks.queue_files import Queue, QueueFile
from storeio.config import StoreConfig, infer_config
from storeio.errors import UsageError
from storeio.findings import Finding
from storeio.index_files import index_settings, index_shape_of
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, INDEX, QUEUE_EXT, StoreFile
from storeio.reading import many_files
from storeio.reading.many_files import Pieces
from storeio.reading.nearby import Nearby
from storeio.results import Setting
from storeio.scan import Listing, list_store, read_range
from storeio.settings import log_elsewhere
from storeio.splits import DEFAULT_SPLIT_BYTES, Split, cut
from storeio.uris import is_remote
from storeio.window import LARGE_PIECE_BYTES, PIECE_BYTES

SPLITS: Final = 16  # that the log of a small store is cut into
LEAST_SPLIT_BYTES: Final = 8 << 20  # what a split costs besides its bytes is no more than they do
LEAST_QUEUE_BYTES: Final = 16 << 10  # the same for each queue: nearly every split has units of it to look up
WINDOW_BYTES: Final = 64 << 10  # of a queue's file, for who asks for one unit after the other
MOST_WINDOWS: Final = 64

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
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


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What is to be known of all queues at once, told once from them.

    ``light`` tells that a light queue lies on disk. Files of ``odd`` queues, by topic and queue id, do not tell from
    their names alone which units they hold, or other files have a say in what stands there. ``elsewhere`` tells that
    queues are in a database, and none in files.
    """

    batch_topics: frozenset[str] = frozenset()
    light: bool = False
    odd: frozenset[tuple[str, int]] = frozenset()
    elsewhere: bool = False


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
    index: IndexFiles = field(default_factory=IndexFiles)
    file_reports: list[FileReport] = field(default_factory=list)
    facts: QueueFacts = QueueFacts()
    moment: Moment | None = None  # of a store on which a broker runs
    kept: frozenset[str] = frozenset()  # codes of which each finding is told, however many there are

    @property
    def segment_bytes(self) -> int:
        """The length of a segment."""
        return self.config.commitlog_file_bytes

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings, those of index files among them."""
        return (*self.config.settings, *index_settings(self.listing, self.config, self.index_shape))

    @property
    def rolled_index_ms(self) -> int:
        """End of the last index file that is full and has a successor, 0 without; needs what the files say."""
        rolled = [s.end_timestamp_ms for s in self.index[:-1] if s.entries >= s.units - 1]
        return rolled[-1] if rolled else 0

    @property
    def last_index_ms(self) -> int:
        """End of the last index file, full or not, 0 without one; needs what the files say."""
        return self.index[-1].end_timestamp_ms if self.index else 0

    @property
    def multi_dispatch(self) -> bool:
        """Whether light queues are dispatched: as configured, else whether any lies on disk."""
        if self.config.multi_dispatch is not None:
            return self.config.multi_dispatch
        return self.facts.light

    @property
    def log_directories(self) -> str:
        """Where the commitlog is configured to lie, empty where that is below the root as usual."""
        return log_elsewhere(self.root, self.config.settings)

    @property
    def total_bytes(self) -> int:
        """Bytes that the tasks will read."""
        return sum(f.size for f in self.segments) + sum(t.file.size for t in file_tasks(self))

    @property
    def piece_bytes(self) -> int:
        """In pieces of which length a node's threads look at a split: of what is remote, copies are held."""
        return PIECE_BYTES if is_remote(self.root) else LARGE_PIECE_BYTES

    def is_written(self, path: str) -> bool:
        """Tell whether a running broker may write to a file while it is looked at."""
        return self.moment is not None and self.moment.changes(path)

    def splits_then(self) -> list[Split]:
        """Return the splits, of a store under a running broker cut where its log ended."""
        if self.moment is None:
            return self.splits
        end = self.moment.log_stop
        then = [replace(split, stop=min(split.stop, end - split.base_offset)) for split in self.splits]
        return [split for split in then if split.start < split.stop]

    def read(self, path: str, start: int, stop: int, *, populate_to: int | None = None) -> Bytes:
        """Return bytes of a file of the store, as ``scan.read_range``; with a moment, as they were then."""
        if self.moment is None or start >= stop:
            return read_range(self.root, path, start, stop, populate_to=populate_to)
        return self.moment.read(partial(read_range, self.root, populate_to=populate_to), path, start, stop)

    def agreeing(self, pieces: Pieces) -> Mask:
        """Tell which pieces of consume queue files are as expected, shape ``(n,)``; False says nothing."""
        if is_remote(self.root):
            return np.zeros(pieces.count, np.bool_)
        return many_files.agreeing(self.root, pieces)

    def nearby(self) -> Nearby:
        """Return what reads units of queues, and other small pieces of files that lie near each other."""
        sizes = {file.path: file.size for file in self.listing.files}
        return Nearby(self.read, sizes, window_bytes=WINDOW_BYTES, most=MOST_WINDOWS)

    def for_workers(self) -> AuditPlan:
        """Return the plan as it travels: without what only the driver asks for, and small with many queues."""
        return replace(
            self, listing=Listing(self.root, ()), file_reports=[], splits=[], queues=PackedQueues(self.queues)
        )

    def queue(self, kind: str, topic: str, queue_id: int) -> Queue:
        """Return a queue, one without files where the store has none."""
        found = self.queues.get((kind, topic, queue_id))
        return found or Queue(kind, topic, queue_id, file_bytes_of(self.config, kind))


def file_bytes_of(config: StoreConfig, kind: str) -> int:
    """Return how long a file of queues of one kind is."""
    return {
        CONSUMEQUEUE: config.queue_file_bytes,
        BATCHQUEUE: config.batch_file_bytes,
        QUEUE_EXT: config.ext_file_bytes,
    }[kind]


def prepare(
    root: str, *, given: Mapping[str, str] | None = None, split_bytes: int | None = None,
    listing: Listing | None = None, kept: frozenset[str] = frozenset(),
) -> AuditPlan:  # fmt: skip
    """Return the plan of an audit; reads the listing and the heads of index files only.

    Where a broker runs on the store, the plan is of the moment at which this is called, and its end of the log is read.
    A salvage needs ``codes.DOUBT_CODES`` to be ``kept``: a range of places says of sound records between them, too,
    that something speaks against them.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A given setting is unknown or has a bad value.
    """
    started_ms = time.time_ns() // 1_000_000
    listing = listing or list_store(root)
    config = infer_config(listing, given or {})
    shape, moment = index_shape_of(listing, config), None
    if (then := moment_of(listing, config, shape)) is not None:
        listing, moment = then
    segments = [f for f in listing.of_kind(COMMITLOG) if is_offset(f, config.commitlog_file_bytes)]
    segments = [f for i, f in enumerate(segments) if i == 0 or f.base_offset != segments[i - 1].base_offset]
    if split_bytes is not None and split_bytes < 1:
        raise UsageError(f"split_bytes {split_bytes}: at least 1")
    size = split_bytes or split_size(segments, listing)
    splits = [split for segment in segments for split in cut(_bounded(segment, config.commitlog_file_bytes), size)]
    return AuditPlan(listing.root, started_ms, listing, config, segments, splits, shape, moment=moment, kept=kept)


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

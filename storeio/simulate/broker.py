"""A broker's store in memory: log, queues, index and checkpoint as ``load`` builds them.

Source: ``DefaultMessageStore``, ``CommitLog``, ``ConsumeQueueStore``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from storeio.dispatch import is_dispatched
from storeio.format import batchqueue, checkpoint
from storeio.format import commitlog as log
from storeio.format import properties as text
from storeio.paths import ABORT, BATCHQUEUE, CHECKPOINT, COMMITLOG, CONSUMEQUEUE, DEVICE, INDEX, LOCK, PIPE, QUEUE_EXT
from storeio.simulate.batchqueue import BatchQueue
from storeio.simulate.consumequeue import ConsumeQueue
from storeio.simulate.disk import Disk, FileBytes
from storeio.simulate.ends import CrashesError, JavaError, QueuesStopError, RefusesError
from storeio.simulate.index import Index
from storeio.simulate.java import as_long
from storeio.simulate.mapped import Mapped, MappedQueue
from storeio.simulate.message import Checker, Request
from storeio.simulate.queueext import QueueExt
from storeio.simulate.rules import DEFAULT_HEAP_BYTES, Rules
from storeio.simulate.topics import Topics

CLOCK_SLACK_MS: Final = 3000  # StoreCheckpoint.getMinTimestamp
QueueKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a start goes by of the checkpoint; zeros where it is missing."""

    physical_ms: int = 0
    logic_ms: int = 0
    index_ms: int = 0
    queued_offset: int = 0

    @property
    def min_ms(self) -> int:
        """``getMinTimestamp``: a time near the smallest number becomes the largest one, younger than all records."""
        return max(as_long(min(self.physical_ms, self.logic_ms) - CLOCK_SLACK_MS), 0)


@dataclass(frozen=True, slots=True)
class Setup:
    """What is simulated besides the bytes: settings that change decisions, and the machine."""

    commitlog_file_bytes: int
    queue_file_bytes: int
    index_slots: int
    index_units: int
    delays_ms: tuple[int, ...]
    batch_file_bytes: int = 300_000 * batchqueue.UNIT_BYTES
    ext_file_bytes: int = 48 << 20
    heap_bytes: int = DEFAULT_HEAP_BYTES
    index_enabled: bool = True
    multi_dispatch: bool = False
    lmq: bool = False
    ext_enabled: bool | None = None  # None: if there are such files
    batch_topics: frozenset[str] | None = None  # None: those of topics.json, without it told from the directories
    most_recovered: int = 0  # commitLogRecoverMaxNum; below 1: the version's default
    now_ms: int = 0  # the moment of the start, of which new index files get their names
    scalar: bool = False  # look at every record by itself: slow, and how the fast way is proven


@dataclass(slots=True)
class Dispatched:
    """What dispatch has done: units written by queue, and how many records were looked at."""

    units: dict[QueueKey, int] = field(default_factory=dict)
    records: int = 0


class Broker:
    """One start of one version on one store."""

    def __init__(self, disk: Disk, rules: Rules, setup: Setup) -> None:
        self.disk, self.rules, self.setup = disk, rules, setup
        self.clean = not disk.exists(ABORT)
        self.log = MappedQueue(disk, COMMITLOG, setup.commitlog_file_bytes)
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        ext = setup.ext_enabled
        self.ext = disk.exists(QUEUE_EXT) if ext is None else ext
        self.topics = Topics(disk, rules, setup.batch_topics)
        self.index = Index(disk, setup.index_slots, setup.index_units, rules, setup.now_ms)
        self.checkpoint = Checkpoint()
        self.dispatched = Dispatched()
        self.start_file = ""
        self.reput_from = 0  # where 4.x begins to dispatch once it has loaded; if the log ends before, it waits
        self.queues_stopped = ""  # why no queue gets a unit any more
        self.index_failed = ""  # path that keeps its files from being loaded, where that refuses the start

    def checker(self, *, recovering: bool) -> Checker:
        """Return what checks records in one thread."""
        delays = self.setup.delays_ms
        late = recovering and self.rules.late_delays
        return Checker(self.rules, delays, self.setup.heap_bytes, late_delays=late)

    @property
    def most_recovered(self) -> int:
        """Segments, from the end back, of which recovery starts in the first at the latest; 0 for no limit."""
        usual = self.rules.most_recovered
        return self.setup.most_recovered if usual and self.setup.most_recovered > 0 else usual

    # ---- Load

    def load_files(self) -> None:
        """Load log, queues, checkpoint and index.

        Raises:
            CrashesError: The store cannot be locked.
            RefusesError: A file stands in the way.
        """
        odd = self.disk.no_file(LOCK)
        if odd not in ("", PIPE, DEVICE):  # these can be opened; that they cannot be locked comes later
            raise CrashesError(f"{LOCK} is {odd}", path=LOCK)
        self.log.load(self.rules)
        for directory in (CONSUMEQUEUE, BATCHQUEUE) if self.rules.batch_queues else (CONSUMEQUEUE,):
            for topic, queue_id in self.topics.queues_in(directory):
                self.topics.expect(topic, directory)
                # Of directories such as 1 and +1 each is the same queue anew, read from the one with the plain name.
                queue = self.queues[topic, queue_id] = self._new_queue(topic, queue_id)
                queue.load()
        self.checkpoint = self._read_checkpoint()
        failed = self.index.load(clean=self.clean, index_timestamp_ms=self.checkpoint.index_ms)
        self.index_failed = failed if self.rules.index_load_counts else ""

    def refuse_for_index(self) -> None:
        """Refuse if the index could not be loaded; recovery has run by then."""
        if path := self.index_failed:
            reason = f"{path} is {self.disk.no_file(path)}, and its name is a number"
            raise RefusesError(reason, f"{path} error", INDEX)

    def _read_checkpoint(self) -> Checkpoint:
        if odd := self.disk.no_file(CHECKPOINT):
            raise RefusesError(f"{CHECKPOINT} is {odd}", "load exception", CHECKPOINT)
        self.disk.create(CHECKPOINT, checkpoint.FILE_BYTES)  # a shorter file is extended
        fields = checkpoint.decode(self.disk.read(CHECKPOINT, 0, checkpoint.CHECKPOINT_BYTES).data)
        physical, logic, index = (int(fields[f"{name}_timestamp_ms"]) for name in ("physical", "logic", "index"))
        return Checkpoint(physical, logic, index, int(fields["logic_physical_offset"]))

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, made if there is none."""
        key = topic, queue_id
        if key not in self.queues:
            self.queues[key] = self._new_queue(topic, queue_id)
        return self.queues[key]

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        setup = self.setup
        if self.topics.is_batch(topic):
            return BatchQueue(self.disk, topic, queue_id, setup.batch_file_bytes, self.rules)
        ext = QueueExt(self.disk, topic, queue_id, setup.ext_file_bytes) if self.ext else None
        return ConsumeQueue(self.disk, topic, queue_id, setup.queue_file_bytes, self.rules, ext)

    @property
    def queues_end(self) -> int:
        """Largest physical offset behind a unit of any queue, -1 without queues."""
        return max((queue.max_physical for queue in self.queues.values()), default=-1)

    def correct_queue_mins(self) -> None:
        """Set the min of every queue. Source: ``recoverTopicQueueTable``."""
        for key in sorted(self.queues):
            self.queues[key].correct_min(self.log.min_offset)

    def is_plain(self, topic: str, queue_id: int) -> bool:
        """Tell whether a record's queue is, or would be, one of 20-byte units that stand for the record alone."""
        queue = self.queues.get((topic, queue_id))
        if self.ext or (queue is None and self.topics.is_batch(topic)):
            return False
        return queue is None or type(queue) is ConsumeQueue

    def source(self, file: Mapped, stop: int) -> FileBytes:
        """Return a segment's bytes up to a position of it, read as they are asked for."""
        return FileBytes(lambda start, end: self.log.read(file, start, end), stop)

    def bytes_of(self, file: Mapped, start: int, stop: int) -> memoryview:
        """Return bytes of a segment."""
        return self.log.read(file, start, stop).data

    # ---- Dispatch

    def dispatch(self, request: Request) -> None:
        """Hand a record to queues and index. Source: ``doDispatch``.

        Raises:
            JavaError: A list of light queues holds what is no number.
        """
        self.dispatched.records += 1
        if request.transaction in (0, log.SYS_COMMIT):
            try:
                self._put(request)
            except QueuesStopError as error:
                self.queues_stopped = str(error)
        if self.setup.index_enabled:
            self.index.build(request)

    def _put(self, request: Request) -> None:
        if request.sys_flag & log.SYS_INNER_BATCH:
            self.topics.holds_batches(request.topic)
        queue = self.queue(request.topic, request.queue_id)
        if self.queues_stopped:
            return
        if queue.put(request):
            self.count(request.topic, request.queue_id)
        if isinstance(queue, BatchQueue) or not self.goes_by_lists(request.topic):
            return
        for name, queue_id, offset in self.light(request):
            with contextlib.suppress(QueuesStopError):  # half a minute, too, but for this unit only
                if self.queue(name, queue_id).put_unit(request.offset, request.size, request.tags_code, offset):
                    self.count(name, queue_id)

    def count(self, topic: str, queue_id: int, units: int = 1) -> None:
        """Count units as written by dispatch."""
        written = self.dispatched.units
        written[topic, queue_id] = written.get((topic, queue_id), 0) + units

    def goes_by_lists(self, topic: str) -> bool:
        """Tell whether a topic's records go into the light queues that they list, unless they are in batch queues."""
        if not (self.setup.multi_dispatch and self.rules.light_queues):
            return False
        return not self.rules.picks_dispatched or is_dispatched(topic)

    def light(self, request: Request) -> Iterator[tuple[str, int, int]]:
        """Yield topic, queue id and queue offset of what a record's list of light queues names.

        Raises:
            JavaError: It holds what is no number.
        """
        found: Mapping[str, str] = request.properties
        names, offsets = found.get(text.MULTI_DISPATCH, ""), found.get(text.MULTI_QUEUE_OFFSET, "")
        if not names.strip() or not offsets.strip():
            return
        listed, numbers = text.java_split(names, ","), text.java_split(offsets, ",")
        if len(listed) != len(numbers):
            return
        for name, number in zip(listed, numbers, strict=True):
            offset = text.java_long(number)
            if offset is None:
                raise JavaError("NumberFormatException")
            if "/" in name and self.rules.passes_slashes:
                continue
            light = self.setup.lmq and name.startswith(log.LMQ_PREFIX)
            yield name, 0 if light else request.queue_id, offset

"""What a rebuild comes to: what is decided before, what all splits of the log say, what is told after.

No file is written here; one node and many workers share it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import __version__, crc
from storeio.audit import AuditPlan
from storeio.audit.conclusion import layout_findings, log_missing
from storeio.audit.facts import Told, known_with, only_told
from storeio.audit.named import require_among
from storeio.checks.layout import queues_elsewhere
from storeio.checks.segments import LogView, Segment, view_log
from storeio.codes import ERROR, WARNING
from storeio.errors import UnreadableError, UsageError
from storeio.findings import Finding, condense
from storeio.format import checkpoint
from storeio.kernels import tables as w
from storeio.output.staging import Staging
from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, CONFIG, INDEX, QUEUE_KINDS
from storeio.rebuild.checkpoint import checkpoint_bytes, index_ms
from storeio.rebuild.dead import dead_queues
from storeio.rebuild.derive import Derived, Wanted
from storeio.rebuild.evidence import evidence_of
from storeio.rebuild.index import Shape
from storeio.rebuild.layout import FileSizes
from storeio.rebuilt import CHECKPOINTS, INDEXES, PARTS, QUEUES, QueueBuilt, Rebuilt
from storeio.safe import printable
from storeio.scan import go_without, gone_without, not_listed
from storeio.splits import merge_spans
from storeio.uris import is_remote, shown

MOST_NAMES: Final = 1000  # of queues left out that are told by name; damaged bytes may name millions
MOST_TOLD: Final = 10  # of topics in a sentence
OTHER_NAMES: Final = "(other names)"
FOR_FILES: Final = (
    "the store has its queues in RocksDB: these files are for a broker with storeType=default. One with defaultRocksDB"
    " that has lost its database makes it from the log: of the last ten segments, from 5.4 on, unless"
    " commitLogRecoverMaxNum is higher, and without the message at physical offset 0 unless a file abort is there"
)
Numbers = npt.NDArray[np.int64]
Names = frozenset[tuple[str, int | None]]


def wanted_of(plan: AuditPlan, queues: Names | None, parts: Iterable[str], broker: str | None = None) -> Wanted:
    """Return what is to be derived of a store; as a broker of a version would where nothing else tells.

    Raises:
        UsageError: No such part or version, or index files that hold nothing.
    """
    parts = frozenset(parts)
    if unknown := parts - set(PARTS):
        raise UsageError(f"{min(unknown)}: not one of {', '.join(PARTS)}")
    known = evidence_of(plan, broker)
    index = bool({INDEXES, CHECKPOINTS} & parts)  # a time of the checkpoint is the index's
    return Wanted(
        plan.config.delays_ms,
        known.batch_topics,
        known.light,
        known.ext,
        index and plan.config.index_enabled,
        known.tags_from,
        queues if QUEUES in parts else frozenset(),
        known.light_starts,
    )


def told_more(plan: AuditPlan, wanted: Wanted, told: Told) -> Wanted:
    """Return what is wanted with what records tell of queues of which nothing is left; the same if that is not new."""
    batch_topics, light = known_with(plan, wanted.batch_topics, wanted.light, told)
    more = replace(wanted, batch_topics=batch_topics, light=light)
    return wanted if more == wanted else more


def shape_of(plan: AuditPlan) -> Shape:
    """Return the shape of index files: the store's, or the usual one."""
    return Shape(*(plan.index_shape or plan.config.likely_index))


def sizes_of(plan: AuditPlan) -> FileSizes:
    """Return the sizes of queue files and segments."""
    config = plan.config
    return FileSizes(
        config.queue_file_bytes, config.batch_file_bytes, config.ext_file_bytes, config.commitlog_file_bytes
    )


class Tally:
    """Counts what the splits of a log say, in log order."""

    def __init__(self, plan: AuditPlan, wanted: Wanted, parts: frozenset[str]) -> None:
        self.plan, self.wanted, self.parts = plan, wanted, parts
        self._spans: dict[str, list[Numbers]] = {}
        self._records = 0
        self._last: tuple[int, int] | None = None
        self._last_queued: tuple[int, int] | None = None
        self._left_out: dict[str, int] = {}
        self._dead: tuple[list[str], int] = [], 0

    def add(self, found: Derived) -> None:
        """Take what the next split says; of units and keys nothing is looked at."""
        self._spans.setdefault(found.split.path, []).append(found.spans)
        self._records += found.records
        self._last = found.last or self._last
        self._last_queued = found.last_queued or self._last_queued
        for name, count in found.left_out.items():
            known = name in self._left_out or len(self._left_out) < MOST_NAMES
            told = name if known else OTHER_NAMES
            self._left_out[told] = self._left_out.get(told, 0) + count

    def intact(self) -> Numbers:
        """Return the physical ranges of intact records, rows start and stop, in order; neighbours joined."""
        parts = [np.empty((2, 0), np.int64)]
        for file in self.plan.segments:
            spans = merge_spans(self._spans.get(file.path, []))
            records = spans[w.SPAN_CLASS] == w.RECORD
            parts.append(spans[[w.SPAN_START, w.SPAN_STOP]][:, records] + (file.base_offset or 0))
        return np.concatenate(parts, axis=1)

    def view(self) -> LogView:
        """Return the log as all splits tell it."""
        segments = [Segment(file, merge_spans(self._spans.get(file.path, []))) for file in self.plan.segments]
        return view_log(segments, self.plan.segment_bytes)

    def checkpoint(self, rolled_ms: int, last_ms: int) -> bytes | None:
        """Return the checkpoint's bytes, None where none is wanted; of the index as in ``checkpoint.index_ms``."""
        if CHECKPOINTS not in self.parts:
            return None
        flushed = flushed_offset(self.plan)
        aborted = self.plan.listing.get(ABORT) is not None
        named_ms = index_ms(rolled_ms, last_ms, vouches=INDEXES in self.parts, aborted=aborted)
        return checkpoint_bytes(self._last, self._last_queued, index_ms=named_ms, flushed_offset=flushed)

    def require_known(self, queues: Iterable[tuple[str, int]]) -> None:
        """Raise if something is asked for of which there is nothing: neither a queue that was built, nor a directory.

        Raises:
            UsageError: So it is, and all could be read.
        """
        if self.wanted.queues and not self._unread():
            listed = ((file.topic, file.queue_id) for file in self.plan.listing.files)
            there: set[tuple[str, int | None]] = {(topic, number) for topic, number in listed if topic is not None}
            named = (name.rpartition("/") for name in self._left_out if name != OTHER_NAMES)
            there |= {(topic, int(number)) for topic, _, number in named}
            require_among(self.wanted.queues, there.union(queues))

    def with_dead(self, queues: Sequence[QueueBuilt], own: AuditPlan, into: Staging) -> list[QueueBuilt]:
        """Return the queues that were built, sorted, with those that have no message left, whose last files it writes.

        ``own`` is of the store that has them.

        Raises:
            UnreadableError: A server does not answer.
            WriteError: A file could not be written.
        """
        if QUEUES not in self.parts:
            return list(queues)
        keys = {(queue.kind, queue.topic, queue.queue_id) for queue in queues}
        found = []
        for last in dead_queues(own, keys, self.wanted, self.view()):
            into.write(last.path, 0, last.data, size=last.size)
            found.append(last.built)
        self._dead = [f"{queue.topic}/{queue.queue_id}" for queue in found[: MOST_TOLD + 1]], len(found)
        return sorted([*queues, *found], key=lambda queue: (queue.kind, queue.topic, queue.queue_id))

    def rebuilt(
        self,
        queues: list[QueueBuilt],
        into: Staging,
        files: list[str],
        written: int,
        index_files: int,
        index_units: int,
    ) -> Rebuilt:
        """Return the result, of what was written into a directory that is finished."""
        plan, view = self.plan, self.view()
        return Rebuilt(
            shown(plan.root), __version__, into.name, crc.ENGINE, plan.started_ms,
            (time.time_ns() // 1_000_000 - plan.started_ms) / 1000, plan.settings, self._records,
            view.min_physical_offset, view.max_physical_offset, queues, index_files, index_units,
            files, written, self._of_log(view), self._left_out,
            [*self._notes(), *into.notes], self._partly(), self._unread(),
        )  # fmt: skip

    def _of_log(self, view: LogView) -> list[Finding]:
        """Return errors and warnings of the commitlog itself, as an audit has them."""
        layout = [f for f in layout_findings(self.plan) if f.path.split("/")[0] == COMMITLOG]
        found = condense([*log_missing(self.plan, view), *layout, *view.findings])
        return [f for f in found if f.severity in (ERROR, WARNING)]

    def _unread(self) -> list[str]:
        """Return what could not be read of what a rebuild goes by, each as path and reason.

        Those are names in directories of queues, index and configuration, which tell sizes and kinds, and what was read
        of these files. A server that does not answer ends a rebuild instead.
        """
        listing, by_path = self.plan.listing, dict(self.plan.listing.unreadable)
        names = not_listed(listing, (*QUEUE_KINDS, INDEX, CONFIG, CHECKPOINT))
        return list(dict.fromkeys([*(f"{path}: {by_path[path]}" for path in names), *gone_without(listing)]))

    def _partly(self) -> list[str]:
        """Return what was asked for, empty for everything."""
        if self.parts == set(PARTS) and self.wanted.queues is None:
            return []
        named = sorted(topic if number is None else f"{topic}/{number}" for topic, number in self.wanted.queues or ())
        of = f" of {', '.join(named)}" if named else ""
        return [part + (of if part == QUEUES else "") for part in PARTS if part in self.parts]

    def _notes(self) -> list[str]:
        """Return sentences on what the store's own files decided."""
        wanted = self.wanted
        notes = []
        told = only_told(self.plan, Told(tuple(sorted(wanted.batch_topics))))
        if told.batch_topics:
            names = ", ".join(printable(topic) for topic in told.batch_topics[:MOST_TOLD])
            more = f" and {len(told.batch_topics) - MOST_TOLD} more" if len(told.batch_topics) > MOST_TOLD else ""
            notes.append(f"{names}{more}: batch queues, since their records hold batches")
        if wanted.light:
            notes.append("light queues are built from the records' multi-dispatch lists")
        if wanted.ext:
            notes.append("queue ext units are built without filter bitmaps, which no log tells")
        if wanted.index and INDEXES in self.parts:
            begin = wanted.tags_from
            tags = "without tags" if begin is None else f"with tags from physical offset {begin} on"
            notes.append(f"the index is built {tags}")
            if begin is None and not self.plan.listing.of_kind(INDEX):
                notes.append("no index file tells whether tags are indexed; with --broker 5.4.0 or newer they are")
        elif INDEXES in self.parts:
            notes.append("no index is built: the store's settings say that it has none")
        if QUEUES in self.parts:
            notes += notes_of_database(self.plan)
        dead, count = self._dead
        if count:
            names = ", ".join(map(printable, dead[:MOST_TOLD]))
            more = f" and {count - MOST_TOLD} more" if count > MOST_TOLD else ""
            notes.append(
                f"{names}{more}: the log has no message of theirs any more; their last files keep their numbers"
            )
        return notes


def notes_of_database(plan: AuditPlan) -> list[str]:
    """Return what to know of files that are built for queues that the store has in RocksDB; nothing of other stores."""
    elsewhere = queues_elsewhere(plan.listing.files, in_database=plan.config.in_database)
    return [FOR_FILES] if elsewhere else []


def flushed_offset(plan: AuditPlan) -> int:
    """Return the old checkpoint's masterFlushedOffset, which only it tells; 0 where it cannot be true."""
    entry = plan.listing.get(CHECKPOINT)
    if entry is None or entry.is_dir or entry.size < checkpoint.CHECKPOINT_BYTES:
        return 0
    try:
        fields = checkpoint.decode(plan.read(CHECKPOINT, 0, checkpoint.CHECKPOINT_BYTES).tobytes())
    except UnreadableError as error:
        if is_remote(plan.root):
            raise
        go_without(plan.root, error)
        return 0
    value = int(fields["master_flushed_offset"])
    end = max(((f.base_offset or 0) + f.size for f in plan.segments), default=0)
    return value if 0 <= value <= end else 0

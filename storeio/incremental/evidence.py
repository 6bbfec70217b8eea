"""What a split's report rests on besides its segment, so that the report is used again only while that holds.

A report is a function of the segment's bytes, of what the plan knows of queues and index, and of the bytes that were
read of their files. Most of that never changes for a split that lies behind: units at their numbers, index units of
its stretch of the log. The rest does: the end of a queue, the list of index files. So evidence names only what
mattered. Where something was found that is not as it should be, more mattered, and evidence takes in all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from storeio.audit.plan import AuditPlan, QueueKey
from storeio.audit.split import SplitReport, audit_split, index_reader
from storeio.checks.index_stretch import Piece, outliers_of, pieces_of
from storeio.checks.index_structure import IndexStructure
from storeio.checks.locate import stretch
from storeio.errors import UnreadableError
from storeio.fingerprints import UNKNOWN, is_same
from storeio.incremental.watched import watched
from storeio.paths import BATCHQUEUE, INDEX, QUEUE_EXT
from storeio.splits import Split

Bytes = npt.NDArray[np.uint8]
Fingerprints = Mapping[str, str]
Ranges = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Read:
    """Bytes of one file that were read: half-open ranges in order, and the digest of what stood there."""

    path: str
    ranges: Ranges
    digest: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A physical range whose units were looked for in one queue, and the digest of what was found."""

    key: QueueKey
    low: int
    high: int
    digest: str


@dataclass(slots=True)
class Evidence:
    """What a split's report rests on besides its segment and the settings.

    ``whole`` has the digest of all that the plan knew of a queue, where that mattered; ``index_whole`` likewise,
    empty where it did not. ``fingerprints`` and ``queue_states`` spare the reading of files that nobody wrote to.
    """

    light: bool
    has_index: bool
    queues: list[QueueKey]
    reads: list[Read]
    stretches: list[Stretch]
    whole: dict[QueueKey, str]
    index_range: tuple[int, int]
    index_parts: list[tuple[str, str]]  # path and digest of what an index file has of the stretch
    index_whole: str
    fingerprints: dict[str, str] = field(default_factory=dict)
    queue_states: dict[QueueKey, str] = field(default_factory=dict)

    def dated(self, now: Now) -> Evidence:
        """Return the evidence with the fingerprints that its files had before they were read."""
        paths = {read.path for read in self.reads} | {path for path, _ in self.index_parts}
        known = {path: now.fingerprints.get(path, UNKNOWN) for path in sorted(paths)}
        states = {each.key: now.queue_state(each.key) for each in self.stretches}
        return replace(self, fingerprints=known, queue_states=states)


class Now:
    """A store as it is now, as far as evidence is compared with it: what the plan knows, and fingerprints."""

    def __init__(self, plan: AuditPlan, fingerprints: Fingerprints) -> None:
        """Take a plan, with what its files say of themselves in it, and the fingerprints of its files."""
        self.plan = plan
        self.fingerprints = fingerprints
        self.light = plan.multi_dispatch
        self.batch_topics = plan.facts.batch_topics
        self.index_facts = _index_facts(plan)
        self._bytes = {file.path: file.size for queue in plan.queues.values() for file in queue.files}
        self._bytes.update((file.path, file.length) for file in plan.index)
        self._bytes.update((file.path, file.size) for file in plan.segments)  # of which a unit may point into others

    def holds_bytes(self, path: str, stop: int) -> bool:
        """Tell whether a segment, a queue's file or one of the index has bytes up to ``stop`` that belong to these."""
        return stop <= self._bytes.get(path, -1)

    def is_unchanged(self, path: str, before: str) -> bool:
        """Tell whether nobody has written to a file since it had a fingerprint."""
        return is_same(before, self.fingerprints.get(path, UNKNOWN))

    def queue_state(self, key: QueueKey) -> str:
        """Return a digest of a queue's files and their fingerprints, ``UNKNOWN`` where one of these is."""
        files = [(file.path, self.fingerprints.get(file.path, UNKNOWN)) for file in self.plan.queue(*key).files]
        return UNKNOWN if any(found == UNKNOWN for _, found in files) else _digest_of(files)


def audit_with_evidence(plan: AuditPlan, split: Split) -> tuple[SplitReport, Evidence, int]:
    """Return a split's report, what it rests on (without fingerprints), and how many bytes were read for both.

    Raises:
        UnreadableError: As ``audit_split``.
    """
    seen = watched(plan, keeps=True, own=split.path)
    report = audit_split(seen, split)
    index = report.index
    index_whole = index is not None and index.has_events
    index_range = index.covered if index else (0, 0)
    reads = _reads([row for row in seen.seen if index_whole or not _is_index(row[0])])
    whole = {key: _known_of(plan, key) for asked in report.whole for key in (asked, (QUEUE_EXT, *asked[1:]))}
    seen.seen.clear()
    seen.keeps = False
    evidence = Evidence(
        light=plan.multi_dispatch,
        has_index=bool(plan.index),
        queues=report.covered.queues(),
        reads=reads,
        stretches=[Stretch(key, a, b, _found(seen, key, a, b)) for key, s in report.stretches.items() for a, b in s],
        whole=whole,
        index_range=index_range,
        index_parts=_index_parts(seen, index_range) if index else [],
        index_whole=_index_facts(plan) if index_whole else "",
    )
    return report, evidence, seen.read_bytes


def holds(now: Now, evidence: Evidence) -> bool:
    """Tell whether a report that rests on the evidence is what its split's audit would say now.

    Reads only what lies in files that have changed since.
    """
    plan = now.plan
    if evidence.light != now.light or evidence.has_index != bool(plan.index):
        return False
    if any((topic in now.batch_topics) != (kind == BATCHQUEUE) for kind, topic, _ in evidence.queues):
        return False
    if any(_known_of(plan, key) != digest for key, digest in evidence.whole.items()):
        return False
    if evidence.index_whole and evidence.index_whole != now.index_facts:
        return False
    try:
        return (
            all(_read_holds(now, read, evidence) for read in evidence.reads)
            and all(_stretch_holds(now, each, evidence) for each in evidence.stretches)
            and (not plan.index or _index_holds(now, evidence))
        )
    except UnreadableError:
        return False


def _is_index(path: str) -> bool:
    return path.startswith(f"{INDEX}/")


def _digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _add(digest: hashlib.blake2b, array: npt.NDArray[Any]) -> None:
    digest.update(np.ascontiguousarray(array).data)


def _reads(rows: Sequence[tuple[str, int, int, Bytes]]) -> list[Read]:
    """Return what was read of each file, ranges joined that touch or overlap."""
    found: list[Read] = []
    by_path: dict[str, list[tuple[int, int, Bytes]]] = {}
    for path, start, stop, data in rows:
        by_path.setdefault(path, []).append((start, stop, data))
    for path in sorted(by_path):
        digest = _digest()
        ranges: Ranges = []
        for start, stop, data in sorted(by_path[path], key=lambda row: row[:2]):
            at = max(start, ranges[-1][1]) if ranges else start
            if stop <= at:
                continue
            _add(digest, data[at - start :])
            if ranges and at == ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], stop)
            else:
                ranges.append((at, stop))
        if ranges:
            found.append(Read(path, ranges, digest.hexdigest()))
    return found


def _read_holds(now: Now, read: Read, evidence: Evidence) -> bool:
    """Tell whether the same bytes still stand in the file, and still belong to its queue."""
    if not read.ranges or not now.holds_bytes(read.path, read.ranges[-1][1]):
        return False
    if now.is_unchanged(read.path, evidence.fingerprints.get(read.path, UNKNOWN)):
        return True
    digest = _digest()
    for start, stop in read.ranges:
        _add(digest, now.plan.read(read.path, start, stop))
    return digest.hexdigest() == read.digest


def _stretch_holds(now: Now, each: Stretch, evidence: Evidence) -> bool:
    """Tell whether the same units are still found."""
    if is_same(evidence.queue_states.get(each.key, UNKNOWN), now.queue_state(each.key)):
        return True
    return _found(now.plan, each.key, each.low, each.high) == each.digest


def _digest_of(value: object) -> str:
    """Return a digest of what a value of plain parts shows."""
    return hashlib.blake2b(repr(value).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _known_of(plan: AuditPlan, key: QueueKey) -> str:
    """Return a digest of all that the plan knows of a queue."""
    return _digest_of(plan.queues.get(key))


def _found(plan: AuditPlan, key: QueueKey, low: int, high: int) -> str:
    """Return a digest of what is found where a queue's units that point into ``[low, high)`` are looked for."""
    queue = plan.queue(*key)
    numbers, units = stretch(queue, plan.read, low, high)
    digest = _digest()
    digest.update(b"files" if queue.files else b"none")
    _add(digest, numbers)
    _add(digest, np.ascontiguousarray(units).view(np.uint8))
    return digest.hexdigest()


def _index_facts(plan: AuditPlan) -> str:
    """Return a digest of all that the plan knows of the index."""
    return _digest_of(plan.index)


def _index_parts(plan: AuditPlan, covered: tuple[int, int]) -> list[tuple[str, str]]:
    """Return what each index file has of a physical range, files without any left out, in log order."""
    pieces = pieces_of(plan.index, index_reader(plan), *covered)
    return [(plan.index[piece.file_no].path, _part(plan.index[piece.file_no], piece)) for piece in pieces]


def _part(file: IndexStructure, piece: Piece) -> str:
    """Return a digest of all that a comparison without a finding takes from one file: ``check_content``."""
    last = piece.number(len(piece.units) - 1)
    is_cut = file.length < file.position_of(file.units)
    facts = (file.path, file.slots, file.units, file.begin_timestamp_ms, piece.first, last == file.entries, is_cut)
    digest = _digest()
    digest.update(repr((facts, outliers_of(file, piece, 0))).encode("utf-8", "backslashreplace"))
    _add(digest, np.ascontiguousarray(piece.units).view(np.uint8))
    if piece.numbers is not None:
        _add(digest, piece.numbers)
    return digest.hexdigest()


def _index_holds(now: Now, evidence: Evidence) -> bool:
    """Tell whether the index still has the same of the split's stretch, in the same order."""
    start, stop = evidence.index_range
    known = {path for path, _ in evidence.index_parts}
    near = [
        file.path
        for file in now.plan.index
        if not file.ordered or (file.begin_physical_offset < stop and file.end_physical_offset >= start)
    ]
    if known == set(near) and all(now.is_unchanged(p, evidence.fingerprints.get(p, UNKNOWN)) for p in near):
        return True
    return _index_parts(now.plan, evidence.index_range) == evidence.index_parts

"""Actions that make queues, ext files, indexes and checkpoint what a rebuild says they are.

Only what differs is replaced. Units below a queue's first number, which point at what retention has deleted,
stay as they are where they are sound: no rebuild can know them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import audit
from storeio.checks.leftover import are_deleted
from storeio.format import checkpoint as checkpoint_layout
from storeio.format import consumequeue
from storeio.paths import ABORT, BATCHQUEUE, CHECKPOINT, CONSUMEQUEUE, INDEX, has_usual_name, parse_number
from storeio.planning.deliver_times import keep_deliver_times
from storeio.planning.draft import Draft, Why
from storeio.planning.obstacles import make_way
from storeio.planning.target import NOWHERE, Target, moved_whole
from storeio.rebuild.checkpoint import index_ms
from storeio.scan import data_stretches

Bytes = npt.NDArray[np.uint8]
CHUNK: Final = 4 << 20
NEAR: Final = 256  # differences closer than that are one action
PAGE: Final = 4096  # likewise of a file with many, or a new one: disks take whole pages, hash slots lie scattered
MANY: Final = 100  # actions in one file; each is flushed, and has lines of its own in plan and journal
NAME_DIGITS: Final = 17
UNWRITTEN: Final = {"CQ_UNWRITTEN", "BCQ_UNWRITTEN"}  # a file that brokers take for one with a unit
FEW: Final = 8  # of a file's bytes, one in so many may differ before it is replaced as a whole


def plan_queue(draft: Draft, rebuilt: Path, target: Target, *, log_min: int, delays_ms: Sequence[int]) -> None:
    """Add the actions that make one queue's files those below ``rebuilt``; ``make_way_for`` goes before.

    Args:
        draft: What is planned so far.
        rebuilt: Directory of a rebuild of the same store.
        target: The queue.
        log_min: Physical offset at which the log begins; units below it point at nothing.
        delays_ms: Of the levels, with which the queue was rebuilt.
    """
    if target.kind == BATCHQUEUE and target.built is None and moved_whole(draft, target):
        return
    for name in _misnamed(draft.store.root / target.directory):
        draft.move(f"{target.directory}/{name}", target.why)
    keep_deliver_times(draft.store.root, rebuilt, target, delays_ms)
    wanted = _numbered(rebuilt / target.directory)
    have = _numbered(draft.store.root / target.directory)
    dead = range(target.first_byte) if target.keeps_front else _dead_bytes(draft, target, have, log_min)
    start, stop = dead.stop, target.stop_byte
    for base in sorted(have):
        path = f"{target.directory}/{have[base]}"
        keeps = base in wanted or base in dead or (base >= stop and UNWRITTEN.isdisjoint(target.why.codes))
        if not keeps or base % target.file_bytes or base < 0:
            draft.move(path, target.why)
            del have[base]
        elif draft.store.length(path) != target.file_bytes:
            draft.resize(path, target.file_bytes, target.why)
    for base in sorted(wanted):
        path = f"{target.directory}/{wanted[base]}"
        if base not in have:
            draft.create(path, target.file_bytes, target.why)
        for position, data in _differences(draft, path, rebuilt / path, max(start - base, 0), stop - base):
            draft.write(path, position, data, target.why)
    for base in sorted(base for base in set(have) - set(wanted) if base < stop):
        _clear(draft, f"{target.directory}/{have[base]}", min(start - base, target.file_bytes), target.why)


def make_way_for(draft: Draft, rebuilt: Path, target: Target) -> None:
    """Add the actions that move aside what is in the way of a queue's files.

    Raises:
        RefusedError: An apply would not touch all of its files, or what is in their way; nothing was added.
    """
    wanted, have = _numbered(rebuilt / target.directory), _numbered(draft.store.root / target.directory)
    names = {*wanted.values(), *have.values()}
    for name in _misnamed(draft.store.root / target.directory):
        draft.require_movable(f"{target.directory}/{name}")
    make_way(draft, [f"{target.directory}/{name}" for name in sorted(names)], target.why)


def _numbered(directory: Path) -> dict[int, str]:
    """Return names of files by the number that they are; of several, which all are that, the shortest."""
    return dict(_numbers(directory))


def _numbers(directory: Path) -> list[tuple[int, str]]:
    """Return the numbers that names of files are, and the names, of a directory that may not be there."""
    places = sorted(directory.iterdir(), key=lambda place: (-len(place.name), place.name)) if directory.is_dir() else ()
    told = [(parse_number(place.name), place.name) for place in places if place.is_file()]
    return [(number, name) for number, name in told if number is not None]


def _misnamed(directory: Path) -> list[str]:
    """Return names of files that are numbers, but not as brokers write them."""
    names = sorted(place.name for place in directory.iterdir() if place.is_file()) if directory.is_dir() else []
    numbers = [(name, parse_number(name)) for name in names]
    return [name for name, number in numbers if number is not None and not has_usual_name(name, number)]


def _dead_bytes(draft: Draft, target: Target, have: dict[int, str], log_min: int) -> range:
    """Return the queue positions at which the store's own units are kept: sound ones of deleted records.

    They lead up to the queue's first message: consumers of what is in front of a missing file would jump over that.
    """
    if target.kind != CONSUMEQUEUE or log_min <= 0:
        return range(0)
    stop = target.first_byte
    front = kept = 0
    for base in sorted(base for base in have if 0 <= base < stop and base % target.file_bytes == 0):
        path = f"{target.directory}/{have[base]}"
        front = front if base == kept else base
        length = min(draft.store.length(path), target.file_bytes, stop - base)
        length -= length % consumequeue.UNIT_BYTES
        data = b"".join(draft.store.pieces(path, 0, length))
        units = consumequeue.decode(data)
        sound = are_deleted(units["physical_offset"].astype(np.int64), units["size"].astype(np.int64), log_min)
        sound |= consumequeue.is_pre_blank(units)  # in front of a queue that began above 0
        if stop - base >= target.file_bytes:  # no message is left in it, and consumers may come to all of its units
            sound &= units["physical_offset"] > 0
        count = int(np.argmin(sound)) if not sound.all() else len(units)
        if target.built is not None and count < len(units):
            return range(0)  # a hole in it; the queue begins anew with fillers up to its first number
        kept = base + count * consumequeue.UNIT_BYTES if count else kept
        if count < len(units):
            break
    return range(front, kept) if target.built is None or kept == stop else range(0)


def _differences(
    draft: Draft, path: str, source: Path, start: int = 0, stop: int = NOWHERE
) -> Iterator[tuple[int, bytes]]:
    """Yield ranges in ``[start, stop)`` of a file that differ from another of its length, with the other's bytes."""
    if found := _differing(draft, path, source, start, stop):
        with _reading(source) as new:
            for low, high in _fewer(found):
                yield low, new(low, high).tobytes()


def _differing(draft: Draft, path: str, source: Path, start: int = 0, stop: int = NOWHERE) -> list[tuple[int, int]]:
    """Return ranges in ``[start, stop)`` of a file that differ from another of its length, near ones as one."""
    with _reading(source) as new, _reading(draft.store.root / path) as old:
        return [
            (at + low, at + high)
            for at, end in _pieces(start, min(stop, source.stat().st_size), draft.store.root / path, source)
            for low, high in _ranges(old(at, end), new(at, end))
        ]


@contextmanager
def _reading(path: Path) -> Iterator[Callable[[int, int], Bytes]]:
    """Yield what reads ranges of a file. To map one takes as long as to read many of a page, as most of a queue are."""
    with path.open("rb", buffering=0) as file:
        yield lambda low, high: np.frombuffer(os.pread(file.fileno(), high - low, low), np.uint8)


def _fewer(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ascending ranges of a file; of many those that are within a page as one, of a chunk at most."""
    if len(ranges) <= MANY:
        return ranges
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        if found and low - found[-1][1] < PAGE and high - found[-1][0] <= CHUNK:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def _pieces(start: int, stop: int, *files: Path) -> Iterator[tuple[int, int]]:
    """Yield where one of these files has more than holes, a chunk at most at a time.

    A rebuilt index file claims 420 MB, of which most is a hole, as of most queues' files.
    """
    done = start
    for low, high in sorted(each for path in files for each in data_stretches("", str(path), start, stop)):
        at = max(low, done)
        while at < high:
            done = min(at - at % CHUNK + CHUNK, high)
            yield at, done
            at = done


def _ranges(old: Bytes, new: Bytes, near: int = NEAR) -> list[tuple[int, int]]:
    """Return ranges in which two arrays differ, neighbours joined."""
    if np.array_equal(old, new):
        return []
    places = np.flatnonzero(old != new)
    breaks = np.flatnonzero(np.diff(places) > near)
    firsts = places[np.concatenate(([0], breaks + 1))]
    lasts = places[np.concatenate((breaks, [len(places) - 1]))]
    return [(int(low), int(high) + 1) for low, high in zip(firsts, lasts, strict=True)]


def _clear(draft: Draft, path: str, start: int, why: Why) -> None:
    """Write zeros over what is not zero from ``start`` on."""
    for low, high in _fewer(_used(draft.store.root / path, max(start, 0))):
        draft.write(path, low, bytes(high - low), why)


def _used(source: Path, start: int = 0, near: int = NEAR) -> list[tuple[int, int]]:
    """Return ranges of a file that are not zero, those that are ``near`` as one."""
    with _reading(source) as data:
        return [
            (at + low, at + high)
            for at, end in _pieces(start, source.stat().st_size, source)
            for low, high in _ranges(data(at, end), np.zeros(end - at, np.uint8), near)
        ]


def plan_index(draft: Draft, rebuilt: Path, why: Why) -> None:
    """Add the actions that make the index files those below ``rebuilt``; names of files that stay are kept.

    Raises:
        RefusedError: As ``make_way_for``.
    """
    wanted = sorted((rebuilt / INDEX).iterdir()) if (rebuilt / INDEX).is_dir() else []
    names = _numbered(draft.store.root / INDEX)
    have = [f"{INDEX}/{name}" for name in sorted(names.values())]  # as brokers sort them
    others = [f"{INDEX}/{name}" for number, name in _numbers(draft.store.root / INDEX) if name != names[number]]
    changed = [_changed(draft, old, new) for old, new in zip(have, wanted, strict=False)]
    kept = changed.index(None) if None in changed else len(changed)
    last = int(have[kept - 1].rpartition("/")[2]) if kept else 0
    made: list[str] = []
    for source in wanted[kept:]:
        last = max(int(source.name), last + 1)
        made.append(f"{INDEX}/{last:0{NAME_DIGITS}d}")
    touched = [path for path, count in zip(have, changed[:kept], strict=False) if count]
    make_way(draft, [*others, *touched, *have[kept:], *made], why)
    for path in (*others, *have[kept:]):
        draft.move(path, why)
    for old, new in zip(have[:kept], wanted, strict=False):
        for position, data in list(_differences(draft, old, new)):
            draft.write(old, position, data, why)
    for path, source in zip(made, wanted[kept:], strict=True):
        draft.create(path, source.stat().st_size, why)
        with _reading(source) as content:
            for low, high in _used(source, near=PAGE):
                draft.write(path, low, content(low, high).tobytes(), why)


def _changed(draft: Draft, path: str, source: Path) -> int | None:
    """Return how many bytes of an index file differ from a rebuilt one; None if it is not that one but for some."""
    if draft.store.length(path) != source.stat().st_size:
        return None
    changed = sum(high - low for low, high in _differing(draft, path, source))
    return changed if changed * FEW <= sum(high - low for low, high in _used(source)) else None


def plan_checkpoint(
    draft: Draft, rebuilt: Path, settings: Mapping[str, str], why: Why, *, vouches: bool = False
) -> None:
    """Add the actions that make the checkpoint the rebuilt one, with what is true of the index as it will be there.

    Args:
        draft: What is planned so far.
        rebuilt: Directory of a rebuild of the same store.
        settings: Of the store.
        why: What the actions say of themselves.
        vouches: The index is as the log says.

    Raises:
        RefusedError: As ``make_way_for``.
    """
    make_way(draft, [CHECKPOINT], why)
    wanted = (rebuilt / CHECKPOINT).read_bytes()
    if not draft.store.exists(CHECKPOINT):
        draft.create(CHECKPOINT, checkpoint_layout.FILE_BYTES, why)
    elif draft.store.length(CHECKPOINT) != checkpoint_layout.FILE_BYTES:
        draft.resize(CHECKPOINT, checkpoint_layout.FILE_BYTES, why)
    values = np.frombuffer(wanted, checkpoint_layout.CHECKPOINT, 1).copy()
    aborted = draft.store.exists(ABORT)
    values["index_timestamp_ms"] = index_ms(*_index_ms(draft.store.root, settings), vouches=vouches, aborted=aborted)
    fields = values.tobytes()
    if b"".join(draft.store.pieces(CHECKPOINT, 0, len(fields))) != fields:
        draft.write(CHECKPOINT, 0, fields, why)


def _index_ms(root: Path, settings: Mapping[str, str]) -> tuple[int, int]:
    """Return the ends of the last index file that is full and of the last one; such as stay may end elsewhere than
    rebuilt ones."""
    plan = audit.prepare(str(root), given=settings)
    reports = [audit.run_file_task(plan, task) for task in audit.file_tasks(plan) if task.file.kind == INDEX]
    found = audit.with_files(plan, reports)
    return found.rolled_index_ms, found.last_index_ms

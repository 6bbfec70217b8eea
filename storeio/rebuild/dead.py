"""Queues of which the log has no message any more: retention has deleted them all, and leaves a queue its last file.

That alone tells how far the queue's numbers are. Without it a broker begins at 0 again, below what consumers have read.

Source: ``ConsumeQueue.deleteExpiredFile``, ``ConsumeQueueStore.cleanExpired``, which only an admin command calls.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.audit.missing import MOST_UNIT_BYTES
from storeio.audit.peek import record_at
from storeio.checks.batch_numbers import fitting
from storeio.checks.leftover import are_deleted
from storeio.checks.queue_files import UNIT_BYTES
from storeio.checks.segments import LogView
from storeio.errors import UnreadableError
from storeio.format import batchqueue, consumequeue
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.format.batchqueue import MOST_MESSAGES
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, StoreFile, file_name, queue_directory
from storeio.rebuild.derive import Wanted, is_name
from storeio.rebuild.old import files_by_queue
from storeio.rebuild.stretches import QueueKey
from storeio.rebuilt import QueueBuilt
from storeio.scan import data_stretches, go_without
from storeio.uris import is_remote

Units = npt.NDArray[np.void]
Mask = npt.NDArray[np.bool_]

FEW: Final = 2  # units that may be damaged where half as many others are sound
FEWER: Final = 16  # of more of them each needs so many others
LOOKED_AT: Final = 8  # messages of a file, about
LEAST_SOUND: Final = 4  # of a file's units one in so many; one with fewer is not believed


@dataclass(frozen=True, slots=True)
class LastFile:
    """The last file of such a queue: its bytes up to the last unit, and its length, rest zeros; what is told of it."""

    path: str
    size: int
    data: bytes
    built: QueueBuilt


def dead_queues(plan: AuditPlan, built: Container[QueueKey], wanted: Wanted, view: LogView) -> Iterator[LastFile]:
    """Yield the last files of the store's queues that have no message left, of those that are wanted, by queue.

    They hold the store's own units. Of damaged ones between others each repeats the one before it, with queue offsets
    of its own in a batch queue: there is no message at any of them. A queue some of whose units may point at messages
    that are there, or lost, is left out. Where too many are damaged, the file's name tells, if it is not a first one.

    Args:
        plan: Of the store whose queues they are.
        built: The queues of which the log has messages.
        wanted: Which queues are.
        view: The log; one that begins at 0 had no retention.

    Raises:
        UnreadableError: A server does not answer; an unreadable file of this machine is left out, and noted.
    """
    if view.min_physical_offset <= 0:
        return
    kinds = CONSUMEQUEUE, BATCHQUEUE
    for key, files in sorted(files_by_queue(plan, kinds).items()):
        _, topic, queue_id = key
        has_messages = any((kind, topic, queue_id) in built for kind in kinds)
        if has_messages or not is_name(topic) or not wanted.takes(topic, queue_id):
            continue
        try:
            last = _last_file(plan, key, files, view)
        except UnreadableError as error:
            if is_remote(plan.root):
                raise
            go_without(plan.root, error)
            continue
        if last is not None:
            yield last


def _last_file(plan: AuditPlan, key: QueueKey, files: list[StoreFile], view: LogView) -> LastFile | None:
    """Return the last of a queue's files that has units, None where it tells of no dead queue.

    One that is the copy of a file of another queue has none: behind a full one its name tells of one unit at least.
    """
    kind = key[0]
    unit = UNIT_BYTES[kind]
    size = plan.config.batch_file_bytes if kind == BATCHQUEUE else plan.config.queue_file_bytes
    based = [(each.base_offset or 0, each) for each in files if (each.base_offset or 0) >= 0]
    based.sort(key=lambda row: (not row[0] % size, row[0]), reverse=True)
    copied: LastFile | None = None
    for named, file in based:
        # A wrong name counts where no other file has units: then no number is below those that brokers take it for.
        base = -(-(named - named % unit) // size) * size
        data = _content(plan, file, min(file.size, size) // unit * unit)
        units = batchqueue.decode(data) if kind == BATCHQUEUE else consumequeue.decode(data)
        if _may_live(units, view):
            if kind == BATCHQUEUE or not _are_of_others(plan, key, base, units, view):
                return None
            copied = copied or _by_name(key, named, size, view)
            continue
        if (whole := _whole(units, view, kind)) is not None:
            made, filled = whole
            if copied is not None and len(made) * unit == size:
                return copied
            stop = base // unit + len(made)
            built = QueueBuilt(*key, stop, stop, 0, kept=len(made) - filled, filled=filled)
            return LastFile(f"{queue_directory(*key)}/{file_name(base)}", size, made.tobytes(), built)
        if kind == CONSUMEQUEUE and (last := _by_name(key, named, size, view)) is not None:
            return last
    return None


def _by_name(key: QueueKey, base: int, size: int, view: LogView) -> LastFile | None:
    """Return a last file of one unit, where the name alone tells how far the numbers are at least.

    Brokers make a file for its first unit, and those of 5.x refuse a last one without any.
    """
    length = log.MIN_RECORD_BYTES
    if base <= 0 or base % size or view.min_physical_offset < length:
        return None
    unit = np.zeros(1, consumequeue.UNIT)
    unit["physical_offset"], unit["size"] = view.min_physical_offset - length, length
    stop = base // UNIT_BYTES[CONSUMEQUEUE] + 1
    built = QueueBuilt(*key, stop, stop, 0, filled=1)
    return LastFile(f"{queue_directory(*key)}/{file_name(base)}", size, unit.tobytes(), built)


def _may_live(units: Units, view: LogView) -> bool:
    """Tell whether units point at what the log has, or may have lost: more than a few, or one into damage of it."""
    offset, size = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    some = (size > 0) & (size < MOST_UNIT_BYTES) & (offset >= 0) & (offset < view.max_physical_offset)
    dead = some & (offset < view.min_physical_offset)
    alive = np.flatnonzero(some & ~dead)
    if len(alive) * (FEWER if len(alive) > FEW else 2) > int(dead.sum()):
        return True
    return any(view.is_damaged(at, at + length) for at, length in np.stack((offset, size))[:, alive].T.tolist())


def _are_of_others(plan: AuditPlan, key: QueueKey, base: int, units: Units, view: LogView) -> bool:
    """Tell whether the messages that units point at say that they are another queue's, and have other numbers there.

    With the same ones, all of the queue may be the copy of one that lives.
    """
    places = units["physical_offset"].astype(np.int64)
    alive = np.flatnonzero((places >= view.min_physical_offset) & (places < view.max_physical_offset))
    for number in alive[:: max(len(alive) // LOOKED_AT, 1)].tolist():
        record = record_at(plan, int(places[number]))
        if record is None or (p.java_decode(record.topic), record.queue_id) == key[1:]:
            return False
        if record.queue_offset == base // UNIT_BYTES[CONSUMEQUEUE] + number:
            return False
    return True


def _content(plan: AuditPlan, file: StoreFile, length: int) -> bytes:
    """Return a file's bytes up to the last that is in no hole, and no more than a length of whole units."""
    stop = max((high for _, high in data_stretches(plan.root, file.path, 0, length)), default=0)
    return plan.read(file.path, 0, stop).tobytes().ljust(length, b"\0") if stop else b""


def _whole(units: Units, view: LogView, kind: str) -> tuple[Units, int] | None:
    """Return a file's units up to the last that a broker keeps, and how many of them repeat the one before."""
    offset, size = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    held = (offset >= 0) & (size > 0) & (offset < view.max_physical_offset)
    if kind == BATCHQUEUE:
        held &= batchqueue.is_written(units)
    sound = held & are_deleted(offset, size, view.min_physical_offset)
    if kind == BATCHQUEUE:
        sound &= fitting(units)
    if not sound.any():
        return None
    stop = int(np.flatnonzero(held)[-1]) + 1
    offset, size, sound = offset[:stop], size[:stop], sound[:stop]
    damaged = ~sound
    if kind == CONSUMEQUEUE:  # in front of a queue that began above 0
        damaged[: int(np.argmax(sound))] &= ~consumequeue.is_pre_blank(units[: int(np.argmax(sound))])
    which = np.flatnonzero(damaged)
    if int(sound.sum()) * LEAST_SOUND < stop:
        return None
    made = _mended(units[:stop], sound, which)
    if kind == BATCHQUEUE:
        made = made[: int(np.flatnonzero(sound)[-1]) + 1]  # what a last one covered, nothing tells
        which = which[which < len(made)]
        if not _numbered(made, sound[: len(made)], which):
            return None
    return made, len(which)


def _mended(units: Units, sound: Mask, damaged: npt.NDArray[np.int64]) -> Units:
    """Return units of which damaged ones are as the sound one before them, the first ones as the next."""
    if not len(damaged):
        return units
    numbers = np.arange(len(units))
    before = np.maximum.accumulate(np.where(sound, numbers, -1))
    source = np.where(before < 0, int(np.argmax(sound)), before)
    made = units.copy()
    made[damaged] = units[source[damaged]]
    return made


def _numbered(units: Units, sound: Mask, damaged: npt.NDArray[np.int64]) -> bool:
    """Give mended units of a batch queue the queue offsets between those of the sound ones; tell whether that works."""
    for i in damaged.tolist():
        stop = i + 1 + int(np.argmax(sound[i + 1 :]))
        last, left = int(units["base_queue_offset"][stop]), stop - i
        first = int(units["base_queue_offset"][i - 1] + units["batch_size"][i - 1]) if i else last - left
        count = last - first - (left - 1)  # the others have one each
        if first < 0 or not 0 < count <= MOST_MESSAGES:
            return False
        units["base_queue_offset"][i], units["batch_size"][i] = first, count
    return True

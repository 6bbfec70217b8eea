"""A split of the log as packed units and keys: all that a rebuild needs of it, and small enough to travel.

Source: ``CommitLogDispatcherBuildConsumeQueue``, ``CommitLogDispatcherBuildIndex``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from storeio.audit.facts import Told, told_by
from storeio.checks.columns import places
from storeio.dispatch import Grouped, Implied, all_units, grouped_units, multi_dispatched
from storeio.format import commitlog as log
from storeio.format import queueext
from storeio.kernels import tables as w
from storeio.kernels.place import KEY, pick_keys
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, is_legal_topic, is_named
from storeio.rebuild.light import Standings, number_of_first
from storeio.rebuild.stretches import NO_HEADS, Stretch, Stretches
from storeio.scan import read_range
from storeio.splits import Split, WalkState, settled
from storeio.turns import turn
from storeio.walk import Walked, walk_split
from storeio.window import PIECE_BYTES, Bytes

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NAME_BYTES = 255  # of a directory's name, on all usual file systems
NO_NAME = "/\0\ufffd"  # the last stands for bytes that are no text, so that two topics would be one


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be derived.

    ``queues`` are topics, or topic and queue id; None for all. ``tags_from`` is the physical offset from
    which on tags are indexed, None for never. ``light_starts`` are those of ``light.light_starts``.
    """

    delays_ms: tuple[int, ...]
    batch_topics: frozenset[str] = frozenset()
    light: bool = False
    ext: bool = False
    index: bool = True
    tags_from: int | None = None
    queues: frozenset[tuple[str, int | None]] | None = None
    light_starts: Mapping[str, Standings] = field(default_factory=dict, hash=False)

    def takes(self, topic: str, queue_id: int) -> bool:
        """Tell whether a queue was asked for."""
        return is_named(self.queues, topic, queue_id)


@dataclass(slots=True)
class Keys:
    """Index keys of a split in log order, each a ``KEY``; who enters them into a file makes units of them in place.

    ``more`` says that a record without key follows the last key.
    """

    packed: Bytes
    more: bool = False

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.packed) // KEY.itemsize

    def part(self, start: int, stop: int) -> Bytes:
        """Return the bytes of keys ``[start, stop)``."""
        return self.packed[start * KEY.itemsize : stop * KEY.itemsize]

    def record_of(self, key: int) -> tuple[int, int]:
        """Return store time and physical offset of the record of a key that is in no file yet."""
        found = self.part(key, key + 1).view(KEY)[0]
        return int(found["store_timestamp_ms"]), int(found["physical_offset"])


@dataclass(slots=True)
class Derived:
    """What one split holds. Pairs are physical offset and store time, of where a record starts."""

    split: Split
    begin: WalkState
    end: WalkState
    asked: int
    skipped_until: int | None
    spans: Numbers
    records: int = 0
    stretches: Stretches = field(default_factory=Stretches)
    keys: Keys | None = None
    first_ms: int = 0
    last: tuple[int, int] | None = None
    last_queued: tuple[int, int] | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    told: Told = field(default_factory=Told)


def derive_split(
    root: str, split: Split, wanted: Wanted, begin: WalkState | None = None, *, piece_bytes: int = PIECE_BYTES
) -> Derived:
    """Return what the records imply that start in a split, from ``begin`` or from a guess; ``root`` is a listing's.

    The split is looked at in pieces of about ``piece_bytes``.

    Raises:
        UnreadableError: The segment cannot be read.
    """

    def read(start: int, stop: int) -> Bytes:
        return read_range(root, split.path, start, stop)

    delays = np.array(wanted.delays_ms, np.int64)
    walked = walk_split(read, split, begin, delays_ms=delays, reuse=True, piece_bytes=piece_bytes)
    found = Derived(split, walked.begin, walked.end, walked.asked, walked.skipped_until(), walked.spans, walked.count)
    if not walked.count:
        return found
    grouped = grouped_units(walked)
    found.told = told_by(grouped)
    listed = multi_dispatched(walked) if wanted.light else {}
    plain = _plain(grouped, wanted) & ~grouped.are_in(listed)
    _add_plain(found, grouped, np.flatnonzero(plain))
    others = grouped.present() & ~plain
    with turn(int(others.sum())):
        for implied in all_units(grouped, others, listed):
            _add(found, implied, wanted)
    store_ms = walked.records[w.R_STORE_MS]
    found.first_ms = int(store_ms[0])
    found.last = split.base_offset + int(walked.records[w.R_POSITION, -1]), int(store_ms[-1])
    if wanted.index:
        found.keys = _keys(walked, wanted)
    return found


def _plain(grouped: Grouped, wanted: Wanted) -> Mask:
    """Tell which queues are wanted and have one run of units of which nothing else is to be known."""
    if wanted.ext or not grouped.single:
        return np.zeros(len(grouped.walked.queues), np.bool_)
    names = grouped.names(np.arange(len(grouped.walked.queues)))
    topics = {
        topic
        for topic in {topic for topic, _ in names} - wanted.batch_topics
        if is_name(topic) and not topic.startswith(log.LMQ_PREFIX)
    }
    plain = [topic in topics and queue_id >= 0 and wanted.takes(topic, queue_id) for topic, queue_id in names]
    return grouped.present() & (np.diff(grouped.run_starts) == 1) & np.array(plain, np.bool_)


def _add_plain(found: Derived, grouped: Grouped, numbers: Numbers) -> None:
    if not len(numbers):
        return
    starts, stops = grouped.starts[numbers], grouped.starts[numbers + 1]
    together = int(stops[-1] - starts[0]) == int((stops - starts).sum())
    rows = slice(int(starts[0]), int(stops[-1])) if together else places(starts, stops - starts)
    units = grouped.units[rows].view(np.uint8).data
    runs = grouped.runs[:, grouped.run_starts[numbers]]
    found.stretches.add_plain(CONSUMEQUEUE, grouped.names(numbers), runs, units)
    _queued(found, *grouped.last_of(numbers))


def _queued(found: Derived, physical: int, store_ms: int) -> None:
    found.last_queued = max((physical, store_ms), found.last_queued or (physical, store_ms))


def _add(found: Derived, implied: Implied, wanted: Wanted) -> None:
    _queued(found, implied.physical_at(-1), int(implied.column(w.R_STORE_MS, slice(-1, None))[0]))
    if not wanted.takes(implied.topic, implied.queue_id):
        return
    if not is_name(implied.topic) or implied.queue_id < 0:
        name = f"{implied.topic}/{implied.queue_id}"
        found.left_out[name] = found.left_out.get(name, 0) + len(implied.record)
        return
    kind = BATCHQUEUE if implied.topic in wanted.batch_topics else CONSUMEQUEUE
    key = kind, implied.topic, implied.queue_id
    units = implied.batch_units() if kind == BATCHQUEUE else implied.units()
    heads, ext = _heads(implied) if wanted.ext and kind == CONSUMEQUEUE else (b"", NO_HEADS)
    runs = implied.runs() if implied.placed and kind == CONSUMEQUEUE else None
    number = _first_number(implied, wanted)
    found.stretches.append(Stretch(key, len(units), number, units.view(np.uint8).data, runs, heads, ext))


def _first_number(implied: Implied, wanted: Wanted) -> int:
    """Return at which number the first unit stands: as the store's own tell of a light queue, else as it says."""
    standings = wanted.light_starts.get(implied.topic, ()) if not implied.queue_id else ()
    told = number_of_first(standings, implied.physical(), implied.queue_offset) if standings else None
    return int(implied.queue_offset[0]) if told is None else told


def is_name(topic: str) -> bool:
    """Tell whether a topic, read from bytes that may be damaged, may become a directory."""
    if not topic or topic in (".", "..") or any(c in topic for c in NO_NAME):
        return False
    try:
        return len(topic.encode()) <= NAME_BYTES and (is_legal_topic(topic) or topic.isprintable())
    except UnicodeEncodeError:
        return False


def _heads(implied: Implied) -> tuple[bytes, int]:
    """Return the ext units, zeros where a unit has none, and how many there are."""
    heads = np.zeros(len(implied.record), queueext.HEAD)
    heads["size"] = queueext.HEAD_BYTES
    heads["tags_code"] = implied.column(w.R_TAGS_CODE)
    heads["store_timestamp_ms"] = implied.column(w.R_STORE_MS)
    if implied.own is not None:
        heads[~implied.own] = np.zeros((), queueext.HEAD)
    return heads.tobytes(), int(np.count_nonzero(heads["size"]))


def _keys(walked: Walked, wanted: Wanted) -> Keys:
    """Return the keys that the wanted index has; tag keys only from where they are wanted."""
    keys, base = walked.keys, walked.split.base_offset
    untagged = walked.count
    if wanted.tags_from is not None:
        untagged = int(np.searchsorted(walked.records[w.R_POSITION], wanted.tags_from - base))
    room = np.empty(keys.shape[1] * KEY.itemsize, np.uint8)
    count = int(pick_keys(keys, walked.records, base, untagged, room))
    found = Keys(room[: count * KEY.itemsize])
    found.more = not count or found.record_of(count - 1)[1] < base + int(walked.records[w.R_POSITION, -1])
    return found


def nothing(split: Split, end: WalkState) -> Derived:
    """Return what a split has in which nothing starts, because what is before it reaches past it."""
    return Derived(split, end, end, -1, None, np.empty((4, 0), np.int64))


def behind(found: Derived, before: Derived | None, again: Callable[[Split, WalkState], Derived]) -> Derived:
    """Return a split's result as it is behind that of the split before it."""
    if before is None or before.split.path != found.split.path:
        return found
    return settled(found, before.end, again, nothing)

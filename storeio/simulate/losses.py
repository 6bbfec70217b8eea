"""What a start gives up: messages that lie intact on the disk and that no consumer gets afterwards.

The log is walked past all damage, so records that the broker never looks at count, too. A message is
given up if no unit of its queue points at it after the start, or if the log then ends before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.dispatch import Grouped, Implied, all_units, grouped_units, multi_dispatched
from storeio.format import consumequeue as units_format
from storeio.format.properties import java_decode
from storeio.kernels import tables as w
from storeio.kernels.group import RUN_STOP
from storeio.paths import COMMITLOG, StoreFile
from storeio.reading.pieces import Agreeing
from storeio.results import Progress, Tell
from storeio.simulate.broker import Broker, QueueKey
from storeio.simulate.replaced import Replaced
from storeio.simulate.units_there import Messages, UnitsThere, decodable
from storeio.simulate.usual import UsualQueues
from storeio.splits import Split, WalkState, cut
from storeio.walk import walk_split

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Read = Callable[[str, int, int], Bytes]

UNLINKS: Final = "deletes the commitlog file"
CUTS: Final = "ends the log before it"
BEFORE: Final = "begins the log behind it"
CUTS_QUEUE: Final = "drops its queue unit"
DOES_NOT_QUEUE: Final = "makes no queue unit for it"


@dataclass(slots=True)
class Loss:
    """Messages of one queue that one action of the broker gives up; offsets of the first and last of them."""

    topic: str
    queue_id: int
    action: str
    path: str
    messages: int = 0
    bytes: int = 0
    first_queue_offset: int = 0
    last_queue_offset: int = 0
    first_physical_offset: int = 0
    last_physical_offset: int = 0


@dataclass(frozen=True, slots=True)
class Reissue:
    """Queue offsets that messages have and that the broker hands out again: half-open."""

    topic: str
    queue_id: int
    first: int
    stop: int


@dataclass(slots=True)
class GivenUp:
    """All that a start gives up. ``intact`` counts the messages that were looked at."""

    losses: list[Loss] = field(default_factory=list)
    reissues: list[Reissue] = field(default_factory=list)
    intact: int = 0
    shifted: dict[QueueKey, int] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """Messages given up in all queues."""
        return sum(loss.messages for loss in self.losses)


class Finder:
    """Compares the intact messages of a log with what a broker has after its start."""

    def __init__(
        self, broker: Broker, files: Iterable[StoreFile], read: Read, agreeing: Agreeing | None = None
    ) -> None:
        """Look at usual queues by ``agreeing``, many at once; without it at each by itself."""
        self.broker, self.read = broker, read
        self.stored = {f.path: f for f in files if not f.is_dir and f.base_offset is not None}
        self.replaced = Replaced()
        segments = sorted(
            (f for f in self.stored.values() if f.kind == COMMITLOG and (f.base_offset or 0) >= 0),
            key=lambda f: f.base_offset or 0,
        )
        self.splits = [split for f in segments for split in cut(f)]
        self.kept = {file.path for file in broker.log.files}
        self.losses: dict[tuple[str, int, str, str], Loss] = {}
        self.highest: dict[QueueKey, int] = {}
        self.found = GivenUp()
        self.there = UnitsThere(broker)
        self.usual = UsualQueues(broker, self.there, self.replaced, agreeing)

    def find(self, tell: Tell | None = None) -> GivenUp:
        """Walk the log and return what is given up; ``tell`` is called after each stretch of it.

        Where the numbers of a queue begin again, the log is walked once more: what is replaced only the end tells.
        """
        self._walk(tell)
        if self.replaced.begun_again(self.broker.setup.commitlog_file_bytes):
            self.losses, self.highest, self.found = {}, {}, GivenUp()
            self._walk(tell)
        self.found.losses = sorted(self.losses.values(), key=lambda loss: (loss.topic, loss.queue_id, loss.action))
        self.found.reissues = list(self._reissues())
        self.found.shifted = {key: q.shifted for key, q in self.broker.queues.items() if q.shifted}
        return self.found

    def _walk(self, tell: Tell | None) -> None:
        total = sum(split.stop - split.start for split in self.splits)
        done = 0
        state, path = WalkState(0), ""
        for split in self.splits:
            state = state if split.path == path else WalkState(0)
            path = split.path
            if state.position < split.stop:
                state = self._split(split, state)
            done += split.stop - split.start
            if tell is not None:
                tell(Progress(done, total, "commitlog"))

    def _split(self, split: Split, state: WalkState) -> WalkState:
        delays = np.array(self.broker.setup.delays_ms, np.int64)
        walked = walk_split(lambda a, b: self.read(split.path, a, b), split, state, delays_ms=delays, reuse=True)
        self.replaced.log(self.stored[split.path], walked)
        setup, grouped = self.broker.setup, grouped_units(walked)
        light = setup.multi_dispatch and setup.lmq and self.broker.rules.light_queues
        listed = multi_dispatched(walked) if light else {}
        apart = {key: listed.pop(key) for key, implied in [*listed.items()] if implied.placed}
        usual = self.usual.take(split, grouped, listed)
        self._usual(grouped, np.flatnonzero(usual))
        for implied in all_units(grouped, grouped.present() & ~usual, listed):
            if implied.placed:
                self._queue(split, implied)
            elif light:
                self._light(split, implied)
        for implied in apart.values():
            self._light(split, implied)
        return walked.end

    def _usual(self, grouped: Grouped, numbers: Numbers) -> None:
        """Take note of queues of one run each, all of whose units are there."""
        self.found.intact += int(np.diff(grouped.starts)[numbers].sum())
        runs = grouped.runs[:, grouped.run_starts[numbers]].T.tolist()
        for key, run in zip(grouped.names(numbers), runs, strict=True):
            self.highest[key] = max(self.highest.get(key, 0), run[RUN_STOP])
            self.replaced.runs(key, [run])

    def _queue(self, split: Split, implied: Implied) -> None:
        key = implied.topic, implied.queue_id
        physical = implied.physical()
        self.found.intact += int(implied.messages().sum())
        own = ~self.replaced.of(implied)
        stop = int(np.max(implied.queue_offset + implied.messages(), where=own, initial=0))
        self.highest[key] = max(self.highest.get(key, 0), stop)
        gone, behind, front = self._out_of_log(split, implied, physical)
        self._add(key, implied, physical, gone, UNLINKS, split.path)
        self._add(key, implied, physical, behind, CUTS, split.path)
        self._add(key, implied, physical, front, BEFORE, split.path)
        left = ~(gone | behind | front)
        lacks = self._units(split, implied, physical, left) if left.any() else left
        self.replaced.queue(implied, lacks | ~left)

    def _out_of_log(self, split: Split, implied: Implied, physical: Numbers) -> tuple[Mask, Mask, Mask]:
        """Tell which messages the log has no more: their segment is gone, it ends before them, begins behind them."""
        end, begin = self.broker.log.max_offset, self.broker.log.min_offset
        gone = np.full(len(physical), split.path not in self.kept)
        behind = ~gone & (physical + implied.column(w.R_SIZE) > end)
        return gone, behind, ~gone & ~behind & (physical < begin)

    def _light(self, split: Split, implied: Implied) -> None:
        """Find messages that the log still has and whose light queue has no unit of them.

        Those that are out of the log count for their own queue. Nothing is said of numbers that are issued twice: with
        5.x light units stand at lower ones than the records say.
        """
        physical = implied.physical()
        gone, behind, front = self._out_of_log(split, implied, physical)
        left = ~(gone | behind | front) & self._lists(implied)
        if left.any():
            self._units(split, implied, physical, left)

    def _lists(self, implied: Implied) -> Mask:
        """Tell which records' lists of light queues the broker goes by; those of some topics it leaves alone."""
        broker, queues = self.broker, implied.walked.queues
        numbers, which = np.unique(implied.column(w.R_QUEUE), return_inverse=True)
        topics = [java_decode(queues[number][0]) for number in numbers.tolist()]
        told = [
            topic == implied.topic or (broker.goes_by_lists(topic) and not broker.topics.is_batch(topic))
            for topic in topics
        ]
        return np.array(told, np.bool_)[which]

    def _units(self, split: Split, implied: Implied, physical: Numbers, left: Mask) -> Mask:
        """Find those without a unit, and return which; most stand at their own number, all others are searched for."""
        key = implied.topic, implied.queue_id
        missing = left.copy()
        if key in self.broker.queues:
            rows = np.flatnonzero(left)
            messages = _messages(split.path, implied, rows)
            missing[rows[self.there.point_at(key, implied.queue_offset[rows], messages)]] = False
            rest = np.flatnonzero(missing[rows])
            if len(rest):
                missing[rows[rest[self.there.point_from_anywhere(key, messages.some(rest))]]] = False
        if missing.any():
            had = self._had_units(key, implied, physical, missing)
            self._add(key, implied, physical, missing & had, CUTS_QUEUE, "")
            self._add(key, implied, physical, missing & ~had & ~self.replaced.of(implied), DOES_NOT_QUEUE, "")
        return missing

    def _had_units(self, key: QueueKey, implied: Implied, physical: Numbers, missing: Mask) -> Mask:
        """Tell which messages have a unit at their number in the files as they are before the start."""
        had = np.zeros(len(physical), bool)
        rows = np.flatnonzero(missing)
        size, unit = self.broker.setup.queue_file_bytes, units_format.UNIT_BYTES
        positions = implied.queue_offset[rows] * unit
        for base in np.unique(positions // size * size).tolist():
            file = self.stored.get(f"consumequeue/{key[0]}/{key[1]}/{base:020d}")
            inside = rows[positions // size * size == base]
            if file is None or base < 0 or file.size < size:
                continue
            places = (implied.queue_offset[inside] * unit - base) // unit
            low, high = int(places.min()), int(places.max()) + 1
            units = self.read(file.path, low * unit, high * unit).view(units_format.UNIT)
            had[inside] = units["physical_offset"][places - low] == physical[inside]
        return had

    def _add(self, key: QueueKey, implied: Implied, physical: Numbers, mask: Mask, action: str, path: str) -> None:
        rows = np.flatnonzero(mask)
        if not len(rows):
            return
        first, last = int(rows[0]), int(rows[-1])
        place = (*key, action, path)
        loss = self.losses.get(place)
        if loss is None:
            loss = Loss(*key, action, path)
            loss.first_queue_offset, loss.first_physical_offset = int(implied.queue_offset[first]), int(physical[first])
            self.losses[place] = loss
        loss.messages += int(implied.messages(rows).sum())
        loss.bytes += int(implied.column(w.R_SIZE, rows).sum())
        loss.last_queue_offset = int(implied.queue_offset[last])
        loss.last_physical_offset = int(physical[last])

    def _reissues(self) -> Iterable[Reissue]:
        """Yield the numbers that messages bear and that are handed out again."""
        for (topic, queue_id), stop in sorted(self.highest.items()):
            queue = self.broker.queues.get((topic, queue_id))
            first = queue.max_offset if queue is not None else 0
            if first < stop:
                yield Reissue(topic, queue_id, first, stop)


def _messages(path: str, implied: Implied, rows: Numbers) -> Messages:
    """Return some of the messages of a queue, and what clients can read of them."""
    walked, sizes = implied.walked, implied.column(w.R_SIZE, rows)
    fine = decodable(walked.window, walked.origin, implied.column(w.R_POSITION, rows), sizes)
    return Messages(path, implied.physical(rows), sizes, fine)

"""Passing ordinary records of a segment at the speed of the compiled walk.

The walk accepts a record as ``message.Checker`` does, or it does not, and then the checker has the last
word. So a scan takes the walk's leading records, in place and one behind the other, and looks at whatever
comes next by itself, record by record.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.simulate.blocks import Blocks
from storeio.simulate.broker import Broker
from storeio.simulate.mapped import Mapped
from storeio.simulate.message import SCRATCH_BYTES, Checker, most_at_once
from storeio.simulate.skipping import Asks, Skipper
from storeio.splits import Split, WalkState
from storeio.walk import Walked, walk_split

Numbers = npt.NDArray[np.int64]

LEAST_BYTES: Final = 64 << 10  # walked behind a record that was looked at by itself
MOST_BYTES: Final = 16 << 20  # walked at once; bounds the memory
SKIPPED_BYTES: Final = 64 << 20  # passed at once: what is read from the disk in such pieces comes in large pages
MOST_WAIT: Final = 64  # records looked at one by one where the walk finds none
EVERY: Final = -(2**62)  # dispatch wherever a record says that it lies
FARTHEST: Final = 2**62  # physical offsets beyond are damaged names of files


class LogScan:
    """One scan of the log: passes ordinary records and dispatches those that lie behind ``after``."""

    def __init__(self, broker: Broker, checker: Checker, *, after: int | None) -> None:
        """Dispatch nothing if ``after`` is None; else the records whose physical offset is larger."""
        self.broker, self.checker, self.after = broker, checker, after
        self._blocks = Blocks(broker)
        self._window = MOST_BYTES
        self._wait = self._missed = 0
        # Where the table is not loaded yet, no level is above 0.
        delays = (0,) if checker.late_delays else checker.delays_ms
        self._delays = np.array(delays, np.int64)
        rules, most = broker.rules, most_at_once(broker.setup.heap_bytes)
        self._asks = Asks(self._delays, most, rules.long_topics, rules.batch_queues)

    def passed(self, file: Mapped, stop: int, at: int) -> int:
        """Return the position behind the ordinary records from ``at`` on, after dispatching them.

        Args:
            file: The segment.
            stop: Where the broker's view of it ends.
            at: Position in it.
        """
        if self.broker.setup.scalar or not 0 <= file.base < FARTHEST:
            return at
        if at == 0:
            self._window = MOST_BYTES  # what ended the segment before tells nothing of this one
        if self._wait:
            self._wait -= 1
            return at
        known = stop if self.after is None else min(max(self.after + 1 - file.base, 0), stop)
        if at < known:
            after = self._skipped(file, stop, at, known)
            if after < known:
                self._stumbled(after - at)
                return after
            at = after
        return at if self.after is None else self._walked(file, stop, at)

    def _skipped(self, file: Mapped, stop: int, at: int, known: int) -> int:
        """Return the position behind the ordinary records that start before ``known``."""
        skipper = Skipper(lambda a, b: self.broker.log.read(file, a, b), file.base, stop, self._asks)
        after = skipper.passed(at, known, 4 * self._window, SKIPPED_BYTES)
        self.checker.met(skipper.largest)
        return after

    def _walked(self, file: Mapped, stop: int, at: int) -> int:
        """Return the position behind the ordinary records from ``at`` on, which are dispatched."""
        while stop - at >= log.MIN_RECORD_BYTES:
            split = Split(file.path, file.base, stop, at, min(at + self._window, stop))
            walked = walk_split(
                lambda a, b: self.broker.log.read(file, a, b), split, WalkState(at), delays_ms=self._delays, reuse=True
            )
            count = self._take(file, stop, walked, self._leading(walked, at))
            if count:
                at = int(walked.records[w.R_POSITION, count - 1] + walked.records[w.R_SIZE, count - 1])
            if at < split.stop:
                self._stumbled(count)
                break
            self._window = min(4 * self._window, MOST_BYTES)
        return at

    def _stumbled(self, found: int) -> None:
        """Walk less at once, and where the walk found nothing not for every record."""
        self._window = LEAST_BYTES
        self._missed = 0 if found else min(2 * self._missed + 1, MOST_WAIT)
        self._wait = self._missed

    def _leading(self, walked: Walked, at: int) -> int:
        """Return how many records from ``at`` on the version accepts, one behind the other and in place."""
        spans, records, rules = walked.spans, walked.records, self.broker.rules
        if not spans.shape[1] or spans[w.SPAN_CLASS, 0] != w.RECORD or spans[w.SPAN_START, 0] != at:
            return 0
        count = int(np.searchsorted(records[w.R_POSITION], spans[w.SPAN_STOP, 0]))
        marks = w.MARK_PHYSICAL | (0 if rules.batch_queues else w.MARK_INNER_BATCH)
        wrong = (records[w.R_MARKS, :count] & marks) != 0
        wrong |= records[w.R_SIZE, :count] > most_at_once(self.broker.setup.heap_bytes)
        if not rules.long_topics:
            last_byte = records[w.R_POSITION, :count] - walked.origin + log.MAGIC_AT + 3
            wrong |= walked.window[last_byte] == log.MAGIC_V2 & 0xFF
        return int(np.argmax(wrong)) if wrong.any() else count

    def _take(self, file: Mapped, stop: int, walked: Walked, count: int) -> int:
        """Dispatch the first ``count`` records; return how many are done with, fewer where the checker objects."""
        sizes = walked.records[w.R_SIZE, :count]
        self.checker.met(int(np.max(sizes, initial=0, where=sizes <= SCRATCH_BYTES)))
        position = walked.records[w.R_POSITION, :count]
        data = self.broker.source(file, stop)
        for start, end, usual in self._blocks.runs(walked, 0, count):
            if usual:
                self._blocks.dispatch(walked, start, end)
                continue
            for i, at in enumerate(position[start:end].tolist(), start):
                request = self.checker.check(data, at, file.base, crc=False, body=False).request
                if request is None:
                    return i
                self.broker.dispatch(request)
        return count

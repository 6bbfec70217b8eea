"""One split's bytes -> its records, index keys, queues and spans, as arrays."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.kernels import tables as w
from storeio.kernels import walk as kernel
from storeio.kernels.chain import V_ORIGIN
from storeio.kernels.memory import LINE
from storeio.kernels.staged import LINE_BYTES
from storeio.splits import Split, WalkState
from storeio.window import Bytes, Read, Window

Numbers = npt.NDArray[np.int64]

USUAL_BYTES: Final = 1024  # of a record; where they are shorter tables grow, and room that none needs is slow to get
SETS_COLUMNS: Final = 512  # so far apart, two rows begin in the same set of a first cache of 4 KiB a way
APART_COLUMNS: Final = 40  # five lines, which no power of two is a multiple of
NEARBY_BYTES: Final = 64 << 10  # read where a field of a record is asked for that is not in the window any more
DEFAULT_DELAYS_MS: Final = tuple(
    1000 * s for s in (0, 1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)  # messageDelayLevel; level 0 is no delay


@dataclass(slots=True)
class Walked:
    """What a split holds. Record and key arrays have one column a record or key; see ``kernels.tables``.

    ``queues`` are the (topic bytes, queue id) that ``records[R_QUEUE]`` numbers. ``window`` and
    ``origin`` are the bytes that were walked, the last of them if they came in pieces.
    """

    split: Split
    begin: WalkState
    end: WalkState
    asked: int
    records: Numbers
    keys: Numbers
    spans: Numbers
    queues: list[tuple[bytes, int]]
    window: Bytes
    origin: int
    read: Read

    @property
    def count(self) -> int:
        """Number of records."""
        return int(self.records.shape[1])

    def skipped_until(self) -> int | None:
        """Return where the first thing that is not skipped bytes starts, None if there is none.

        -1 if it is a misplaced record: a search calls stale what the chain may still call a record.
        """
        kinds = self.spans[w.SPAN_CLASS]
        first = np.flatnonzero((kinds != w.ZERO) & (kinds != w.GARBAGE))
        if not len(first):
            return None
        return -1 if kinds[first[0]] == w.STALE else int(self.spans[w.SPAN_START, first[0]])

    def field(self, position: int, length: int) -> bytes:
        """Return bytes of a record, read again where the window does not hold them.

        Raises:
            UnreadableError: As ``read``.
        """
        if position < self.origin or position + length > self.origin + len(self.window):
            stop = min(position + max(length, NEARBY_BYTES), self.split.file_size)
            self.window, self.origin = self.read(position, stop), position
        start = position - self.origin
        return self.window[start : start + length].tobytes()


@dataclass(slots=True)
class _Tables:
    """Room for the walk's results; grows by doubling what is full."""

    records: Numbers
    keys: Numbers
    spans: Numbers
    queues: Numbers
    names: Bytes
    slots: Numbers

    @classmethod
    def for_bytes(cls, count: int) -> _Tables:
        """Return tables for a split of ``count`` bytes with records of usual size."""
        rows = max(count // USUAL_BYTES, 16)
        return cls(
            _in_lines(w.RECORD_ROWS, _apart(rows)),
            np.empty((3, _apart(2 * rows)), np.int64),
            np.empty((4, 64), np.int64),
            np.empty((6, 64), np.int64),
            np.zeros(4096, np.uint8),
            np.zeros(256, np.int64),
        )

    def grow(self, answer: int) -> None:
        """Double the table that is full."""
        if answer == w.FULL_RECORDS:
            self.records = _grown(self.records, _in_lines(w.RECORD_ROWS, _apart(2 * self.records.shape[1])))
        elif answer == w.FULL_KEYS:
            self.keys = _grown(self.keys, np.empty((3, _apart(2 * self.keys.shape[1])), np.int64))
        elif answer == w.FULL_SPANS:
            self.spans = _doubled(self.spans)
        elif answer == w.FULL_NAMES:
            self.names = np.concatenate([self.names, np.zeros_like(self.names)])
        else:
            self.queues = _doubled(self.queues)
            self.slots = np.zeros(4 * self.queues.shape[1], np.int64)
            self._rehash(self.queues.shape[1] // 2)

    def _rehash(self, count: int) -> None:
        mask = len(self.slots) - 1
        for q in range(count):
            value = int(self.queues[w.Q_HASH, q])
            slot = (value ^ (value >> 29)) & mask
            while self.slots[slot]:
                slot = (slot + 1) & mask
            self.slots[slot] = q + 1


_spare = threading.local()


def _spare_tables(count: int) -> _Tables:
    """Return the tables of this thread that ``walk_split`` uses again and again."""
    tables: _Tables | None = getattr(_spare, "tables", None)
    if tables is None:
        tables = _spare.tables = _Tables.for_bytes(count)
    tables.slots[:] = 0
    return tables


def _apart(columns: int) -> int:
    """Return a number of columns, at least so many, whose rows do not all begin in the same sets of the CPU's caches.

    A walk writes all rows at once. Were they a power of two apart, each write would throw out what another row needs.
    """
    return (columns // SETS_COLUMNS) * SETS_COLUMNS + SETS_COLUMNS + APART_COLUMNS


def _in_lines(rows: int, columns: int) -> Numbers:
    """Return a table that begins where a line of the CPU's caches does, as ``kernels.staged`` would have it."""
    room = np.empty(rows * columns + LINE, np.int64)
    first = -room.ctypes.data % LINE_BYTES // room.itemsize
    return room[first : first + rows * columns].reshape(rows, columns)


def _doubled(table: Numbers) -> Numbers:
    return _grown(table, np.empty((table.shape[0], 2 * table.shape[1]), np.int64))


def _grown(table: Numbers, larger: Numbers) -> Numbers:
    larger[:, : table.shape[1]] = table
    return larger


def walk_split(
    read: Read,
    split: Split,
    begin: WalkState | None = None,
    *,
    delays_ms: Numbers | None = None,
    reuse: bool = False,
    piece_bytes: int | None = None,
) -> Walked:
    """Return all that starts in the split, from ``begin`` or from a guess.

    ``read`` is asked for the split and a little more, and again for twice as much where a record
    or the search needs it; never for more than the segment. With ``piece_bytes`` it is asked for one piece
    of about that length after the other, and the result holds only the last of them. With ``reuse`` the result
    lasts until this thread's next such walk: fresh memory for small records costs a quarter of the walk.
    """
    state = begin or split.first_state()
    window = Window(read, split, min(state.position, split.stop), piece_bytes)
    ends = split.base_offset, split.file_size, split.stop
    view = np.array([window.origin, *ends, crc.ADDRESS, crc.KIND], np.int64)
    numbers = np.zeros(w.STATE_PLACES, np.int64)
    numbers[w.S_ASKED] = -1
    numbers[:4] = state.position, state.mode, state.time_1_ms, state.time_2_ms
    delays = np.array(DEFAULT_DELAYS_MS, np.int64) if delays_ms is None else delays_ms
    tables = (_spare_tables if reuse else _Tables.for_bytes)(max(split.stop - window.origin, 0))
    while True:
        answer = kernel.walk(
            window.data, view, numbers, delays, tables.records, tables.keys, tables.spans, tables.queues, tables.names,
            tables.slots,
        )  # fmt: skip
        if answer == w.DONE:
            return _walked(split, state, numbers, tables, window, read)
        if answer == w.NEED_BYTES:
            window.more(int(numbers[w.S_POSITION]))
            view[V_ORIGIN] = window.origin
        else:
            tables.grow(int(answer))


def _walked(split: Split, begin: WalkState, numbers: Numbers, tables: _Tables, window: Window, read: Read) -> Walked:
    end = WalkState(*(int(n) for n in numbers[:4]))
    places = tables.queues[:, : int(numbers[w.S_QUEUES])].T.tolist()
    queues = [
        (tables.names[row[w.Q_TOPIC_AT] :][: row[w.Q_TOPIC_BYTES]].tobytes(), row[w.Q_QUEUE_ID]) for row in places
    ]
    return Walked(
        split,
        begin,
        end,
        int(numbers[w.S_ASKED]),
        tables.records[:, : int(numbers[w.S_RECORDS])],
        tables.keys[:, : int(numbers[w.S_KEYS])],
        tables.spans[:, : int(numbers[w.S_SPANS])].copy(),
        queues,
        window.data,
        window.origin,
        read,
    )

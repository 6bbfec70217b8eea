"""The bytes of a segment that a walk looks at: pieces that fit into the cache, one behind the other, or all at once.

A piece is copied into the same room again and again: the copy costs less than the page tables of a mapping, and what
the walk then reads is in the CPU's cache. What does not fit into a piece, a long record or a hole without an end in
sight, is asked for whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.splits import Split

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, int], Bytes]
"""``read(start, stop)``: exactly these bytes of the segment, ``0 <= start <= stop <= file_size``."""
Fill = Callable[[int, Bytes], None]
"""``fill(start, room)``: puts the bytes of the segment from ``start`` on into the whole room."""

LOOK_AHEAD_BYTES: Final = 1 << 20  # what a split may read past its stop before it asks for more
PIECE_BYTES: Final = 2 << 20  # near enough to the CPU; shorter ones cost more calls than they save
MARGIN_BYTES: Final = 4 << 10  # that a piece reaches behind the split's stop: its last record is seldom longer


class Window:
    """``data`` is the segment's bytes from ``origin`` on; it is replaced by what ``more`` is asked for.

    With ``fill`` it lasts until this thread has the next such window.
    """

    def __init__(self, read: Read, fill: Fill | None, split: Split, position: int) -> None:
        self._read, self._fill, self._split = read, fill, split
        self.origin = position
        self.data: Bytes = np.empty(0, np.uint8)
        if fill is None:
            self.data = read(position, max(self._usual_stop(), position))
        elif position < split.stop:
            self._slide(fill, position)

    def more(self, position: int) -> None:
        """Hold more than now of what comes from ``position`` on, which is where the walk is."""
        if self._fill is not None and position > self.origin:
            self._slide(self._fill, position)
            return
        stop = self.origin + 2 * len(self.data) + 4096
        if self._fill is not None:
            self._fill = None
            stop = max(stop, self._usual_stop())
        self.data = self._read(self.origin, min(stop, self._split.file_size))

    def _usual_stop(self) -> int:
        return min(self._split.stop + LOOK_AHEAD_BYTES, self._split.file_size)

    def _slide(self, fill: Fill, position: int) -> None:
        room = _room()
        stop = min(position + len(room), self._split.stop + MARGIN_BYTES, self._split.file_size)
        left = self.data[position - self.origin :]
        stop = max(stop, position + len(left))
        room[: len(left)] = left
        fill(position + len(left), room[len(left) : stop - position])
        self.data, self.origin = room[: stop - position], position


_spare = threading.local()


def _room() -> Bytes:
    """Return this thread's room for a piece."""
    room: Bytes | None = getattr(_spare, "room", None)
    if room is None or len(room) != PIECE_BYTES:
        room = _spare.room = np.empty(PIECE_BYTES, np.uint8)
    return room

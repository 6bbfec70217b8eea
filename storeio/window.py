"""The bytes of a segment that a walk looks at: pieces, one behind the other, or all at once.

In pieces memory does not grow with the split. What does not fit into a piece, a long record or a hole without an end in
sight, is asked for whole, and with it the rest of the split: where one head claims much, more may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.splits import Split

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, int], Bytes]
"""``read(start, stop)``: exactly these bytes of the segment, ``0 <= start <= stop <= file_size``."""

LOOK_AHEAD_BYTES: Final = 1 << 20  # what a split may read past its stop before it asks for more
PIECE_BYTES: Final = 16 << 20  # short enough for a worker's memory
LARGE_PIECE_BYTES: Final = 68 << 20  # all of a usual split: fewer calls, and fewer mappings for the system to take down
ALIGNED_BYTES: Final = 2 << 20  # pieces end between huge pages, so that each of these is mapped as one
MARGIN_BYTES: Final = 4 << 10  # that a piece reaches behind the split's stop: its last record is seldom longer


class Window:
    """``data`` is the segment's bytes from ``origin`` on; it is replaced by what ``more`` is asked for."""

    def __init__(self, read: Read, split: Split, position: int, piece_bytes: int | None) -> None:
        self._read, self._split, self._piece_bytes = read, split, piece_bytes
        self.origin = position
        self.data: Bytes = np.empty(0, np.uint8)
        if piece_bytes is None:
            self.data = read(position, max(self._usual_stop(), position))
        elif position < split.stop:
            self._slide(position, piece_bytes)

    def more(self, position: int) -> None:
        """Hold more than now of what comes from ``position`` on, which is where the walk is."""
        if self._piece_bytes is not None and position > self.origin:
            self._slide(position, self._piece_bytes)
            return
        stop = self.origin + 2 * len(self.data) + 4096
        if self._piece_bytes is not None:
            self._piece_bytes = None
            stop = max(stop, self._usual_stop())
        self.data = self._read(self.origin, min(stop, self._split.file_size))

    def _usual_stop(self) -> int:
        return min(self._split.stop + LOOK_AHEAD_BYTES, self._split.file_size)

    def _slide(self, position: int, piece_bytes: int) -> None:
        stop = position + piece_bytes
        if stop - stop % ALIGNED_BYTES > position:
            stop -= stop % ALIGNED_BYTES
        stop = min(stop, self._split.stop + MARGIN_BYTES, self._split.file_size)
        stop = max(stop, self.origin + len(self.data))  # never less than now
        self.data, self.origin = self._read(position, stop), position

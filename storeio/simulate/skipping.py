"""Passing records that are not dispatched, two stretches of a segment at a time.

The second stretch begins with a guess of where its first record starts. It counts only if the first one
ends there; so the result is that of passing one record after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.kernels import head as h
from storeio.kernels import passing as p
from storeio.simulate.message import SCRATCH_BYTES

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Read = Callable[[int, int], Bytes]

LOOK_AHEAD_BYTES: Final = 64 << 10  # read behind a stretch for the record that leads out of it
AHEAD_BYTES: Final = 4 << 20  # from here on a stretch is worth being read by another thread


@dataclass(frozen=True, slots=True)
class Asks:
    """What a version asks of a record besides its being intact."""

    delays_ms: Numbers
    most_bytes: int
    long_topics: bool
    batches: bool

    def numbers(self) -> Numbers:
        """Return them as the kernel takes them."""
        return np.array((self.most_bytes, self.long_topics, self.batches, SCRATCH_BYTES), np.int64)


class Skipper:
    """Passes records of one segment; ``size`` is where the broker's view of it ends."""

    def __init__(self, read: Read, base: int, size: int, asks: Asks) -> None:
        self.read, self.base, self.size, self.asks = read, base, size, asks
        self.largest = 0  # of the records passed, those above SCRATCH_BYTES left out

    def passed(self, at: int, stop: int, window: int, most: int) -> int:
        """Return where the first record starts that is not accepted or does not start before ``stop``.

        Reads ``window`` bytes at first and then more and more, up to ``most`` at once.
        """
        with ThreadPoolExecutor(1) as pool:
            start, data = at, self._read(at, min(at + window, stop))
            while at < stop:
                end = min(start + window, stop)
                window = min(4 * window, most)
                after = end, min(end + window, stop)
                # No record that starts before the end of this stretch ends before it.
                ahead = pool.submit(self._read, *after) if end < stop and window >= AHEAD_BYTES else None
                at, whole = self._stretch(at, end, data, start)
                if not whole:
                    break
                if at < stop:
                    start = end if at < after[1] else at
                    data = ahead.result() if ahead and start == end else self._read(start, min(start + window, stop))
        return at

    def _read(self, start: int, stop: int) -> Bytes:
        """Return a stretch and a little more, for the record that leads out of it."""
        return self.read(start, min(stop + LOOK_AHEAD_BYTES, self.size))

    def _stretch(self, at: int, stop: int, data: Bytes, origin: int) -> tuple[int, bool]:
        """Return where passing records that start in ``[at, stop)`` ended, and whether all of them were passed."""
        look = LOOK_AHEAD_BYTES
        passed = np.array((at, h.NEED, self.largest), np.int64)
        asked = self.asks.numbers()
        while True:
            view = np.array((origin, self.base, self.size, stop, crc.ADDRESS, crc.KIND), np.int64)
            p.pass_records(data, view, int(passed[p.P_POSITION]), self.asks.delays_ms, asked, passed)
            if passed[p.P_WHY] != h.NEED:
                break
            look *= 4
            origin = int(passed[p.P_POSITION])
            data = self.read(origin, min(max(stop, origin) + look, self.size))
        self.largest = int(passed[p.P_LARGEST])
        return int(passed[p.P_POSITION]), bool(passed[p.P_WHY] == h.OK)

"""Passing records that are not dispatched, two halves of a segment at a time.

The second half begins with a guess of where its first record starts. It counts only if the first half
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
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import passing as p
from storeio.simulate.message import SCRATCH_BYTES

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Read = Callable[[int, int], Bytes]

LOOK_AHEAD_BYTES: Final = 64 << 10  # read behind a stretch for the record that leads out of it
HALVED_BYTES: Final = 32 << 20  # from here on a stretch is worth a second thread
SEARCHED_BYTES: Final = 1 << 20  # for the start of a record, where the second half is to begin
SEARCHED_AT_ONCE: Final = 16 << 10


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
        self.given_up = False  # by the thread that waits for the result

    def passed(self, at: int, stop: int, window: int, most: int) -> int:
        """Return where the first record starts that is not accepted or does not start before ``stop``.

        Reads ``window`` bytes at first and then more and more, up to ``most`` at once; where it begins
        with many, in two halves side by side.
        """
        middle = self.start_near(at + (stop - at) // 2) if min(stop - at, window) >= HALVED_BYTES else None
        if middle is None or not at < middle < stop:
            return self._alone(at, stop, window, most)
        second = Skipper(self.read, self.base, self.size, self.asks)
        with ThreadPoolExecutor(1) as pool:
            behind = pool.submit(second._alone, middle, stop, window, most)
            at = self._alone(at, middle, window, most)
            second.given_up = at != middle
        if second.given_up:  # what was found there is no record that the first half leads to
            return at if at < middle else self._alone(at, stop, window, most)
        end = behind.result()
        self.largest = max(self.largest, second.largest)
        return end

    def start_near(self, position: int) -> int | None:
        """Return where a record may start at ``position`` or soon behind it: it says that it lies there."""
        for start in range(position, position + SEARCHED_BYTES, SEARCHED_AT_ONCE):
            stop = min(start + SEARCHED_AT_ONCE, self.size - log.MIN_RECORD_BYTES)
            if start >= stop:
                break
            data = self.read(start + log.PHYSICAL_OFFSET_AT, stop + log.PHYSICAL_OFFSET_AT + 8)
            places = np.arange(self.base + start, self.base + stop + 1, dtype=">i8").view(np.uint8).reshape(-1, 8)
            said = np.lib.stride_tricks.sliding_window_view(data, 8)
            found = np.flatnonzero((said == places).all(axis=1))
            if found.size:
                return start + int(found[0])
        return None

    def _alone(self, at: int, stop: int, window: int, most: int) -> int:
        """Return the same as ``passed``, one record behind the other; anything once it is given up."""
        start = at
        while at < stop and not self.given_up:
            end = min(start + window, stop)
            at, whole = self._stretch(at, end, self._read(start, end), start)
            if not whole:
                break
            start, window = max(end, at), min(4 * window, most)
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

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
from storeio.kernels import tables as w
from storeio.kernels.chain import FOUND, WORK_PLACES
from storeio.kernels.walk import find_start
from storeio.simulate.message import SCRATCH_BYTES

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Read = Callable[[int, int], Bytes]

LOOK_AHEAD_BYTES: Final = 64 << 10  # read behind a stretch for the record that leads out of it
PAIR_BYTES: Final = 4 << 20  # from here on a stretch is worth a thread


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


@dataclass(frozen=True, slots=True)
class Skipped:
    """A stretch that was passed: its first record, where passing ended, whether that is the stretch's end."""

    first: int
    end: int
    whole: bool
    largest: int


class Skipper:
    """Passes records of one segment; ``size`` is where the broker's view of it ends."""

    def __init__(self, read: Read, base: int, size: int, asks: Asks) -> None:
        self.read, self.base, self.size, self.asks = read, base, size, asks
        self.largest = 0  # of the records passed, those above SCRATCH_BYTES left out

    def passed(self, at: int, stop: int, window: int, most: int) -> int:
        """Return where the first record starts that is not accepted or does not start before ``stop``.

        Reads ``window`` bytes at first and then more and more, up to ``most`` in each of two threads.
        """
        with ThreadPoolExecutor(1) as pool:
            while at < stop:
                length = min(window, -(-(stop - at) // 2))
                if length < PAIR_BYTES:
                    here = self.stretch(at, min(at + window, stop))
                else:
                    ahead = pool.submit(self.guessed, at + length, min(at + 2 * length, stop))
                    here = self.stretch(at, at + length)
                    there = ahead.result()
                    if here.whole and there is not None and there.first == here.end:
                        here = Skipped(here.first, there.end, there.whole, max(here.largest, there.largest))
                at = here.end
                self.largest = max(self.largest, here.largest)
                if not here.whole:
                    break
                window = min(4 * window, most)
        return at

    def guessed(self, start: int, stop: int) -> Skipped | None:
        """Return a stretch passed from the first record that starts in it, None where none is found soon."""
        data = self.read(start, min(start + LOOK_AHEAD_BYTES, self.size))
        work = np.zeros(WORK_PLACES, np.int64)
        head = np.zeros(h.HEAD_COLUMNS, np.int64)
        found = work[FOUND:]
        limit = min(start + LOOK_AHEAD_BYTES // 2, stop)
        view = self._view(start, stop)
        if find_start(data, view, start, limit, head, self.asks.delays_ms, work, found) != w.DONE:
            return None
        return self.stretch(int(found[0]), stop) if found[0] < limit and found[1] == w.RECORD else None

    def stretch(self, first: int, stop: int) -> Skipped:
        """Return what passing the records that start in ``[first, stop)`` comes to."""
        look = LOOK_AHEAD_BYTES
        passed = np.array((first, h.NEED, 0), np.int64)
        asked = self.asks.numbers()
        while passed[p.P_WHY] == h.NEED:
            at = int(passed[p.P_POSITION])
            data = self.read(at, min(max(stop, at) + look, self.size))
            p.pass_records(data, self._view(at, stop), at, self.asks.delays_ms, asked, passed)
            look *= 4
        return Skipped(first, int(passed[p.P_POSITION]), bool(passed[p.P_WHY] == h.OK), int(passed[p.P_LARGEST]))

    def _view(self, origin: int, stop: int) -> Numbers:
        return np.array((origin, self.base, self.size, stop, crc.ADDRESS, crc.KIND), np.int64)

"""Bytes of files some blocks of which a disk does not give: zeros stand for these, and where is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.ranges import Ranges, add, meeting, subtract
from storeio.errors import UnreadableError
from storeio.kernels import tables as w
from storeio.paths import StoreFile
from storeio.splits import Split, WalkState
from storeio.walk import walk_split
from storeio.window import PIECE_BYTES, Bytes, Read

BLOCK_BYTES: Final = 4 << 10  # of which a disk gives all or nothing, or of which a system says so
AT_ONCE: Final = 128 << 10
MOST_WHOLE: Final = 2  # files of a server that are left out; where more fail, it is the server that does
MOST_BLOCKS: Final = 64  # that are asked for one by one; asking a failing disk for one may take it seconds


class Around:
    """Reads a segment. ``bad`` are the positions that could not be read, whole blocks, merged; ``why`` is the reason.

    ``unread`` are these and the records that lie in them in part: what is left of one may look like all of it.
    """

    def __init__(self, read: Read, size: int, *, gives_up: bool = True) -> None:
        """Take how a segment of a size is read, and whether that is given up when too many blocks have failed.

        Where it is not, many blocks are left out at once from there on.
        """
        self._read, self._size, self._gives_up, self._failed = read, size, gives_up, 0
        self.bad: Ranges = []
        self.unread: Ranges = []
        self.why = ""

    def __call__(self, start: int, stop: int) -> Bytes:
        """Return bytes as ``window.Read`` does, zeros for all that is unread.

        Raises:
            UnreadableError: Too many blocks could not be read.
        """
        room = np.zeros(stop - start, np.uint8)
        for low, high in subtract((start, stop), self.unread):
            for at in range(low - low % AT_ONCE, high, AT_ONCE):
                self._fill(room, start, max(at, low), min(at + AT_ONCE, high))
        for low, high in meeting(self.unread, start, stop):  # a block that failed now may begin before what was asked
            room[max(low - start, 0) : max(high - start, 0)] = 0
        room.flags.writeable = False
        return room

    def _fill(self, room: npt.NDArray[np.uint8], start: int, low: int, high: int) -> None:
        """Put bytes into their place, one half after the other where not all of them can be read."""
        try:
            room[low - start : high - start] = self._read(low, high)
            return
        except UnreadableError as error:
            block = low - low % BLOCK_BYTES
            many = self._failed >= MOST_BLOCKS
            if many and self._gives_up:
                raise
            if many or high <= block + BLOCK_BYTES:
                self._leave_out(block, high, error)
                return
        half = (low + high) // 2
        middle = max(half - half % BLOCK_BYTES, block + BLOCK_BYTES)
        self._fill(room, start, low, middle)
        self._fill(room, start, middle, high)

    def leave_out_all(self, error: UnreadableError) -> None:
        """Read nothing any more."""
        self._leave_out(0, self._size, error)

    def _leave_out(self, low: int, high: int, error: UnreadableError) -> None:
        self._failed += 1
        self.why = self.why or str(error).partition(": ")[2]
        row = low, min(high + -high % BLOCK_BYTES, self._size)
        add(self.bad, row)
        add(self.unread, row)

    def leave_out_cut_records(self, split: Split, begin: WalkState | None = None) -> None:
        """Take for unread, too, the records of a split that lie in unread bytes in part.

        No CRC covers properties, and few records have one over all of them: zeros in one would go unnoticed.

        Raises:
            UnreadableError: As reading.
        """
        while True:
            walked = walk_split(self, split, begin, reuse=True, piece_bytes=PIECE_BYTES)
            starts = walked.records[w.R_POSITION]
            stops = starts + walked.records[w.R_SIZE]
            cut = [
                (int(starts[row]), int(stops[row]))
                for low, high in self.unread
                for row in range(int(np.searchsorted(stops, low, "right")), int(np.searchsorted(starts, high, "left")))
            ]
            if not cut:
                return
            for row in cut:
                add(self.unread, row)


class ReadAround:
    """Reads files by path. Of what cannot be read of them zeros are given, and ``told`` says where."""

    def __init__(
        self, read: Callable[[str, int, int], Bytes], files: Iterable[StoreFile], *, whole: bool = False
    ) -> None:
        """Take how bytes of a file are read, which files there are, and whether one that fails is left out as a whole.

        So are those of a server: it does not fail block by block, and to ask it in vain takes long.
        """
        self._read, self._sizes, self._whole = read, {file.path: file.size for file in files}, whole
        self._around: dict[str, Around] = {}

    def __call__(self, path: str, start: int, stop: int) -> Bytes:
        """Return bytes of a file, read-only.

        Raises:
            UnreadableError: So many files were left out as a whole that no more are.
        """
        if path not in self._around:  # a failing disk is not asked for the same block again
            try:
                return self._read(path, start, stop)
            except UnreadableError as error:
                if self._whole and len(self._around) == MOST_WHOLE:
                    raise
                around = Around(partial(self._read, path), self._sizes.get(path, stop), gives_up=False)
                if self._whole:
                    around.leave_out_all(error)
                self._around[path] = around
        return self._around[path](start, stop)

    @property
    def paths(self) -> Collection[str]:
        """The files of which something could not be read."""
        return self._around.keys()

    def told(self) -> tuple[str, ...]:
        """Return what could not be read, as path, bytes and reason; of a whole file the bytes that were asked for."""
        if self._whole:
            return tuple(f"{path}: {around.why}" for path, around in sorted(self._around.items()))
        return tuple(
            f"{path}: bytes {low} to {high}: {around.why}"
            for path, around in sorted(self._around.items())
            for low, high in around.bad
        )

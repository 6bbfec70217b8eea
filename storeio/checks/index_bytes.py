"""One index file while it is judged: its places, its bytes in windows, and what has been found so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.ranges import Ranges, whole_units
from storeio.findings import Finding
from storeio.format import index

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, int], Bytes]

WINDOW_UNITS: Final = (8 << 20) // index.UNIT_BYTES  # that are held at a time, one request to an object store
WINDOW_SLOTS: Final = (2 << 20) // index.SLOT_BYTES  # few, because a worker has little room left beside a damaged file


class IndexBytes:
    """A file's bytes and places, and what has been found so far."""

    def __init__(self, path: str, read: Read, size: int, slots: int, units: int, stretches: Ranges) -> None:
        """``stretches`` are in order; outside of them the file is zero."""
        self.path, self.read, self.size = path, read, size
        self.slots, self.units, self.stretches = slots, units, stretches
        self.findings: list[Finding] = []
        self.units_at = index.units_start(slots)
        self.length = index.file_length(slots, units)  # what it should be
        self.present_slots = min(max(size - index.HEADER_BYTES, 0) // index.SLOT_BYTES, slots)
        whole = min(max(size - self.units_at, 0) // index.UNIT_BYTES, units)
        self.units_end = self.units_at + whole * index.UNIT_BYTES if whole else size
        self.present = max(whole - 1, 0)  # units that can be read, unit 0 left out
        self.head = read(0, min(index.HEADER_BYTES, size)).tobytes()
        header = index.decode_header(self.head.ljust(index.HEADER_BYTES, b"\0"))
        self.header = {name: int(header[name]) for name in index.HEADER.names or ()}

    def slot_windows(self) -> Iterator[tuple[int, Bytes]]:
        """Yield the slots that are whole: the number of the first of each window, and their bytes."""
        for first in range(0, self.present_slots, WINDOW_SLOTS):
            stop = min(first + WINDOW_SLOTS, self.present_slots)
            start, end = (index.HEADER_BYTES + slot * index.SLOT_BYTES for slot in (first, stop))
            yield first, self.read(start, end)

    def unit_windows(self, first: int, stop: int, *, backwards: bool = False) -> Iterator[tuple[int, Bytes]]:
        """Yield units ``[first, stop)``, which can be read: the number of the first of each window, and its bytes."""
        starts = range(first, stop, WINDOW_UNITS)
        for start in reversed(starts) if backwards else starts:
            end = min(start + WINDOW_UNITS, stop)
            yield start, self.read(self.units_at + start * index.UNIT_BYTES, self.units_at + end * index.UNIT_BYTES)

    def windows(self, start: int, stop: int) -> Iterator[tuple[int, Bytes]]:
        """Yield bytes ``[start, stop)``, in windows of whole units from ``start`` on, each with its position.

        Units are left out that are known to be zero.
        """
        for low, high in whole_units(self.stretches, start, stop, index.UNIT_BYTES):
            for at in range(low, high, WINDOW_UNITS * index.UNIT_BYTES):
                yield at, self.read(at, min(at + WINDOW_UNITS * index.UNIT_BYTES, high))

    def add(self, code: str, position: int, length: int, count: int = 1, detail: str = "") -> None:
        """Report a stretch of the file."""
        self.findings.append(Finding(code, self.path, position, length, count=count, detail=detail))

    def unit(self, number: int, field: str) -> int:
        """Return a field of a unit that can be read."""
        at = self.units_at + number * index.UNIT_BYTES
        return int(index.decode_units(self.read(at, at + index.UNIT_BYTES).data)[field][0])


@dataclass(slots=True)
class Content:
    """What slots and units say."""

    entries: int  # units in the file
    claimed: int  # the same before the file was cut off
    used: tuple[int, ...]  # slots that are not empty: what a broker may have counted
    right_slots: int
    right_units: int
    zero_bytes: int
    disordered: bool  # offsets decrease somewhere

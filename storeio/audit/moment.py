"""A store under a running broker as it was at one moment: what came later reads as zeros.

Brokers only append: to the log, then to queues and index. So what a store was when its log ended at one place is told
by cutting each file where what points behind that place begins. Only the slots of an index file change in place; each
unit names the one before it in its slot, which leads back to what the slot held.

Source: ``IndexFile.putKey`` writes a unit before its slot, and the slot before the count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.findings import Finding
from storeio.format import index as layout

Bytes = npt.NDArray[np.uint8]
Read = Callable[[str, int, int], Bytes]
"""``read(path, start, stop)``: bytes of a file as they are now."""

LATEST: Final = 1 << 20  # units that came later than the moment and may be walked back; a damaged slot may name any


@dataclass(frozen=True, slots=True)
class IndexThen:
    """The index file that was written to: its header then, its slots, and its units then, unit 0 included.

    ``room`` is how many units it has room for.
    """

    path: str
    header: bytes
    slots: int
    units: int
    room: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What a store was when its log ended at ``log_stop``.

    ``stops`` say of files up to which byte they are looked at, ``contents`` of small ones what they held.
    """

    log_stop: int
    stops: Mapping[str, int] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    index: IndexThen | None = None

    def told(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return what the listing tells, with what is to be known of this audit."""
        detail = (
            f"a broker runs: this is the store when its log ended at {self.log_stop}, what came later counts as zeros"
        )
        return [replace(one, detail=detail) if one.code == "ABORT_PRESENT" else one for one in findings]

    def changes(self, path: str) -> bool:
        """Tell whether a file is not what it was, or need not be for long."""
        return path in self.stops or path in self.contents

    def read(self, read: Read, path: str, start: int, stop: int) -> Bytes:
        """Return bytes of a file as they were; ``read`` has them as they are now."""
        if path in self.contents:
            content = self.contents[path][start:stop].ljust(stop - start, b"\0")
            return np.frombuffer(content, np.uint8)
        data, limit = read(path, start, stop), self.stops.get(path, stop)
        if limit < stop:
            then = np.zeros(stop - start, np.uint8)  # what is behind stays untouched: it may be holes of a large file
            then[: max(limit - start, 0)] = data[: max(limit - start, 0)]
            data = then
        if self.index is not None and path == self.index.path and start < layout.units_start(self.index.slots):
            data = _slots_then(partial(read, path), self.index, start, stop, data)
        data.flags.writeable = False
        return data


def _slots_then(read: Callable[[int, int], Bytes], index: IndexThen, start: int, stop: int, data: Bytes) -> Bytes:
    """Return bytes of an index file with its header and slots as they were."""
    low = max(start, layout.HEADER_BYTES)
    low -= (low - layout.HEADER_BYTES) % layout.SLOT_BYTES
    high = min(stop, layout.units_start(index.slots))
    high += -(high - layout.HEADER_BYTES) % layout.SLOT_BYTES
    before = index.header[start : min(stop, layout.HEADER_BYTES)]
    slots = b""
    if low < high:
        slots = walked_back(read, index, read(low, high)).tobytes()[max(start - low, 0) : stop - low]
    found = np.concatenate([np.frombuffer(before + slots, np.uint8), data[len(before) + len(slots) :]])
    assert len(found) == stop - start
    return found


def walked_back(read: Callable[[int, int], Bytes], index: IndexThen, slots: Bytes) -> Bytes:
    """Return slots of an index file as they were when it had so many units; a slot that makes no sense stays."""
    heads = slots.view(">i4").astype(np.int64)
    newer = (heads >= index.units) & (heads < min(index.units + LATEST, index.room))
    if not newer.any():
        return slots
    first = layout.units_start(index.slots) + index.units * layout.UNIT_BYTES
    last = int(np.max(heads[newer]))
    units = read(first, first + (last + 1 - index.units) * layout.UNIT_BYTES).view(layout.UNIT)
    previous = units["previous"].astype(np.int64)
    while newer.any():
        back = previous[heads[newer] - index.units]
        sense = (back >= 0) & (back < heads[newer])
        heads[newer] = np.where(sense, back, -1)
        newer = (heads >= index.units) & (heads <= last)
    left = heads < 0
    heads[left] = slots.view(">i4")[left]
    return np.ascontiguousarray(heads.astype(">i4").view(np.uint8))

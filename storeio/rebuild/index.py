"""Index files from keys in log order, cut where a broker would begin the next one.

Source: ``IndexService.buildIndex``, ``IndexFile.putKey``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format import index as layout
from storeio.kernels import place as p
from storeio.paths import INDEX
from storeio.rebuild.derive import Keys
from storeio.staging import Staging

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999: a name has four digits for it


class IndexWriter:
    """Writes the index files of a rebuild into a directory in the making.

    Holds one file's header and slots in memory, and the units of one split.
    """

    def __init__(self, staging: Staging, slots: int, units: int) -> None:
        self.staging, self.slots, self.units = staging, slots, units
        self.files: list[str] = []
        self.entries = 0
        self.rolled_ms = 0  # end of the last file that has a successor
        self._numbers = np.zeros(8, np.int64)
        self._head = np.empty(0, np.uint8)

    def add(self, keys: Keys, first_ms: int) -> None:
        """Enter the keys of the next split with records, the first of which was stored at ``first_ms``."""
        self._roll_if_full(first_ms)
        at = 0
        while at < len(keys.hashes):
            self._roll_if_full(int(keys.store_ms[at]))
            at = self._fill(keys, at)
        if keys.more:  # the record behind the last key makes a new file, too
            self._roll_if_full(int(keys.store_ms[-1]) if len(keys.store_ms) else first_ms)

    def _fill(self, keys: Keys, at: int) -> int:
        """Enter keys from ``at`` on into a file that has room; return the first that is left."""
        count = int(self._numbers[p.I_COUNT])
        room = min(len(keys.hashes) - at, self.units - count)
        units = np.empty(room * p.UNIT, np.uint8)
        after = int(p.put_keys(keys.hashes, keys.offsets, keys.store_ms, at, self._numbers, self._head, units))
        self._write(layout.units_start(self.slots) + p.UNIT * count, units[: (after - at) * p.UNIT])
        self.entries += after - at
        return after

    def _roll_if_full(self, now_ms: int) -> None:
        if self.files and self._numbers[p.I_COUNT] < self.units:
            return
        before = self._numbers
        if self.files:
            self.close()
            self.rolled_ms = int(before[p.I_END_MS])
        end_ms, end_offset = (max(int(before[place]), 0) for place in (p.I_END_MS, p.I_END_OFFSET))
        self._numbers = np.array((end_ms, end_ms, end_offset, end_offset, 0, 1, self.slots, self.units), np.int64)
        self._head = np.zeros(layout.units_start(self.slots), np.uint8)
        self.files.append(f"{INDEX}/{self._name(now_ms)}")

    def _name(self, now_ms: int) -> str:
        """Return a name for a file whose first record was stored then: a time behind that of the file before."""
        moment = EPOCH + timedelta(milliseconds=min(max(now_ms, 0), LATEST_MS))
        name = int(f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}")
        last = int(self.files[-1].rpartition("/")[2]) if self.files else 0
        return f"{max(name, last + 1):017d}"

    def _write(self, position: int, data: Bytes) -> None:
        size = layout.file_length(self.slots, self.units)
        self.staging.write(self.files[-1], position, np.ascontiguousarray(data).data, size=size)

    def close(self) -> None:
        """Write the header and the slots of the last file, if there is one."""
        if not self.files:
            return
        header = np.zeros((), layout.HEADER)
        n = self._numbers
        values = (n[p.I_BEGIN_MS], n[p.I_END_MS], n[p.I_BEGIN_OFFSET], n[p.I_END_OFFSET], n[p.I_USED_SLOTS])
        header[()] = (*(int(value) for value in values), int(n[p.I_COUNT]))
        self._head[: layout.HEADER_BYTES] = np.frombuffer(header.tobytes(), np.uint8)
        self._write(0, self._head)

"""Bytes of a store as they are now, while a broker writes to it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storeio.config import StoreConfig
from storeio.format import index as layout
from storeio.paths import INDEX, StoreFile, describe
from storeio.scan import read_range

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class StoreNow:
    """A store, its settings, and slots and units of its index files if they are known."""

    root: str
    config: StoreConfig
    shape: tuple[int, int] | None

    def read(self, path: str, start: int, stop: int) -> Bytes:
        """Return bytes of a file.

        Raises:
            UnreadableError: They are not there.
        """
        return read_range(self.root, path, start, stop)

    def index_files(self) -> list[StoreFile]:
        """Return the index files, oldest first."""
        try:
            with os.scandir(os.path.join(self.root, INDEX)) as found:
                files = [describe(f"{INDEX}/{entry.name}", entry.stat().st_size) for entry in found]
        except OSError:
            return []
        return sorted((file for file in files if file.base_offset is not None), key=lambda file: file.path)

    def index_units(self, file: StoreFile) -> int:
        """Return how many units an index file has, unit 0 included; not before its shape is known."""
        assert self.shape is not None
        if file.size < layout.HEADER_BYTES:
            return 1  # it is just being made
        header = layout.decode_header(self.read(file.path, 0, layout.HEADER_BYTES).data)
        most = (file.size - layout.units_start(self.shape[0])) // layout.UNIT_BYTES
        return max(min(int(header["unit_count"]), most), 1)

    def last_indexed(self, file: StoreFile, units: int) -> int:
        """Return the physical offset that the last of so many units of an index file names, -1 without any."""
        assert self.shape is not None
        if units < 2:
            return -1
        at = layout.units_start(self.shape[0]) + (units - 1) * layout.UNIT_BYTES
        return int(self.read(file.path, at, at + layout.UNIT_BYTES).view(layout.UNIT)["physical_offset"][0])

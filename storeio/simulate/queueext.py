"""The ext files of one consume queue: recovered by hops, appended to at every dispatch, cut by addresses.

Only with ``enableConsumeQueueExt``. A queue unit then names an ext unit by its address.

Source: ``ConsumeQueueExt``.
"""

from __future__ import annotations

import struct
from typing import Final

from storeio.format import queueext as format_
from storeio.paths import QUEUE_EXT
from storeio.simulate.disk import Disk
from storeio.simulate.ends import JavaError, QueuesStopError
from storeio.simulate.java import as_long, remainder
from storeio.simulate.mapped import MappedQueue
from storeio.simulate.rules import Rules

NO_ADDRESS: Final = 1  # what the broker takes for "none"
TRIES: Final = 3
MAX_POSITION: Final = format_.MAX_ADDRESS - format_.ADDRESS_BASE
UNIT: Final = struct.Struct(">hqqh")
SHORT: Final = struct.Struct(">h")


def is_address(tags_code: int) -> bool:
    """Tell whether a queue unit's tags code is an address of an ext unit."""
    return tags_code <= format_.MAX_ADDRESS


class QueueExt:
    """Ext files of one queue."""

    def __init__(self, disk: Disk, topic: str, queue_id: int, file_bytes: int) -> None:
        self.files = MappedQueue(disk, f"{QUEUE_EXT}/{topic}/{queue_id}", file_bytes)

    def load(self, rules: Rules) -> None:
        """List the files.

        Raises:
            RefusesError: One that no broker of this line passes over.
        """
        self.files.load(rules)

    def recover(self) -> None:
        """Find the end by hopping through all files; delete nothing but what lies behind the last one's end.

        Raises:
            JavaError: A unit's size leads out of its file.
        """
        files = self.files.files
        if not files:
            return
        end = 0
        for file in files:
            end = _hop(self.files.read(file, 0, file.size).data)
        self.files.truncate(as_long(files[-1].base + end))

    def put(self, tags_code: int, store_ms: int) -> int:
        """Append a unit; return its address, or ``NO_ADDRESS`` if there is no room or no file for it."""
        size = format_.HEAD_BYTES
        if self.files.max_offset + size > MAX_POSITION:
            return NO_ADDRESS
        for _ in range(TRIES):
            file = self.files.files[-1] if self.files.files else None
            if file is None or file.wrote == file.size:
                try:
                    file = self.files.append_file(0 if file is None else file.stop)
                except QueuesStopError:
                    return NO_ADDRESS  # the queue's own unit goes without
            at = file.wrote
            if size > file.size - at - format_.END_SPARE_BYTES:
                if at + SHORT.size > file.size or at < 0:
                    return NO_ADDRESS
                self.files.disk.write(file.path, at, SHORT.pack(format_.END_MARK))
                file.wrote = file.size
                continue
            self.files.disk.write(file.path, at, UNIT.pack(size, tags_code, store_ms, 0))
            file.wrote = at + size
            return at + file.base + format_.ADDRESS_BASE
        return NO_ADDRESS

    def truncate_after(self, address: int) -> None:
        """Cut behind the unit at an address, if there is one.

        Raises:
            JavaError: The unit reaches beyond what is written of its file.
        """
        if not is_address(address):
            return
        position = address - format_.ADDRESS_BASE
        size = self._size_at(position)
        if size > 0:
            self.files.truncate(position + size)

    def read(self, address: int) -> None:
        """Read the unit at an address, if there is one, as a pull does.

        Raises:
            JavaError: The unit reaches beyond what is written of its file.
        """
        if is_address(address):
            self._size_at(address - format_.ADDRESS_BASE)

    def truncate_before(self, address: int) -> None:
        """Delete files that end before an address."""
        if not is_address(address):
            return
        position = address - format_.ADDRESS_BASE
        for file in [f for f in self.files.files if f.stop < position]:
            self.files.drop(file)

    def destroy(self) -> None:
        """Delete all files."""
        for file in list(self.files.files):
            self.files.drop(file)

    def _size_at(self, position: int) -> int:
        """Return the size of the unit at a position, 0 if none can be read there."""
        file = self.files.find(position, or_first=position == 0)
        at = remainder(position, self.files.size)
        if file is None or not 0 <= at < file.wrote or at + SHORT.size > file.wrote:
            return 0
        (size,) = SHORT.unpack(self.files.read(file, at, at + SHORT.size).data)
        if size < 1:
            return 0
        if at + UNIT.size > file.wrote:
            raise JavaError("an ext unit's head reaches beyond the file")
        _, _, _, bitmap = UNIT.unpack(self.files.read(file, at, at + UNIT.size).data)
        if bitmap > file.wrote - at - UNIT.size:
            raise JavaError("an ext unit's bitmap reaches beyond the file")
        return int(size)


def _hop(data: memoryview) -> int:
    """Return where the hops through a file's units end."""
    at = 0
    while True:
        if at + SHORT.size > len(data):
            raise JavaError("ext units run to the end of their file")
        (size,) = SHORT.unpack_from(data, at)
        if size <= 0:
            return at
        if at + size > len(data):
            raise JavaError("an ext unit's size leads out of its file")
        at += size

"""An opened store: its listing, reads of its files, and where notes and failures go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from storeio.config import infer_config
from storeio.errors import UnreadableError
from storeio.paths import COMMITLOG, MOST_FILE_BYTES, StoreFile
from storeio.scan import Bytes, changed_since, data_stretches, failed_since, list_store, read_range
from storeio.window import Read

Note = Callable[[str], None]
Failed = Callable[[UnreadableError], None]

KEPT_BYTES = 4 << 20  # the window that single records are read through


class TooWideError(UnreadableError):
    """What is asked for at once is more than any file of a broker has."""


class Reader:
    """A store under inspection.

    ``note`` receives sentences a person should know, e.g. that a look-up became a scan. ``failed``
    receives what could not be read, after which reading goes on elsewhere; by default it raises.
    ``settings`` are broker settings, of which delay levels and hash slots change what is shown.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        note: Note | None = None,
        failed: Failed | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.listing = list_store(root)
        self.root = self.listing.root
        self.note: Note = note or (lambda _: None)
        self.failed: Failed = failed or _raise
        config = infer_config(self.listing, settings)
        self.delays_ms: npt.NDArray[np.int64] = np.array(config.delays_ms, np.int64)
        self.slots = config.index_slots
        self.segment_bytes = config.commitlog_file_bytes
        self._kept: tuple[str, int, Bytes] = ("", 0, np.empty(0, np.uint8))
        self._read: set[str] = set()  # paths
        for path, reason in self.listing.unreadable:
            self.failed(UnreadableError(f"{path}: {reason}"))

    def finish(self) -> None:
        """Tell what of a remote store could not be read, though something was shown without it, or is not what it was.

        To be called when all is shown. A file of which nothing was read may have changed.
        """
        changed = changed_since(self.listing) if self._read else []
        told = [text for text in changed if text.partition(": ")[0] in (*self._read, ".")]
        for text in (*failed_since(self.listing), *told):
            self.failed(UnreadableError(text))

    def segments(self) -> list[StoreFile]:
        """Return the commitlog's files by base offset."""
        return self.listing.of_kind(COMMITLOG)

    def holding(self, physical_offset: int) -> list[StoreFile]:
        """Return the segments whose range holds a physical offset; damaged names may overlap."""
        return [s for s in self.segments() if 0 <= physical_offset - (s.base_offset or 0) < s.size]

    def read(self, path: str, start: int, stop: int) -> Bytes:
        """Return bytes ``[start, stop)`` of a file."""
        self._read.add(path)
        return read_range(self.root, path, start, stop)

    def data_stretches(self, file: StoreFile, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the stretches of a file from ``start`` on that are no holes, as ``scan.data_stretches``."""
        return data_stretches(self.root, file.path, start, file.size)

    def of(self, path: str) -> Read:
        """Return the reads of one file, as the walk wants them.

        They raise ``TooWideError`` where a walk asks for more than a file of a broker has: it looks for an end that is
        far behind a hole.
        """

        def read(start: int, stop: int) -> Bytes:
            if stop - start > MOST_FILE_BYTES:
                raise TooWideError(f"{path}: holds something behind a hole of more than {MOST_FILE_BYTES} bytes")
            return self.read(path, start, stop)

        return read

    def kept(self, file: StoreFile) -> Read:
        """Return the reads of one file through a window that stays mapped: for many small neighbours."""

        def read(start: int, stop: int) -> Bytes:
            path, origin, window = self._kept
            if path != file.path or start < origin or stop > origin + len(window):
                origin = start - min(start, KEPT_BYTES // 8)
                window = self.read(file.path, origin, min(max(stop, origin + KEPT_BYTES), file.size))
                self._kept = (file.path, origin, window)
            return window[start - origin : stop - origin]

        return read


def _raise(error: UnreadableError) -> None:
    raise error

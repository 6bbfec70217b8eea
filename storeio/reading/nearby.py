"""Small reads through windows that are kept: who asks for some bytes of a file asks for their neighbours next."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError

Bytes = npt.NDArray[np.uint8]


class Nearby:
    """Reads ranges of files, those of up to an eighth of a window through windows; the last ones stay.

    For one thread, and for files that are as long as ``sizes`` say; any others are read as they are asked for.
    """

    def __init__(
        self, read: Callable[[str, int, int], Bytes], sizes: Mapping[str, int], *, window_bytes: int, most: int
    ) -> None:
        """Begin without windows.

        Args:
            read: ``read(path, start, stop)`` gives exactly these bytes of a file.
            sizes: Lengths of files by path.
            window_bytes: That windows are apart; each reaches an eighth into the next.
            most: Windows that are kept.
        """
        self._read, self._sizes = read, sizes
        self._window_bytes, self._overlap, self._most = window_bytes, window_bytes // 8, most
        self._windows: dict[tuple[str, int], Bytes] = {}

    def read(self, path: str, start: int, stop: int) -> Bytes:
        """Return bytes ``[start, stop)`` of a file as a read-only array.

        Raises:
            UnreadableError: The file cannot be opened or is shorter than ``stop``.
        """
        number = start // self._window_bytes
        origin = number * self._window_bytes
        if start < 0 or stop - start > self._overlap or stop > self._sizes.get(path, 0):
            return self._read(path, start, stop)
        window = self._windows.pop((path, number), None)
        if window is None:
            try:
                limit = min(origin + self._window_bytes + self._overlap, self._sizes[path])
                window = self._read(path, origin, limit)
            except UnreadableError:  # some of it: what was asked for may still be there
                return self._read(path, start, stop)
            if len(self._windows) >= self._most:
                del self._windows[next(iter(self._windows))]
        self._windows[path, number] = window
        return window[start - origin : stop - origin]

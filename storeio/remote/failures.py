"""Reads that failed, with their times: those of which nobody tells are told in the end.

A file of a disk that cannot be read now cannot be read later. So who needs little of it may go without: who reads all
of it tells. Of a server that is not so, and what was made without those bytes would look as if they had been seen.
"""

from __future__ import annotations

import threading
import time
from typing import Final

MOST: Final = 256  # kept a process; one of them is enough to say that a result is not whole


class Failures:
    """Texts as ``PATH: why`` by root, with the time at which each was noted last."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._times: dict[tuple[str, str], int] = {}

    def note(self, root: str, text: str) -> None:
        """Take note of a read that failed, here or in another process."""
        with self._lock:
            self._times.pop((root, text), None)
            self._times[root, text] = time.monotonic_ns()
            if len(self._times) > MOST:
                del self._times[next(iter(self._times))]

    def since(self, root: str, when_ns: int) -> list[str]:
        """Return those of a root from a time on, of this process's monotonic clock."""
        with self._lock:
            return [text for (place, text), noted_ns in self._times.items() if place == root and noted_ns >= when_ns]


failures: Final = Failures()

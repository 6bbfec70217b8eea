"""Reads that failed, with their times: those of which nobody tells are told in the end.

A file of a disk that cannot be read now cannot be read later. So who needs little of it may go without, and notes that
where nobody else reads all of it (``scan.go_without``). Of a server each failure is noted: it may answer a moment
later, and what was made without those bytes would look as if they had been seen.
"""

from __future__ import annotations

import threading
import time
from typing import Final

MOST: Final = 256  # kept a process; one of them is enough to say that a result is not whole


_lock: Final = threading.Lock()
_times: Final[dict[tuple[str, str], int]] = {}  # by root, and text as ``PATH: why``: when it was noted last


def note(root: str, text: str) -> None:
    """Take note of a read that failed, here or in another process."""
    with _lock:
        _times.pop((root, text), None)
        _times[root, text] = time.monotonic_ns()
        if len(_times) > MOST:
            del _times[next(iter(_times))]


def noted_since(root: str, when_ns: int) -> list[str]:
    """Return what of a root failed from a time on, of this process's monotonic clock."""
    with _lock:
        return [text for (place, text), noted_ns in _times.items() if place == root and noted_ns >= when_ns]

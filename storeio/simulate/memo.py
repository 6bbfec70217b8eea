"""What was read out of some bytes, kept for whoever asks next: each broker line reads the same tables."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The last few answers, each by what was asked and the digest of the bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[str, bytes], T] = {}

    def of(self, asked: str, data: bytes | memoryview, make: Callable[[], T]) -> T:
        """Return what ``make`` returned when the same was asked of the same bytes, or does now."""
        key = asked, hashlib.sha256(data).digest()
        found = self._kept.pop(key) if key in self._kept else make()
        self._kept[key] = found
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return found

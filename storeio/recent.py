"""Values that cost time to make and memory to keep: those that were asked for last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps values by key that together weigh no more than ``most``; one that weighs more is alone there."""

    def __init__(self, most: int, weight: Callable[[V], int]) -> None:
        self._most, self._weight = most, weight
        self._kept: dict[K, V] = {}  # what was asked for last goes last
        self._total = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, which is made if it is not kept."""
        if key in self._kept:
            value = self._kept.pop(key)
        else:
            value = make()
            self._total += self._weight(value)
        self._kept[key] = value
        while len(self._kept) > 1 and self._total > self._most:
            self._total -= self._weight(self._kept.pop(next(iter(self._kept))))
        return value

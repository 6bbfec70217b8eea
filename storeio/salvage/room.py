"""How much room the holes of a log have left, and which is the next one with enough of it."""

from __future__ import annotations

from collections.abc import Sequence


class Room:
    """Bytes that are free in each of many holes. Both taking some and looking for the next hole take logarithmic time:
    a log with a hole a page misses about as many messages, and most find the holes before their own full."""

    def __init__(self, free: Sequence[int]) -> None:
        self._count = len(free)
        self._leaves = 1 << max(self._count - 1, 0).bit_length()
        # A heap of pairs: each place holds the larger of the two at twice its number, the leaves are the holes.
        self._most = [-1] * self._leaves + list(free) + [-1] * (self._leaves - self._count)
        for i in range(self._leaves - 1, 0, -1):
            self._most[i] = max(self._most[2 * i], self._most[2 * i + 1])

    def free(self, hole: int) -> int:
        """Return what a hole has left."""
        return self._most[self._leaves + hole]

    def take(self, hole: int, count: int) -> None:
        """Use some of a hole's room."""
        i = self._leaves + hole
        self._most[i] -= count
        while i := i // 2:
            self._most[i] = max(self._most[2 * i], self._most[2 * i + 1])

    def following(self, first: int, count: int) -> int:
        """Return the first hole from ``first`` on that has so much room, the number of all holes if none has."""
        if first >= self._count:
            return self._count
        i = self._leaves + first
        while self._most[i] < count:
            while i & 1:  # a right one: what follows lies beside the one above
                i //= 2
            if i == 0:
                return self._count
            i += 1
        while i < self._leaves:
            i *= 2
            i += self._most[i] < count
        return i - self._leaves

"""Queue files with another name than theirs: how many numbers their units stand off."""

from __future__ import annotations

import sys
from bisect import bisect_right, insort
from collections.abc import Callable

from storeio.audit import Concluded
from storeio.audit.shifts import SHIFTED, shift_at, shift_beside
from storeio.checks.queue_files import Queue
from storeio.paths import CONSUMEQUEUE

Span = tuple[int, int]
"""Half-open range of unit numbers."""


class Shifted:
    """Knows the units that stand at other numbers than their records say, as an audit tells them.

    Two in a row that are off alike moved together; of a single one it may be the record whose number is damaged.
    """

    def __init__(self, concluded: Concluded) -> None:
        self._plan = concluded.plan
        self._read = concluded.plan.nearby().read
        self._spans: dict[tuple[str, int], list[Span]] = {}
        self._known: dict[tuple[str, int, Span], int] = {}
        for row in concluded.audit.findings:
            if row.code == SHIFTED and row.topic and row.queue_id is not None and row.queue_offset is not None:
                span = row.queue_offset, row.queue_offset + row.count
                insort(self._spans.setdefault((row.topic, row.queue_id), []), span)

    def by(self, queue: Queue, first: int, stop: int) -> int:
        """Return how many numbers too high the units ``[first, stop)`` of a queue stand, 0 where nothing says so."""
        spans = self._spans.get((queue.topic, queue.queue_id)) if queue.kind == CONSUMEQUEUE else None
        if not spans:
            return 0
        i = bisect_right(spans, (first, sys.maxsize)) - 1
        if i >= 0 and first < spans[i][1] and spans[i][1] - spans[i][0] > 1:
            return self._within(queue, spans[i])
        span = first, stop
        return self._asked(queue, span, lambda: shift_beside(self._plan, self._read, queue, *span))

    def _within(self, queue: Queue, span: Span) -> int:
        """Return what the first and the last of units that stand at other numbers both say."""

        def said() -> int:
            first, last = (shift_at(self._plan, self._read, queue, number) for number in (span[0], span[1] - 1))
            return first if first is not None and first == last else 0

        return self._asked(queue, span, said)

    def _asked(self, queue: Queue, span: Span, ask: Callable[[], int]) -> int:
        """Return what ``ask`` says, which is asked once."""
        key = queue.topic, queue.queue_id, span
        if key not in self._known:
            self._known[key] = ask()
        return self._known[key]

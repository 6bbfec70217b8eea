"""Queues whose numbers go back: begun at 0 again, or with a tail given out twice. The later record has the number.

Brokers write its unit over the earlier one's, so that the earlier record lacks a unit is no news: the repeated number
itself is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from storeio.findings import Finding
from storeio.format import consumequeue
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP

AT_UNITS: Final = frozenset({"CQ_MISSING", "CQ_UNIT_MISSING", "CQ_UNIT_WRONG"})
"""What an earlier record's unit is said to be where the later one's stands, or none any more."""

ABOUT_UNITS: Final = AT_UNITS | {"CQ_SHIFTED", "LOG_UNIT_DISAGREES"}
"""What is said where a record's unit does not stand at its number."""


@dataclass(frozen=True, slots=True)
class BegunAgain:
    """From ``number`` on a queue's numbers were given out again, to records from the physical offset ``start_at`` on.

    ``is_single`` tells that it is one record that says so, whose number may be damaged.
    """

    number: int
    start_at: int
    is_single: bool


def begun_again(runs: Iterable[Sequence[int]]) -> list[BegunAgain]:
    """Return where the runs of a queue, in log order, begin again; of nested ones the later. Both fields rise."""
    found: list[BegunAgain] = []
    highest = -1
    for run in runs:
        number = run[RUN_FIRST]
        while found and found[-1].number >= number:
            found.pop()
        if number < highest:
            found.append(BegunAgain(number, run[RUN_START_AT], run[RUN_RECORDS] == 1))
        highest = max(highest, run[RUN_STOP])
    return found


def believed(begun: Sequence[BegunAgain], doubted: Container[int | None]) -> list[BegunAgain]:
    """Return those of a queue that more than one record tells, or one whose unit stands where it should.

    ``doubted`` are the physical offsets of records about whose units something is said.
    """
    return [again for again in begun if not again.is_single or again.start_at not in doubted]


def own_stop(begun: Sequence[BegunAgain], first: int, stop: int, physical: int) -> int:
    """Return where the numbers ``[first, stop)`` of records from ``physical`` on end to be their own.

    Args:
        begun: Where their queue began again.
        first: Their first number, which is returned where none is.
        stop: The number behind their last.
        physical: Where the first of them lies.
    """
    later = bisect_right(begun, physical, key=lambda again: again.start_at)
    return max(min(stop, begun[later].number), first) if later < len(begun) else stop


def without_replaced(
    findings: Iterable[Finding], begun: Mapping[tuple[str | None, int | None], Sequence[BegunAgain]]
) -> Iterator[Finding]:
    """Yield findings, but not those at units of records whose number a later one has; ``begun`` is by topic and id."""
    for finding in findings:
        again = begun.get((finding.topic, finding.queue_id))
        number, physical = finding.queue_offset, finding.physical_offset
        if again is None or finding.code not in AT_UNITS or number is None or physical is None:
            yield finding
            continue
        count = own_stop(again, number, number + finding.count, physical) - number
        if count == finding.count:
            yield finding
        elif count > 0:
            yield replace(finding, count=count, length=count * consumequeue.UNIT_BYTES)

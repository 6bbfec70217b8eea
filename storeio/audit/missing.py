"""Numbers of a queue that no record has: what between its records and behind them is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from storeio.checks.leftover import Leftover
from storeio.checks.numbering import UNREAD, Numbering, between_units
from storeio.checks.queue_files import Queue
from storeio.checks.ranges import merged, subtract
from storeio.checks.segments import LogView
from storeio.format import commitlog as log
from storeio.paths import BATCHQUEUE
from storeio.results import LostRange

# Units that point farther behind the log, or at more, or at what no segment holds whole, or in front of their queue's
# last record, are no lost messages, but damaged themselves.
MOST_UNIT_BYTES: Final = 1 << 29
NO_NUMBERS: Final = (0, 0)


def missing_of(
    queue: Queue, numbering: Numbering, leftover: Leftover, view: LogView, segment_bytes: int
) -> list[LostRange]:
    """Return the ranges without records: gaps in the log's numbers, and units whose records are gone, outside of those.

    They are lost, but for those that only could not be read, and those that lie elsewhere.
    """
    lost, is_batch = list(numbering.lost), queue.kind == BATCHQUEUE
    known = merged([(part.first_queue_offset, part.stop_queue_offset) for part in lost] + numbering.runs)
    last, behind, _ = numbering.end or (-1, 0, 0)

    def span(number: int) -> tuple[int, int]:
        return leftover.spans.get(number, NO_NUMBERS) if is_batch else (number, number + 1)

    beyond = [
        (number, physical, size)
        for number, physical, size in leftover.beyond
        if span(number)[0] > last
        and behind <= physical < log.MOST_LOG_BYTES
        and size < MOST_UNIT_BYTES
        and physical % segment_bytes + size + log.BLANK_HEAD_BYTES <= segment_bytes
    ]
    gone = sorted(beyond + leftover.damaged + leftover.unread)
    for part in between_units(queue.topic, queue.queue_id, numbering.end, gone) if not is_batch else ():
        is_unread = view.is_unread(part.physical_start, part.physical_stop)
        lost.append(replace(part, evidence=UNREAD) if is_unread else part)
    at: dict[int, tuple[int, int, str]] = {}
    for rows, evidence in (
        (leftover.damaged, "its unit points into damage"),
        (beyond, "its unit points behind the log"),
        (leftover.unread, UNREAD),
    ):
        for number, physical, size in rows:
            at.setdefault(number, (physical, size, evidence))
    for number in sorted(at):
        for first, stop in subtract(span(number), known):
            physical, size, evidence = at[number]
            part = LostRange(queue.topic, queue.queue_id, first, stop, physical, physical + size, evidence)
            if lost and _follows(lost[-1], part):
                before = lost.pop()
                part = LostRange(
                    queue.topic, queue.queue_id, before.first_queue_offset, stop,
                    min(before.physical_start, physical), max(before.physical_stop, physical + size), evidence,
                )  # fmt: skip
            lost.append(part)
    return sorted(lost, key=lambda part: part.first_queue_offset)


def _follows(last: LostRange, part: LostRange) -> bool:
    return last.stop_queue_offset == part.first_queue_offset and last.evidence == part.evidence

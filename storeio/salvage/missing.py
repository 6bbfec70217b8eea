"""Lost messages by their numbers, and the tombstones that take their places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from storeio.dispatch import listed_numbers
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.format.batchqueue import MOST_MESSAGES
from storeio.results import LostRange
from storeio.salvage.evidence import Unit
from storeio.salvage.fillers import Lost, least_tombstone
from storeio.salvage.holes import BEHIND_ALL

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
NOWHERE: Final = "storeio_tombstones"
"""Topic to which tombstones of delayed messages are delivered when their time has come."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Numbers ``[first, stop)`` of a queue that one tombstone takes: one, or an inner batch.

    ``low`` and ``high`` bound where the message lay. ``unit`` is its surviving queue unit; without one ``behind`` and
    ``ahead`` are the places between which the units of the numbers before and after it leave room.
    """

    topic: str
    queue_id: int
    first: int
    stop: int
    low: int
    high: int
    unit: Unit | None = None
    behind: int = 0
    ahead: int = BEHIND_ALL


def missing_of(lost: Iterable[LostRange], units: Iterable[Unit], batch_topics: frozenset[str]) -> Iterator[Missing]:
    """Yield what is missing, queue by queue in order of numbers.

    Args:
        lost: Ranges of queue offsets.
        units: Surviving units whose records are lost.
        batch_topics: Topics with batch queues.
    """
    known = {(unit.topic, unit.queue_id, unit.number): unit for unit in units}
    numbers: dict[tuple[str, int], list[int]] = {}
    for topic, queue_id, number in sorted(known):
        numbers.setdefault((topic, queue_id), []).append(number)
    taken: dict[tuple[str, int], int] = {}
    for part in sorted(lost, key=lambda part: (part.topic, part.queue_id, part.first_queue_offset)):
        queue = part.topic, part.queue_id
        if part.topic.startswith(log.LMQ_PREFIX):
            continue  # its units are those of other queues' messages
        first = max(part.first_queue_offset, taken.get(queue, 0))
        taken[queue] = max(part.stop_queue_offset, taken.get(queue, 0))
        step = MOST_MESSAGES if part.topic in batch_topics else 1
        room = max(part.physical_stop - part.physical_start, 0) // log.MIN_RECORD_BYTES
        own = numbers.get(queue, [])
        stop = first
        while (number := stop) < part.stop_queue_offset:
            unit = known.get((*queue, number))
            if unit is None and number - part.first_queue_offset > room:
                break  # more numbers than records fit: the number is damaged that they are counted up to
            before, at = bisect_left(own, number), bisect_right(own, number)
            following = own[at] if at < len(own) else part.stop_queue_offset
            count = unit.messages if unit is not None else min(step, following - number)
            stop = min(number + count, part.stop_queue_offset)
            near = [known[part.topic, part.queue_id, other] for other in own[max(before - 1, 0) : at + 1]]
            yield Missing(
                *queue, number, stop, part.physical_start, part.physical_stop, unit, *_between(part, number, near)
            )


def _between(part: LostRange, number: int, near: Iterable[Unit]) -> tuple[int, int]:
    """Return the places between which the units before and after a number leave room, as far as they fit its range.

    A tombstone that is larger than the message was is put elsewhere: the range does not keep it in its queue's order.
    """
    behind, ahead = 0, BEHIND_ALL
    for unit in near:
        if unit.number < number and unit.physical_offset < part.physical_stop:
            behind = unit.physical_offset + unit.size
        elif unit.number > number and unit.physical_offset >= part.physical_start:
            ahead = unit.physical_offset
    return (behind, ahead) if behind < ahead else (0, BEHIND_ALL)


def light_units(record: log.Record, place: int) -> list[Unit]:
    """Return the units that a record says to have in light queues; none where its lists do not fit each other.

    Nor does one have any whose lists are those of another message.
    """
    return [
        Unit(name, 0, number, place, record.size, 0)
        for name, _, number in listed_numbers(p.java_decode(record.topic), record.properties)
        if name.startswith(log.LMQ_PREFIX) and number is not None
    ]


def stands_for(
    missing: Missing,
    delays_ms: tuple[int, ...],
    times_ms: tuple[int, int],
    batch_topics: frozenset[str],
    light: Sequence[Unit] = (),
) -> Lost:
    """Return what a tombstone has to say so that brokers and clients take it for a message of its queue.

    ``times_ms`` are the store times around it. A unit that tells of an earlier one is of other delay levels.
    ``light`` are the units of light queues that point at the lost message: a zero unit in their place would make
    consumers of those pass over all that follows in the same segment. Source: ``MultiDispatch``.
    """
    topic = missing.topic
    real = {p.REAL_TOPIC: NOWHERE, "REAL_QID": "0"}
    if topic == log.SCHEDULE_TOPIC:
        level = missing.queue_id + 1
        delay = delays_ms[min(level, len(delays_ms) - 1)]
        due = missing.unit.tags_code - delay if missing.unit is not None else 0
        is_known = due > 0 and times_ms[0] <= due <= times_ms[1]
        delayed = Lost(topic.encode(), missing.queue_id, missing.first, {p.DELAY: str(level), **real},
                       store_ms=due if is_known else 0)  # fmt: skip
        return _listed(delayed, missing.unit, light)
    said: dict[str, str] = {}
    if topic == HALF_TOPIC:
        said = {**real, "PGROUP": NOWHERE}
    elif topic == TIMER_TOPIC:
        said = {**real, "TIMER_OUT_MS": str(times_ms[1])}
    if topic in batch_topics:
        said |= {p.INNER_NUM: str(missing.stop - missing.first), p.INNER_BASE: str(missing.first)}
        return Lost(topic.encode(), missing.queue_id, missing.first, said, log.SYS_INNER_BATCH)
    return _listed(Lost(topic.encode(), missing.queue_id, missing.first, said), missing.unit, light)


def _listed(plain: Lost, unit: Unit | None, light: Sequence[Unit]) -> Lost:
    """Return what a tombstone says with the light queues that it is in, if there is room where its unit points."""
    if not light or unit is None:
        return plain
    lists = {
        p.MULTI_DISPATCH: ",".join(unit.topic for unit in light),
        p.MULTI_QUEUE_OFFSET: ",".join(str(unit.number) for unit in light),
    }
    dispatched = replace(plain, properties={**plain.properties, **lists})
    return dispatched if least_tombstone(dispatched) <= unit.size else plain

"""What a pull consumer gets of each queue: it follows the broker's next offset from min to max.

Source: ``DefaultMessageStore.getMessage``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from storeio.kernels.pulls import MOST_MESSAGES, TRANSFERRED_BYTES
from storeio.simulate.batchqueue import BatchQueue
from storeio.simulate.broker import Broker, QueueKey
from storeio.simulate.buffers import decodes, is_there, message_at
from storeio.simulate.consumequeue import UNIT, ConsumeQueue
from storeio.simulate.ends import JavaError
from storeio.simulate.java import as_int, as_long, quotient, remainder
from storeio.simulate.mapped import Mapped
from storeio.simulate.rules import Rules
from storeio.simulate.units_there import UnitsThere
from storeio.simulate.unseen import Looked

FOUND: Final = "FOUND"
NOTHING_THERE: Final = "OFFSET_FOUND_NULL"
THROWS: Final = "EXCEPTION"  # no answer: the pull ends with an error, and the consumer asks again
UNIT_FIELDS: Final = ("physical_offset", "size", "tags_code")
FILTERED_BYTES: Final = 16000  # of units that one pull looks at
Row = tuple[int, int, int, int, int]  # of a unit: queue offset, messages, physical offset, size, tags code
MOST_EMPTY: Final = 10**6  # pulls in a row that find no unit, one a queue file: no consumer comes to what lies behind
MOST_STUCK: Final = 8192  # pulls of one queue that lead to no higher offset; numbers in damage lead anywhere


@dataclass(slots=True)
class Consumed:
    """Counts over all queues, by queue, and what was odd: queue, asked offset, status.

    ``skipped`` are units that are passed without a message; ``missed`` those of them whose message is there, and
    those that no pull looks at while their message reaches no consumer of the queue by another one either.
    ``stuck`` are the queues, and the first offset there, at which every pull throws, or answers with that offset as
    the next one: a consumer stays there. As the recorded ones did, the counts go on behind the latter; ``unreached``
    are the messages of the count that lie there: a consumer that only follows the answers does not come to them.
    """

    messages: int = 0
    undecodable: int = 0
    skipped: int = 0
    missed: int = 0
    unreached: int = 0
    odd: list[tuple[str, int, int, str]] = field(default_factory=list)
    stuck: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def lacking(self) -> bool:
        """Whether consumers do not get everything that units point at and the log has."""
        return bool(self.undecodable or self.missed or self.stuck)


@dataclass(slots=True)
class Pulled:
    """One answer: status, next offset, buffers as (unit, bytes); None for a message that is known to decode."""

    status: str
    next_offset: int
    buffers: list[tuple[int, memoryview | None]] = field(default_factory=list)
    skipped: int = 0
    missed: int = 0
    file: Mapped | None = None  # of the queue, with the units that it looked at: where in it, and how many
    position: int = 0
    looked: int = 0

    def stays_at(self, offset: int) -> bool:
        """Tell whether a consumer asks at the same offset again, for ever."""
        return self.status == THROWS or (self.status != NOTHING_THERE and self.next_offset == offset)


def consume(broker: Broker, there: UnitsThere | None = None) -> Consumed:
    """Return what consumers get from all queues; messages that are known to be there are not pulled one by one."""
    total = Consumed()
    for key, queue in sorted(broker.queues.items()):
        if there is not None and (count := there.all_pulled(key)):
            total.messages += count
            continue
        looked, stuck = Looked(queue), len(total.stuck)
        reached = -1
        for asked, pulled in _pulls(broker, key, there):
            if reached < 0 and len(total.stuck) > stuck:
                reached = total.messages
            if isinstance(pulled, int):
                total.messages += pulled
                looked.from_offset(asked, pulled)
                continue
            if len(total.stuck) == stuck and pulled.stays_at(asked):
                total.stuck.append((*key, asked))
            if pulled.file is not None:
                looked.at(pulled.file, pulled.position, pulled.looked)
            if not pulled.buffers:
                total.odd.append((*key, asked, pulled.status))
            total.skipped += pulled.skipped
            total.missed += pulled.missed
            for is_message in _decoding(pulled.buffers, broker.rules):
                if is_message:
                    total.messages += 1
                else:
                    total.undecodable += 1
                    total.odd.append((*key, asked, "UNDECODABLE"))
        total.unreached += total.messages - reached if reached >= 0 else 0
        if len(total.stuck) == stuck:  # else what lies behind is what it does not come to
            passed = looked.missed(broker, key)
            total.skipped += passed
            total.missed += passed
    return total


def _decoding(buffers: Iterable[tuple[int, memoryview | None]], rules: Rules) -> Iterator[bool]:
    """Yield whether a client makes a message of each buffer; of one that comes again at once that is known."""
    last: memoryview | None = None
    is_message = True
    for _, data in buffers:
        if data is not last:
            last, is_message = data, data is None or decodes(data, rules)
        yield is_message


def _pulls(broker: Broker, key: QueueKey, there: UnitsThere | None) -> Iterator[tuple[int, Pulled | int]]:
    """Yield a consumer's pulls, without those of which it is sure that they find nothing either; a number of messages
    for those that are sure to get all of them."""
    queue = broker.queues[key]
    offset, stop = queue.min_offset, queue.max_offset
    left = MOST_STUCK
    known = there.known(key) if there is not None else _unknown
    while offset < stop:
        if there is not None and (count := there.pulled(key, offset)):
            yield offset, count
            offset += count
            continue
        pulled = pull(broker, queue, offset, known)
        yield offset, pulled
        if pulled.status == THROWS or left == 0:
            return
        if pulled.status == NOTHING_THERE:
            following = _next_there(queue, offset, pulled.next_offset)
            if following - offset > MOST_EMPTY * _units(queue):
                return
            offset = following
        else:
            left -= pulled.next_offset <= offset
            offset = max(pulled.next_offset, offset + 1)


def _next_there(queue: ConsumeQueue, offset: int, following: int) -> int:
    """Return the first offset a consumer comes to behind one without unit at which there may be one."""
    if isinstance(queue, BatchQueue):
        return queue.next_base(offset)
    ahead = queue.files.base_behind(offset * UNIT)
    first = queue.max_offset if ahead is None else ahead // UNIT
    return max(following, offset + 1, first - first % _units(queue))


def _unknown(number: int) -> bool:
    """Tell of no message that consumers get it."""
    return False


def pull(broker: Broker, queue: ConsumeQueue, offset: int, known: Callable[[int], bool] = _unknown) -> Pulled:
    """Return the answer to one pull at an offset between the queue's min and max; one that throws has no buffers.

    Args:
        broker: It has started.
        queue: One of its queues.
        offset: What is asked for.
        known: Tells of a unit's number whether its message is there and decodes.
    """
    try:
        if queue.max_offset == 0:
            return Pulled("NO_MESSAGE_IN_QUEUE", 0)
        if isinstance(queue, BatchQueue):
            return _pull_batches(broker, queue, offset)
        return _pull_units(broker, queue, offset, known)
    except JavaError:
        return Pulled(THROWS, offset)


def _pull_batches(broker: Broker, queue: BatchQueue, offset: int) -> Pulled:
    found = queue.locate(offset)
    if found is None:
        return Pulled(NOTHING_THERE, 0)
    rows: Iterator[Row] = _units_from(queue, *found, ("base_queue_offset", "batch_size", *UNIT_FIELDS))
    rest = (found[0].wrote - found[1]) % queue.unit_bytes
    return _collected(broker, queue, offset, found, _whole(rows, rest))


def _pull_units(broker: Broker, queue: ConsumeQueue, offset: int, known: Callable[[int], bool]) -> Pulled:
    position = offset * UNIT
    file = queue.files.find(position) if position >= queue.min_position else None
    at = remainder(position, queue.files.size)
    if file is None or not 0 <= at < file.wrote:
        return Pulled(NOTHING_THERE, offset - remainder(offset, _units(queue)) + _units(queue))
    # 4.x counts on from what was asked; since 5.0 the file's name tells, which may lie.
    start = file.base + at if broker.rules.iterates_units else position
    units = _units_from(queue, file, at, UNIT_FIELDS)
    rows = ((quotient(start + i * UNIT, UNIT), 1, *unit) for i, unit in enumerate(units))
    rest = (file.wrote - at) % UNIT
    return _collected(broker, queue, offset, (file, at), _whole(rows, rest), known)


def _units_from(queue: ConsumeQueue, file: Mapped, at: int, names: Sequence[str]) -> Iterator[Any]:
    """Yield these fields of the units of a file from a position on; most pulls take few of them."""
    step = MOST_MESSAGES * queue.unit_bytes
    for start in range(at, file.wrote, step):
        yield from queue.units(file, start, min(start + step, file.wrote))[list(names)].tolist()


def _whole(rows: Iterable[Row], rest: int) -> Iterator[Row]:
    """Yield units; throw behind the last one where a part of one follows."""
    yield from rows
    if rest:
        raise JavaError("the queue's readable bytes end amid a unit")


def _collected(
    broker: Broker, queue: ConsumeQueue, offset: int, place: tuple[Mapped, int], rows: Iterator[Row],
    known: Callable[[int], bool] = _unknown,
) -> Pulled:  # fmt: skip
    """Return what one pull takes of the units from a place on."""
    pulled = Pulled("NO_MATCHED_MESSAGE", offset, file=place[0], position=place[1])
    rules, stop = broker.rules, queue.max_offset
    most = max(FILTERED_BYTES, MOST_MESSAGES * queue.unit_bytes)
    taken = messages = 0
    next_file: int | None = None
    asked: tuple[int, int] | None = None  # the last message: in a gap that was filled thousands of units point at one
    there: memoryview | None = None
    while not (rules.iterates_units and pulled.next_offset >= stop) and (row := next(rows, None)) is not None:
        number, count, physical, size, code = row
        behind = next_file is not None and physical < next_file
        looked = as_long((number - offset) * queue.unit_bytes)  # a far number comes out as a near one
        if rules.iterates_units and queue.ext is not None:
            queue.ext.read(code)  # 5.x at every unit, before it looks whether the answer is full
        full = taken != 0 and messages != 0 and _full(rules, messages, count, as_int(taken + size))
        if rules.iterates_units:
            if looked > most or (looked == most and rules.filters_less) or full:
                break
        elif looked >= most or (not behind and full):
            break
        pulled.next_offset = number + count
        pulled.looked += 1
        if behind:
            pulled.skipped += 1
            pulled.missed += is_there(broker, physical, size)
            continue
        if not rules.iterates_units and queue.ext is not None:
            queue.ext.read(code)
        is_known = known(number)
        if not is_known and (physical, size) != asked:
            asked, there = (physical, size), message_at(broker, physical, size)
        data = None if is_known else there
        if data is None and not is_known:
            if taken == 0:
                pulled.status = "MESSAGE_WAS_REMOVING"
            next_file = as_long(physical + broker.log.size - remainder(physical, broker.log.size))
            pulled.skipped += 1
            continue
        pulled.buffers.append((number, data))
        taken, messages = taken + size, messages + count
        pulled.status = FOUND
        next_file = None
    return pulled


def _units(queue: ConsumeQueue) -> int:
    return queue.files.size // UNIT


def _full(rules: Rules, messages: int, count: int, size: int) -> bool:
    """Tell whether an answer with messages takes no more; 5.x counts those inside a batch.

    ``size`` is 32 bits as the broker adds them: with a unit that claims 2 GiB it is negative, and the answer not full.
    """
    if size > TRANSFERRED_BYTES:
        return True
    return messages + count > MOST_MESSAGES if rules.iterates_units else messages >= MOST_MESSAGES

"""Units of lost records in files that have another name than theirs: by how many numbers they stand elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.errors import UnreadableError
from storeio.format import properties

SHIFTED: Final = "CQ_SHIFTED"
"""Code of the finding without which no unit of a queue needs to be asked."""

Row = tuple[int, int, int]
"""Unit number, physical offset and size."""


class Owner(NamedTuple):
    """The queue whose record a unit is of, and by how many numbers the unit stands too high."""

    topic: str
    queue_id: int
    shift: int


NOBODY: Final = Owner("", -1, 0)
"""Nothing tells whose units are, but that they are not those of the queue in whose place they stand."""


def owner_at(plan: AuditPlan, read: Read, queue: Queue, number: int) -> tuple[Owner, int] | None:
    """Return whose a unit is and where it points, as its record says; None where it is none of an intact one."""
    size = queue.unit_bytes
    try:
        data, absent = queue.read(read, number * size, (number + 1) * size)
    except UnreadableError:
        return None
    unit = decode(queue, data)
    record = None if absent else record_at(plan, int(unit["physical_offset"][0]))
    if record is None or record.size != int(unit["size"][0]):
        return None
    owner = Owner(properties.java_decode(record.topic), record.queue_id, number - record.queue_offset)
    return owner, record.physical_offset


def shift_at(plan: AuditPlan, read: Read, queue: Queue, number: int) -> int | None:
    """Return how many numbers too high a unit stands, as its record says; None where it is none of its queue's."""
    found = owner_at(plan, read, queue, number)
    if found is None or found[0][:2] != (queue.topic, queue.queue_id):
        return None
    return found[0].shift


def shift_beside(plan: AuditPlan, read: Read, queue: Queue, first: int, stop: int) -> int:
    """Return how many numbers too high units ``[first, stop)`` stand, as the units beside them in their file do.

    Nobody can ask the records of the units themselves. A unit whose record says another number moved along with them,
    unless the next one moved otherwise: then the records' numbers are damaged. 0 where neither the unit before nor the
    one behind them is one of an intact record.
    """
    size = queue.unit_bytes
    for inside, step in ((first, -1), (stop - 1, 1)):
        path = queue.path_at(inside * size)[0]
        beside = (inside + step, inside + 2 * step)
        said = [
            shift_at(plan, read, queue, number) if number >= 0 and queue.path_at(number * size)[0] == path else None
            for number in beside
        ]
        if said[0] is not None and said[1] in (None, said[0]):
            return said[0]
    return 0


def as_recorded(plan: AuditPlan, read: Read, queue: Queue, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield units of lost records with the numbers that their records had; ``rows`` are in order of numbers."""
    for group in _in_a_row(queue, rows):
        shift = shift_beside(plan, read, queue, group[0][0], group[-1][0] + 1)
        yield from ((number - shift, physical, size) for number, physical, size in group if number >= shift)


def _in_a_row(queue: Queue, rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows that follow on from each other in one file."""
    group: list[Row] = []
    path = ""
    for row in rows:
        own = queue.path_at(row[0] * queue.unit_bytes)[0]
        if group and (row[0] != group[-1][0] + 1 or own != path):
            yield group
            group = []
        group.append(row)
        path = own
    if group:
        yield group

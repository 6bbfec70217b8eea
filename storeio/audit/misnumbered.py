"""Records whose own queue offset is known to be wrong: what follows from that number alone is no finding."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final

from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.findings import Finding
from storeio.paths import CONSUMEQUEUE

FIELD: Final = "LOG_FIELD"
WRONG: Final = "CQ_UNIT_WRONG"
AT_THE_NUMBER: Final = frozenset(("CQ_MISSING", "CQ_UNIT_MISSING"))

Record = tuple[str | None, int | None, int | None]
"""Topic, queue id and physical offset."""


def units_of(queue: Queue, read: Read, expected: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of the units that point at misnumbered records from where the numbers beside them say.

    ``expected`` are the right numbers by physical offset. Of batch queues the order of the log tells that.
    """
    size = queue.unit_bytes
    for physical, number in expected.items() if queue.kind == CONSUMEQUEUE and queue.files else ():
        if queue.start <= number * size < queue.stop:
            data, absent = queue.read(read, number * size, (number + 1) * size)
            if not absent and int(decode(queue, data)[0]["physical_offset"]) == physical:
                yield number, number + 1


def without_follow_ups(
    findings: Iterable[Finding], told: Iterable[Finding], beside: Container[Record]
) -> list[Finding]:
    """Return what splits found without what follows from a number that is ``told`` to be wrong.

    That no unit stands at such a number, and what a record alone tells of the field, unless it is the first of several:
    then the record's own finding is about it, and the other about all of them. And that the unit there is not its own,
    of records ``beside`` those whose number that is.
    """
    about = [finding for finding in told if finding.code == FIELD]
    wrong = [finding for finding in about if finding.queue_offset is not None]
    fields = {(finding.path, finding.position) for finding in wrong if finding.count == 1}
    records = {(finding.topic, finding.queue_id, finding.physical_offset) for finding in about}
    codes = {**dict.fromkeys(AT_THE_NUMBER, records), WRONG: beside}

    def follows(one: Finding) -> bool:
        if one.code == FIELD:
            return (one.path, one.position) in fields
        at = one.topic, one.queue_id, one.physical_offset
        return one.count == 1 and at in codes.get(one.code, ())

    return [finding for finding in findings if not follows(finding)] if about else list(findings)

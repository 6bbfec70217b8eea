"""Light queues whose first unit stands too high: nothing but their first record tells, all the others follow it."""

from __future__ import annotations

from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan
from storeio.checks.locate import decode
from storeio.checks.queue_files import Queue, Read
from storeio.dispatch import listed_numbers
from storeio.findings import Finding
from storeio.format import properties


def begins_too_high(plan: AuditPlan, read: Read, queue: Queue, number: int) -> list[Finding]:
    """Return a finding if the first unit of a light queue stands at a higher number than its record lists, else none.

    That is so only of a log that begins at 0: behind deleted segments queues may have begun again before. Lower ones
    are sound, as brokers of 5.x count messages that get no unit. Source: ``MultiDispatch``.

    Args:
        plan: Of the store.
        read: Reads its files.
        queue: The light queue.
        number: Where the first unit stands of those that records in the log have.

    Raises:
        UnreadableError: The unit could not be read.
    """
    size = queue.unit_bytes
    data, absent = queue.read(read, number * size, (number + 1) * size)
    if absent:
        return []
    physical = int(decode(queue, data)["physical_offset"][0])
    record = record_at(plan, physical)
    if record is None:
        return []
    listed = listed_numbers(properties.java_decode(record.topic), record.properties)
    wanted = next((at for name, _, at in listed if name == queue.topic), None)
    if wanted is None or number <= wanted:
        return []
    path, position = queue.path_at(number * size)
    detail = f"the first unit stands {number - wanted} too high, and with it all behind it"
    return [Finding("CQ_SHIFTED", path, position, size, queue.topic, queue.queue_id, number, physical, 1, detail)]

"""Records restored in holes that say another queue than the only one that lacks just their numbers there."""

from __future__ import annotations

import struct
from dataclasses import replace

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.evidence import Change, enters_queue, has_fitting_level, property_crc_agrees
from storeio.salvage.head_fields import FAR_QUEUE
from storeio.salvage.numbers import numbers_of
from storeio.salvage.regions import Fixed
from storeio.salvage.support import Support
from storeio.salvage.survey import Survey


def in_its_queue(survey: Survey, support: Support, fixed: Fixed) -> Fixed:
    """Return a restored record with the queue id that its number and its neighbours tell, where its own fits nowhere.

    Nothing else may vouch for the one that it says: no unit points at it, it has neither property CRC nor delay level,
    no other record is of that queue, whose first it is not, and its topic has hardly so many queues; else those in
    front of it may be lost.
    """
    record, place = fixed.restored.record, fixed.start
    topic, (number, count) = p.java_decode(record.topic), numbers_of(record)
    if not enters_queue(record) or property_crc_agrees(fixed.restored.raw) or has_fitting_level(record):
        return fixed
    if any(not unit.topic.startswith(log.LMQ_PREFIX) for unit in survey.units_in(place, place + 1)):
        return fixed
    lacking = {
        part.queue_id for part in survey.lost_in(place, place + 1)
        if part.topic == topic and part.first_queue_offset <= number and number + count <= part.stop_queue_offset
    }  # fmt: skip
    is_first = number == 0 or survey.concluded.view.min_physical_offset > 0
    is_alone = not is_first and not support.has_runs(topic, record.queue_id)
    is_odd = support.is_beyond(topic, record.queue_id) or record.queue_id >= FAR_QUEUE
    if len(lacking) != 1 or record.queue_id in lacking or not (is_alone and is_odd):
        return fixed
    return _with_queue_id(fixed, lacking.pop())


def _with_queue_id(fixed: Fixed, queue_id: int) -> Fixed:
    """Return a record with another queue id."""
    one, at = fixed.restored, log.QUEUE_ID_AT
    new = struct.pack(">i", queue_id)
    raw = one.raw[:at] + new + one.raw[at + len(new) :]
    changes = (*one.changes, Change("queue_id", at, one.raw[at : at + len(new)], new))
    evidence = tuple(dict.fromkeys((*one.evidence, "queue offsets of neighbours")))
    return replace(
        fixed, restored=replace(one, raw=raw, record=log.decode_record(raw), changes=changes, evidence=evidence)
    )

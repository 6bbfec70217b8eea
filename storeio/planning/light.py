"""Light queues whose units may know better than the records that they point at: these do not list them.

A damaged list names other queues than before, or none; which ones it named, only units tell. A record whose list is
sound, or which never had one, is no reason to keep them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties as text
from storeio.paths import CONSUMEQUEUE
from storeio.planning.draft import Draft
from storeio.planning.misplaced import record_bytes
from storeio.planning.summary import Queue
from storeio.salvage.evidence import property_crc_agrees, whole_record

FIRST_PLAIN: Final = 0x20  # what is below, but the two separators, no producer writes


def disowned(draft: Draft, findings: Iterable[Finding], queue: Queue) -> bool:
    """Tell whether units of a light queue point at intact records that may have listed it before they were damaged."""
    mine = [
        (f, range(f.queue_offset, f.queue_offset + f.count))
        for f in findings
        if (CONSUMEQUEUE, f.topic, f.queue_id) == queue and f.queue_offset is not None
    ]
    orphans = [numbers for f, numbers in mine if f.code == "CQ_UNIT_ORPHAN"]
    said = [(f, numbers.start) for f, numbers in mine if f.code == "LOG_UNIT_DISAGREES"]
    return queue[1].startswith(log.LMQ_PREFIX) and any(
        may_have_listed(record_bytes(draft, f.path, f.position))
        for f, number in said
        if any(number in numbers for numbers in orphans)
    )


def may_have_listed(raw: bytes) -> bool:
    """Tell whether a record may have had another list of light queues than it has.

    It has not where a checksum of all of it agrees, nor where its properties are whole and without a list: that
    takes two of them, and damage that leaves no trace of either leaves something that is no property.
    """
    if property_crc_agrees(raw):
        return False
    record = whole_record(raw)
    if record is None or text.odd_piece(record.properties) is not None:
        return True
    odd = any(byte < FIRST_PLAIN for byte in record.properties.translate(None, b"\x01\x02"))
    return odd or any(name.encode() in record.properties for name in (text.MULTI_DISPATCH, text.MULTI_QUEUE_OFFSET))

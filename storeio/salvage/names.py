"""Records whose topic is no name: the topic of the log that it was before some of its bytes changed.

A name that a broker would refuse may be a habit, if it is like no other; one with control characters, or that is no
UTF-8, is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from storeio.format import commitlog as log
from storeio.salvage.evidence import Unit, bytes_apart, enters_queue
from storeio.salvage.missing import HALF_TOPIC
from storeio.salvage.numbers import numbers_of
from storeio.salvage.support import Support
from storeio.salvage.survey import Survey

MALFORMED: Final = "\ufffd"


def is_no_text(topic: str) -> bool:
    """Tell whether a topic has characters that no text has."""
    return any(char < " " or char in ("\x7f", MALFORMED) for char in topic)


def names_for(survey: Survey, support: Support, place: int, record: log.Record) -> list[str]:
    """Return the topics of the log that a record's may have been, in whose queue its number is free at its place."""
    if record.sys_flag & log.SYS_TRANSACTION == log.SYS_PREPARED:
        return list(_like(record.topic, {HALF_TOPIC}))
    topics = {queue.topic for queue in survey.audit.queues if queue.in_log}
    number = numbers_of(record)[0]
    return [
        topic
        for topic in sorted(_like(record.topic, topics))
        if not enters_queue(record) or support.fits(Unit(topic, record.queue_id, number, place, record.size, 0))
    ]


def _like(raw: bytes, topics: set[str]) -> Iterator[str]:
    """Yield topics of the same length that differ in one byte, or only where zeros came."""
    for topic in topics:
        other = topic.encode(errors="replace")
        if len(other) != len(raw) or is_no_text(topic):
            continue
        rest = bytes(b for b, a in zip(other, raw, strict=True) if a), raw.replace(b"\0", b"")
        if bytes_apart(raw, other) == 1 or (rest[0] == rest[1] and len(rest[1]) * 2 > len(raw)):
            yield topic

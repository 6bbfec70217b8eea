"""Records and units that name different queues, where nothing tells which of both is right."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from storeio.findings import Finding
from storeio.paths import CONSUMEQUEUE
from storeio.planning.draft import Draft
from storeio.planning.misplaced import intact_record_at
from storeio.planning.summary import Queue
from storeio.salvage.evidence import has_fitting_level


def last_pointers(draft: Draft, findings: Iterable[Finding], built: Mapping[Queue, int]) -> set[int]:
    """Return where records lie that no unit points at but one of a queue that would go with it.

    Record and unit name different queues, neither of which has another message: nothing tells which of both is right.
    A delayed message's level does, where the record lies in the queue of that.

    Args:
        draft: What is planned so far.
        findings: Of the store.
        built: How many units the queues have that a rebuild makes.
    """
    findings = [f for f in findings if f.physical_offset is not None]
    missing = {
        f.physical_offset
        for f in findings
        if f.code == "CQ_MISSING" and built.get((CONSUMEQUEUE, f.topic or "", f.queue_id or 0)) == 1
    }
    orphans = {
        f.physical_offset
        for f in findings
        if f.code == "CQ_UNIT_ORPHAN" and (CONSUMEQUEUE, f.topic or "", f.queue_id or 0) not in built
    }
    return {
        f.physical_offset or 0
        for f in findings
        if f.code == "LOG_UNIT_DISAGREES" and f.physical_offset in missing & orphans
        if not ((record := intact_record_at(draft, f.path, f.position)) and has_fitting_level(record))
    }


def of_queue(findings: Iterable[Finding], queue: Queue, places: Container[int]) -> bool:
    """Tell whether findings of a queue are about records at some places."""
    return any(
        f.physical_offset in places and f.code.startswith("CQ_") and (CONSUMEQUEUE, f.topic, f.queue_id) == queue
        for f in findings
        if f.physical_offset is not None
    )

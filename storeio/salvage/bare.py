"""Records without a property CRC amid others that have one: their last bytes are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from storeio.audit import AuditPlan, Concluded
from storeio.audit.peek import record_at
from storeio.audit.walks import walks
from storeio.findings import Finding
from storeio.kernels import tables as w
from storeio.salvage.fillers import may_be_new
from storeio.walk import Walked

MOST_BARE: Final = 16  # records without a property CRC: more of them are what somebody writes
HABIT_OF_CRC: Final = 20  # times as many have one
WITHOUT_CRC: Final = "it has no property CRC, those around it have one"

Bare = tuple[int, Finding]


def bare(concluded: Concluded) -> list[Bare]:
    """Return the few records without a property CRC that lie between others that have one; none that a salvage made.

    The audit says nothing of them: brokers can be told to write it, or not, from any record on. Of each there is its
    physical offset, and what speaks against it.
    """
    plan, checks = concluded.plan, concluded.audit.checks
    most = min(MOST_BARE, checks.get("property_crc", 0) // HABIT_OF_CRC)
    found: list[Bare] = []
    behind: list[Bare] = []  # the last record that has one
    if most == 0 or checks["property_crc"] == checks["records"]:
        return found
    seen = False
    for walked in walks(plan):
        count, at = walked.count, 0
        having = np.flatnonzero(walked.records[w.R_MARKS] & w.MARK_HAS_PROPERTY_CRC)
        if len(having):
            first, at = 0 if seen else int(having[0]), int(having[-1]) + 1
            found += [*behind, *islice(_without(plan, walked, first, at), most + 1)]
            behind, seen = [], True
        if seen:
            behind += islice(_without(plan, walked, at, count), most + 1 - len(behind))
        if len(found) > most:
            return []
    return found


def _without(plan: AuditPlan, walked: Walked, first: int, stop: int) -> Iterator[Bare]:
    """Yield those of a split's records ``[first, stop)`` that have no property CRC."""
    marks, base = walked.records[w.R_MARKS, first:stop], walked.split.base_offset
    for row in (np.flatnonzero(marks & w.MARK_HAS_PROPERTY_CRC == 0) + first).tolist():
        at, size = int(walked.records[w.R_POSITION, row]), int(walked.records[w.R_SIZE, row])
        record = record_at(plan, base + at)
        if record is None or not may_be_new(record.body, record.properties):
            path = walked.split.path
            yield base + at, Finding("LOG_PROPERTY_CRC", path, at, size, physical_offset=base + at, detail=WITHOUT_CRC)

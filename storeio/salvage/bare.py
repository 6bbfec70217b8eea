"""Records without a property CRC amid others that have one: their last bytes are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from storeio.audit import Concluded
from storeio.audit.peek import record_at
from storeio.audit.walks import walks
from storeio.findings import Finding
from storeio.kernels import tables as w
from storeio.salvage.fillers import may_be_new

MOST_BARE: Final = 16  # records without a property CRC: more of them are what somebody writes
HABIT_OF_CRC: Final = 20  # times as many have one
WITHOUT_CRC: Final = "it has no property CRC, all others have one"


def bare(concluded: Concluded) -> Iterator[tuple[int, Finding]]:
    """Yield the few records without a property CRC amid others that all have one; not those that a salvage made.

    The audit says nothing of them: brokers can be told to write it, or not, from any record on.
    """
    plan, audit = concluded.plan, concluded.audit
    without = audit.checks.get("records", 0) - audit.checks.get("property_crc", 0)
    if not 0 < without <= MOST_BARE or audit.checks.get("property_crc", 0) < HABIT_OF_CRC * without:
        return
    found: list[tuple[int, Finding]] = []
    seen = False
    for walked in walks(plan):
        marks, base = walked.records[w.R_MARKS], walked.split.base_offset
        has = marks & w.MARK_HAS_PROPERTY_CRC != 0
        before = np.logical_or.accumulate(has) | seen
        seen = bool(before[-1]) if len(before) else seen
        if has.any():
            yield from found  # there are such with one behind them, too
            found = []
        last = int(np.flatnonzero(has)[-1]) if has.any() else -1
        for row in np.flatnonzero(~has & before).tolist():
            at, size = int(walked.records[w.R_POSITION, row]), int(walked.records[w.R_SIZE, row])
            record = record_at(plan, base + at)
            if record is not None and may_be_new(record.body, record.properties):
                continue
            finding = Finding(
                "LOG_PROPERTY_CRC", walked.split.path, at, size, physical_offset=base + at, detail=WITHOUT_CRC
            )
            if row < last:
                yield base + at, finding
            else:
                found.append((base + at, finding))

"""Units and keys of what brokers read behind the last record that lies where it says.

They ask no record where it lies, so they keep these units and count on from them: a plan leaves what they point at,
and them, to a salvage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from storeio.checks.uncovered import LOG_ENDS
from storeio.findings import Finding
from storeio.format import batchqueue, consumequeue
from storeio.paths import BATCHQUEUE
from storeio.planning.draft import Draft

READ_ON: Final = "brokers read the log on behind the last record that lies where it says: salvage it first"
TAILS: Final = frozenset(("LOG_STALE", "LOG_DIRTY_TAIL", "LOG_TORN_RECORD", "LOG_GARBAGE"))


def may_be_read(finding: Finding) -> bool:
    """Tell whether a finding is of units or keys that point behind the log's end."""
    of_batches = finding.code == "BCQ_UNIT_ORPHAN" and finding.detail.startswith(LOG_ENDS)
    return of_batches or finding.code in ("CQ_BEYOND_LOG", "INDEX_BEYOND_LOG")


def read_on(draft: Draft, findings: Iterable[Finding], stop: int) -> list[Finding]:
    """Return the findings of units and keys that point behind the log's end, some of them at what brokers read.

    Args:
        draft: What is planned so far.
        findings: Of the store as it is planned so far.
        stop: Physical offset up to which they read it.
    """
    return [finding for finding in findings if may_be_read(finding) and _points_below(draft, finding, stop)]


def _points_below(draft: Draft, finding: Finding, stop: int) -> bool:
    """Tell whether a unit of a finding points below a physical offset."""
    if finding.code.startswith("INDEX_") or not draft.store.exists(finding.path):
        return finding.physical_offset is not None and finding.physical_offset < stop
    end = min(finding.position + finding.length, draft.store.length(finding.path))
    data = b"".join(draft.store.pieces(finding.path, finding.position, end))
    is_batch = finding.path.startswith(f"{BATCHQUEUE}/")
    unit = batchqueue.UNIT_BYTES if is_batch else consumequeue.UNIT_BYTES
    units = (batchqueue if is_batch else consumequeue).decode(data[: len(data) // unit * unit])
    offset, size = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    return bool(((offset >= 0) & (size > 0) & (offset < stop)).any())  # brokers look at no more of it

"""Lost messages of which nothing tells the queue: something still points at them, and their numbers are not missed.

The last messages of a queue whose units are gone, or stand in a file of another queue, are missed by no number; their
keys are in the index, or those units point where the log is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit.split import index_reader
from storeio.checks.index_stretch import pieces_of
from storeio.checks.ranges import Range, Ranges, merged
from storeio.salvage import holes
from storeio.salvage.decide import Decision
from storeio.salvage.survey import Survey

Numbers = npt.NDArray[np.int64]

TAIL: Final = "LOG_TAIL_LOST"


def unnamed(known: Survey, decision: Decision) -> int:
    """Return how many messages are lost at least besides those whose numbers are missing and what was dropped.

    That is how many places units point at where nothing is left, less those of which something else is told. A message
    that is missed by its number alone may be at any of them.
    """
    kinds = (holes.FILLER, holes.TOMBSTONE, holes.BLANK)
    gone = [(patch.physical_offset, patch.stop) for patch in decision.patches if patch.kind in kinds]
    gone += [
        (row.physical_offset, row.physical_offset + row.length)
        for row in known.audit.findings
        if row.code == TAIL and row.physical_offset is not None
    ]
    told = {row.physical_offset for row in decision.dropped}
    told |= {row.unit.physical_offset for row in decision.missing if row.unit is not None}
    anywhere = sum(row.stop - row.first for row in decision.missing if row.unit is None)
    count = 0
    for low, high in _by_segment(merged(gone), known.segment_bytes):
        places = set(_pointed_at(known, low, high).tolist())
        count += len(places - told)
    return max(count - anywhere, 0)


def _by_segment(ranges: Ranges, segment_bytes: int) -> Iterator[Range]:
    """Yield the ranges, cut where segments end: a log may have lost many, and they are looked at one by one."""
    for low, high in ranges:
        for base in range(low - low % segment_bytes, high, segment_bytes):
            yield max(low, base), min(high, base + segment_bytes)


def _pointed_at(known: Survey, low: int, high: int) -> Numbers:
    """Return the places in a physical range at which units of queues and of the index point, each once."""
    pieces = pieces_of(known.plan.index, index_reader(known.plan), low, high)
    offsets = [piece.units["physical_offset"].astype(np.int64) for piece in pieces]
    offsets.append(np.array([unit.physical_offset for unit in known.units_in(low, high)], np.int64))
    offsets.append(np.array(sorted(known.nobodys), np.int64))
    found = np.unique(np.concatenate(offsets))
    return found[(found >= low) & (found < high)]

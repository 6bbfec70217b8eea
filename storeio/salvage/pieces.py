"""Bytes that lie in one place and belong into another, and which physical ranges of a log hold good ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from storeio.audit import AuditPlan, Concluded
from storeio.checks.ranges import Ranges
from storeio.checks.segments import Segment
from storeio.kernels import tables as w


class Piece(NamedTuple):
    """Bytes of a file, and the physical offset at which they belong."""

    plan: AuditPlan
    path: str
    position: int
    length: int
    physical_offset: int


def records_of(found: Concluded) -> Ranges:
    """Return the physical ranges that hold intact records; a blank record may be that of a shifted file."""
    return [row for segment in found.view.segments for row in ranges_of(segment, w.RECORD)]


def ranges_of(segment: Segment, *classes: int) -> Ranges:
    """Return the physical ranges of a segment whose bytes are of one of some classes."""
    low_high = segment.spans[:2, np.isin(segment.spans[w.SPAN_CLASS], classes)]
    return [(segment.base + low, segment.base + high) for low, high in low_high.T.tolist()]

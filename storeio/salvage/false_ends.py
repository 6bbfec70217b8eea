"""Blank records behind damage that close nothing: queue units point at intact records behind them.

A walk that found no record of a segment yet cannot tell by the times whether what lies behind a blank record is older,
left there from before the file was cut and used again, or live. A unit whose number no other record has can.
"""

from __future__ import annotations

from collections.abc import Iterator

from storeio.audit import Concluded
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.salvage.evidence import Known, Unit, agrees
from storeio.salvage.survey import Survey, survey


def false_ends(found: Concluded) -> Iterator[tuple[str, int]]:
    """Yield the blank records that stand in front of live ones: path and position, ``log.BLANK_HEAD_BYTES`` each."""
    ends = [
        (segment, int(segment.spans[w.SPAN_START, -1]))
        for segment in found.view.segments
        if segment.spans.shape[1] and segment.spans[2:, -1].tolist() == [w.BLANK, w.WHY_BLANK_DIRTY]
    ]
    if not ends:
        return
    known = survey(found)
    for segment, position in ends:
        behind = known.units_in(segment.base + position + log.BLANK_HEAD_BYTES, segment.base + known.segment_bytes)
        if any(_is_live(known, unit) for unit in behind):
            yield segment.file.path, position


def _is_live(known: Survey, unit: Unit) -> bool:
    """Tell whether an intact record that no walk has read stands where a unit points, and says all that it says."""
    if not known.lacks(unit) or known.size_at(unit.physical_offset) != unit.size:
        return False
    raw = known.read(unit.physical_offset, unit.physical_offset + unit.size)
    return agrees(raw, Known(unit.physical_offset, ((unit.size, "queue unit"),), unit)) is not None

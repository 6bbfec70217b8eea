"""Messages that the log lacks in their place, and that an intact record elsewhere in it holds: they are not lost.

Such records are those of a segment with another name than its own, or behind bytes that came in or went away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit.plan import AuditPlan
from storeio.checks.columns import Columns, ColumnsBuilder
from storeio.checks.ranges import Bounds, Range, Ranges, merged, subtract
from storeio.dispatch import all_units, grouped_units, multi_dispatched
from storeio.format import commitlog as log
from storeio.kernels import tables as w
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_ROWS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE
from storeio.results import LostRange
from storeio.splits import Split, WalkState
from storeio.walk import Walked, walk_split
from storeio.window import Read

MISPLACED: Final = "an intact record elsewhere in the log holds it"
"""Evidence of messages that are not lost."""
ROUNDS: Final = 4  # so many other places of a split are asked for: a file has one, a few if it was changed as often
MOST_PHYSICAL: Final = 2**62

Numbers = npt.NDArray[np.int64]


def misplaced_runs(plan: AuditPlan, walked: Walked, delays_ms: Numbers, piece_bytes: int) -> Columns:
    """Return the runs of queue offsets of the records of a split that name other places, told as if they lay there.

    Each place is one more walk, as if the file had the name that it is then in its place by. The tables of ``walked``
    are used for that: it ends its use.

    Raises:
        UnreadableError: As the walk of the split.
    """
    runs = ColumnsBuilder(RUN_ROWS)
    split, read = walked.split, walked.read
    left: Ranges = [(low, high) for low, high, kind, _ in walked.spans.T.tolist() if kind == w.STALE]
    for _ in range(ROUNDS):
        if (elsewhere := _first_elsewhere(split, read, left)) is None:
            break
        number, physical = elsewhere
        position = left[number][0]
        moved = replace(split, base_offset=physical - position)
        walked = walk_split(read, moved, WalkState(position), delays_ms=delays_ms, reuse=True, piece_bytes=piece_bytes)
        _add(plan, walked, runs)
        found = [(low, high) for low, high, kind, _ in walked.spans.T.tolist() if kind == w.RECORD]
        asked = left[number:]
        left = [part for row in asked for part in subtract(row, found)]
        left = left if left != asked else asked[1:]
    return runs.columns()


def _first_elsewhere(split: Split, read: Read, stretches: Sequence[Range]) -> tuple[int, int] | None:
    """Return which of the stretches is the first whose record names another place, and that; None without one."""
    for number, (position, _) in enumerate(stretches):
        _, physical = log.claim(read(position, position + log.CLAIM_BYTES).tobytes())
        if 0 <= physical <= MOST_PHYSICAL and physical != split.base_offset + position:
            return number, physical
    return None


def _add(plan: AuditPlan, walked: Walked, runs: ColumnsBuilder) -> None:
    """Add the runs of all queues that the records of a walk are of."""
    if not walked.count:
        return
    grouped = grouped_units(walked)
    listed = multi_dispatched(walked) if plan.multi_dispatch else {}
    for units in all_units(grouped, grouped.present(), listed):
        kind = BATCHQUEUE if units.topic in plan.facts.batch_topics else CONSUMEQUEUE
        runs.add((kind, units.topic, units.queue_id), units.runs())


def told(missing: Iterable[LostRange], runs: Numbers, *, is_placed: bool) -> Iterator[LostRange]:
    """Yield the missing numbers of a queue in their order; those that misplaced records hold are ``MISPLACED``.

    ``runs`` are those of the queue's misplaced records, a table of ``kernels.group``. One with such a number that says
    it lay elsewhere than the missing message is another message. Units of a light queue, which is not ``is_placed``,
    may stand at other numbers than their records say: there as many records in that place will do.
    """
    bounds = Bounds(runs[[RUN_START_AT, RUN_STOP_AT]].T)  # neither the missing nor the runs may be few
    for part in missing:
        first, stop = part.first_queue_offset, part.stop_queue_offset
        near = runs[:, bounds.meeting(part.physical_start, part.physical_stop)]
        fits = (near[RUN_FIRST] < stop) & (near[RUN_STOP] > first)
        rows = near[[RUN_FIRST, RUN_STOP]][:, fits].T.tolist()
        held = merged((max(low, first), min(high, stop)) for low, high in rows)
        inside = (near[RUN_START_AT] >= part.physical_start) & (near[RUN_STOP_AT] <= part.physical_stop)
        if not is_placed and near[RUN_RECORDS, inside].sum() == stop - first:
            held = [(first, stop)]
        pieces = [(*row, MISPLACED) for row in held] + [(*row, part.evidence) for row in subtract((first, stop), held)]
        for low, high, evidence in sorted(pieces):
            yield replace(part, first_queue_offset=low, stop_queue_offset=high, evidence=evidence)

"""The log walked from its beginning, one split behind the other: for questions that every record has to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from storeio.audit.plan import AuditPlan
from storeio.splits import WalkState
from storeio.walk import Walked, walk_split
from storeio.window import PIECE_BYTES


def walks(plan: AuditPlan) -> Iterator[Walked]:
    """Yield a log's splits, walked one behind the other with the exact state; each lasts until the next."""
    state, path = WalkState(0), ""
    for split in plan.splits:
        state = state if split.path == path else WalkState(0)
        path = split.path
        if state.position < split.stop:
            walked = walk_split(_reader(plan, path), split, state, reuse=True, piece_bytes=PIECE_BYTES)
            state = walked.end
            yield walked


def _reader(plan: AuditPlan, path: str) -> Callable[[int, int], npt.NDArray[np.uint8]]:
    return lambda start, stop: plan.read(path, start, stop)

"""Why a part of a store is left out of a plan, where that is not for what an apply would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from storeio.checks.index_shape import UNTOLD
from storeio.findings import Finding
from storeio.planning.draft import Draft
from storeio.planning.light import disowned
from storeio.planning.limits import RefusedError
from storeio.planning.undecided import of_queue
from storeio.results import INDEX_SHAPE

DISOWNED: Final = "units of a light queue point at messages that do not list it, perhaps since these are damaged"
UNDECIDED: Final = "a record and the only unit that points at it name different queues; which is right, nothing tells"
MISPLACED: Final = "records that it points at lie elsewhere in the log than they say: mend the log first"
SHAPELESS: Final = f"{UNTOLD}: give {' and '.join(INDEX_SHAPE)} as the broker has them"
CONTRADICTED: Final = "log and queues contradict each other, whatever is mended first"


def require_clear(draft: Draft, findings: Sequence[Finding], queue: tuple[str, str, int], last: set[int]) -> None:
    """Raise where a queue's units may know better than the records; ``last`` is as of ``last_pointers``.

    Raises:
        RefusedError: They may.
    """
    if disowned(draft, findings, queue):
        raise RefusedError(DISOWNED)
    if of_queue(findings, queue, last):
        raise RefusedError(UNDECIDED)


def require_placed(*, is_ahead: bool) -> None:
    """Raise where something knows of messages that the log has again once it is mended.

    Raises:
        RefusedError: It does.
    """
    if is_ahead:
        raise RefusedError(MISPLACED)

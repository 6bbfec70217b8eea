"""Why a part of a store is left out of a plan, where that is not for what an apply would refuse."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from storeio.checks.index_shape import UNTOLD
from storeio.findings import Finding
from storeio.format.index import DEFAULT_SLOTS, DEFAULT_UNITS, HEADER_BYTES, file_length
from storeio.paths import INDEX
from storeio.planning.draft import Draft
from storeio.planning.light import disowned
from storeio.planning.limits import RefusedError
from storeio.planning.read_on import READ_ON
from storeio.planning.undecided import of_queue
from storeio.results import INDEX_SHAPE, Audit

DISOWNED: Final = "units of a light queue point at messages that do not list it, perhaps since these are damaged"
UNDECIDED: Final = "a record and the only unit that points at it name different queues; which is right, nothing tells"
MISPLACED: Final = "records that it points at lie elsewhere in the log than they say: mend the log first"
SHAPELESS: Final = f"{UNTOLD}: give {' and '.join(INDEX_SHAPE)} as the broker has them"
DAMAGED: Final = "records that it disagrees with are damaged, and nothing tells what stood there: salvage them first"
CONTRADICTED: Final = "log and queues contradict each other, whatever is mended first"


def require_clear(
    draft: Draft, findings: Sequence[Finding], queue: tuple[str, str, int], last: set[int], untold: Sequence[int]
) -> None:
    """Raise where a queue's units may know better than the records.

    Args:
        draft: What is planned so far.
        findings: Those that name the queue.
        queue: Its kind, topic and queue id.
        last: As of ``last_pointers``.
        untold: Physical offsets of records that are damaged, of which nothing tells what they were, ascending.

    Raises:
        RefusedError: They may.
    """
    if disowned(draft, findings, queue):
        raise RefusedError(DISOWNED)
    if of_queue(findings, queue, last):
        raise RefusedError(UNDECIDED)
    if disagrees(findings, "LOG_UNIT_DISAGREES", untold):
        raise RefusedError(DAMAGED)


def require_index_clear(found: Audit, last: set[int], untold: Sequence[int], kept: Sequence[Finding]) -> None:
    """Raise where the index cannot be made anew, or may know better than the records; as for ``require_clear``.

    Where some of ``kept`` are its own, findings of what brokers keep, it has keys of records that we do not read.

    Raises:
        RefusedError: So it is.
    """
    findings = found.findings
    if any(f.code.startswith("INDEX_") for f in kept):
        raise RefusedError(READ_ON)
    if any(f.detail == UNTOLD for f in findings) or _are_no_defaults(found):
        raise RefusedError(SHAPELESS)
    if any(f.code == "LOG_INDEX_DISAGREES" and f.physical_offset in last for f in findings):
        raise RefusedError(UNDECIDED)
    if disagrees(findings, "LOG_INDEX_DISAGREES", untold):
        raise RefusedError(DAMAGED)


def _are_no_defaults(found: Audit) -> bool:
    """Tell whether index files that hold nothing any more have another length than the defaults would give them."""
    usual = file_length(DEFAULT_SLOTS, DEFAULT_UNITS)
    sizes = {file.size for file in found.files if file.kind == INDEX}
    is_default = any(each.name in INDEX_SHAPE and each.is_default for each in found.settings)
    return is_default and any(HEADER_BYTES < size != usual for size in sizes)


def disagrees(findings: Iterable[Finding], code: str, places: Sequence[int]) -> bool:
    """Tell whether findings of a code are about records at some physical offsets, ascending."""
    mine = ((f.physical_offset, f.length) for f in findings if f.code == code)
    return any(
        at is not None and bisect_left(places, at) < bisect_left(places, at + max(length, 1)) for at, length in mine
    )


def require_placed(*, is_ahead: bool) -> None:
    """Raise where something knows of messages that the log has again once it is mended.

    Raises:
        RefusedError: It does.
    """
    if is_ahead:
        raise RefusedError(MISPLACED)

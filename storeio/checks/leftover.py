"""What of a queue's files no record of the log implies, as ``uncovered`` finds it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from storeio.checks.numbering import UnitRow
from storeio.checks.ranges import Range
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import consumequeue

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Leftover:
    """What the uncovered units of one queue are; ``classes`` counts bytes per class, covered ones excluded.

    ``beyond`` are (unit number, physical offset, size) of units behind the end of the log, ``damaged``
    of those that point into holes, ``unread`` of those whose record could not be read. ``spans`` are the queue offsets
    that these have in a batch queue, by unit number, as far as they are to be believed. ``stop`` is the number behind
    the last unit that is no dirty tail. ``expired`` is the last unit whose record retention has deleted, -1 without:
    a queue that has no other ends with it, at the queue offset ``dead_stop``. ``astray`` counts those amid the log.
    """

    findings: list[Finding] = field(default_factory=list)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    beyond: list[UnitRow] = field(default_factory=list)
    damaged: list[UnitRow] = field(default_factory=list)
    unread: list[UnitRow] = field(default_factory=list)
    spans: dict[int, Range] = field(default_factory=dict)
    first_real: int | None = None
    stop: int = 0
    units: int = 0
    expired: int = -1
    dead_stop: int = 0
    astray: int = 0

    @property
    def gone(self) -> tuple[list[UnitRow], list[UnitRow], list[UnitRow]]:
        """The units whose records are lost or were not read: ``beyond``, ``damaged`` and ``unread``."""
        return self.beyond, self.damaged, self.unread


def are_deleted(physical: Numbers, length: Numbers, log_min: int) -> Mask:
    """Tell which units may be those of records that retention has deleted: whole ones in front of the log.

    A segment ends where the next one begins, so that none reaches into the log. The broker's filler is none.

    Args:
        physical: The physical offsets that they hold, shape ``(n,)``.
        length: The sizes, likewise.
        log_min: Where the log begins.
    """
    is_size = (length >= log.MIN_RECORD_BYTES) & (length < consumequeue.PRE_BLANK_SIZE)
    found: Mask = is_size & (physical >= 0) & (physical <= log_min - length)
    return found

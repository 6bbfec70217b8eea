"""A plan that counts what is read through it, and can keep it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from storeio.audit.plan import AuditPlan
from storeio.reading.many_files import P_BYTES, Pieces

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class WatchedPlan(AuditPlan):
    """A plan that counts what is read through it and, if asked to, keeps it."""

    seen: list[tuple[str, int, int, Bytes]] = field(default_factory=list)
    read_bytes: int = 0
    keeps: bool = False
    own: str = ""  # the file whose bytes are never kept

    def read(self, path: str, start: int, stop: int, *, populate_to: int | None = None) -> Bytes:
        """Return bytes of a file of the store, counted."""
        data = AuditPlan.read(self, path, start, stop, populate_to=populate_to)
        self.read_bytes += len(data) if populate_to is None else max(min(stop, populate_to) - start, 0)  # less holes
        if self.keeps and path != self.own:
            self.seen.append((path, start, stop, data))
        return data

    def agreeing(self, pieces: Pieces) -> Mask:
        """Tell which pieces are as expected; those that are, are counted, and kept, as if they had been read."""
        same = AuditPlan.agreeing(self, pieces)
        self.read_bytes += int(pieces.table[P_BYTES, same].sum())
        for k in np.flatnonzero(same).tolist() if self.keeps else ():
            path, start, stop, data = pieces.piece(k)
            self.seen.append((path, start, stop, data.copy()))
        return same


def watched(plan: AuditPlan, *, keeps: bool = False, own: str = "") -> WatchedPlan:
    """Return the plan as one that counts what is read, and keeps it but for what is read of ``own``."""
    return WatchedPlan(**{f.name: getattr(plan, f.name) for f in fields(AuditPlan)}, keeps=keeps, own=own)

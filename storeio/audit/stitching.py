"""Reports of splits that were walked at the same time, put together as one walk would have made them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storeio.audit.split import SplitReport, empty_report, why_unread
from storeio.errors import UnreadableError
from storeio.splits import Split, WalkState, settled

Again = Callable[[Split, WalkState], SplitReport]


def stitch(reports: Sequence[SplitReport], again: Again, failed: list[str] | None = None) -> list[SplitReport]:
    """Return the reports as a sequential walk would have made them.

    A split whose guess was wrong is walked again from where the one before it truly ended. Behind one that could not
    be read the guess stands; what cannot be read again is left out, and told in ``failed``.
    """
    stitched: list[SplitReport] = []
    for report in reports:
        before = stitched[-1] if stitched and stitched[-1].split.path == report.split.path else None
        if before is None or before.split.stop != report.split.start:
            stitched.append(report)
            continue
        try:
            stitched.append(settled(report, before.end, again, empty_report))
        except UnreadableError as error:
            if failed is None:
                raise
            failed.append(why_unread(report.split, error))
    return stitched

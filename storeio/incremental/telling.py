"""What the records of a store tell of its queues, by the newest look at each split, whenever that was."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from storeio.audit.learned import learned
from storeio.audit.plan import AuditPlan
from storeio.audit.split import SplitReport
from storeio.splits import Split


@dataclass(slots=True)
class Telling:
    """Where the walk of each split that is known began and ended, and what its records tell of their queues."""

    _walked: dict[Split, SplitReport] = field(default_factory=dict)

    def take(self, report: SplitReport) -> None:
        """Take what the newest look at a split found."""
        self._walked[report.split] = SplitReport(
            report.split, report.begin, report.end, report.asked, report.skipped_until, report.spans[:, :0],
            told=report.told,
        )  # fmt: skip

    def drop(self, split: Split) -> None:
        """Forget a split that could not be read."""
        self._walked.pop(split, None)

    def taught(self, plan: AuditPlan, unreadable: Container[Split]) -> AuditPlan:
        """Return the plan with what is surely told, the same plan if that is nothing new.

        A split that begins in the middle of a segment has guessed where its first record starts, and the guess may be
        inside a message: it counts once all before it are known. Behind an unreadable one the guess stands.
        """
        return learned(plan, list(self._proven(plan, unreadable)))

    def _proven(self, plan: AuditPlan, unreadable: Container[Split]) -> Iterator[SplitReport]:
        broken = ""
        for split in plan.splits:
            if split in self._walked and split.path != broken:
                yield self._walked[split]
            elif split not in unreadable:
                broken = split.path

"""Which actions of a plan are wanted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from storeio.findings import Finding


@dataclass(frozen=True, slots=True)
class Selection:
    """Which actions are wanted; an empty collection means all.

    ``queues`` are topics, or topic and queue id; ``paths`` are patterns as of the shell.
    """

    queues: Collection[tuple[str, int | None]] = ()
    paths: Collection[str] = ()
    codes: Collection[str] = ()
    risks: Collection[str] = ()

    def takes(self, finding: Finding) -> bool:
        """Tell whether what a finding asks for is wanted."""
        if self.codes and finding.code not in self.codes:
            return False
        if not self.takes_path(finding.path):
            return False
        if not self.queues:
            return True
        return (finding.topic, None) in self.queues or (finding.topic, finding.queue_id) in self.queues

    def takes_path(self, path: str) -> bool:
        """Tell whether actions on a file are wanted."""
        return not self.paths or any(fnmatchcase(path, pattern) for pattern in self.paths)

    def takes_risk(self, risk: str) -> bool:
        """Tell whether actions of a risk are wanted."""
        return not self.risks or risk in self.risks

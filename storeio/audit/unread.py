"""What of a store could not be read: of that neither records nor damage are known, and what rests on it is not said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from storeio.audit.plan import AuditPlan
from storeio.audit.split import SplitReport
from storeio.checks.layout import is_offset
from storeio.checks.ranges import Ranges, merged
from storeio.findings import Finding
from storeio.paths import BATCHQUEUE, COMMITLOG, INDEX, QUEUE_EXT, describe, queue_directory
from storeio.scan import failed_since, not_listed
from storeio.splits import Split

ANY_OFFSET: Final = (0, 2**62)  # of a log whose directory does not tell which segments it has
# What is said where nothing is found: it may stand in a file that could not be read.
OF_ABSENCE: Final = frozenset(("CQ_MISSING", "CQ_GAP", "BCQ_MISSING"))
OF_UNORDERED: Final = frozenset(("BCQ_UNIT_MISSING",))  # in any of the queue's files
OF_ADDRESSES: Final = frozenset(("CQ_TAGS_CODE", "LOG_UNIT_DISAGREES"))  # which lead into queue ext files


def unread_splits(plan: AuditPlan, reports: Sequence[SplitReport]) -> list[Split]:
    """Return the splits of the plan that have no report."""
    known = {(report.split.path, report.split.start) for report in reports}
    return [split for split in plan.splits if (split.path, split.start) not in known]


def unreadable(failed: Iterable[str]) -> list[Finding]:
    """Return findings of what could not be read, told as ``PATH: why``."""
    parted = [text.partition(": ") for text in failed]
    return [Finding("UNREADABLE", path, detail=why) for path, _, why in parted]


def untold(plan: AuditPlan, findings: Iterable[Finding]) -> list[str]:
    """Return what could not be read of files of which no finding tells that: something was judged without it."""
    told = {finding.path for finding in findings if finding.code == "UNREADABLE"}
    return [text for text in failed_since(plan.listing) if text.partition(": ")[0] not in told]


def unread_log(plan: AuditPlan, unread: Iterable[Split], reports: Iterable[SplitReport]) -> Ranges:
    """Return the physical ranges that could not be read, merged.

    Those are splits, parts of the splits that reports are of, and segments that could not be looked at.
    """
    ranges = [(split.base_offset + split.start, split.base_offset + split.stop) for split in unread]
    for report in reports:
        base = report.split.base_offset
        ranges += [(base + low, base + high) for low, high in report.unread]
    size = plan.segment_bytes
    for path in not_listed(plan.listing, (COMMITLOG,)):
        file = describe(path, size)
        if path in (".", COMMITLOG):
            return [ANY_OFFSET]
        if is_offset(file, size):
            ranges.append((file.base_offset or 0, (file.base_offset or 0) + size))
    return merged(ranges)


def bad_blocks(reports: Iterable[SplitReport]) -> list[Finding]:
    """Return what could not be read of segments of which the rest could."""
    found: dict[tuple[str, int], tuple[Ranges, str]] = {}
    for report in reports:
        if report.bad:
            ranges, _ = found.setdefault((report.split.path, report.split.base_offset), ([], report.why))
            ranges += report.bad  # a record of one split may end in the next one
    return [
        Finding("UNREADABLE", path, low, high - low, physical_offset=base + low, detail=why)
        for (path, base), (ranges, why) in found.items()
        for low, high in merged(ranges)
    ]


@dataclass(frozen=True, slots=True)
class Unread:
    """Files that were to be looked at whole and could not be, and directories that could not be listed.

    ``above`` are the directories that one of them lies in: of a disk that fails thousands of files are asked about.
    """

    paths: frozenset[str]
    above: frozenset[str]

    @property
    def of_index(self) -> bool:
        """Whether something of the index could not be read."""
        return self.touches(INDEX)

    def touches(self, path: str) -> bool:
        """Tell whether a file or directory, one that it lies in, or something in it, could not be read."""
        return path in self.above or not self.paths.isdisjoint((".", path, *_directories(path)))


def unread_of(plan: AuditPlan) -> Unread:
    """Return what of a store could not be read, once its files were looked at."""
    failed = (report.file.path for report in plan.file_reports if report.failed)
    paths = frozenset((*failed, *not_listed(plan.listing)))
    return Unread(paths, frozenset(above for path in paths for above in _directories(path)))


def _directories(path: str) -> Iterator[str]:
    """Yield the directories that a path lies in."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def rests_on(finding: Finding, unread: Unread) -> bool:
    """Tell whether a finding says that something is missing that may be in what could not be read."""
    if finding.code in ("INDEX_MISSING", "INDEX_UNIT_MISSING"):
        return unread.of_index
    if finding.topic is None or finding.queue_id is None:
        return False
    if finding.code in OF_ADDRESSES:
        return unread.touches(queue_directory(QUEUE_EXT, finding.topic, finding.queue_id))
    if finding.code in OF_UNORDERED:
        return unread.touches(queue_directory(BATCHQUEUE, finding.topic, finding.queue_id))
    return finding.code in OF_ABSENCE and unread.touches(finding.path)

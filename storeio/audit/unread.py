"""What of a store could not be read: of that neither records nor damage are known, and what rests on it is not said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def unread_files(plan: AuditPlan) -> frozenset[str]:
    """Return the files that were to be looked at whole and could not be, and directories that could not be listed."""
    failed = (report.file.path for report in plan.file_reports if report.failed)
    return frozenset((*failed, *not_listed(plan.listing)))


def is_index_unread(unread: Iterable[str]) -> bool:
    """Tell whether something of the index could not be read."""
    return any(path == "." or path.split("/")[0] == INDEX for path in unread)


def rests_on(finding: Finding, unread: frozenset[str]) -> bool:
    """Tell whether a finding says that something is missing that may be in what could not be read."""
    if finding.code in ("INDEX_MISSING", "INDEX_UNIT_MISSING"):
        return is_index_unread(unread)
    if finding.topic is None or finding.queue_id is None:
        return False
    if finding.code in OF_ADDRESSES:
        return _touches(queue_directory(QUEUE_EXT, finding.topic, finding.queue_id), unread)
    if finding.code in OF_UNORDERED:
        return _touches(queue_directory(BATCHQUEUE, finding.topic, finding.queue_id), unread)
    return finding.code in OF_ABSENCE and _touches(finding.path, unread)


def _touches(path: str, unread: Iterable[str]) -> bool:
    """Tell whether a file or directory, one that it lies in, or something in it, could not be read."""
    return any(one == "." or f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in unread)

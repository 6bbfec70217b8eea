"""The value that names something wrong and its place, and how many of them become a short list."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Final

from storeio.codes import CODES, ERROR, INFO, SEVERITIES, WARNING, Code

__all__ = ["CODES", "ERROR", "INFO", "SEVERITIES", "WARNING", "Code", "Finding", "condense", "merge"]

MOST_ROWS: Final = 1000  # of one code in one file and queue


@dataclass(frozen=True, slots=True)
class Finding:
    """Something observed to be wrong, with place and code.

    ``path`` is relative to the store root; ``position`` and ``length`` are bytes of that file, or of
    the file that should be there; of what is missing between two others, the place and no bytes.
    ``count`` neighbours of one code are one finding.
    """

    code: str
    path: str
    position: int = 0
    length: int = 0
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None
    count: int = 1
    detail: str = ""

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``info``."""
        return CODES[self.code].severity

    @property
    def sentence(self) -> str:
        """What was found, in words that go for every finding of the code."""
        return CODES[self.code].sentence

    @property
    def cause(self) -> str:
        """Why it happens."""
        return CODES[self.code].cause

    @property
    def remedy(self) -> str:
        """What helps, in a sentence."""
        return CODES[self.code].remedy


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in order of place, neighbours of one code joined into one row.

    Neighbours touch or overlap in one file and belong to one queue; the row keeps the first
    one's numbers and detail, the sum of counts and the whole range.
    """
    merged: list[Finding] = []
    ordered = sorted(findings, key=lambda f: (f.path, f.code, f.topic or "", f.queue_id or 0, f.position))
    for finding in ordered:
        last = merged[-1] if merged else None
        if last is not None and _joins(last, finding):
            end = max(last.position + last.length, finding.position + finding.length)
            merged[-1] = replace(last, length=end - last.position, count=last.count + finding.count)
        else:
            merged.append(finding)
    rank = {severity: i for i, severity in enumerate(SEVERITIES)}
    return sorted(merged, key=lambda f: (rank[f.severity], f.path, f.position, f.code))


def condense(findings: Iterable[Finding], kept: Container[str] = ()) -> list[Finding]:
    """Return merged findings with at most ``MOST_ROWS`` rows of one code in one file and queue.

    What is over is folded into one row that spans the rest and carries its count, so that the
    report of a store that is wrong everywhere stays small. Of codes that are ``kept`` each row stays.
    """
    rows: list[Finding] = []
    seen: dict[tuple[str, str, str | None, int | None], int] = {}
    folded: dict[tuple[str, str, str | None, int | None], int] = {}
    for finding in merge(findings):
        key = (finding.code, finding.path, finding.topic, finding.queue_id)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] < MOST_ROWS or finding.code in kept:
            rows.append(finding)
        elif key not in folded:
            folded[key] = len(rows)
            rows.append(finding)
        else:
            first = rows[folded[key]]
            start = min(first.position, finding.position)
            stop = max(first.position + first.length, finding.position + finding.length)
            rows[folded[key]] = replace(
                first, position=start, length=stop - start, count=first.count + finding.count,
                detail="many places in this range",
            )  # fmt: skip
    return rows


def _joins(last: Finding, finding: Finding) -> bool:
    same = (last.path, last.code, last.topic, last.queue_id)
    if same != (finding.path, finding.code, finding.topic, finding.queue_id):
        return False
    if finding.length > 0:
        return finding.position <= last.position + last.length
    between = finding.physical_offset is not None and last.length == 0  # what records lack at one place
    return between and (last.position, last.detail) == (finding.position, finding.detail)

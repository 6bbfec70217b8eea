"""The splits' index comparisons joined: header times, first units, and neighbours across splits.

A file's begin time is the store time of its first unit's record. If the header says otherwise, all
seconds seem wrong; so the header is judged first, by that record or by the majority, and reported
once. The first unit's own seconds count from the end of the file before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from storeio.checks.index_border import bridged
from storeio.checks.index_content import FileTimes, IndexContent, Seconds
from storeio.checks.index_events import CODES
from storeio.checks.index_stretch import IndexFiles, ReadUnits
from storeio.checks.index_structure import IndexStructure
from storeio.findings import Finding
from storeio.format import index
from storeio.kernels import index_match as kernel

DUPLICATE: Final = CODES[kernel.DUPLICATE][0]
COPY: Final = "INDEX_COPY"


@dataclass(slots=True)
class _Times:
    """All that is known of one file's times; with each row the split that it comes from."""

    wrong: list[tuple[IndexContent, Seconds]] = field(default_factory=list)
    wrong_count: int = 0
    looked_at: int = 0
    first: tuple[IndexContent, Seconds] | None = None
    last: tuple[IndexContent, Seconds] | None = None

    def add(self, content: IndexContent, times: FileTimes) -> None:
        """Add what one split knows."""
        self.wrong += [(content, each) for each in times.wrong]
        self.wrong_count += times.wrong_count
        self.looked_at += times.looked_at
        self.first = (content, times.first) if times.first else self.first
        self.last = (content, times.last) if times.last else self.last


def finish_content(files: IndexFiles, read_units: ReadUnits, contents: Sequence[IndexContent]) -> list[Finding]:
    """Return all findings of the splits' comparisons, which are in log order."""
    times: dict[int, _Times] = {}
    for content in contents:
        for each in content.times:
            times.setdefault(each.file_no, _Times()).add(content, each)
    findings = _joined(bridged(files, read_units, [content.ends for content in contents]))
    findings += [finding for content in contents for finding in content.findings]
    whole = bool(contents) and contents[0].covered[0] == 0
    before: int | None = None
    incomplete = {finding.path for finding in findings if finding.code == "INDEX_UNIT_MISSING"}
    for file_no in files.log_order:
        known = times.get(file_no, _Times())
        findings += _times_of(files[file_no], known)
        if known.first:
            beside = {files[number].path for number in (file_no, before) if number is not None}
            # Where keys are missing between two files, the one from which the seconds count may be gone.
            inherited = () if beside & incomplete else _inherited(files, times, before, whole=whole)
            content, first = known.first
            fits = any(first.seconds == kernel.seconds_since(first.store_ms, each) for each in inherited)
            if first.seconds < 0 or (inherited and not fits):
                findings += _wrong_seconds(files[file_no], content, first)
        before = file_no
    return _copies_told(files, findings)


def _copies_told(files: IndexFiles, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, those of a file all of whose units stand twice as one that says so, and where they do."""
    twice: dict[str, int] = {}
    for finding in findings:
        if finding.code == DUPLICATE:
            twice[finding.path] = twice.get(finding.path, 0) + finding.count
    told = list(findings)
    for file in files:
        if not 0 < file.entries <= twice.get(file.path, 0):
            continue
        same = [one.path for one in files if one is not file and _hold_the_same(one, file) and one.path not in twice]
        if not same:
            continue
        position, length = file.position_of(1), file.entries * index.UNIT_BYTES
        detail = f"all units of this file, which is a copy of {same[0]}: queries return their messages twice"
        told = [finding for finding in told if (finding.code, finding.path) != (DUPLICATE, file.path)]
        told.append(
            Finding(
                COPY, file.path, position, length, physical_offset=file.begin_physical_offset, count=file.entries,
                detail=detail,
            )
        )  # fmt: skip
    return told


def _hold_the_same(one: IndexStructure, other: IndexStructure) -> bool:
    names = ("entries", "begin_timestamp_ms", "end_timestamp_ms", "begin_physical_offset", "end_physical_offset")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _joined(findings: Iterator[Finding]) -> list[Finding]:
    """Return the findings, keys that are missing at one place of the index as one."""
    joined: list[Finding] = []
    missing: dict[tuple[str, int], int] = {}
    for finding in findings:
        if finding.code != "INDEX_UNIT_MISSING":
            joined.append(finding)
            continue
        at = missing.setdefault((finding.path, finding.position), len(joined))
        if at == len(joined):
            joined.append(finding)
        else:
            joined[at] = replace(joined[at], count=joined[at].count + finding.count, detail=finding.detail)
    return joined


def _inherited(files: IndexFiles, times: dict[int, _Times], before: int | None, *, whole: bool) -> tuple[int, ...]:
    """Return the times that a file's first unit may count from; empty if they are unknown."""
    if before is None:
        return (0,) if whole else ()  # with a log from its beginning, no index file has expired
    if not files[before].is_full:
        return ()
    ends = {files[before].end_timestamp_ms}
    if before in times and (last := times[before].last):
        ends.add(last[1].store_ms)
    return tuple(ends)


def _times_of(file: IndexStructure, known: _Times) -> Iterator[Finding]:
    """Yield wrong begin and end times of a header, and seconds that are wrong by a begin that is right."""
    begin = file.begin_timestamp_ms
    if known.first and known.first[1].store_ms != begin:
        yield from _wrong_time(file, "begin_timestamp_ms", 0, *known.first)
        if _agree_on(known, known.first[1]):
            begin = known.first[1].store_ms
    elif not known.first and _is_shifted(known, begin):
        yield Finding("INDEX_HEADER", file.path, 0, 8, detail="begin_timestamp_ms does not fit the units' seconds")
        return
    if known.last and known.last[1].store_ms != file.end_timestamp_ms:
        yield from _wrong_time(file, "end_timestamp_ms", 8, *known.last)
    for content, each in known.wrong:
        if each.seconds != kernel.seconds_since(each.store_ms, begin):
            yield from _wrong_seconds(file, content, each)


def _agree_on(known: _Times, first: Seconds) -> bool:
    """Tell whether most units that the header's begin does not fit agree on the first record's time."""
    others = [each for _, each in known.wrong if each.position != first.position]
    fits = [each.seconds == kernel.seconds_since(each.store_ms, first.store_ms) for each in others]
    return 2 * sum(fits) > len(fits)


def _is_shifted(known: _Times, begin_ms: int) -> bool:
    """Tell whether the begin is wrong and not the units: most do not fit, or several by the same seconds."""
    late = {each.position: each.seconds - kernel.seconds_since(each.store_ms, begin_ms) for _, each in known.wrong}
    same = len(late) > 3 and max(late.values()) - min(late.values()) <= 1
    return same or known.wrong_count * 2 > known.looked_at


def _wrong_time(
    file: IndexStructure, name: str, position: int, content: IndexContent, record: Seconds
) -> Iterator[Finding]:
    """Yield a header time that is not its record's, and the record if it may be the wrong one."""
    detail = f"{name} is not the store time {record.store_ms} of its record"
    yield Finding("INDEX_HEADER", file.path, position, 8, detail=detail)
    yield from _log_side(content, record, "its store time is not that of the index header")


def _wrong_seconds(file: IndexStructure, content: IndexContent, unit: Seconds) -> Iterator[Finding]:
    code, detail = CODES[kernel.SECONDS]
    offset = content.base_offset + unit.position
    yield Finding(code, file.path, file.position_of(unit.unit) + 12, 4, physical_offset=offset, detail=detail)
    yield from _log_side(content, unit, detail)


def _log_side(content: IndexContent, record: Seconds, detail: str) -> Iterator[Finding]:
    if not record.is_proven:
        offset = content.base_offset + record.position
        yield Finding(
            "LOG_INDEX_DISAGREES", content.segment, record.position, record.size, physical_offset=offset, detail=detail
        )

"""Where things are drawn: bands of segments, queues, findings over time. Shapes only, no markup.

Everything is placed on a line of ``WIDTH`` units, whatever it is: bytes of a file, queue offsets, time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from storeio.findings import INFO, Finding
from storeio.report.page.past import Past
from storeio.report.tables import bytes_text, counted
from storeio.results import Audit, Band, QueueResult
from storeio.safe import printable, time_text

WIDTH: Final = 1000.0
LEAST: Final = 3.0  # width of what must be seen, however small it is
SEGMENTS: Final = 200  # rows of a map
_WHOLE: Final = ("record", "blank")


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a line: what it is called (a class of the style sheet), and what it says when pointed at."""

    kind: str
    at: float
    width: float
    says: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a map with its label, a sentence that says the same, and marks on top of it."""

    label: str
    says: str
    bars: tuple[Bar, ...]
    marks: tuple[Bar, ...] = ()


def placed(kind: str, start: float, stop: float, whole: float, says: str = "", *, least: float = 0.0) -> Bar:
    """Return the bar for ``[start, stop)`` of a line that stands for ``whole``; never over its end."""
    scale = WIDTH / max(whole, 1)
    width = min(max((stop - start) * scale, least), WIDTH)
    return Bar(kind, round(max(min(start * scale, WIDTH - width), 0.0), 2), round(width, 2), says)


def log_rows(audit: Audit) -> list[Row]:
    """Return the segments in order; neighbours that hold records alone and have no finding are one row."""
    bands = {path: list(part) for path, part in groupby(audit.bands, key=lambda band: band.path)}
    found: dict[str, list[Finding]] = {}
    for finding in audit.findings:
        if finding.severity != INFO and finding.path in bands:
            found.setdefault(finding.path, []).append(finding)
    rows: list[Row] = []
    for plain, part in groupby(bands, key=lambda path: _is_plain(bands[path]) and path not in found):
        paths = list(part)
        if plain and len(paths) > 3:
            rows += [
                _segment(paths[0], bands[paths[0]], []),
                _many(paths[1:-1]),
                _segment(paths[-1], bands[paths[-1]], []),
            ]
        else:
            rows += [_segment(path, bands[path], found.get(path, [])) for path in paths]
    return rows


def _is_plain(bands: Sequence[Band]) -> bool:
    return all(band.byte_class in _WHOLE for band in bands)


def _many(paths: Sequence[str]) -> Row:
    text = f"{counted(len(paths), 'segment')} full of records, {_name(paths[0])} to {_name(paths[-1])}"
    return Row(f"{len(paths)} more", text, (Bar("record", 0.0, WIDTH, text),))


def _name(path: str) -> str:
    return printable(path.rpartition("/")[2])


def _segment(path: str, bands: Sequence[Band], findings: Sequence[Finding]) -> Row:
    whole = bands[-1].stop
    sizes: dict[str, int] = {}
    for band in bands:
        sizes[band.byte_class] = sizes.get(band.byte_class, 0) + band.stop - band.start
    says = ", ".join(f"{name} {bytes_text(size)}" for name, size in sizes.items())
    bars = [
        placed(
            band.byte_class, band.start, band.stop, whole,
            f"{band.byte_class}: bytes {band.start} to {band.stop - 1}, {bytes_text(band.stop - band.start)}",
            least=0.0 if band.byte_class in (*_WHOLE, "zero") else LEAST,
        )
        for band in bands
    ]  # fmt: skip
    marks = [
        placed(
            finding.severity, finding.position, finding.position, whole,
            f"{finding.code} at byte {finding.position}: {printable(finding.detail)}", least=LEAST,
        )
        for finding in findings
    ]  # fmt: skip
    bars.sort(key=lambda bar: bar.width <= LEAST)  # narrow ones on top of those that they would lie under
    return Row(_name(path), says, tuple(bars), tuple(marks[:SEGMENTS]))


def queue_bar(queue: QueueResult) -> tuple[Bar, ...]:
    """Return the queue from its first to its last queue offset, with what is lost in it."""
    low = min([queue.min_queue_offset, *(first for first, _ in queue.lost)])
    high = max([queue.max_queue_offset, *(stop for _, stop in queue.lost)])
    if high <= low:
        return ()
    whole = placed(
        "record", queue.min_queue_offset - low, queue.max_queue_offset - low, high - low,
        f"queue offsets {queue.min_queue_offset} to {queue.max_queue_offset - 1}",
    )  # fmt: skip
    lost = [
        placed("lost", first - low, stop - low, high - low, f"lost: {first} to {stop - 1}", least=LEAST)
        for first, stop in queue.lost
    ]
    return (whole, *lost)


def time_rows(past: Past, most: int) -> list[Row]:
    """Return findings as stretches of time, from when each was first seen to when it was gone."""
    if not past.runs:
        return []
    begin, end = past.runs[0].started_ms, past.runs[-1].started_ms
    rows = []
    for seen in past.sightings[:most]:
        stop = end if seen.cleared_ms is None else seen.cleared_ms
        until = "still open" if seen.cleared_ms is None else f"gone {time_text(seen.cleared_ms)}"
        says = f"first seen {time_text(seen.first_seen_ms)}, last seen {time_text(seen.last_seen_ms)}, {until}"
        kind = seen.severity if seen.cleared_ms is None else "cleared"
        bar = placed(kind, seen.first_seen_ms - begin, stop - begin, end - begin, says, least=8.0)
        rows.append(Row(f"{seen.code} {printable(seen.path)} at byte {seen.position}", says, (bar,)))
    return rows


def run_bars(past: Past) -> list[tuple[Bar, float]]:
    """Return a bar for each audit and its height from 0 to 1, by how many errors and warnings it had."""
    most = max((run.errors + run.warnings for run in past.runs), default=0)
    step = WIDTH / max(len(past.runs), 1)
    bars = []
    for i, run in enumerate(past.runs):
        kind = "error" if run.errors else "warning" if run.warnings else "sound"
        says = f"{time_text(run.started_ms)}: {run.verdict}, {counted(run.errors, 'error')}, "
        says += f"{counted(run.warnings, 'warning')}, {counted(run.lost_messages, 'lost message')}"
        bar = replace(placed(kind, i, i + 1, len(past.runs), says), width=round(min(step * 0.8, 60.0), 2))
        bars.append((bar, (run.errors + run.warnings) / most if most else 0.0))
    return bars

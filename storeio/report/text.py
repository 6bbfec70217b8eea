"""The report that a person reads at three in the morning: verdict, findings, remedies, numbers, next command.

Pure text: colour is put on by the command line. Offsets and positions stand without digit groups, to be copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from storeio.findings import CODES, ERROR, INFO, SEVERITIES, WARNING, Finding
from storeio.report.next_step import next_lines, next_steps
from storeio.report.tables import ROWS, bytes_text, counted, flowed, paragraph, table
from storeio.results import BYTE_CLASSES, Audit, FileResult, LostRange, QueueResult, Reading, Unfinished, messages_in
from storeio.safe import printable, time_text

PLACES: Final = 5  # of one code; the rest is counted
_HEADINGS: Final = {ERROR: "ERRORS", WARNING: "WARNINGS", INFO: "NOTES"}
_RANK: Final = {name: rank for rank, name in enumerate(CODES)}


def render(audit: Audit | Unfinished, *, width: int = 80, show_all: bool = False) -> str:
    """Return the report; every line ends, and holds no character that acts on a terminal.

    Args:
        audit: What to tell.
        width: Columns; only paths and commands, which are there to be copied, may be longer.
        show_all: Print every finding and every row instead of the first ones.
    """
    if isinstance(audit, Unfinished):
        return _unfinished(audit, width, show_all)
    lines: list[str] = []
    lines += paragraph("", f"{verdict_sentence(audit)}", width, "")
    lines += _failed(audit, width)
    for severity in SEVERITIES:
        lines += _findings(audit, severity, width, show_all)
    lines += _bytes(audit, width)
    lines += _log(audit, width)
    lines += _queues(audit, width, show_all)
    lines += _index(audit, width, show_all)
    lines += _heading("CHECKS", "what was looked at, and how often")
    lines += flowed([(printable(name), f"{count:,}") for name, count in audit.checks.items()], width)
    lines += _settings(audit, width)
    lines += _closing(audit, width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _unfinished(audit: Unfinished, width: int, show_all: bool) -> str:
    """Return the report of an audit that ran out of time."""
    lines = [*paragraph("", verdict_sentence(audit), width, ""), *_failed(audit, width)]
    for severity in SEVERITIES:
        lines += _findings(audit, severity, width, show_all)
    reading = audit.reading
    rest = "" if audit.cancelled else "; the next run begins with them"
    lines += _heading("NOT LOOKED AT", f"nothing is known of these bytes{rest}")
    files = {path: sum(b - a for p, a, b in reading.left if p == path) for path, _, _ in reading.left}
    for path, count in list(files.items())[: None if show_all else ROWS]:
        lines += paragraph("- ", f"{printable(path)}: {bytes_text(count)}", width, "  ")
    if not show_all and len(files) > ROWS:
        lines.append(f"  ... and {counted(len(files) - ROWS, 'more file')}; --all shows them")
    until = "it was cancelled" if audit.cancelled else "the time was up"
    text = f"Read {bytes_text(reading.bytes_read)} in {audit.seconds:.2f} s, until {until}; "
    text += f"{counted(len(reading.left), 'part')} of {reading.parts:,} are left; exit code {audit.exit_code}."
    lines += ["", *paragraph("", text, width, ""), *next_lines(next_steps(audit), width)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def verdict_sentence(audit: Audit | Unfinished) -> str:
    """Return what the whole audit comes to, in one sentence that begins with one word in capitals."""
    if isinstance(audit, Unfinished):
        why = "it was cancelled" if audit.cancelled else "time was up"
        left = f"{bytes_text(audit.reading.left_bytes)} of {printable(audit.store)} were not looked at, {why}"
        if audit.verdict == "damaged":
            wrong = sum(f.severity != INFO for f in audit.findings)
            return f"DAMAGED: {counted(wrong, 'finding')}, and {left}."
        return f"INCOMPLETE: no damage in what is known, but {left}."
    if audit.verdict == "sound":
        word = "INCOMPLETE: no damage in what could be read of" if audit.failed else "SOUND: no damage in"
        rest = f"{counted(audit.log.records, 'message')} and {counted(len(audit.queues), 'queue')}"
        return f"{word} {printable(audit.store)}, {bytes_text(_size(audit))} with {rest}."
    numbers = [(severity, sum(f.severity == severity for f in audit.findings)) for severity in (ERROR, WARNING)]
    found = " and ".join(counted(number, severity) for severity, number in numbers if number)
    gone = _missing(audit.lost, "lost, no intact record holds {}")
    moved = _missing(audit.misplaced, "not in place, but intact records hold {} elsewhere in the log")
    unread = f"; some of it could not be read{_perhaps(audit)}" if audit.failed else ""
    return f"DAMAGED: {found} in {printable(audit.store)}{gone}{moved}{unread}."


def _missing(parts: Sequence[LostRange], says: str) -> str:
    """Return how many messages of how many queues are missing; ``says`` has room for it, or them."""
    count, queues = messages_in(parts), len({(part.topic, part.queue_id) for part in parts})
    are, them = ("is", "it") if count == 1 else ("are", "them")
    what = f"; {counted(count, 'message')} of {counted(queues, 'queue')} {are} {says.format(them)}"
    return what if count else ""


def _perhaps(audit: Audit) -> str:
    """Return what of the messages that are missing may be there."""
    count = messages_in(audit.unread)
    return f", where {counted(count, 'message')} may lie that nothing else holds" if count else ""


def _size(audit: Audit) -> int:
    return sum(file.size for file in audit.files)


def _present(audit: Audit) -> list[FileResult]:
    """Return the files that are there, empty ones included."""
    return [file for file in audit.files if file.size or not file.classes.get("missing")]


def _heading(title: str, remark: str = "") -> list[str]:
    return ["", f"{title} ({remark})" if remark else title]


def _failed(audit: Audit | Unfinished, width: int) -> list[str]:
    if not audit.failed:
        return []
    lines = _heading("COULD NOT READ", "nothing is known of these bytes")
    for text in audit.failed:
        lines += paragraph("- ", printable(text), width, "  ")
    return lines


def _findings(audit: Audit | Unfinished, severity: str, width: int, show_all: bool) -> list[str]:
    chosen = sorted((f for f in audit.findings if f.severity == severity), key=lambda f: _RANK[f.code])
    lines = _heading(_HEADINGS[severity]) if chosen else []
    sizes = {file.path: file.size for file in audit.files} if isinstance(audit, Audit) else {}
    for code, group in groupby(chosen, key=lambda f: f.code):
        if severity != INFO and len(lines) > 2:
            lines.append("")
        lines += _one_code(code, list(group), sizes, width, show_all)
    return lines


def _one_code(code: str, group: Sequence[Finding], sizes: Mapping[str, int], width: int, show_all: bool) -> list[str]:
    row = CODES[code]
    many = f" ({counted(len(group), 'finding')})" if len(group) > 1 else ""
    lines = paragraph(f"{code}: ", f"{row.sentence}{many}", width, "  ")
    shown = group if show_all else group[: 1 if row.severity == INFO else PLACES]
    for finding in shown:
        lines += _place(finding, sizes, width)
    if len(group) > len(shown):
        rest = group[len(shown) :]
        files = len({f.path for f in rest})
        lines.append(f"    ... and {len(rest):,} more in {counted(files, 'file')}; --all shows them")
    if row.severity != INFO:
        lines += paragraph("Cause:  ", row.cause, width, "    ")
        lines += paragraph("Remedy: ", row.remedy, width, "    ")
    return lines


def _place(finding: Finding, sizes: Mapping[str, int], width: int) -> list[str]:
    where, affected, detail = where_of(finding, sizes)
    lines = paragraph("- ", where, width, "    ")
    lines += paragraph("", affected, width, "      ") if affected else []
    return lines + (paragraph("", detail, width, "      ") if detail else [])


def where_of(finding: Finding, sizes: Mapping[str, int]) -> tuple[str, str, str]:
    """Return where it is, whom it affects, and what was seen; the last two may be empty.

    Args:
        finding: The finding.
        sizes: Bytes of each file; 0 of one that is not there, or is none.
    """
    where = printable(finding.path) or "(the store)"
    if sizes.get(finding.path) == 0 and finding.length:
        where += f" (no byte of it is there; {finding.length} are expected)"
    elif finding.length:
        where += f" at byte {finding.position}, {counted(finding.length, 'byte')}"
    elif finding.position:
        where += f" at byte {finding.position}"
    if finding.count > 1:
        where += f", {finding.count:,} in a row"
    return where, _affected(finding), printable(finding.detail)


def _affected(finding: Finding) -> str:
    parts = []
    if finding.topic is not None:
        parts.append(f"topic {printable(finding.topic)}")
    if finding.queue_id is not None:
        parts.append(f"queue {finding.queue_id}")
    begin = "from " if finding.count > 1 else ""
    if finding.queue_offset is not None:
        parts.append(f"{begin}queue offset {finding.queue_offset}")
    if finding.physical_offset is not None:
        parts.append(f"{begin}physical offset {finding.physical_offset}")
    return ", ".join(parts)


def _bytes(audit: Audit, width: int) -> list[str]:
    """Return bytes per kind and class, without classes that do not occur; as sentences where a table gets too wide."""
    kinds = sorted(audit.bytes_by_kind().items())
    names = [name for name in (*BYTE_CLASSES, "total") if any(row[name] for _, row in kinds)]
    files = {kind: sum(1 for f in _present(audit) if f.kind == kind) for kind, _ in kinds}
    rows = [[kind, f"{files[kind]:,}", *(f"{row[name]:,}" for name in names)] for kind, row in kinds]
    lines = table(["kind", "files", *names], rows, width)
    if any(len(line) > width or ".." in line for line in lines):
        lines = []
        for kind, row in kinds:
            parts = ", ".join(f"{name} {row[name]:,}" for name in names if row[name])
            lines += paragraph(f"{printable(kind)}: ", f"{counted(files[kind], 'file')}: {parts}", width, "  ")
    return [*_heading("BYTES", "every byte is in one class"), *lines]


def _log(audit: Audit, width: int) -> list[str]:
    log = audit.log
    text = (
        f"physical offsets {log.min_physical_offset} to {log.max_physical_offset}, "
        f"{counted(log.records, 'record')} in {counted(log.segments, 'segment')}"
    )
    if log.first_store_timestamp_ms is not None:
        text += f", stored {time_text(log.first_store_timestamp_ms)} to {time_text(log.last_store_timestamp_ms)}"
    return [*_heading("LOG"), *paragraph("", text, width, "  ")]


def _queues(audit: Audit, width: int, show_all: bool) -> list[str]:
    if not audit.queues:
        return []
    ordered = queues_by_need(audit)
    shown = ordered if show_all else ordered[:ROWS]
    rows = [
        (q.topic, q.queue_id, q.kind, q.min_queue_offset, q.max_queue_offset, q.units, q.in_log, _lost(q))
        for q in shown
    ]
    head = ("topic", "queue", "kind", "min", "max", "units", "in log", "lost")
    hidden = ordered[len(shown) :]
    affected = _affected_queues(audit)
    bad = sum(1 for q in hidden if q.lost or (q.topic, q.queue_id) in affected)
    rest = f"{bad:,} of them with findings" if bad else "none with findings"
    more = [f"  ... and {counted(len(hidden), 'more queue')}, {rest}; --all shows them"] if hidden else []
    return [*_heading("QUEUES", "queue offsets; max is exclusive"), *table(head, rows, width), *more]


def _affected_queues(audit: Audit) -> set[tuple[str | None, int | None]]:
    return {(f.topic, f.queue_id) for f in audit.findings if f.severity != INFO}


def queues_by_need(audit: Audit) -> list[QueueResult]:
    """Return the queues: first those that have lost messages, then those with findings, by name."""
    affected = _affected_queues(audit)

    def rank(queue: QueueResult) -> tuple[bool, bool, str, int]:
        return (not queue.lost, (queue.topic, queue.queue_id) not in affected, queue.topic, queue.queue_id)

    return sorted(audit.queues, key=rank)


def _lost(queue: QueueResult) -> int:
    return sum(stop - first for first, stop in queue.lost)


def _index(audit: Audit, width: int, show_all: bool) -> list[str]:
    if not audit.index:
        return []
    shown = audit.index if show_all else audit.index[-ROWS:]
    hidden = len(audit.index) - len(shown)
    rows = [(i.path, i.entries, i.begin_physical_offset, i.end_physical_offset) for i in shown]
    lines = table(("file", "entries", "first physical offset", "last"), rows, width)
    more = [f"  ... and {counted(hidden, 'older file')}; --all shows them"] if hidden else []
    return [*_heading("INDEX"), *lines, *more]


def _settings(audit: Audit, width: int) -> list[str]:
    lines = _heading("SETTINGS", "--conf broker.conf or --set key=value changes them")
    for setting in audit.settings:
        lines += paragraph(
            "", f"{printable(setting.name)} = {printable(setting.value)}  [{printable(setting.source)}]", width, "  "
        )
    return lines


def _closing(audit: Audit, width: int) -> Iterable[str]:
    size = _size(audit)
    rate = f" ({bytes_text(int(size / audit.seconds))}/s)" if audit.seconds > 0.001 else ""
    text = f"Checked {counted(len(_present(audit)), 'file')}, {bytes_text(size)} in {audit.seconds:.2f} s{rate}; "
    if audit.reading is not None:
        text = f"Checked {counted(len(_present(audit)), 'file')}, {bytes_text(size)} in {audit.seconds:.2f} s; "
        text += f"read {_read_again(audit.reading)}; "
    text += f"CRC by {printable(audit.crc_engine)}, {audit.tool} {audit.version}, exit code {audit.exit_code}."
    yield ""
    yield from paragraph("", text, width, "")
    yield from next_lines(next_steps(audit), width)


def _read_again(reading: Reading) -> str:
    text = f"{bytes_text(reading.bytes_read)}, {reading.parts_known:,} of {counted(reading.parts, 'part')} were known"
    return text + (f", {bytes_text(reading.due_bytes)} are overdue for want of time" if reading.due_bytes else "")

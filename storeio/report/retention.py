"""A forecast of the broker's cleaning as JSON and as text: what goes next, when, and who has not read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from storeio import __version__
from storeio.report.next_step import Step, next_lines, root_word
from storeio.report.tables import ROWS, bytes_text, counted, paragraph, table
from storeio.safe import printable, time_text
from storeio.simulate.predicted import Forecast
from storeio.simulate.progress import Unread
from storeio.simulate.retention import Cycle, as_recorded
from storeio.simulate.rules import broker_text


def cycle_object(cycle: Cycle) -> dict[str, Any]:
    """Return one run, in the shape of the recorded ones and more."""
    return {
        **as_recorded(cycle),
        "deleted": list(cycle.deleted),
        "deleted_bytes": cycle.deleted_bytes,
        "reasons": list(cycle.reasons),
        "any_age": cycle.any_age,
        "stopped": cycle.stopped,
        "unread": [asdict(row) for row in cycle.unread],
    }


def retention_object(found: Forecast) -> dict[str, Any]:
    """Return a forecast as plain objects."""
    return {
        "tool": "storeio",
        "version": __version__,
        "store": found.store,
        "broker": found.broker,
        "line": found.line,
        "outcome": found.outcome.outcome,
        "reason": found.outcome.reason,
        "now_ms": found.now_ms,
        "disk_used_ratio": found.disk_used_ratio,
        "cleaning": asdict(found.cleaning),
        "now": found.now and cycle_object(found.now),
        "due": [asdict(each) for each in found.due],
        "next_ms": found.next_ms,
        "next": [cycle_object(cycle) for cycle in found.next_runs],
        "not_simulated": list(found.not_simulated),
        "exit_code": found.exit_code,
    }


def retention_sentence(found: Forecast) -> str:
    """Return what a forecast comes to, in one sentence that begins with a word in capitals."""
    broker, store = broker_text(found.broker), printable(found.store)
    if found.now is None:
        text = f"NO START: {broker} does not start on {store} ({found.outcome.outcome}), so it cleans nothing: "
        return text + printable(found.outcome.reason) + "."
    return _sentence(found.now, broker, store)


def render_retention(found: Forecast, *, width: int = 80) -> str:
    """Return the report of a forecast; every line ends."""
    now, later = found.now, found.next_runs
    lines = paragraph("", retention_sentence(found), width, "")
    if now is None:
        step = Step(f"storeio simulate {root_word(found.store)} --broker all", "why, and whether another line starts")
        return "".join(f"{line}\n" for line in [*lines, *next_lines([step], width)])
    lines += _deleted("DELETED NOW", now.deleted, width)
    if found.next_ms is not None:
        gone = [path for cycle in later for path in cycle.deleted]
        title = f"DELETED NEXT, AT {time_text(found.next_ms)}"
        lines += _deleted(title, gone, width) or ["", f"{title}: nothing"]
    lines += _unread([row for cycle in (now, *later) for row in cycle.unread], width)
    rules = found.cleaning
    lines += ["", "RULES"]
    text = f"segments go {rules.reserved_hours} hours after they were last written, in hour {rules.delete_when}"
    lines += paragraph("- ", f"{text}, {rules.files_per_run} a run; the last one never.", width, "  ")
    text = f"the disk is used to {found.disk_used_ratio:.0%}; segments of any age go"
    lines += paragraph("- ", f"{text} above {rules.forcible_ratio:.0%}.", width, "  ")
    for what in found.not_simulated[:ROWS]:
        lines += paragraph("- not simulated: ", printable(what), width, "  ")
    step = Step(f"storeio check {root_word(found.store)}", "whether what stays is sound")
    lines += next_lines([step], width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _sentence(now: Cycle, broker: str, store: str) -> str:
    if now.deleted:
        size = bytes_text(now.deleted_bytes)
        return f"DELETES: {broker} on {store} deletes {counted(len(now.deleted), 'file')} at its next run, {size}."
    return f"KEEPS: {broker} on {store} deletes nothing at its next run."


def _deleted(title: str, paths: Sequence[str], width: int) -> list[str]:
    if not paths:
        return []
    lines = ["", f"{title} ({counted(len(paths), 'file')})"]
    for path in paths[:ROWS]:
        lines += paragraph("- ", printable(path), width, "  ")
    return lines + ([f"  ... and {len(paths) - ROWS} more; --json FILE has all"] if len(paths) > ROWS else [])


def _unread(rows: Sequence[Unread], width: int) -> list[str]:
    if not rows:
        return []
    shown = sorted(rows, key=lambda row: -row.messages)[:ROWS]
    cells = [
        [row.group or "(none at all)", f"{row.topic}/{row.queue_id}", row.messages, row.first, row.stop - 1]
        for row in shown
    ]
    head = ["consumer group", "queue", "messages", "from", "to"]
    return ["", "NOT YET CONSUMED of what goes", *table(head, cells, width, left=2)]

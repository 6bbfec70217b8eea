"""A salvage as JSON and as text: what was saved, what is lost, what was decided by which evidence."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from storeio.report.assumed import assumed_sizes
from storeio.report.next_step import Step, next_lines, root_word
from storeio.report.tables import ROWS, counted, paragraph, rest_of, table, told_as_list
from storeio.report.written import written_lines
from storeio.results import EXIT_SOUND
from storeio.safe import printable
from storeio.salvaged import UNREAD, Salvaged
from storeio.simulate.rules import broker_text

MARK: Final = "storeio-salvage.json"
"""File in the new store that tells what it is."""


def salvaged_object(result: Salvaged) -> dict[str, Any]:
    """Return the salvage as plain objects; ``docs/salvage.md`` explains every key."""
    return {
        "tool": result.tool,
        "version": result.version,
        "store": result.store,
        "into": result.into,
        "started_ms": result.started_ms,
        "seconds": round(result.seconds, 6),
        "crc_engine": result.crc_engine,
        "settings": {s.name: {"value": s.value, "source": s.source} for s in result.settings},
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "log": {
            "min_physical_offset": result.min_physical_offset,
            "max_physical_offset": result.max_physical_offset,
            "records": result.records,
            "saved": result.saved,
            "broker": result.broker,
            "tombstones": result.tombstones,
            "fillers": result.fillers,
        },
        "chosen": result.chosen,
        "left_out": result.left_out,
        "topics": [asdict(topic) for topic in result.topics],
        "lost_count": result.lost_count,
        "lost": [asdict(part) for part in result.lost],
        "unnamed": result.unnamed,
        "restored": [asdict(record) for record in result.restored],
        "moved": [asdict(piece) for piece in result.moved],
        "dropped": [asdict(record) for record in result.dropped],
        "problems": list(result.problems),
        "notes": notes_of(result),
        "messages": asdict(result.messages) if result.messages else None,
        "files": list(result.files),
        "written_bytes": result.written_bytes,
    }


def notes_of(result: Salvaged) -> list[str]:
    """Return what there is to know besides: what was taken for granted of files that were made, and the notes."""
    made = {path.split("/")[0] for path in result.files}
    return [*assumed_sizes(result.settings, made, "salvage"), *result.notes]


def mark_of(result: Salvaged) -> dict[str, Any]:
    """Return what the new store itself says of the salvage; equal salvages say the same."""
    whole = (
        "tool version store verdict log chosen left_out topics lost_count lost unnamed restored moved dropped problems"
    )
    found = salvaged_object(result)
    return {key: found[key] for key in whole.split()}


def salvaged_sentence(result: Salvaged) -> str:
    """Return what the salvage comes to, in one sentence that begins with capitals."""
    what = f"{counted(result.records, 'record')} of {printable(result.store)} in {printable(result.into)}"
    also = [f"{counted(result.restored_count, 'record')} restored"] if result.restored else []
    also += [f"{counted(len(result.moved), 'piece')} put into place"] if result.moved else []
    also += [f"{counted(len(result.dropped), 'record')} not taken for messages"] if result.dropped else []
    how = f", {', '.join(also)}" if also else ""
    if result.chosen:
        how += f"; {counted(result.left_out, 'record')} not chosen"
    word = "SAVED" if result.exit_code == EXIT_SOUND else "SAVED WITH LOSSES" if not result.problems else "INCOMPLETE"
    if result.saved:
        how += f"; {broker_text(result.broker)} would have given up {counted(result.saved, 'intact message')}"
    lost = f"; {counted(result.lost_count, 'message')} lost" if result.lost else ""
    if result.unnamed:
        lost += f"; {'and ' if lost else ''}{counted(result.unnamed, 'message')} lost of which nothing tells the queue"
    lost = lost or "; nothing is known to be lost"
    return f"{word}: {what}{how}{lost}."


def render_salvaged(result: Salvaged, *, width: int = 80) -> str:
    """Return the report; every line ends."""
    lines = paragraph("", salvaged_sentence(result), width, "")
    lines += told_as_list("NOT DONE", result.problems, width)
    lines += _chosen(result, width)
    lines += _lost(result, width)
    lines += _restored(result, width)
    lines += _moved(result, width)
    if result.dropped:
        lines += ["", "DROPPED (records that are no messages)"]
        rows = [(row.physical_offset, row.size, row.reason) for row in result.dropped[:ROWS]]
        lines += [*table(("physical offset", "bytes", "why"), rows, width), *rest_of(len(result.dropped), "record")]
    lines += told_as_list("NOTES", notes_of(result), width)
    also = f"{counted(result.tombstones, 'tombstone')} and {counted(result.fillers, 'filler')} among them"
    lines += ["", *written_lines(result, width, also)]
    if result.messages:
        text = f"Wrote {counted(result.messages.count, 'message')} to {printable(result.messages.path)}."
        lines += paragraph("", text, width, "")
    into = result.into.rstrip("/")
    steps = [
        Step(f"storeio check {root_word(into)}", "proves that the new store is sound"),
        Step(f"storeio simulate {root_word(into)} --broker all", "what brokers do when they start on it"),
    ]
    lines += next_lines(steps, width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _chosen(result: Salvaged, width: int) -> list[str]:
    """Return what was chosen, and the topics that are only in the log any more."""
    lines = ["", "CHOSEN", *paragraph("- ", printable(result.chosen), width, "  ")] if result.chosen else []
    gone = [topic for topic in result.topics if topic.deleted]
    if gone:
        rows = [(topic.topic, topic.messages) for topic in gone[:ROWS]]
        lines += ["", "DELETED TOPICS (that are still in the log; --deleted takes only these)"]
        lines += [*table(("topic", "messages"), rows, width), *rest_of(len(gone), "topic")]
    return lines


def _lost(result: Salvaged, width: int) -> list[str]:
    lost = result.lost
    if not lost:
        return []
    store = "the store that could be read" if any(text.startswith(UNREAD) for text in result.problems) else "the store"
    rows = [
        (
            f"{part.topic}/{part.queue_id}", part.first_queue_offset, part.stop_queue_offset - 1,
            "-" if part.bytes is None else part.bytes, f"{part.physical_start}..{part.physical_stop}", part.evidence,
        )
        for part in lost[:ROWS]
    ]  # fmt: skip
    head = ("queue", "first", "last", "bytes", "physical offsets", "known from")
    lines = ["", f"LOST (messages that no byte of {store} can supply)", *table(head, rows, width)]
    return [*lines, *rest_of(len(lost), "range")]


def _restored(result: Salvaged, width: int) -> list[str]:
    if not result.restored:
        return []
    rows = [
        (r.physical_offset, f"{r.topic}/{r.queue_id}", r.queue_offset, r.field, r.old, r.new)
        for r in result.restored[:ROWS]
    ]
    head = ("physical offset", "queue", "queue offset", "field", "was", "is")
    lines = ["", "RESTORED (damaged fields, and one answer)", *table(head, rows, width)]
    return [*lines, *rest_of(len(result.restored), "field")]


def _moved(result: Salvaged, width: int) -> list[str]:
    if not result.moved:
        return []
    rows = [
        (piece.physical_offset, piece.length, f"{piece.source} at {piece.position}") for piece in result.moved[:ROWS]
    ]
    lines = ["", "PUT INTO PLACE", *table(("physical offset", "bytes", "from"), rows, width)]
    return [*lines, *rest_of(len(result.moved), "piece")]

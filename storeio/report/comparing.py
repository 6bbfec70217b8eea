"""A comparison of two stores as JSON and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from storeio.compare.model import Difference, Ranges
from storeio.report.next_step import Step, new_beside, next_lines, root_word
from storeio.report.tables import ROWS, bytes_text, counted, paragraph, rest_of, table, told_as_list
from storeio.safe import printable


def difference_object(result: Difference) -> dict[str, Any]:
    """Return the comparison as plain objects; ``docs/diff.md`` explains every key."""
    named = {"tool": result.tool, "version": result.version, "verdict": result.verdict, "exit_code": result.exit_code}
    return {**named, **asdict(result), "seconds": round(result.seconds, 6)}


def difference_sentence(result: Difference) -> str:
    """Return what the comparison comes to, in one sentence that begins with capitals."""
    names = f"{printable(result.first.store)} and {printable(result.second.store)}"
    if result.verdict == "equal":
        return f"EQUAL: the logs of {names} are the same up to {result.aligned_to:,}."
    if result.verdict == "prefix":
        return f"PREFIX: the logs of {names} are the same from where both begin up to {result.aligned_to:,}."
    return f"DIFFERENT: the logs of {names} differ in {counted(len(result.ranges), 'range')}."


def render_difference(result: Difference, *, width: int = 80) -> str:
    """Return the report; every line ends."""
    lines = paragraph("", difference_sentence(result), width, "")
    rows = [
        (name, side.min_physical_offset, side.max_physical_offset, side.records, side.verdict, side.store)
        for name, side in (("first", result.first), ("second", result.second))
    ]
    lines += ["", "LOGS", *table(("", "from", "to", "records", "verdict", "store"), rows, width)]
    lines += told_as_list("COULD NOT BE READ (of the first)", result.first.unread, width)
    lines += told_as_list("COULD NOT BE READ (of the second)", result.second.unread, width)
    if result.ranges:
        shown = [(part.start, part.stop, part.why, part.first, part.second) for part in result.ranges[:ROWS]]
        lines += ["", "RANGES (physical offsets)", *table(("from", "to", "why", "first", "second"), shown, width)]
        lines += rest_of(len(result.ranges), "range")
    if result.queues:
        numbers = [
            (f"{queue.topic}/{queue.queue_id}", _numbers(queue.only_first), _numbers(queue.only_second))
            for queue in result.queues[:ROWS]
        ]
        head = ("queue", "only the first has", "only the second has")
        lines += ["", "QUEUES (queue offsets of records)", *table(head, numbers, width)]
        lines += rest_of(len(result.queues), "queue")
    lines += ["", *paragraph("", _aligned(result), width, "")]
    text = f"Compared {bytes_text(result.compared_bytes)} in {result.seconds:.2f} s; storeio {result.version}, "
    lines += ["", *paragraph("", f"{text}exit code {result.exit_code}.", width, "")]
    lines += next_lines(_steps(result), width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _steps(result: Difference) -> list[Step]:
    stores = result.first.store, result.second.store
    one, other = map(root_word, stores)
    if not result.ranges:
        return [Step(f"storeio check {one} {other}", "compares their queues and indexes with the log, too")]
    into = root_word(new_beside(stores[0], "salvaged"))
    return [
        Step(f"storeio check {one} {other}", "what is wrong with each"),
        Step(f"storeio salvage {one} --into {into} --donor {other}", "a new store of the first, from both"),
    ]


def _aligned(result: Difference) -> str:
    text = f"Both logs hold the same records up to physical offset {result.aligned_to:,}: a copy that is cut there "
    text += "continues the other one."
    if result.first_divergence is not None:
        text += f" From {result.first_divergence:,} on they hold other records, intact on both sides."
    return text


def _numbers(ranges: Ranges) -> str:
    shown = ", ".join(f"{low} to {high - 1}" for low, high in ranges[:3])
    return shown + (f" and {len(ranges) - 3} more" if len(ranges) > 3 else "") or "-"

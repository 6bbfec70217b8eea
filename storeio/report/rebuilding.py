"""A rebuild as JSON and as text: what it comes to, then what is odd, then what was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from storeio.paths import BATCHQUEUE, CHECKPOINT, INDEX, queue_directory
from storeio.rebuilt import QueueBuilt, Rebuilt
from storeio.report.json_form import finding_object
from storeio.report.next_step import new_beside, root_word
from storeio.report.tables import ROWS, counted, paragraph, rest_of, table, told_as_list
from storeio.report.written import written_lines
from storeio.results import EXIT_SOUND
from storeio.safe import printable
from storeio.uris import is_remote

KINDS: Final = {BATCHQUEUE: "bcq"}
SIZES: Final = ("mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
MOST_MOVES: Final = 4


def rebuilt_object(result: Rebuilt) -> dict[str, Any]:
    """Return the rebuild as plain objects; ``docs/rebuild.md`` explains every key."""
    return {
        "tool": "storeio",
        "version": result.version,
        "store": result.store,
        "into": result.into,
        "started_ms": result.started_ms,
        "seconds": round(result.seconds, 6),
        "crc_engine": result.crc_engine,
        "settings": {s.name: {"value": s.value, "source": s.source} for s in result.settings},
        "verdict": "rebuilt" if result.exit_code == EXIT_SOUND else "doubtful",
        "exit_code": result.exit_code,
        "partly": list(result.partly),
        "log": {
            "min_physical_offset": result.min_physical_offset,
            "max_physical_offset": result.max_physical_offset,
            "records": result.records,
        },
        "queues": [_queue_object(queue) for queue in result.queues],
        "index": {"files": result.index_files, "entries": result.index_units},
        "left_out": dict(result.left_out),
        "findings": [finding_object(finding) for finding in result.log],
        "notes": list(result.notes),
        "failed": list(result.failed),
        "files": list(result.files),
        "written_bytes": result.written_bytes,
    }


def _queue_object(queue: QueueBuilt) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "kind": KINDS.get(queue.kind, "cq"),
        "min_queue_offset": queue.first,
        "max_queue_offset": queue.stop,
        "units": queue.units,
        "gaps": [list(gap) for gap in queue.gaps],
        "kept": queue.kept,
        "filled": queue.filled,
        "replaced": queue.replaced,
        "moved": queue.moved,
    }


def rebuilt_sentence(result: Rebuilt) -> str:
    """Return what the rebuild comes to, in one sentence that begins with capitals."""
    made = [counted(len(result.queues), "queue")] if result.queues or not result.partly else []
    made += [counted(result.index_files, "index file")] if result.index_files else []
    made += ["a checkpoint"] if CHECKPOINT in result.files else []
    what = f"{', '.join(made) or 'nothing'} from {counted(result.records, 'record')} of {printable(result.store)}"
    where = f"in {printable(result.into)}"
    if result.exit_code == EXIT_SOUND:
        return f"{'REBUILT IN PART' if result.partly else 'REBUILT'}: {what}, {where}."
    odd = sum(1 for queue in result.queues if not queue.usual)
    why = [f"the log has {counted(len(result.log), 'finding')}"] if result.log else []
    why += [f"the numbers of {counted(odd, 'queue')} jump or repeat"] if odd else []
    why += [f"{counted(len(result.left_out), 'name')} cannot be a directory"] if result.left_out else []
    why += ["some of the store's own files could not be read"] if result.failed else []
    return f"DOUBTFUL: {what}, {where}, but {' and '.join(why)}."


def render_rebuilt(result: Rebuilt, *, width: int = 80) -> str:
    """Return the report; every line ends."""
    lines = paragraph("", rebuilt_sentence(result), width, "")
    lines += _failed(result.failed, width)
    lines += _queues(result.queues, width)
    lines += _left_out(result.left_out, width)
    lines += _log(result, width)
    if result.partly:
        lines += [
            "",
            "ONLY",
            *(line for part in result.partly for line in paragraph("- ", printable(part), width, "  ")),
        ]
    lines += ["", "NOTES"]
    for note in [*result.notes, *_sizes(result)]:
        lines += paragraph("- ", printable(note), width, "  ")
    lines += ["", *written_lines(result, width)]
    lines += ["", "NEXT (the commands to move files are for a store on which no broker runs)"]
    lines += [f"  {command}" for command in _commands(result)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _queues(queues: Sequence[QueueBuilt], width: int) -> list[str]:
    odd = [queue for queue in queues if not queue.usual]
    lines: list[str] = []
    if odd:
        rows = [_odd_row(queue) for queue in odd[:ROWS]]
        head = ("queue", "units", "gaps", "missing", "own units", "repeated", "replaced", "moved")
        lines += ["", "NUMBERS (of queues whose records do not follow on from each other)", *table(head, rows, width)]
        lines += rest_of(len(odd), "such queue")
        for queue in [queue for queue in odd if queue.gaps][:ROWS]:
            shown = ", ".join(f"{first} to {stop - 1}" for first, stop in queue.gaps[:5])
            more = f" and {len(queue.gaps) - 5:,} more" if len(queue.gaps) > 5 else ""
            lines += paragraph("- ", f"{printable(queue.topic)}/{queue.queue_id} lacks {shown}{more}", width, "  ")
    if queues:
        rows = [(f"{q.topic}/{q.queue_id}", KINDS.get(q.kind, "cq"), q.first, q.stop, q.units) for q in queues[:ROWS]]
        lines += ["", "QUEUES (queue offsets; max is exclusive)"]
        lines += [*table(("queue", "kind", "min", "max", "units"), rows, width), *rest_of(len(queues), "queue")]
    return lines


def _odd_row(queue: QueueBuilt) -> tuple[object, ...]:
    missing = sum(stop - first for first, stop in queue.gaps)
    return (
        f"{queue.topic}/{queue.queue_id}", queue.units, len(queue.gaps), missing, queue.kept, queue.filled,
        queue.replaced, queue.moved,
    )  # fmt: skip


def _failed(failed: Sequence[str], width: int) -> list[str]:
    return told_as_list("COULD NOT READ (what the store's own files decide was decided without these)", failed, width)


def _left_out(left_out: dict[str, int], width: int) -> list[str]:
    if not left_out:
        return []
    rows = [(name, count) for name, count in sorted(left_out.items())[:ROWS]]
    lines = ["", "LEFT OUT (names that never become a path)", *table(("topic/queue id", "records"), rows, width)]
    return [*lines, *rest_of(len(left_out), "name")]


def _log(result: Rebuilt, width: int) -> list[str]:
    if not result.log:
        return []
    lines = ["", "LOG (what it lost, no rebuild has)"]
    for finding in result.log[:ROWS]:
        text = f"{finding.code} at {printable(finding.path)} {finding.position}, {finding.length} bytes"
        lines += paragraph("- ", text + (f": {printable(finding.detail)}" if finding.detail else ""), width, "  ")
    return [*lines, *rest_of(len(result.log), "finding")]


def _sizes(result: Rebuilt) -> list[str]:
    """Return the sizes that decide what files look like, with where they come from."""
    return [f"{s.name} = {s.value}  [{s.source}]" for s in result.settings if s.name in SIZES]


def _commands(result: Rebuilt) -> list[str]:
    store, into = result.store.rstrip("/"), result.into.rstrip("/")
    commands = [["storeio", "check", store]]
    tops = sorted({path.split("/")[0] for path in result.files})
    named = [queue_directory(q.kind, q.topic, q.queue_id) for q in result.queues]
    one_by_one = any(" of " in part for part in result.partly)
    moved = [*(named if one_by_one else []), *(top for top in tops if not one_by_one or top in (INDEX, CHECKPOINT))]
    local = not (is_remote(store) or is_remote(into))
    if result.exit_code == EXIT_SOUND and 0 < len(moved) <= MOST_MOVES and local:
        before = new_beside(store, "before")
        commands.append(["mkdir", before])
        for path in moved:
            commands.append(["mv", f"{store}/{path}", f"{before}/{path.replace('/', '-')}"])
            commands.append(["mv", f"{into}/{path}", f"{store}/{path}"])
    return [" ".join(map(root_word, words)) for words in commands]

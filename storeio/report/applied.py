"""What became of a plan, as JSON, rows and text: what was done, where the backup is, which command comes next."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any, Final

from storeio import __version__
from storeio.plan.model import CREATE, MOVE, RENAME, RESIZE, WRITE, Action
from storeio.plan.outcome import APPLIED, CANCELLED, DONE, LEFT, NOTHING, Applied, Undone
from storeio.report.next_step import Step, next_lines, root_word
from storeio.report.tables import bytes_text, counted, paragraph, table
from storeio.safe import path_text

BACK: Final = "takes all of it back"
_DID: Final = {
    WRITE: "ranges written",
    CREATE: "files created",
    RESIZE: "files cut or extended",
    MOVE: "moved out of the store",
    RENAME: "files renamed",
}


def applied_object(found: Applied) -> dict[str, Any]:
    """Return an apply as plain objects; ``actions`` has one row for every action of the plan."""
    return {
        "tool": "storeio",
        "version": __version__,
        "store": found.store,
        "plan": found.plan,
        "name": found.name,
        "backup": found.directory,
        "outcome": found.outcome,
        "resumed": found.resumed,
        "not_planned": list(found.not_planned),
        "done": found.done,
        "actions": [
            {"number": number, **asdict(action), "outcome": DONE if number < found.done else LEFT}
            for number, action in enumerate(found.actions)
        ],
        "exit_code": found.exit_code,
        "seconds": round(found.seconds, 6),
    }


def undone_object(found: Undone) -> dict[str, Any]:
    """Return an undo as plain objects."""
    return {
        "tool": "storeio",
        "version": __version__,
        "store": found.store,
        "name": found.name,
        "backup": found.directory,
        "outcome": found.outcome,
        "left": found.left,
        "actions": len(found.actions),
        "exit_code": found.exit_code,
        "seconds": round(found.seconds, 6),
    }


def applied_sentence(found: Applied) -> str:
    """Return an apply in one line."""
    store = path_text(found.store)
    if found.outcome == NOTHING:
        return f"NOTHING TO DO: {store}: {'the last apply is complete' if found.resumed else 'the plan has no actions'}"
    count = len(found.actions)
    if found.outcome == CANCELLED:
        return f"STOPPED: {store}: {found.done} of {counted(count, 'action')} done"
    return f"APPLIED: {store}: {counted(count, 'action')} done{', the first by an earlier call' * found.resumed}"


def undone_sentence(found: Undone) -> str:
    """Return an undo in one line."""
    store = path_text(found.store)
    if found.outcome == CANCELLED:
        return f"STOPPED: {store}: {counted(found.left, 'action')} of {found.name} not taken back yet"
    return f"UNDONE: {store}: {found.name} is taken back, all that it changed is as it was before"


def render_applied(found: Applied, *, width: int) -> str:
    """Return an apply as text."""
    lines = [applied_sentence(found), ""]
    if found.outcome == NOTHING:
        return lines[0] + "\n"
    kinds: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for action in found.actions[: found.done]:
        kinds[action.kind] += 1
        sizes[action.kind] += _bytes_of(action)
    rows = [(_DID[kind], f"{kinds[kind]:,}", bytes_text(sizes[kind])) for kind in _DID if kinds[kind]]
    lines += [*table(("What", "Count", "Bytes"), rows, width), ""] if rows else []
    lines += paragraph("Backup: ", path_text(found.directory), width)
    if found.not_planned:
        lines += paragraph("Not planned, and as it was: ", path_text("; ".join(found.not_planned)), width)
    store = root_word(found.store)
    proof = "what is left" if found.not_planned else "proves that it is sound now"
    steps = [Step(f"storeio check {store}", proof), Step(f"storeio undo {store}", BACK)]
    if found.outcome != APPLIED:
        steps[0] = Step(f"storeio apply --resume {store}", "goes on where it stopped")
    return "\n".join([*lines, *next_lines(steps, width)]) + "\n"


def render_undone(found: Undone, *, width: int) -> str:
    """Return an undo as text."""
    lines = [undone_sentence(found), "", *paragraph("Backup: ", path_text(found.directory), width)]
    store = root_word(found.store)
    step = Step(f"storeio check {store}", "what is wrong with it, as before")
    if found.outcome == CANCELLED:
        step = Step(f"storeio undo {store}", "goes on where it stopped")
    return "\n".join([*lines, *next_lines([step], width)]) + "\n"


def _bytes_of(action: Action) -> int:
    return action.old_length if action.kind in (MOVE, RENAME) else action.length

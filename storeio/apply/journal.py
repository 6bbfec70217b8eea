"""The journal of one apply: what was begun and what is done, a line each, on the disk before anything goes on.

A line is 16 digits of the SHA-256 of a JSON object, a blank, the object. The first holds the plan's digest; then
``begin k`` (with the directories that action k makes) and ``done k`` for each action, ``complete``; when it is taken
back ``undo begin k`` and ``undo done k``, the last first, and ``undone``. A last line that is torn does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from storeio.apply import operations
from storeio.apply.tree import Tree
from storeio.errors import NotAppliedError

JOURNAL: Final = "journal"
FORMAT: Final = 1
MOST_BYTES: Final = 1 << 30  # a plan has no more, and a journal less an action
_DIGITS: Final = 16

Line = dict[str, Any]


@dataclass(slots=True)
class Progress:
    """How far an apply is. ``done`` is the number of actions done and not taken back, from the first on.

    ``flux`` is the action that was begun and not ended, or whose taking back was; it is always ``done``.
    """

    plan_sha256: str
    done: int = 0
    flux: int | None = None
    complete: bool = False
    undoing: bool = False
    undone: bool = False
    made: dict[int, list[str]] = field(default_factory=dict)  # directories, by the action that made them


class Journal:
    """The journal of one run directory, open for appending."""

    def __init__(self, run: Tree, *, cut: bool = False) -> None:
        """Read what is there; with ``cut`` a torn last line is cut off, so that more can be appended.

        Raises:
            NotAppliedError: Something but the last line is damaged.
        """
        self._run = run
        length = run.look(JOURNAL)
        if isinstance(length, int) and length > MOST_BYTES:
            raise NotAppliedError(f"{run.shown(JOURNAL)}: {length} bytes long, which no journal is")
        with run.reading(JOURNAL) as fd:
            data = b"".join(run.read(fd, 0, length, JOURNAL)) if isinstance(length, int) else b""
        lines, self._end = _parsed(data, run.shown(JOURNAL))
        if cut and self._end < len(data):
            with run.writing(JOURNAL) as fd:
                operations.set_length(fd, self._end, run.shown(JOURNAL))
                operations.synced(fd, run.shown(JOURNAL))
        self.progress = _progress(lines, run.shown(JOURNAL))

    def add(self, *lines: Line) -> None:
        """Append lines and return when they are on the disk."""
        shown = self._run.shown(JOURNAL)
        with self._run.writing(JOURNAL) as fd:
            data = b"".join(map(encoded, lines))
            operations.write_all(fd, data, self._end, shown)
            operations.synced(fd, shown)
        self._end += len(data)
        for line in lines:
            _follow(self.progress, line, shown)


def first_line(plan_sha256: str) -> bytes:
    """Return the journal of an apply that has changed nothing yet."""
    return encoded({"step": "open", "format": FORMAT, "plan_sha256": plan_sha256})


def begin(number: int, made: Sequence[str] = ()) -> Line:
    """Return the line in front of an action; ``made`` are the directories that it makes."""
    return {"step": "begin", "action": number, "made": list(made)}


def done(number: int) -> Line:
    """Return the line behind an action."""
    return {"step": "done", "action": number}


def undo_begin(number: int) -> Line:
    """Return the line in front of taking an action back."""
    return {"step": "undo begin", "action": number}


def undo_done(number: int) -> Line:
    """Return the line behind taking an action back."""
    return {"step": "undo done", "action": number}


COMPLETE: Final[Line] = {"step": "complete"}
UNDONE: Final[Line] = {"step": "undone"}


def encoded(line: Line) -> bytes:
    """Return a line as bytes, its digest in front."""
    text = json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest()[:_DIGITS].encode() + b" " + text + b"\n"


def _parsed(data: bytes, where: str) -> tuple[list[Line], int]:
    """Return the lines and where the last whole one ends."""
    lines: list[Line] = []
    end = 0
    while end < len(data):
        stop = data.find(b"\n", end) + 1
        digest, _, text = data[end : stop - 1].partition(b" ")
        if not stop or hashlib.sha256(text).hexdigest()[:_DIGITS].encode() != digest:
            if stop and stop < len(data):
                raise NotAppliedError(f"{where}: line {len(lines) + 1} is damaged")
            break
        line = _line_of(text)
        if line is None:
            raise NotAppliedError(f"{where}: line {len(lines) + 1} is no line of a journal")
        lines.append(line)
        end = stop
    return lines, end


def _line_of(text: bytes) -> Line | None:
    """Return what a whole line says, None for what no apply writes."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    made = line.get("made", []) if isinstance(line, dict) else None
    if not isinstance(made, list) or not all(isinstance(path, str) for path in made):
        return None
    kinds = {"step": str, "action": int, "plan_sha256": str, "format": int}
    is_fine = all(type(line[name]) is kind for name, kind in kinds.items() if name in line)
    return line if is_fine and "step" in line else None


def _progress(lines: Sequence[Line], where: str) -> Progress:
    if not lines or lines[0]["step"] != "open" or lines[0].get("format") != FORMAT or "plan_sha256" not in lines[0]:
        raise NotAppliedError(f"{where}: does not begin as a journal of format {FORMAT}")
    progress = Progress(lines[0]["plan_sha256"])
    for line in lines[1:]:
        _follow(progress, line, where)
    return progress


def _follow(progress: Progress, line: Line, where: str) -> None:
    """Let the progress take one step.

    Raises:
        NotAppliedError: It cannot follow on what was before.
    """
    step, number = line["step"], line.get("action", -1)
    at = progress.done
    if step == "begin" and number == at and not progress.undoing:
        progress.flux = at
        progress.made.setdefault(at, line.get("made", []))  # what a second begin finds made, the first one made
    elif step == "done" and number == at == progress.flux and not progress.undoing:
        progress.done, progress.flux = at + 1, None
    elif step == "complete" and progress.flux is None:
        progress.complete = True
    elif step == "undo begin" and (number == progress.flux if progress.flux is not None else number == at - 1):
        progress.done, progress.flux, progress.undoing = number, number, True
    elif step == "undo done" and number == progress.flux and progress.undoing:
        progress.flux = None
    elif step == "undone" and at == 0 and progress.flux is None:
        progress.undone = True
    else:
        raise NotAppliedError(f"{where}: {step} {number} cannot follow on {at} actions done")

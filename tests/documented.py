"""Commands of documentation pages: run in a temporary directory, their output compared with what the page shows.

A page names the stores that it works on, before its first block::

    <!-- store: rows-5.3.3 27-clean as store -->     a recorded damage, by its id
    <!-- store: base-5.3.3 as master -->             a sound store that a broker wrote

Its blocks are fenced as ``console``: lines ``$ command``, then the output, ``...`` alone for lines that are left out.
The commands of a page run in order, in one directory. ``storeio`` runs in this process, a few file commands in a shell.
An exit code that is not 0 must be shown, by ``$ echo $?`` and its output. Of the output only times, rates, the CRC
engine and the directory may differ (``normal``).

    python -m tests.documented             compare all pages
    python -m tests.documented --update    write what really comes into the pages; ``...`` stays where it was

After an update, read the difference: where the first or last line beside a ``...`` is another one, a guess was made.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storeio import cli
from tests import golden_data

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = tuple(sorted((ROOT / "docs").rglob("*.md")))
STORE: Final = re.compile(r"<!-- store: (\S+)(?: (\S+))? as (\S+) -->")
REST: Final = "..."
CODE: Final = "echo $?"
SHELL: Final = frozenset({"cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir"})
ENVIRONMENT: Final = {"COLUMNS": "80", "NO_COLOR": "1", "LC_ALL": "C", "TZ": "UTC"}
LIKE: Final = 0.6  # of two lines: the least share that makes them the same line with other values
TIMES: Final = (
    (re.compile(r"\b\d+(\.\d+)? s\b"), "# s"),
    (re.compile(r"\([\d.,]+ \w?B/s\)"), "(#)"),
    (re.compile(r"\bCRC by \w+"), "CRC by #"),
    (re.compile(r"\bstoreio \d+\.\d+\.\d+"), "storeio #"),
    (re.compile(r"\b\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{8}"), "#"),
)
# The one paragraph whose breaks depend on how long it took.
TIMED: Final = re.compile(r"^(?:Checked|Wrote|Compared) .*?\bexit\s+code\s+\d+\.", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a page, and the lines of the page that are its output."""

    number: int  # of the command's line in the page, from 0
    command: str
    output: tuple[str, ...]

    @property
    def stop(self) -> int:
        """Return the number of the line behind the output."""
        return self.number + 1 + len(self.output)


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it."""

    shown: Shown
    output: tuple[str, ...]
    code: int


def commands(page: str) -> list[Shown]:
    """Return the commands of a page's console blocks, in order.

    Raises:
        ValueError: A block begins with output, or does not end.
    """
    found: list[Shown] = []
    inside = False
    for number, line in enumerate(page.split("\n")):
        if line.rstrip() == "```console" or (inside and line.rstrip() == "```"):
            inside = not inside
            fresh = True
        elif inside and line.startswith("$ "):
            found.append(Shown(number, line[2:].strip(), ()))
            fresh = False
        elif inside and fresh:
            raise ValueError(f"line {number + 1}: output without a command")
        elif inside:
            last = found.pop()
            found.append(Shown(last.number, last.command, (*last.output, line)))
    if inside:
        raise ValueError("a console block does not end")
    return found


def make_stores(page: str, into: Path) -> None:
    """Make the stores that a page names."""
    for cases, case_id, name in STORE.findall(page):
        if not case_id:
            golden_data.copy_of(cases, into / name)
            continue
        (case,) = (case for case in golden_data.cases(cases) if case["id"] == case_id)
        golden_data.damaged(golden_data.base_of(cases), case["edits"], into / name)


@contextlib.contextmanager
def working_in(directory: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Work in another directory, with other variables, for a while."""
    before, old = Path.cwd(), dict(os.environ)
    os.chdir(directory)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(old)


def run_page(page: str, directory: Path) -> list[Ran]:
    """Return what each command of a page does; its stores are made in ``directory``, which is empty."""
    make_stores(page, directory)
    ran: list[Ran] = []
    with working_in(directory, ENVIRONMENT):
        for shown in commands(page):
            if shown.command == CODE:
                ran.append(Ran(shown, (str(ran[-1].code),), 0))
                continue
            text, code = run(shown.command)
            ran.append(Ran(shown, placed(text, directory), code))
    return ran


def placed(text: str, directory: Path) -> tuple[str, ...]:
    """Return the lines of an output as if the directory were ``/data``, which is short enough to break no line."""
    for place in (str(directory.resolve()), str(directory)):
        text = text.replace(place, "/data")
    text = re.sub(r"\n +(?=/data/)|(?<=:) +(?=/data/)", " ", text)
    return tuple(text.rstrip("\n").split("\n")) if text.strip() else ()


def run(command: str) -> tuple[str, int]:
    """Return the output, standard error with it, and the exit code of a command in the current directory."""
    words = shlex.split(command)
    if words[0] != "storeio":
        return run_shell(command, words)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = cli.run(words[1:])
    return said.getvalue(), code


def run_shell(command: str, words: Sequence[str]) -> tuple[str, int]:
    """Return the same of a file command; one that could reach other directories is a mistake in the page."""
    if words[0] not in SHELL or any(word.startswith(("/", "~")) or ".." in word for word in words):
        raise ValueError(f"{command}: not a command of documentation pages")
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout, done.returncode


def normal(lines: Sequence[str]) -> list[str]:
    """Return lines without what differs from run to run."""
    text = TIMED.sub(lambda found: " ".join(found.group().split()), "\n".join(lines))
    for pattern, instead in TIMES:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text else []


def pieces(shown: Sequence[str]) -> list[list[str]]:
    """Return the stretches of lines between those that are left out, empty ones at an end where lines are."""
    found: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == REST:
            found.append([])
        else:
            found[-1].append(line)
    return found


def agrees(shown: Sequence[str], real: Sequence[str]) -> bool:
    """Tell whether an output is what a page shows."""
    first, *others = [normal(piece) for piece in pieces(shown)]
    lines = normal(real)
    if not others:
        return first == lines
    *middle, last = others
    at = len(first)
    if lines[:at] != first:
        return False
    for piece in middle:
        at = next((n for n in range(at, len(lines)) if lines[n : n + len(piece)] == piece), len(lines) + 1) + len(piece)
    return at <= len(lines) - len(last) and lines[len(lines) - len(last) :] == last


def complaints(ran: Sequence[Ran]) -> list[str]:
    """Return what a page shows otherwise than it is, a text each."""
    found = []
    for number, each in enumerate(ran):
        where = f"line {each.shown.number + 1}: $ {each.shown.command}"
        following = ran[number + 1].shown.command if number + 1 < len(ran) else ""
        if each.code and following != CODE:
            found.append(f"{where}\n  ends with {each.code}, and no `$ {CODE}` shows it")
        if not agrees(each.shown.output, each.output):
            lines = difflib.unified_diff(normal(each.shown.output), normal(each.output), "shown", "real", lineterm="")
            found.append("\n".join([where, *lines]))
    return found


def refreshed(shown: Sequence[str], real: Sequence[str]) -> list[str]:
    """Return the real output, with lines left out where the page does; all of it where that cannot be told."""
    parts = pieces(shown)
    if len(parts) == 1 or not real:
        return list(real)
    result: list[str] = []
    at = 0
    for number, piece in enumerate(parts):
        if number:
            result.append(REST)
        if not piece:
            continue
        first = at if number == 0 else alike(piece[0], real, at)
        stop = len(real) if number == len(parts) - 1 else alike(piece[-1], real, first, len(piece)) + 1
        if first < 0 or stop <= first:
            return list(real)
        result += real[first:stop]
        at = stop
    return result


def alike(line: str, real: Sequence[str], start: int, length: int = 1) -> int:
    """Return which line from ``start`` on is most like one, of equals that nearest to the old place; -1 for none."""
    if start < 0:
        return -1
    scores = [
        (difflib.SequenceMatcher(None, line, each).ratio(), -abs(number - start - length + 1), number)
        for number, each in enumerate(real[start:], start)
    ]
    best = max(scores, default=(0.0, 0, -1))
    return best[2] if best[0] >= LIKE else -1


def updated(page: str, ran: Sequence[Ran]) -> str:
    """Return a page with the outputs that came; what agrees stays as it is."""
    lines = page.split("\n")
    for number in reversed(range(len(ran))):
        each, shown = ran[number], ran[number].shown
        following = ran[number + 1].shown.command if number + 1 < len(ran) else ""
        code = ["$ echo $?", str(each.code)] if each.code and following != CODE else []
        kept = agrees(shown.output, each.output)
        gap = [""] if shown.output and not shown.output[-1].strip() else []
        output = list(shown.output) if kept else refreshed(shown.output, each.output) + gap
        lines[shown.number + 1 : shown.stop] = [*output, *code]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Compare or update the pages; return 1 if one shows what is not so."""
    wrong = False
    for path in PAGES:
        page = path.read_text()
        if not commands(page):
            continue
        directory = Path(tempfile.mkdtemp(prefix="storeio-documented-"))
        try:
            ran = run_page(page, directory)
        finally:
            shutil.rmtree(directory)
        found = complaints(ran)
        print(f"{path.relative_to(ROOT)}: {len(ran)} commands, {len(found)} differ")
        if found and "--update" in arguments:
            path.write_text(updated(page, ran))
        elif found:
            wrong = True
            print("\n".join(found))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The commands to run next, ready to be copied into a shell, each with what it is for."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from storeio.codes import SALVAGE
from storeio.findings import CODES, INFO, SEVERITIES, Finding
from storeio.report.tables import width_of
from storeio.results import Audit, Unfinished
from storeio.uris import beside, is_remote

_RANK = {name: rank for rank, name in enumerate(CODES)}

INSPECT: Final = "what lies at the worst finding"
SIMULATE: Final = "what each broker's next start does to it; start none before"
SIMULATE_SOUND: Final = "what each broker's next start does with it"
PLAN: Final = "what would repair it; writes nothing into the store"
SAVE: Final = "saves every intact message into a new store"
AGAIN: Final = "from the beginning, to the end"


@dataclass(frozen=True, slots=True)
class Step:
    """A command as a person types it, and what it is for."""

    command: str
    purpose: str


def next_steps(audit: Audit | Unfinished) -> list[Step]:
    """Return what to run after a check, the first first; never nothing."""
    store, again = root_word(audit.store), check_again(audit.store)
    found = [f for f in audit.findings if f.severity != INFO]
    if isinstance(audit, Unfinished):
        return [again]
    if not found:
        return [again if audit.failed else Step(f"storeio simulate {store} --broker all", SIMULATE_SOUND)]
    steps = [Step(_inspect(audit, found), INSPECT), Step(f"storeio simulate {store} --broker all", SIMULATE)]
    if needs_salvage(found):
        return [*steps, salvage_step(audit.store)]
    return [*steps, Step(f"storeio plan {store} --out {plan_word(audit.store)}", PLAN)]


def check_again(store: str) -> Step:
    """Return the step where little or nothing is known."""
    return Step(f"storeio check {root_word(store)}", AGAIN)


def needs_salvage(findings: Iterable[Finding]) -> bool:
    """Tell whether bytes of the log are gone that queues and index cannot give back."""
    return any(SALVAGE in CODES[finding.code].remedy for finding in findings)


def salvage_step(store: str) -> Step:
    """Return the step that saves what is left of a log."""
    return Step(f"storeio salvage {root_word(store)} --into {root_word(new_beside(store, 'salvaged'))}", SAVE)


def new_beside(store: str, name: str) -> str:
    """Return what may be made of a store: ``STORE.name``, in the directory above it where its path ends in dots."""
    if is_remote(store):
        return beside(store, f".{name}")
    path = store.rstrip("/")
    if path.rpartition("/")[2] in (".", ".."):
        return f"{path}/../{name}".removeprefix("./")
    return f"{path}.{name}"


def plan_word(store: str) -> str:
    """Return a plan's file as an argument: in the current directory, above the store where that lies in it."""
    above = store and set(store.split("/")) <= {"", ".", ".."} and not store.startswith("/")
    return new_beside(store, "plan.json") if above else "plan.json"


def root_word(store: str) -> str:
    """Return a root as an argument that is no option."""
    return shell_quoted(f"./{store}" if store.startswith("-") else store)


def next_lines(steps: Sequence[Step], width: int) -> list[str]:
    """Return the end of a report: a heading, and each command on a line, its purpose behind it or, if that gets too
    wide, above it, as a comment: what is copied with it does no harm."""
    lines = ["", "NEXT"]
    room = max(width_of(step.command) for step in steps)
    if all(room + len("  ") * 2 + len("# ") + len(step.purpose) <= width for step in steps):
        pads = [" " * (room - width_of(step.command)) for step in steps]
        return [*lines, *(f"  {s.command}{pad}  # {s.purpose}" for s, pad in zip(steps, pads, strict=True))]
    for step in steps:
        lines += [f"  # {step.purpose}", f"  {step.command}"]
    return lines


def _inspect(audit: Audit, found: Sequence[Finding]) -> str:
    """Return the command that shows the worst finding's bytes; where they are missing, it lists the files."""
    sizes = {file.path: file.size for file in audit.files}
    worst = min(found, key=lambda f: (SEVERITIES.index(f.severity), _RANK[f.code], not _can_show(f, sizes)))
    command = f"storeio inspect {root_word(audit.store)}"
    if not _can_show(worst, sizes):
        return command
    return f"{command} --file {shell_quoted(worst.path)} --hex {worst.position}"


def _can_show(finding: Finding, sizes: dict[str, int]) -> bool:
    return 0 <= finding.position < sizes.get(finding.path, 0)


def shell_quoted(word: str) -> str:
    """Return a word as bash, ksh and zsh read it; what is not printable is written as ``$'\\xNN'``."""
    if word.isprintable():
        return shlex.quote(word)
    raw = word.encode("utf-8", "surrogateescape")
    plain = (chr(b) if 0x20 <= b < 0x7F and b not in b"\\'" else f"\\x{b:02x}" for b in raw)
    return "$'" + "".join(plain) + "'"

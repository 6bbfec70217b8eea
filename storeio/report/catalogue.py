"""``docs/findings.md`` from the table of codes: ``python -m storeio.report.catalogue > docs/findings.md``."""

from __future__ import annotations

import sys
from typing import Final

from storeio.findings import CODES, ERROR, INFO, WARNING, Code

_PARTS: Final = (
    ("Layout", ("STRAY_", "MISALIGNED_", "UNREADABLE", "UNSUPPORTED_", "QUEUE_")),
    ("Commitlog", ("LOG_",)),
    ("Consume queues", ("CQ_",)),
    ("Batch queues and queue ext files", ("BCQ_", "EXT_")),
    ("Index", ("INDEX_",)),
    ("Checkpoint and abort file", ("CHECKPOINT_", "ABORT_")),
)
_LAYOUT_LENGTHS: Final = ("LOG_LENGTH", "CQ_LENGTH", "BCQ_LENGTH", "EXT_LENGTH", "INDEX_LENGTH")
_INTRODUCTION: Final = """\
# Findings

What `storeio check` can find, why it happens, and what helps. Codes never change their meaning; new ones may come.

This file is generated from `storeio/codes.py`: `python -m storeio.report.catalogue > docs/findings.md`.

| Severity | Codes | What it says | Exit code |
|---|---|---|---|
| `error` | {error} | the store is damaged: a broker refuses it, loses or misses messages, or delivers wrong ones | 4 |
| `warning` | {warning} | something is wrong that a broker may live with | 4 |
| `info` | {info} | normal in a running or crashed store; good to know | 0 |

Neighbouring findings of one code in one file are one row with a `count` and the whole range: a lost file is one
finding, not a million. `check.md` explains the fields.
"""


def markdown() -> str:
    """Return the whole document."""
    numbers = {s: sum(1 for code in CODES.values() if code.severity == s) for s in (ERROR, WARNING, INFO)}
    parts = [_INTRODUCTION.format(**numbers)]
    for title, codes in by_part().items():
        rows = "".join(_row(code) for code in codes)
        parts.append(f"## {title}\n\n| Code | Severity | Found | Cause | Remedy |\n|---|---|---|---|---|\n{rows}")
    return "\n".join(parts)


def by_part() -> dict[str, list[Code]]:
    """Return the codes of every chapter; each code is in exactly one."""
    parts: dict[str, list[Code]] = {title: [] for title, _ in _PARTS}
    for code in CODES.values():
        parts[_part(code.name)].append(code)
    return parts


def _part(name: str) -> str:
    if name in _LAYOUT_LENGTHS:
        return "Layout"
    for title, prefixes in _PARTS:
        if name.startswith(prefixes):
            return title
    raise KeyError(f"{name}: no chapter of docs/findings.md takes it")


def _row(code: Code) -> str:
    cells = (f"`{code.name}`", code.severity, code.sentence, code.cause, code.remedy)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())

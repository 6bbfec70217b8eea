"""The command to run after a check, ready to be copied into a shell."""

from __future__ import annotations

import shlex

from storeio.findings import CODES, INFO, SEVERITIES, Finding
from storeio.results import Audit

_RANK = {name: rank for rank, name in enumerate(CODES)}


def next_command(audit: Audit) -> str:
    """Return the command that shows the worst finding's bytes, empty if nothing was found.

    Where the worst is that a file is missing, it lists the files.
    """
    found = [f for f in audit.findings if f.severity != INFO]
    if not found:
        return ""
    sizes = {file.path: file.size for file in audit.files}
    worst = min(found, key=lambda f: (SEVERITIES.index(f.severity), _RANK[f.code], not _can_show(f, sizes)))
    store = f"./{audit.store}" if audit.store.startswith("-") else audit.store
    words = ["storeio", "inspect", store]
    if _can_show(worst, sizes):
        words += ["--file", worst.path, "--hex", str(worst.position)]
    return " ".join(shell_quoted(word) for word in words)


def _can_show(finding: Finding, sizes: dict[str, int]) -> bool:
    return 0 <= finding.position < sizes.get(finding.path, 0)


def shell_quoted(word: str) -> str:
    """Return a word as bash, ksh and zsh read it; what is not printable is written as ``$'\\xNN'``."""
    if word.isprintable():
        return shlex.quote(word)
    raw = word.encode("utf-8", "surrogateescape")
    plain = (chr(b) if 0x20 <= b < 0x7F and b not in b"\\'" else f"\\x{b:02x}" for b in raw)
    return "$'" + "".join(plain) + "'"

"""Names of outputs in the making, and those that runs left which were killed: nothing else removes them."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PARTIAL: Final = ".partial"
CHANCE_BYTES: Final = 4  # told in hexadecimal digits
MOST_NAME_BYTES: Final = 255  # of one name, on disks and on HDFS
DIGEST_DIGITS: Final = 16


def partial_name(name: str) -> str:
    """Return the name beside an output's under which it is made; each has another one."""
    return f"{_stem(name)}.{secrets.token_hex(CHANCE_BYTES)}{PARTIAL}"


def _stem(name: str) -> str:
    """Return what names the output in that: its name, or as much of it as there is room for, told from others'."""
    most = MOST_NAME_BYTES - len(f".{PARTIAL}") - 2 * CHANCE_BYTES
    raw = os.fsencode(name)
    if len(raw) <= most:
        return name
    kept = name
    while len(os.fsencode(kept)) > most - DIGEST_DIGITS - 1:
        kept = kept[:-1]
    return f"{kept}.{hashlib.sha256(raw).hexdigest()[:DIGEST_DIGITS]}"


def left_notes(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence on each output in the making that is there beside a new one.

    Args:
        name: Last name of where the new one goes.
        names: What is in the directory above it.
    """
    pattern = re.compile(rf"{re.escape(_stem(name))}\.[0-9a-f]{{{2 * CHANCE_BYTES}}}{re.escape(PARTIAL)}")
    left = sorted(other for other in names if pattern.fullmatch(other))
    return tuple(
        f"{other} is beside the output: another run left it that was killed, or still writes there; "
        "if none does it may be removed"
        for other in left
    )


def left_beside(place: Path) -> tuple[str, ...]:
    """Return ``left_notes`` of a place on a local disk; none where its directory cannot be listed."""
    try:
        return left_notes(place.name, os.listdir(place.parent))
    except OSError:
        return ()

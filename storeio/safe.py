"""Text and times from damaged bytes, made fit for a terminal: nothing in them can act on it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_MS: Final = -62_135_596_800_000  # year 1
_LAST_MS: Final = 253_402_300_799_999  # year 9999


def printable(text: str, *, keep: str = "") -> str:
    """Return the text with control, format and unassigned characters escaped, but for those in ``keep``.

    Escape sequences, bidirectional overrides and invisible characters all become visible.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def path_text(path: str) -> str:
    """Return a path as printable text; bytes of it that are no UTF-8 become ``\\xNN``."""
    return printable("".join(f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in path))


def shortened(text: str, most: int) -> str:
    """Return at most ``most`` characters of the text, the cut shown."""
    return text if len(text) <= most else text[: most - 1] + "…"


def time_text(time_ms: int | None) -> str:
    """Return a Unix time in ms as ISO 8601 in UTC, a dash for none, the number where no calendar reaches."""
    if time_ms is None:
        return "-"
    if not _FIRST_MS <= time_ms <= _LAST_MS:
        return f"{time_ms} ms"
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


OPEN_END: Final = 2**63 - 1
"""The last number of a range without end."""


def parse_range(text: str) -> tuple[int, int]:
    """Return the first and the last number of ``N``, ``N..M`` or ``N..``, both inclusive.

    Raises:
        ValueError: Another form.
    """
    first, dots, last = text.partition("..")
    try:
        start = int(first)
        return start, (int(last) if last else OPEN_END) if dots else start
    except ValueError:
        raise ValueError(f"{printable(text[:40])} is neither N nor N..M") from None


def parse_time(text: str) -> int:
    """Return the Unix ms of an ISO 8601 time (UTC unless it says otherwise) or of a plain number.

    Raises:
        ValueError: Neither.
    """
    if text.lstrip("+-").isdecimal() and len(text) > 8:
        return int(text)
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text)
    except ValueError:
        if text.lstrip("+-").isdecimal():
            return int(text)
        raise ValueError(f"{printable(text)}: neither an ISO 8601 time nor milliseconds") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(milliseconds=1)

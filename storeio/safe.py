"""Text and times from damaged bytes, made fit for a terminal: nothing in them can act on it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_MS: Final = -62_135_596_800_000  # year 1
_LAST_MS: Final = 253_402_300_799_999  # year 9999
_RANGED: Final = re.compile(r"[+-]?[0-9]{1,30}")
# Not datetime.fromisoformat, which takes other forms in each version of Python.
_TIME: Final = re.compile(
    r"(?P<year>[0-9]{4})(?P<dash>-?)(?P<month>[0-9]{2})(?P=dash)(?P<day>[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2})(?::?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?)?"
    r" ?(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


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
    """Return the first and the last number of ``N``, ``N..M`` or ``N..``, both inclusive, of 63 bits and a sign each.

    Raises:
        ValueError: Another form, or a number that has more.
    """
    first, dots, last = text.partition("..")
    found = _RANGED.fullmatch(first), _RANGED.fullmatch(last)
    if found[0] is None or (found[1] is None and last):
        raise ValueError(f"{printable(text[:40])} is neither N nor N..M")
    start = int(first)
    stop = (int(last) if last else OPEN_END) if dots else start
    if max(abs(start), abs(stop)) > OPEN_END:
        raise ValueError(f"{printable(text[:40])}: no number is above {OPEN_END}")
    return start, stop


def parse_time(text: str) -> int:
    """Return the Unix ms of an ISO 8601 date or time (UTC unless it says otherwise) or of a plain number.

    Eight digits are a date if there is such a day, four or six are refused: they may be meant for a year or month.

    Raises:
        ValueError: Neither.
    """
    plain = _RANGED.fullmatch(text) is not None
    if plain and text.isdecimal() and len(text) in (4, 6):
        raise ValueError(f"{text}: a whole date is needed, as 2026-01-31, or milliseconds")
    found = _TIME.fullmatch(text)
    if found is not None:
        try:
            return _moment(found)
        except ValueError:  # no such day, hour or zone
            pass
    if plain:
        return int(text)
    raise ValueError(f"{printable(text)}: neither an ISO 8601 time nor milliseconds")


def _moment(found: re.Match[str]) -> int:
    """Return the Unix ms of a time that was taken apart.

    Raises:
        ValueError: There is none.
    """
    zone, fraction = found["zone"] or "Z", (found["fraction"] or "").ljust(3, "0")[:3]
    away = timedelta()
    if zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > 23 or minutes > 59:
            raise ValueError("no such zone")
        away = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    year, month, day = (int(found[name]) for name in ("year", "month", "day"))
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    there = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    return (there - _EPOCH - away) // timedelta(milliseconds=1) + int(fraction)

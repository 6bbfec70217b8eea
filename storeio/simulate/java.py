"""Java's arithmetic where it differs from Python's: numbers wrap, and a division is cut off towards zero."""

from __future__ import annotations

from typing import Final

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


def as_int(value: int) -> int:
    """Return what an ``int`` makes of a number."""
    return (value + 2**31) % 2**32 - 2**31


def as_long(value: int) -> int:
    """Return what a ``long`` makes of a number."""
    return (value + 2**63) % 2**64 - 2**63


def remainder(a: int, b: int) -> int:
    """Return ``a % b``, which has the sign of ``a``; ``b`` is above 0."""
    rest = abs(a) % b
    return -rest if a < 0 else rest


def quotient(a: int, b: int) -> int:
    """Return ``a / b``, which is cut off towards zero; ``b`` is above 0."""
    whole = abs(a) // b
    return -whole if a < 0 else whole

"""Which parts of a store an incremental audit looks at: what is new, what has changed, and a share of the rest.

The share goes round by age: what was looked at longest ago comes first. As each run looks again at no fewer bytes than
its share of all, every part is looked at again after 1/share runs at the latest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from storeio.errors import UsageError
from storeio.incremental.verdicts import PartKey, Verdict

NEW, CHANGED, DUE = range(3)  # in this order

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
# Three digits of an exponent at most: a fraction is worked out exactly, and 1e999999999 for minutes.
_SHARE: Final = re.compile(r"\+?(\d+/\d+|(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?)", re.IGNORECASE | re.ASCII)


def due(verdicts: Iterable[Verdict], share: Fraction) -> list[PartKey]:
    """Return the parts to look at again, oldest verdict first, with at least the share of all bytes."""
    ordered = sorted(verdicts, key=lambda verdict: (verdict.looked_ms, verdict.key))
    wanted = math.ceil(share * sum(verdict.read_bytes for verdict in ordered))
    chosen: list[PartKey] = []
    for verdict in ordered:
        if wanted <= 0:
            break
        chosen.append(verdict.key)
        wanted -= verdict.read_bytes
    return chosen


def parse_share(text: str) -> Fraction:
    """Return a share written as ``1/30``, ``0.05`` or ``0``.

    Raises:
        UsageError: It is none between 0 and 1.
    """
    try:
        share = Fraction(text) if _SHARE.fullmatch(text.strip()) else Fraction(-1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise UsageError(f"{text}: a share from 0 to 1 is needed, as in 1/30")
    return share


def parse_seconds(text: str) -> float:
    """Return a time written as ``90s``, ``20m``, ``1.5h``, in seconds.

    Raises:
        UsageError: It is none above 0.
    """
    try:
        seconds = float(text[:-1]) * _UNITS[text[-1:]]
    except (ValueError, KeyError):
        seconds = math.nan
    if not 0 < 1000 * seconds < math.inf:  # milliseconds are what is counted
        raise UsageError(f"{text}: a time is needed, as in 90s, 20m or 1.5h")
    return seconds

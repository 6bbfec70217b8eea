"""Values that a single record of the log holds, where all others agree: a damaged field or a rare guest.

For fields that nothing else in a store repeats. A broker writes its own address into every record; a log
that few producers fill has few of theirs; and no producer uses a high bit of FLAG once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.glance import Glance
from storeio.findings import Finding
from storeio.kernels import tables as w
from storeio.kernels.few import count_few
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]
Seen = dict[int, tuple[int, str, int, int]]
"""By value: how many records hold it; path, position and size of the first of them."""

MOST_STORE_HOSTS: Final = 64
MOST_PRODUCERS: Final = 8  # with more of them it is usual that one sends a single message
COMMON: Final = 16  # records that must agree on a value before another one is odd
LOWEST_BIT: Final = 8  # of FLAG; smaller numbers are in use


@dataclass(frozen=True, slots=True)
class Rare:
    """What a split's records hold: store hosts, producers' hosts, high bits of FLAG; None where there are many.

    Hosts are numbers as ``kernels.head.host_key`` makes them.
    """

    store_hosts: Seen | None
    producers: Seen | None
    flag_bits: Seen


def rare_values(walked: Walked, seen: Glance) -> Rare:
    """Return the values of a split that may turn out to be rare in the log; there is a record."""
    return Rare(
        _one(walked, w.R_STORE_HOST) if seen.one_store_host else _few(walked, w.R_STORE_HOST, MOST_STORE_HOSTS),
        _one(walked, w.R_BORN_HOST) if seen.one_producer else _few(walked, w.R_BORN_HOST, MOST_PRODUCERS),
        _flag_bits(walked, seen.flags),
    )


def _one(walked: Walked, row: int) -> Seen:
    return {int(walked.records[row, 0]): _seen(walked, walked.count, 0)}


def _few(walked: Walked, row: int, most: int) -> Seen | None:
    column = walked.records[row]
    values, counts, first = np.zeros((3, most), np.int64)
    n = int(count_few(column, values, counts, first))
    if n < 0:
        return None
    rows = zip(values[:n].tolist(), counts.tolist(), first.tolist(), strict=False)
    return {value: _seen(walked, count, at) for value, count, at in rows}


def _flag_bits(walked: Walked, used: int) -> Seen:
    flags = walked.records[w.R_FLAG]
    found: Seen = {}
    for bit in range(LOWEST_BIT, 32):
        if used >> bit & 1:
            rows = np.flatnonzero(flags >> bit & 1)
            found[bit] = _seen(walked, len(rows), int(rows[0]))
    return found


def _seen(walked: Walked, count: int, row: int) -> tuple[int, str, int, int]:
    at, size = (int(walked.records[r, row]) for r in (w.R_POSITION, w.R_SIZE))
    return count, walked.split.path, at, size


def rare_findings(splits: Sequence[Rare], records: int) -> list[Finding]:
    """Return a finding for each record that alone holds a value, in a log of so many records."""
    if records <= COMMON:
        return []
    bits = _joined(rare.flag_bits for rare in splits) or {}
    found = [_finding(place, f"no other record has bit {bit} of FLAG") for bit, place in bits.items()]
    for hosts, most, whose in (
        ([rare.store_hosts for rare in splits], MOST_STORE_HOSTS, "its store host"),
        ([rare.producers for rare in splits], MOST_PRODUCERS, "its producer's host"),
    ):
        joined = _joined(hosts) or {}
        if len(joined) <= most and max((count for count, *_ in joined.values()), default=0) >= COMMON:
            found += [_finding(place, f"no other record names {whose}") for place in joined.values()]
    return [finding for finding in found if finding is not None]


def _finding(seen: tuple[int, str, int, int], detail: str) -> Finding | None:
    count, path, position, size = seen
    return Finding("LOG_UNUSUAL", path, position, size, detail=detail) if count == 1 else None


def _joined(parts: Iterable[Seen | None]) -> Seen | None:
    """Return what all splits hold, None where one of them holds too many values."""
    total: Seen = {}
    for part in parts:
        if part is None:
            return None
        for value, (count, *place) in part.items():
            before = total.get(value)
            total[value] = (before[0] + count, *before[1:]) if before else (count, *place)  # type: ignore[assignment]
    return total

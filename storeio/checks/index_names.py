"""Index files whose names do not stand in the order of the log.

For a key from some time on, which clients ask for by message id, brokers go from the last name down, and end at the
first file that begins before that time: what lies further down is not found. New keys go into the last file by name.

Source: ``IndexService.queryOffset``, ``IndexService.load``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from storeio.checks.index_structure import IndexStructure
from storeio.findings import Finding

BLANK: Final = -1  # in front of all others: so its time is


def out_of_order(files: Sequence[IndexStructure]) -> Iterator[Finding]:
    """Yield a finding for each file but for the most that are in order; ``files`` are in the order of their names.

    An empty file counts by its header, which brokers begin with the end of the file before: where that is blank
    queries end, too. Of a file with too many units out of order nobody knows where it begins.
    """
    known = [file for file in files if file.ordered]
    begins = [file.begin_physical_offset if file.entries or file.begin_timestamp_ms > 0 else BLANK for file in known]
    kept = [len(begins) - 1 - i for i in _rising([-number for number in reversed(begins)])][::-1]  # rather low names
    for i in sorted(set(range(len(known))) - set(kept)):
        lower = next((j for j in kept if j < i and begins[j] > begins[i]), None)
        other = lower if lower is not None else next(j for j in kept if j > i and begins[j] < begins[i])
        side = "in front of" if other == lower else "behind"
        detail = f"begins {side} what {known[other].path} has: queries that end there do not find all keys"
        yield Finding(
            "INDEX_ORDER", known[i].path, physical_offset=max(begins[i], 0), count=known[i].entries, detail=detail
        )


def _rising(numbers: Sequence[int]) -> list[int]:
    """Return the indexes of the longest sequence in which no number is below the one before."""
    ends: list[int] = []  # of the best sequence of each length, the index of its last number
    before: list[int] = []
    for i, number in enumerate(numbers):
        length = bisect_right(ends, number, key=numbers.__getitem__)
        before.append(ends[length - 1] if length else -1)
        ends[length : length + 1] = [i]
    found, at = [], ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]

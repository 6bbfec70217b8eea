"""One index file judged by itself: header, slots, chains, and what lies behind its end.

A broker fills a file from unit 1 on and keeps in each slot its last unit. So the whole file
follows from the key hashes of its units, and from how many there are; and that number is in the
header, in the slots and in where the zeros begin, so that one of them may be damaged.

Source: ``IndexFile`` and ``IndexHeader``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.findings import Finding
from storeio.format import index
from storeio.kernels import index as kernel
from storeio.kernels import index_shape
from storeio.kernels.search import first_nonzero

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Runs = tuple[tuple[int, int], ...]

MAX_WRONG: Final = 2048  # places that are told apart in one file; more are counted into the last one
MAX_RUNS: Final = 4096  # of units out of order
MAX_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class IndexStructure:
    """One index file as far as it can be judged without the log; plain numbers."""

    path: str
    length: int  # what the file has
    slots: int
    units: int  # room for so many, unit 0 included
    entries: int  # units 1 to this one are written, told from the content, and lie inside the file
    begin_timestamp_ms: int  # what the header says
    end_timestamp_ms: int
    begin_physical_offset: int  # of the first and last unit in order; what the header says if there is none
    end_physical_offset: int
    ordered: bool  # offsets do not decrease, outliers left out; False where those are too many to list
    outliers: Runs  # half-open runs of unit numbers
    classes: dict[str, int]  # record, zero and garbage add up to the length; missing on top
    findings: tuple[Finding, ...]

    @property
    def is_full(self) -> bool:
        """Whether the broker went on to another file."""
        return self.entries >= self.units - 1

    def position_of(self, unit: int) -> int:
        """Return where a unit lies in the file."""
        return index.units_start(self.slots) + unit * index.UNIT_BYTES


@dataclass(slots=True)
class _File:
    """A file's bytes and places, and what has been found so far."""

    path: str
    data: Bytes
    slots: int
    units: int
    findings: list[Finding]
    garbage: int = 0

    def __post_init__(self) -> None:
        self.units_at = index.units_start(self.slots)
        self.length = index.file_length(self.slots, self.units)
        self.present_slots = min(max(len(self.data) - index.HEADER_BYTES, 0) // index.SLOT_BYTES, self.slots)
        whole = max(len(self.data) - self.units_at, 0) // index.UNIT_BYTES
        self.present = max(min(whole, self.units) - 1, 0)
        raw = self.data[: index.HEADER_BYTES].tobytes().ljust(index.HEADER_BYTES, b"\0")
        self.header = {name: int(index.decode_header(raw)[name]) for name in index.HEADER.names or ()}

    def add(self, code: str, position: int, length: int, count: int = 1, detail: str = "") -> None:
        self.findings.append(Finding(code, self.path, position, length, count=count, detail=detail))

    def unit(self, i: int) -> np.void:
        at = self.units_at + i * index.UNIT_BYTES
        unit: np.void = index.decode_units(self.data[at : at + index.UNIT_BYTES].data)[0]
        return unit


@dataclass(slots=True)
class _Content:
    """What slots and units say: how many units, which slots hold one, which bytes are right."""

    entries: int  # in the file
    claimed: int  # in the file before it was cut off
    used: tuple[int, ...]  # slots used: every number that a broker may have written
    record_slots: int
    record_units: int
    zero_slots: int


def check_structure(path: str, data: Bytes, slots: int, units: int) -> IndexStructure:
    """Return what one whole index file holds and what is wrong in it.

    Args:
        data: All bytes of the file, any number of them.
        slots: At least 1.
        units: What the file has room for, unit 0 included; at least 2.
    """
    file = _File(path, data, slots, units, [])
    content, order = _sound_content(file) or _damaged_content(file)
    ordered, outliers = _order(file, content.entries) if order else (True, ())
    first, last = 1, content.entries
    if outliers and outliers[0][0] == 1:
        first = outliers[0][1]
    if outliers and outliers[-1][1] > last:
        last = outliers[-1][0] - 1
    _check_header(file, content, outliers)
    begin, end = file.header["begin_physical_offset"], file.header["end_physical_offset"]
    if first <= last:
        begin, end = (int(file.unit(i)["physical_offset"]) for i in (first, last))
    return IndexStructure(
        path,
        len(data),
        slots,
        units,
        content.entries,
        file.header["begin_timestamp_ms"],
        file.header["end_timestamp_ms"],
        begin,
        end,
        ordered,
        outliers,
        _classes(file, content),
        tuple(file.findings),
    )


def _sound_content(file: _File) -> tuple[_Content, bool] | None:
    """Return the content and whether units are out of order, None unless slots and units are as they should be."""
    entries = max(file.header["unit_count"] - 1, 0)
    if entries > file.present or len(file.data) != file.length:
        return None
    units_at = file.units_at
    end = units_at + (entries + 1) * index.UNIT_BYTES
    if first_nonzero(file.data, units_at, units_at + index.UNIT_BYTES) < units_at + index.UNIT_BYTES:
        return None
    if entries and first_nonzero(file.data, end - index.UNIT_BYTES, end) == end:
        return None
    last, counts, order = np.zeros(file.slots, np.int32), np.zeros(3, np.int64), np.zeros(1, np.int64)
    if kernel.replay(file.data, units_at, file.slots, entries, last, order):
        return None
    if kernel.compare_heads(file.data, file.slots, last, counts):
        return None
    if first_nonzero(file.data, end, file.length) < file.length:
        return None
    used = int(counts[0])
    return _Content(entries, entries, (used, entries), used, entries, file.slots - used), bool(order[0])


def _damaged_content(file: _File) -> tuple[_Content, bool]:
    """Return the content of a file with something wrong in slots, units or behind them, all of it reported."""
    entries, claimed = _count_units(file)
    present = min(entries, file.present)
    replayed = present > 0
    last = np.zeros(file.slots if file.present_slots else 0, np.int32)
    flags = np.zeros(present + 1, np.uint8)
    claims, skippers = np.zeros(present + 1, np.int32), np.zeros(present + 1, np.int32)
    if replayed:
        kernel.replay_damaged(file.data, file.units_at, file.slots, present, last, flags, claims, skippers)
    for _ in range(2):  # what a later slot says of a unit may speak for an earlier one
        kernel.judge_heads(
            file.data, file.units_at, file.slots, file.present_slots, present, claimed, last, flags, claims, skippers
        )
    wrong, count = np.zeros((MAX_WRONG, 3), np.int64), np.zeros(3, np.int64)
    kernel.name_wrong_heads(file.data, file.present_slots, last, wrong, count)
    bad = kernel.name_wrong(file.data, file.units_at, file.slots, present, flags, claims, skippers, wrong, count)
    for start, stop, n in wrong[: count[0]].tolist():
        file.add("INDEX_CHAIN", start, stop - start, n)
    counts = np.zeros(3, np.int64)
    kernel.compare_heads(file.data, file.present_slots, last, counts)
    file.garbage += 20 * bad + 4 * int(count[2])
    _check_rest(file, entries)
    used = tuple({int(counts[0]), int(counts[1]), present, claimed})
    right = present - bad - int(count[1])
    zero = file.present_slots - int(counts[2]) - int(count[2])
    return _Content(present, claimed, used, int(counts[2]), right, max(zero, 0)), True


def _count_units(file: _File) -> tuple[int, int]:
    """Return how many units are written, those that a cut took away included; what two sources agree on."""
    said = max(file.header["unit_count"] - 1, 0)
    found = np.zeros(4, np.int64)
    kernel.survey(file.data, file.units_at, file.slots, file.present_slots, file.present, found)
    before_zero, last, proven, named = (int(n) for n in found)
    return said, said


def _check_rest(file: _File, entries: int) -> None:
    """Report what lies behind the units, in unit 0, and a wrong length."""


def _order(file: _File, entries: int) -> tuple[bool, Runs]:
    """Return whether the units out of order can be listed, and their runs."""
    ranks, tops = np.zeros(entries + 1, np.int32), np.empty(entries, np.int64)
    longest = index_shape.rank_offsets(file.data, file.units_at, entries, ranks, tops)
    runs = np.zeros((MAX_RUNS, 2), np.int64)
    count = index_shape.name_outliers(file.data, file.units_at, entries, ranks, longest, runs)
    if count < 0:
        return False, ()
    return True, tuple((int(a), int(b)) for a, b in runs[:count][::-1])

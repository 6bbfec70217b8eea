"""One index file judged by itself: header, slots, chains, and what lies behind its end.

A broker fills a file from unit 1 on and keeps in each slot its last unit. So the whole file
follows from the key hashes of its units, and from how many there are; and that number is in the
header, in the slots and in where the zeros begin, so that one of them may be damaged.

Source: ``IndexFile`` and ``IndexHeader``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks import index_bytes
from storeio.checks.index_bytes import Content, IndexBytes, Read
from storeio.checks.index_damage import Runs, damaged_content, order_of
from storeio.checks.ranges import Ranges
from storeio.findings import Finding
from storeio.format import index
from storeio.kernels import index as kernel
from storeio.kernels.search import first_nonzero

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

MAX_INT: Final = 2**31 - 1
FIELDS: Final = {name: (place[1], place[0].itemsize) for name, place in (index.HEADER.fields or {}).items()}


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


def seconds_since(store_ms: int, begin_ms: int) -> int:
    """Return the ``seconds`` that a broker writes for a record of this time into a file that begins then."""
    seconds = abs(store_ms - begin_ms) // 1000 if begin_ms > 0 else 0
    return min(seconds, MAX_INT) if store_ms >= begin_ms else 0


def check_structure(
    path: str, read: Read, size: int, slots: int, units: int, *, stretches: Ranges | None = None
) -> IndexStructure:
    """Return what one index file holds and what is wrong in it. It is read in windows.

    Args:
        path: Of the file.
        read: Returns bytes ``[start, stop)`` of the file.
        size: The file's length, any.
        slots: At least 1.
        units: What the file has room for, unit 0 included; at least 2.
        stretches: Outside of these, which are in order, the file is known to hold zeros only.
    """
    file = IndexBytes(path, read, size, slots, units, [(0, size)] if stretches is None else stretches)
    content = _sound_content(file) or damaged_content(file)
    ordered, outliers = order_of(file, content.entries) if content.disordered else (True, ())
    first, last = _in_order(content.entries, outliers)
    _check_header(file, content, first, last)
    if 1 < last == content.claimed and (not outliers or outliers[-1][1] < last) and _is_too_far(file, last):
        outliers = (*outliers, (last, last + 1))
        first, last = _in_order(content.entries, outliers)
    bounds, classes, findings = _bounds(file, first, last), _classes(file, content), tuple(file.findings)
    return IndexStructure(path, size, slots, units, content.entries, *bounds, ordered, outliers, classes, findings)


def presumed_structure(path: str, read: Read, size: int, slots: int, units: int) -> IndexStructure | None:
    """Return what ``check_structure`` tells of a file in which nothing is wrong, less its classes; reads three pieces.

    None where that cannot be: the header counts more units than the file has, or it has another length.
    """
    file = IndexBytes(path, read, size, slots, units, [(0, size)])
    entries = max(file.header["unit_count"] - 1, 0)
    if entries > file.present or file.size != file.length:
        return None
    return IndexStructure(path, size, slots, units, entries, *_bounds(file, 1, entries), True, (), {}, ())


def have_same_units(one: IndexStructure, other: IndexStructure) -> bool:
    """Tell whether two opinions of a file agree on what units it has, and on their order."""
    return replace(one, classes={}, findings=()) == replace(other, classes={}, findings=())


def _bounds(file: IndexBytes, first: int, last: int) -> tuple[int, int, int, int]:
    """Return times and physical offsets at which a file begins and ends; units ``first`` to ``last`` are in order."""
    header = file.header
    times = header["begin_timestamp_ms"], header["end_timestamp_ms"]
    if first > last:
        return (*times, header["begin_physical_offset"], header["end_physical_offset"])
    return (*times, file.unit(first, "physical_offset"), file.unit(last, "physical_offset"))


def _sound_content(file: IndexBytes) -> Content | None:
    """Return the content of a file whose slots and units are as they should be, None of any other."""
    entries = max(file.header["unit_count"] - 1, 0)
    if entries > file.present or file.size != file.length:
        return None
    start, end = file.units_at, file.units_at + (entries + 1) * index.UNIT_BYTES
    if file.read(start, start + index.UNIT_BYTES).any():
        return None
    if entries and not file.read(end - index.UNIT_BYTES, end).any():
        return None
    last, counts, order = np.zeros(file.slots, np.int32), np.zeros(3, np.int64), np.zeros(2, np.int64)
    for unit in range(1, entries + 1, index_bytes.WINDOW_UNITS):
        stop = min(unit + index_bytes.WINDOW_UNITS, entries + 1)
        words = file.read(start + unit * index.UNIT_BYTES, start + stop * index.UNIT_BYTES).view("<u4")
        if not kernel.replay(words if words.flags.aligned else words.copy(), file.slots, unit, stop, last, order):
            return None
    for slot, heads in file.slot_windows():
        if kernel.compare_heads(heads, slot, last, counts):
            return None
    if any(first_nonzero(rest, 0, len(rest)) < len(rest) for _, rest in file.windows(end, file.length)):
        return None
    used = int(counts[0])
    zero = 4 * (file.slots - used) + index.UNIT_BYTES + file.length - end
    return Content(entries, entries, (used, entries), used, entries, zero, bool(order[0]))


def _check_header(file: IndexBytes, content: Content, first: int, last: int) -> None:
    """Report header fields that the units contradict; ``first`` and ``last`` are units in order."""
    said = file.header
    if file.size < index.HEADER_BYTES and not content.claimed:
        return
    expected: dict[str, tuple[int, ...]] = {name: (said[name],) for name in said}
    expected["unit_count"] = (content.claimed + 1,) if content.claimed else (0, 1)
    if file.present_slots == file.slots:
        expected["slots_used"] = content.used
    if not content.claimed:
        expected["end_physical_offset"] = (said["begin_physical_offset"],)
        expected["end_timestamp_ms"] = (said["begin_timestamp_ms"],)
    elif first == 1 <= content.entries:
        expected["begin_physical_offset"] = (file.unit(1, "physical_offset"),)
    if 0 < last == content.claimed:
        expected["end_physical_offset"] = (file.unit(last, "physical_offset"),)
    for name, numbers in expected.items():
        if said[name] not in numbers:
            at, length = FIELDS[name]
            file.add("INDEX_HEADER", at, length, detail=f"{name} is {said[name]}, not {numbers[0]}")
    if 1 < last == content.claimed:
        _check_times(file, last)


def _check_times(file: IndexBytes, last: int) -> None:
    """Report begin and end of the header if the last unit's seconds lie elsewhere."""
    begin, end = file.header["begin_timestamp_ms"], file.header["end_timestamp_ms"]
    # The last but one is nearly as late: if it agrees, the last unit itself is wrong.
    seconds = {file.unit(last, "seconds"), file.unit(last - 1, "seconds") if last > 2 else 0}
    if begin <= 0 or end <= 0 or seconds_since(end, begin) not in seconds:
        file.add("INDEX_HEADER", 0, 16, detail="begin and end time do not fit the seconds of the last unit")


def _is_too_far(file: IndexBytes, last: int) -> bool:
    """Tell whether the last unit points further than the header and the unit before allow."""
    offset, before = file.unit(last, "physical_offset"), file.unit(last - 1, "physical_offset")
    return before <= file.header["end_physical_offset"] < offset


def _in_order(entries: int, outliers: Runs) -> tuple[int, int]:
    """Return the first and the last unit that are in order; the first is behind the last if none is."""
    first = outliers[0][1] if outliers and outliers[0][0] == 1 else 1
    last = outliers[-1][0] - 1 if outliers and outliers[-1][1] > entries else entries
    return first, last


def _classes(file: IndexBytes, content: Content) -> dict[str, int]:
    """Return the bytes per class."""
    header_bytes = len(file.head)
    wrong = sum(f.length for f in file.findings if f.code == "INDEX_HEADER")
    blank = not any(file.head)
    header = 0 if blank else max(header_bytes - wrong, 0)
    record = header + 4 * content.right_slots + 20 * content.right_units
    zero = content.zero_bytes + (header_bytes if blank else 0)
    garbage = file.size - record - zero
    return {"record": record, "zero": zero, "garbage": garbage, "missing": max(file.length - file.size, 0)}

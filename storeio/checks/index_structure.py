"""One index file judged by itself: header, slots, chains, and what lies behind its end.

A broker fills a file from unit 1 on and keeps in each slot its last unit. So the whole file
follows from the key hashes of its units, and from how many there are; and that number is in the
header, in the slots and in where the zeros begin, so that one of them may be damaged.

Source: ``IndexFile`` and ``IndexHeader``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.findings import Finding
from storeio.format import index
from storeio.kernels import index as kernel
from storeio.kernels import index_damage as damage
from storeio.kernels import index_shape
from storeio.kernels.search import first_nonzero

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Runs = tuple[tuple[int, int], ...]
Read = Callable[[int, int], Bytes]

MAX_WRONG: Final = 2048  # places that are told apart in one file; more are counted into the last one
MAX_RUNS: Final = 4096  # of units out of order
MAX_INT: Final = 2**31 - 1
WINDOW_UNITS: Final = (32 << 20) // index.UNIT_BYTES  # of a sound file that are held at a time
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
    path: str, read: Read, size: int, slots: int, units: int, *, zero_from: int | None = None
) -> IndexStructure:
    """Return what one index file holds and what is wrong in it. A sound file is read in windows, any other whole.

    Args:
        path: Of the file.
        read: Returns bytes ``[start, stop)`` of the file.
        size: The file's length, any.
        slots: At least 1.
        units: What the file has room for, unit 0 included; at least 2.
        zero_from: Position from which on the file is known to hold zeros only.
    """
    file = _File(path, read, size, slots, units, size if zero_from is None else zero_from)
    content = _sound_content(file) or _damaged_content(file)
    ordered, outliers = _order(file, content.entries) if content.disordered else (True, ())
    first, last = _in_order(content.entries, outliers)
    _check_header(file, content, first, last)
    if 1 < last == content.claimed and (not outliers or outliers[-1][1] < last) and _is_too_far(file, last):
        outliers = (*outliers, (last, last + 1))
        first, last = _in_order(content.entries, outliers)
    header = file.header
    offsets = header["begin_physical_offset"], header["end_physical_offset"]
    if first <= last:
        offsets = file.unit(first, "physical_offset"), file.unit(last, "physical_offset")
    times = header["begin_timestamp_ms"], header["end_timestamp_ms"]
    classes = _classes(file, content)
    findings = tuple(file.findings)
    return IndexStructure(
        path, size, slots, units, content.entries, *times, *offsets, ordered, outliers, classes, findings
    )


class _File:
    """A file's bytes and places, and what has been found so far."""

    def __init__(self, path: str, read: Read, size: int, slots: int, units: int, zero_from: int) -> None:
        self.path, self.read, self.size = path, read, size
        self.slots, self.units, self.zero_from = slots, units, zero_from
        self.findings: list[Finding] = []
        self.units_at = index.units_start(slots)
        self.length = index.file_length(slots, units)  # what it should be
        self.present_slots = min(max(size - index.HEADER_BYTES, 0) // index.SLOT_BYTES, slots)
        whole = min(max(size - self.units_at, 0) // index.UNIT_BYTES, units)
        self.units_end = self.units_at + whole * index.UNIT_BYTES if whole else size
        self.present = max(whole - 1, 0)  # units that can be read, unit 0 left out
        self.head = read(0, min(index.HEADER_BYTES, size)).tobytes()
        header = index.decode_header(self.head.ljust(index.HEADER_BYTES, b"\0"))
        self.header = {name: int(header[name]) for name in index.HEADER.names or ()}

    @functools.cached_property
    def data(self) -> Bytes:
        """All bytes of the file."""
        return self.read(0, self.size)

    def add(self, code: str, position: int, length: int, count: int = 1, detail: str = "") -> None:
        """Report a stretch of the file."""
        self.findings.append(Finding(code, self.path, position, length, count=count, detail=detail))

    def unit(self, number: int, field: str) -> int:
        """Return a field of a unit that can be read."""
        at = self.units_at + number * index.UNIT_BYTES
        return int(index.decode_units(self.read(at, at + index.UNIT_BYTES).data)[field][0])


@dataclass(slots=True)
class _Content:
    """What slots and units say."""

    entries: int  # units in the file
    claimed: int  # the same before the file was cut off
    used: tuple[int, ...]  # slots that are not empty: what a broker may have counted
    right_slots: int
    right_units: int
    zero_bytes: int
    disordered: bool  # offsets decrease somewhere


def _sound_content(file: _File) -> _Content | None:
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
    for unit in range(1, entries + 1, WINDOW_UNITS):
        stop = min(unit + WINDOW_UNITS, entries + 1)
        words = file.read(start + unit * index.UNIT_BYTES, start + stop * index.UNIT_BYTES).view("<u4")
        if not kernel.replay(words if words.flags.aligned else words.copy(), file.slots, unit, stop, last, order):
            return None
    if kernel.compare_heads(file.read(0, start), file.slots, last, counts):
        return None
    doubtful = max(min(file.zero_from, file.length), end)
    for at in range(end, doubtful, WINDOW_UNITS * index.UNIT_BYTES):
        rest = file.read(at, min(at + WINDOW_UNITS * index.UNIT_BYTES, doubtful))
        if first_nonzero(rest, 0, len(rest)) < len(rest):
            return None
    used = int(counts[0])
    zero = 4 * (file.slots - used) + index.UNIT_BYTES + file.length - end
    return _Content(entries, entries, (used, entries), used, entries, zero, bool(order[0]))


def _damaged_content(file: _File) -> _Content:
    """Return the content of a file with something wrong in slots, units or behind them, all of it reported."""
    claimed = _count_units(file)
    entries = min(claimed, file.present)
    last, counts = np.zeros(file.slots if file.present_slots else 0, np.int32), np.zeros(3, np.int64)
    flags = np.zeros(entries + 1, np.uint8)
    claims, skippers = np.zeros(entries + 1, np.int32), np.zeros(entries + 1, np.int32)
    damage.replay_damaged(file.data, file.units_at, file.slots, entries, last, flags, claims, skippers)
    heads = file.present_slots
    for _ in range(2):  # what a later slot says of a unit may speak for an earlier one
        damage.judge_heads(file.data, file.units_at, file.slots, heads, entries, claimed, last, flags, claims, skippers)
    wrong, count = np.zeros((MAX_WRONG, 3), np.int64), np.zeros(2, np.int64)
    bad = damage.name_wrong(file.data, file.units_at, file.slots, entries, last, flags, claims, skippers, wrong, count)
    damage.name_wrong_heads(file.data, heads, last, wrong, count)
    for start, stop, n in wrong[: count[0]].tolist():
        file.add("INDEX_CHAIN", start, stop - start, n)
    kernel.compare_heads(file.data, heads, last, counts)
    used = (int(counts[0]), int(counts[1]), entries, claimed)
    holes = int(count[1])
    zero = 4 * (heads - int(counts[0])) + 20 * holes + _check_rest(file, entries)
    return _Content(entries, claimed, used, int(counts[2]), entries - bad - holes, zero, True)


def _count_units(file: _File) -> int:
    """Return how many units are written, cut off ones included: what two of header, slots and zeros agree on."""
    said = max(file.header["unit_count"] - 1, 0)
    found = np.zeros(4, np.int64)
    damage.survey(file.data, file.units_at, file.slots, file.present_slots, file.present, file.units - 1, found)
    before_zero, last, *heads = (int(n) for n in found)
    for number, witnesses in ((said, [*heads, last]), (last, heads), (before_zero, heads), (said, [before_zero])):
        if 0 < number < file.units and number in witnesses:
            return number
    return last if last == before_zero or any(heads) else 0


def _check_rest(file: _File, entries: int) -> int:
    """Return the zero bytes of unit 0 and behind the last unit; what is not zero, and a wrong length, is reported."""
    size, length = file.size, file.length
    unused_end = min(file.units_at + index.UNIT_BYTES, size)
    end = min(file.units_at + (entries + 1) * index.UNIT_BYTES, size)
    wrong, count = np.zeros((MAX_WRONG, 3), np.int64), np.zeros(2, np.int64)
    zero = 0
    for start, stop in ((file.units_at, unused_end), (end, file.units_end)):
        zero += damage.name_dirty(file.data, start, stop, wrong, count)
    for start, stop, n in wrong[: count[0]].tolist():
        file.add("INDEX_DIRTY_TAIL", start, stop - start, n)
    # A slot or unit that the end of a short file cuts, and what a long file has too much.
    cut = index.HEADER_BYTES + file.present_slots * index.SLOT_BYTES if size < file.units_at else file.units_end
    zero += damage.name_dirty(file.data, cut, size, wrong, count)
    if size != length:
        detail = f"{size} bytes, not {length}"
        file.add("INDEX_LENGTH", min(size, length), abs(size - length), detail=detail)
    return zero


def _check_header(file: _File, content: _Content, first: int, last: int) -> None:
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


def _check_times(file: _File, last: int) -> None:
    """Report begin and end of the header if the last unit's seconds lie elsewhere."""
    begin, end = file.header["begin_timestamp_ms"], file.header["end_timestamp_ms"]
    # The last but one is nearly as late: if it agrees, the last unit itself is wrong.
    seconds = {file.unit(last, "seconds"), file.unit(last - 1, "seconds") if last > 2 else 0}
    if begin <= 0 or end <= 0 or seconds_since(end, begin) not in seconds:
        file.add("INDEX_HEADER", 0, 16, detail="begin and end time do not fit the seconds of the last unit")


def _is_too_far(file: _File, last: int) -> bool:
    """Tell whether the last unit points further than the header and the unit before allow."""
    offset, before = file.unit(last, "physical_offset"), file.unit(last - 1, "physical_offset")
    return before <= file.header["end_physical_offset"] < offset


def _in_order(entries: int, outliers: Runs) -> tuple[int, int]:
    """Return the first and the last unit that are in order; the first is behind the last if none is."""
    first = outliers[0][1] if outliers and outliers[0][0] == 1 else 1
    last = outliers[-1][0] - 1 if outliers and outliers[-1][1] > entries else entries
    return first, last


def _classes(file: _File, content: _Content) -> dict[str, int]:
    """Return the bytes per class."""
    header_bytes = len(file.head)
    wrong = sum(f.length for f in file.findings if f.code == "INDEX_HEADER")
    blank = not any(file.head)
    header = 0 if blank else max(header_bytes - wrong, 0)
    record = header + 4 * content.right_slots + 20 * content.right_units
    zero = content.zero_bytes + (header_bytes if blank else 0)
    garbage = file.size - record - zero
    return {"record": record, "zero": zero, "garbage": garbage, "missing": max(file.length - file.size, 0)}


def _order(file: _File, entries: int) -> tuple[bool, Runs]:
    """Return whether the units out of order can be listed, and their runs."""
    ranks, tops = np.zeros(entries + 1, np.int32), np.empty(entries, np.int64)
    longest = index_shape.rank_offsets(file.data, file.units_at, entries, ranks, tops)
    runs = np.zeros((MAX_RUNS, 2), np.int64)
    count = index_shape.name_outliers(file.data, file.units_at, entries, ranks, longest, runs)
    if count < 0:
        return False, ()
    return True, tuple((int(a), int(b)) for a, b in runs[:count][::-1])

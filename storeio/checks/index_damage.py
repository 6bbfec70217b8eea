"""An index file with something wrong in it: which units, slots and bytes behind them are, and which are out of order.

A worker may have 512 MiB, and a full file 20 million units: of each are kept a hash and a previous number, and when
these have been judged a rank and a physical offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.index_bytes import Content, IndexBytes
from storeio.format import index
from storeio.kernels import index as kernel
from storeio.kernels import index_damage as damage
from storeio.kernels import index_shape

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Runs = tuple[tuple[int, int], ...]

MAX_WRONG: Final = 2048  # places that are told apart in one file; more are counted into the last one
MAX_RUNS: Final = 4096  # of units out of order


@dataclass(slots=True)
class _Units:
    """Of each unit from 0 on its hash and its previous number; unit 0 is never looked at."""

    hashes: Small
    previous: Small

    @classmethod
    def read(cls, file: IndexBytes, last: int) -> _Units:
        """Return those up to the last one that is not zero."""
        units = cls(np.full(last + 1, damage.NO_UNIT, np.int32), np.zeros(last + 1, np.int32))
        for first, data in _written_windows(file, last):
            damage.load(data, first, units.hashes, units.previous)
        return units

    def up_to(self, entries: int) -> _Units:
        """Return those up to ``entries``; what is behind the last one is zero."""
        if entries < len(self.hashes):
            return _Units(self.hashes[: entries + 1], self.previous[: entries + 1])
        more = np.full(entries + 1 - len(self.hashes), damage.NO_UNIT, np.int32)
        return _Units(np.concatenate([self.hashes, more]), np.concatenate([self.previous, np.zeros_like(more)]))


def damaged_content(file: IndexBytes) -> Content:
    """Return the content of a file with something wrong in slots, units or behind them, all of it reported."""
    leading, last = _bounds(file)
    units = _Units.read(file, last)
    claimed = _count_units(file, units, leading, last)
    entries = min(claimed, file.present)
    tops, counts = np.zeros(file.slots if file.present_slots else 0, np.int32), np.zeros(3, np.int64)
    wrong, count = np.zeros((MAX_WRONG, 3), np.int64), np.zeros(2, np.int64)
    bad = _judge(file, units.up_to(entries), entries, claimed, tops, wrong, count)
    for first, heads in file.slot_windows():
        damage.name_wrong_heads(heads, first, tops, wrong, count)
        kernel.compare_heads(heads, first, tops, counts)
    for start, stop, n in wrong[: count[0]].tolist():
        file.add("INDEX_CHAIN", start, stop - start, n)
    used = (int(counts[0]), int(counts[1]), entries, claimed)
    holes = int(count[1])
    zero = 4 * (file.present_slots - int(counts[0])) + 20 * holes + _check_rest(file, entries)
    return Content(entries, claimed, used, int(counts[2]), entries - bad - holes, zero, True)


def _judge(
    file: IndexBytes, units: _Units, entries: int, claimed: int, tops: Small, wrong: Numbers, count: Numbers
) -> int:
    """Return the number of units with a wrong field, these in ``wrong``; ``tops`` becomes what each slot should be."""
    known = units.hashes, units.previous, file.slots
    claims, skippers = np.zeros(entries + 1, np.int32), np.zeros(entries + 1, np.int32)
    damage.replay_damaged(*known, entries, tops, claims, skippers)
    for _ in range(2):  # what a later slot says of a unit may speak for an earlier one
        for first, heads in file.slot_windows():
            damage.judge_heads(heads, first, *known, entries, claimed, tops, claims, skippers)
    return int(damage.name_wrong(file.units_at, *known, entries, tops, claims, skippers, wrong, count))


def _written_windows(file: IndexBytes, last: int) -> Iterator[tuple[int, Bytes]]:
    """Yield units 1 to ``last`` as ``IndexBytes.unit_windows`` does, those left out that are known to be zero."""
    start, stop = (file.units_at + number * index.UNIT_BYTES for number in (1, last + 1))
    for position, data in file.windows(start, stop):
        yield (position - file.units_at) // index.UNIT_BYTES, data


def _bounds(file: IndexBytes) -> tuple[int, int]:
    """Return how many units come before the first that is all zero, and the last that is not."""
    leading = last = 0
    for first, data in _written_windows(file, file.present):
        before, end = (int(n) for n in kernel.bounds(data))
        leading += before if leading == first - 1 else 0
        last = first + end - 1 if end else last
    return leading, last


def _count_units(file: IndexBytes, units: _Units, leading: int, last: int) -> int:
    """Return how many units are written, cut off ones included: what two of header, slots and zeros agree on."""
    said = max(file.header["unit_count"] - 1, 0)
    present, most = file.present, file.units - 1
    highest = np.zeros(2, np.int64)
    for first, heads in file.slot_windows():
        damage.highest_heads(heads, first, file.slots, present, most, units.hashes, highest)
    of_heads = highest.tolist()
    for number, witnesses in ((said, [*of_heads, last]), (last, of_heads), (leading, of_heads), (said, [leading])):
        if 0 < number < file.units and number in witnesses:
            return number
    return last if last == leading or any(of_heads) else 0


def _check_rest(file: IndexBytes, entries: int) -> int:
    """Return the zero bytes of unit 0 and behind the last unit; what is not zero, and a wrong length, is reported."""
    size, length = file.size, file.length
    unused_end = min(file.units_at + index.UNIT_BYTES, size)
    end = min(file.units_at + (entries + 1) * index.UNIT_BYTES, size)
    wrong, count = np.zeros((MAX_WRONG, 3), np.int64), np.zeros(2, np.int64)
    zero = sum(_dirty(file, *part, wrong, count) for part in ((file.units_at, unused_end), (end, file.units_end)))
    for start, stop, n in wrong[: count[0]].tolist():
        file.add("INDEX_DIRTY_TAIL", start, stop - start, n)
    # A slot or unit that the end of a short file cuts, and what a long file has too much.
    cut = index.HEADER_BYTES + file.present_slots * index.SLOT_BYTES if size < file.units_at else file.units_end
    zero += _dirty(file, cut, size, wrong, count)
    if size != length:
        detail = f"{size} bytes, not {length}"
        file.add("INDEX_LENGTH", min(size, length), abs(size - length), detail=detail)
    return zero


def _dirty(file: IndexBytes, start: int, stop: int, wrong: Numbers, count: Numbers) -> int:
    """Return the bytes of all-zero units of ``[start, stop)``; the others go into ``wrong``."""
    zero = max(stop - start, 0)
    for position, data in file.windows(start, stop):
        zero += int(damage.name_dirty(data, position, wrong, count)) - len(data)
    return zero


def _ranks(file: IndexBytes, entries: int, lowest: int) -> tuple[Small, int]:
    """Return the ranks of ``kernels.index_shape.rank_offsets``, and the longest run."""
    ranks, tops = np.zeros(entries + 1, np.int32), np.empty(entries, np.int64)
    longest = 0
    for first, data in file.unit_windows(1, entries + 1):
        longest = int(index_shape.rank_offsets(data, first, lowest, ranks, tops, longest))
    return ranks, longest


def order_of(file: IndexBytes, entries: int) -> tuple[bool, Runs]:
    """Return whether the units out of order can be listed, and their runs."""
    begin = file.header["begin_physical_offset"]
    proven = entries > 0 and begin > 0 and begin == file.unit(1, "physical_offset")  # then no unit points below
    ranks, longest = _ranks(file, entries, begin if proven else 0)
    if proven and 2 * longest < entries:
        ranks, longest = _ranks(file, entries, 0)
    runs = np.zeros((MAX_RUNS, 2), np.int64)
    state = np.array([longest, 2**63 - 1, 0], np.int64)
    for first, data in file.unit_windows(1, entries + 1, backwards=True):
        if not index_shape.name_outliers(data, first, ranks, state, runs):
            return False, ()
    return True, tuple((int(a), int(b)) for a, b in runs[: state[index_shape.O_RUNS]][::-1])

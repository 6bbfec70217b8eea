"""How many slots and units the index files of a store have, told from their lengths and content.

A file is 40 + 4 slots + 20 units long, which leaves as many answers as it has units. The content
decides: a unit's hash leads to its slot, and the slot back to it, for one number of slots only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format import index
from storeio.kernels import index_shape as kernel
from storeio.paths import MOST_FILE_BYTES

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, int], Bytes]
"""``read(start, stop)``: exactly these bytes of the file, ``0 <= start <= stop <= length``."""

DEFAULT: Final = (index.DEFAULT_SLOTS, index.DEFAULT_UNITS)
CHANCE: Final = 4  # times as many slots in use as expected are none
FILES_ASKED: Final = 4  # of one length; more agree or are damaged, too
UNTOLD: Final = "slots and units cannot be told from any file"
LEAST: Final = index.HEADER_BYTES + index.SLOT_BYTES + 2 * index.UNIT_BYTES


def infer_shape(files: Sequence[tuple[str, int, Read]]) -> tuple[int, int] | None:
    """Return (slots, units) of a store's index files ``(path, length, read)``, None if nothing tells.

    Lengths that more files have are tried first. Of those that as many have the one counts with which a file is just
    full, else the longer one: a file may be cut off. Damage in one file is outvoted by the others, or by the units
    that are left.
    """
    lengths = Counter(length for _, length, _ in files)
    for most in sorted(set(lengths.values()), reverse=True):
        likely = None
        for length in sorted((each for each, count in lengths.items() if count == most), reverse=True):
            if length == index.file_length(*DEFAULT):
                return likely or DEFAULT
            reads = [read for _, size, read in files if size == length][:FILES_ASKED]
            shape = _shape_of_length(length, reads)
            if shape and any(_unit_count(read) == shape[1] for read in reads):
                return shape
            likely = likely or shape
        if likely:
            return likely[0], _units_of_full(files, *likely)
    return _shape_of_cut(files) or _shape_of_slots(files)


def _unit_count(read: Read) -> int:
    """Return what a file's header says of its units: in a full one as many as there is room for."""
    return int(index.decode_header(read(0, index.HEADER_BYTES).data)["unit_count"])


def _units_of_full(files: Sequence[tuple[str, int, Read]], slots: int, units: int) -> int:
    """Return how many units files have room for that are not the last one and so are full; longer ones have more bytes.

    Such a file's header says so, and nothing stands behind its last unit.
    """
    told: Counter[int] = Counter()
    for _, length, read in sorted(files, key=lambda file: file[0])[:-1]:
        count = _unit_count(read) if length >= LEAST else 0
        stop = index.file_length(slots, count)
        if 1 < count < units and stop < length:
            last, rest = read(stop - index.UNIT_BYTES, stop), read(stop, length)
            told[count] += bool(last.any() and not rest.any())
    count, votes = max(told.items(), key=lambda row: row[1], default=(units, 0))
    return count if votes else units


def _shape_of_length(length: int, reads: Sequence[Read]) -> tuple[int, int] | None:
    if not LEAST <= length <= MOST_FILE_BYTES:
        return None
    data = [read(0, length) for read in reads]
    words, odd = divmod(length - index.HEADER_BYTES, index.SLOT_BYTES)
    few = any(_unit_count(read) - 1 <= kernel.TOLERATED for read in reads)  # else more of them have to fit
    for strict, holed in ((True, False), (True, True), (False, False), (False, True)):
        slots, fit = (0, 0) if odd else _voted(data, 1 + (words - 1) % 5, strict=strict, holed=holed)
        if fit > kernel.TOLERATED or (slots and few):
            return slots, (words - slots) // 5
        # A default file that was cut off has any length.
        if index.units_start(DEFAULT[0]) < length < index.file_length(*DEFAULT):
            fits = [kernel.fit_of(each, DEFAULT[0], 0, strict, holed) for each in data if len(each) >= LEAST]
            if max(fits, default=0) > 0 and length >= index.units_start(DEFAULT[0]) + 2 * index.UNIT_BYTES:
                return DEFAULT
    return None


def _shape_of_cut(files: Sequence[tuple[str, int, Read]]) -> tuple[int, int] | None:
    """Return what the longest files tell if they were cut off: as many units as a header says, which a broker reads on.

    Slots then lead to units that are gone; what is left has to follow on an unused unit 0.
    """
    best = np.zeros(2, np.int64)
    for _, length, read in sorted(files, key=lambda file: -file[1])[:FILES_ASKED]:
        if LEAST <= length <= MOST_FILE_BYTES:
            count = _unit_count(read)
            kernel.best_fit(read(0, length), 1, 1, count, True, False, best)
            slots, fit = best.tolist()
            if fit > kernel.TOLERATED and length < index.file_length(slots, count) <= MOST_FILE_BYTES:
                return slots, count
    return None


def _shape_of_slots(files: Sequence[tuple[str, int, Read]]) -> tuple[int, int] | None:
    """Return ``DEFAULT`` if the longest file may be one that was cut off before its units: slots, used as evenly."""
    length, read = max(((length, read) for _, length, read in files), key=lambda file: file[0], default=(0, None))
    if read is None or not LEAST <= length <= index.units_start(DEFAULT[0]):
        return None
    slots = read(index.HEADER_BYTES, length - length % index.SLOT_BYTES).view(">u4")
    used = np.flatnonzero(slots)
    if not len(used):
        return None
    # The highest unit that a slot leads to says how many units there are, and they how many slots are in use.
    highest, reach = int(slots.max()), int(used[-1]) + 1
    expected = reach * -math.expm1(-highest / DEFAULT[0])
    return DEFAULT if len(used) <= 1 + CHANCE * expected and highest <= DEFAULT[1] else None


def _voted(data: Sequence[Bytes], first: int, *, strict: bool, holed: bool) -> tuple[int, int]:
    """Return the number of slots that fits most units of all files, and how many; 0 if none fits any."""
    votes: Counter[int] = Counter()
    best = np.zeros(2, np.int64)
    for each in data:
        kernel.best_fit(each, first, 5, 0, strict, holed, best)
        if best[1] > 0:
            votes[int(best[0])] += int(best[1])
    return max(votes.items(), key=lambda row: row[1]) if votes else (0, 0)

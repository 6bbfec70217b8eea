"""File sizes as the files of a store tell them: by their lengths, and by the distances of their names.

A commitlog or queue file is named after its first byte's place in the log or queue, so that neighbours' names
differ by the file size and every name is a multiple of it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from storeio.paths import MOST_FILE_BYTES, StoreFile

Reaches = Callable[[StoreFile, int], bool]
"""``reaches(file, position)``: whether something is not zero behind a position of a file."""

SEVERAL: Final = 2  # files of one length are no chance
EVIDENCE: Final = 16  # sizes weighed at most; damage can bring as many lengths as there are files


def infer_size(
    files: Sequence[StoreFile], usual: int, unit: int, reaches: Reaches = lambda file, position: False
) -> tuple[int, str, bool]:
    """Return the file size that most files of a kind speak for, where it comes from, and whether it is beyond doubt.

    That it is not where lengths alone speak, for another size than the usual one: all files may have been cut off.

    A file speaks for its length, two neighbours for the distance of their names, and a name
    against every size that it is no multiple of. So a truncated file or a renamed one is outvoted. That neighbours lie
    farther apart than their length speaks against nothing: files between them may be gone.
    What is longer than any file of a broker speaks for nothing. Where no name tells, a longer size of several files
    wins if one of them ``reaches`` over the shorter one: the others were cut off.
    """
    bases = [f.base_offset for f in files if f.base_offset is not None and f.base_offset >= 0]
    lengths = Counter(f.size for f in files if 0 < f.size <= MOST_FILE_BYTES and f.size % unit == 0)
    steps = Counter(step for step in _steps(files) if step <= MOST_FILE_BYTES and step % unit == 0)
    likely = {n for votes in (lengths, steps) for n, _ in votes.most_common(EVIDENCE)} | {usual}

    def votes(size: int) -> tuple[int, int, bool, int]:
        against = sum(1 for base in bases if base % size)
        return lengths[size] + steps[size] - against, lengths[size], size == usual, size

    best = max(likely, key=votes)
    if not steps[best]:
        best = _longer(best, files, lengths, bases, reaches)
    if votes(best)[0] < 2 and not steps[best]:
        best = _size_of_few(best, lengths, bases, usual, unit)
    elif _is_chance(best, lengths, steps):
        best = _size_of_names(best, lengths, bases, usual, unit)
    is_sure = best == usual or steps[best] > 0
    if lengths[best]:
        others = f" of {len(files)}" if lengths[best] < len(files) else ""
        return best, f"inferred from {lengths[best]}{others} file{'s' if len(files) > 1 else ''}", is_sure
    names = f"inferred from the names of {len(bases)} file{'s' * (len(bases) > 1)}"
    return best, "default" if best == usual else names, is_sure


def _longer(
    best: int, files: Sequence[StoreFile], lengths: Counter[int], bases: Sequence[int], reaches: Reaches
) -> int:
    """Return a longer size that half as many files have, if one holds something behind the best: none cut that off."""
    near = max(SEVERAL, -(-lengths[best] // 2))
    longer = (n for n, count in lengths.items() if n > best and count >= near and not any(base % n for base in bases))
    for size in sorted(longer, key=lambda n: (lengths[n], n), reverse=True):
        asked = itertools.islice((file for file in files if file.size == size), EVIDENCE)
        if any(reaches(file, best) for file in asked):
            return size
    return best


def _is_chance(best: int, lengths: Counter[int], steps: Counter[int]) -> bool:
    """Tell whether so few files speak for the best size that all may have been cut off, and some agree by chance.

    Not where none is longer, and more agree than by chance: then the others were cut off.
    """
    half = -(-sum(lengths.values()) // 2)
    few = min(max(3, -(-half // 2)), half) if best == max(lengths, default=0) else half
    return lengths[best] + steps[best] < few


def _steps(files: Sequence[StoreFile]) -> Iterable[int]:
    """Yield the distance between the names of neighbours in a directory; ``files`` are in that order."""
    for left, right in itertools.pairwise(files):
        if left.path.rpartition("/")[0] == right.path.rpartition("/")[0]:
            step = (right.base_offset or 0) - (left.base_offset or 0)
            if step > 0:
                yield step


def _size_of_few(best: int, lengths: Counter[int], bases: Sequence[int], usual: int, unit: int) -> int:
    """Return the file size where no two files agree, so that the one at hand may be truncated."""
    fits = lengths[best] > 0 and not any(base % best for base in bases)
    if fits and (any(bases) or _is_round(best // unit)):
        return best
    return _size_of_names(best, lengths, bases, usual, unit)


def _size_of_names(best: int, lengths: Counter[int], bases: Sequence[int], usual: int, unit: int) -> int:
    """Return the file size that names speak for where lengths do not, the usual one if no name does."""
    longest, divisor = max(lengths, default=0), math.gcd(*bases)
    if divisor == 0 or divisor % usual == 0:
        return usual if usual >= longest else best
    # The name is a multiple of the size. Log sizes are powers of two in practice; queue sizes are anything.
    named = divisor & -divisor if unit == 1 else divisor
    return named if named >= longest and named % unit == 0 else best


def _is_round(number: int) -> bool:
    """Tell whether a person may have set this number: few digits, then zeros, in base two or ten."""
    return number // (number & -number) < 64 or len(str(number).rstrip("0")) <= 3

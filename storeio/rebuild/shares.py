"""A rebuild shared out to workers: what they tell of the splits, and what the driver decides from these small facts.

A worker derives splits, spills what they hold and tells ``Facts``; from all of these the driver stitches the log,
places the queues and cuts the index: ``Orders`` say which files there are, ``parcels`` divides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.checks.queue_files import UNIT_BYTES
from storeio.kernels.place import KEY
from storeio.paths import QUEUE_EXT, file_name, queue_directory
from storeio.rebuild.cuts import CutFile, Cuts, KeyCount, Place, cut
from storeio.rebuild.derive import Derived, Keys, Wanted, behind, derive_split
from storeio.rebuild.layout import FileSizes
from storeio.rebuild.placement import Placed
from storeio.rebuild.queues import Growing
from storeio.rebuild.spill import Spilled, spill
from storeio.rebuild.stretches import QueueKey
from storeio.rebuild.tally import Tally, shape_of, sizes_of
from storeio.rebuilt import INDEXES
from storeio.scan import read_range
from storeio.splits import Split, WalkState

MOST_HELD: Final = 32 << 20  # bytes that splits hold, and a worker before it spills them

Numbers = npt.NDArray[np.int64]
NOWHERE: Final[Numbers] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the driver has to know of a split: it holds neither units nor keys, but says where they lie."""

    number: int
    found: Derived
    keys: KeyCount | None
    spilled: Spilled


def facts_of(place: Path | str, parts: Iterable[tuple[int, Derived]]) -> Iterator[Facts]:
    """Yield what the driver is told of splits, by number in log order, after spilling them, a few together.

    Raises:
        WriteError: They could not be spilled.
    """
    held: list[tuple[int, Derived]] = []
    size = 0
    for number, found in parts:
        held.append((number, found))
        size += found.stretches.packed_bytes + (len(found.keys.packed) if found.keys is not None else 0)
        if size >= MOST_HELD:
            yield from _spilled_together(place, held)
            held, size = [], 0
    if held:
        yield from _spilled_together(place, held)


def _spilled_together(place: Path | str, parts: Sequence[tuple[int, Derived]]) -> Iterator[Facts]:
    for (number, found), where in zip(parts, spill(place, [found for _, found in parts]), strict=True):
        keys = None
        if found.keys is not None:
            last_ms = found.keys.record_of(len(found.keys) - 1)[0] if len(found.keys) else 0
            keys = KeyCount(number, len(found.keys), found.keys.more, found.first_ms, last_ms)
        yield Facts(number, replace(found, stretches=found.stretches.bare(), keys=None), keys, where)


@dataclass(slots=True)
class Stitched:
    """All splits of a log as they truly are, and its queues."""

    facts: list[Facts]
    queues: dict[QueueKey, Growing]


def stitched(plan: AuditPlan, wanted: Wanted, said: Iterable[Facts], tally: Tally, place: Path | str) -> Stitched:
    """Return the splits in log order, wrongly guessed ones derived and spilled again; ``tally`` takes what they say.

    Raises:
        UnreadableError: A split cannot be read again.
        WriteError: It could not be spilled below ``place``.
    """
    result = Stitched([], {})
    before: Derived | None = None
    for facts in sorted(said, key=lambda facts: facts.number):
        mended: list[Facts] = []

        def again(split: Split, begin: WalkState, number: int = facts.number, mended: list[Facts] = mended) -> Derived:
            mended += facts_of(place, [(number, derive_split(plan.root, split, wanted, begin))])
            return mended[0].found

        found = behind(facts.found, before, again)
        true = mended[0] if mended else replace(facts, found=found)
        if not found.records:  # what was spilled for it is another split's, or nobody's
            true = replace(true, keys=None, spilled=true.spilled._replace(stretches=NOWHERE))
        tally.add(found)
        for stretch in found.stretches:
            if stretch.key not in result.queues:
                result.queues[stretch.key] = Growing.of(stretch)
            result.queues[stretch.key].add(stretch)
        result.facts.append(true)
        before = found
    return result


@dataclass(frozen=True, slots=True)
class OutFile:
    """A file that one worker writes: of a queue, or of the index. ``weight`` are its bytes that are not zero, about."""

    path: str
    size: int
    weight: int
    queue: QueueKey | None = None
    index: CutFile | None = None


@dataclass(slots=True)
class Orders:
    """What a rebuild comes to: where the units of each queue stand, and all files, those of one queue together."""

    sizes: FileSizes
    placed: Mapping[QueueKey, Placed]
    files: list[OutFile]
    cuts: Cuts
    intact: Numbers  # as ``Tally.intact``
    facts: list[Facts]


def orders_of(tally: Tally, parts: Stitched, place: Path | str) -> Orders:
    """Return what is to be written; what has to be known of keys is read where they were spilled.

    Raises:
        UnreadableError: It is not there any more.
    """
    plan, wanted = tally.plan, tally.wanted
    sizes, shape = sizes_of(plan), shape_of(plan)
    view = tally.view()
    placed = {key: queue.placement(view) for key, queue in sorted(parts.queues.items())}
    where = {facts.number: facts.spilled for facts in parts.facts}

    def look_up(at: Place) -> tuple[int, int]:
        start = where[at.split].keys + at.key * KEY.itemsize
        return Keys(read_range(str(place), where[at.split].path, start, start + KEY.itemsize)).record_of(0)

    cuts = cut([facts.keys for facts in parts.facts if facts.keys], shape, look_up)
    files: list[OutFile] = []
    for key in placed:
        files += _queue_files(key, placed[key], sizes)
        if wanted.ext:
            files += _ext_files(key, parts.queues[key].ext, sizes)
    for file in cuts.files if INDEXES in tally.parts else ():
        weight = 4 * shape.slots + (file.stop - file.first) * KEY.itemsize
        files.append(OutFile(file.path, shape.file_bytes, weight, index=file))
    return Orders(sizes, placed, files, cuts, tally.intact(), parts.facts)


def _queue_files(key: QueueKey, placed: Placed, sizes: FileSizes) -> Iterator[OutFile]:
    per_file, unit, directory = sizes.per_file(key[0]), UNIT_BYTES[key[0]], queue_directory(*key)
    for first in range(placed.first - placed.first % per_file, placed.stop, per_file):
        weight = (min(placed.stop, first + per_file) - first) * unit
        yield OutFile(f"{directory}/{file_name(first * unit)}", sizes.of(key[0]), weight, key)


def _ext_files(key: QueueKey, count: int, sizes: FileSizes) -> Iterator[OutFile]:
    directory = queue_directory(QUEUE_EXT, *key[1:])
    for first in range(0, count, sizes.per_ext_file):
        path = f"{directory}/{file_name(first // sizes.per_ext_file * sizes.ext_bytes)}"
        yield OutFile(path, sizes.ext_bytes, sizes.ext_bytes, key)

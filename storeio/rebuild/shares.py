"""A rebuild shared out to workers: what the driver decides from small facts, and what workers make of a split then.

Pure but for ``derive_split``, which reads the log. A worker derives a split and tells ``facts``; ``Orders`` stitches
them, places the queues and cuts the index; ``shared_out`` turns the split's units and keys into pieces of files, each
with the number of its file; a file's pieces, sorted, are laid by one worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.checks.queue_files import UNIT_BYTES
from storeio.errors import UnreadableError
from storeio.kernels.place import KEY
from storeio.paths import QUEUE_EXT, file_name, queue_directory
from storeio.rebuild.cuts import CutFile, Cuts, KeyCount, Place, cut, places_to_look_up
from storeio.rebuild.derive import Derived, Keys, Wanted, derive_split, settled
from storeio.rebuild.layout import Bridge, FileSizes, Write, laid
from storeio.rebuild.placement import Placed
from storeio.rebuild.queues import Growing
from storeio.rebuild.stretches import QueueKey
from storeio.rebuild.tally import Tally, shape_of, sizes_of
from storeio.rebuilt import INDEXES
from storeio.splits import Split, WalkState

PIECE_BYTES: Final = 64 << 10  # that travel as one: what sorts them counts memory by hundreds of pieces

Numbers = npt.NDArray[np.int64]
Piece = Write | Bridge | Keys
Shared = tuple[int, int, Piece]
"""Number of the file, place in it, and what stands there."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the driver has to know of a split: it holds neither units nor keys."""

    number: int
    found: Derived
    keys: KeyCount | None


@dataclass(frozen=True, slots=True)
class OutFile:
    """A file that one worker writes; ``weight`` are its bytes that are not zero, about."""

    path: str
    size: int
    weight: int
    index: CutFile | None = None


@dataclass(frozen=True, slots=True)
class SplitOrder:
    """What becomes of a split: where it truly begins if its guess was wrong, the units and ext units of each of its
    queues that come before it, shape ``(n, 2)``, and the same of its keys."""

    begin: WalkState | None
    before: Numbers
    first_key: int


@dataclass(slots=True)
class Orders:
    """Everything that a worker needs to turn derived splits into files."""

    wanted: Wanted
    sizes: FileSizes
    placed: Mapping[QueueKey, Placed]
    splits: dict[int, SplitOrder]
    files: Sequence[OutFile]
    cuts: Cuts
    intact: Numbers  # as ``Tally.intact``
    numbers: dict[str, int] = field(default_factory=dict)  # path to number in ``files``


def facts_of(number: int, found: Derived) -> Facts:
    """Return what the driver is told of a split."""
    keys = None
    if found.keys is not None:
        last_ms = found.keys.record_of(len(found.keys) - 1)[0] if len(found.keys) else 0
        keys = KeyCount(number, len(found.keys), found.keys.more, found.first_ms, last_ms)
    return Facts(number, replace(found, stretches=found.stretches.bare(), keys=None), keys)


@dataclass(slots=True)
class Stitched:
    """All splits of a log as they truly are, and its queues; ``begins`` of those whose guess was wrong."""

    facts: list[Facts]
    begins: dict[int, WalkState]
    queues: dict[QueueKey, Growing]


def stitched(plan: AuditPlan, wanted: Wanted, said: Iterable[Facts], tally: Tally) -> Stitched:
    """Return the splits in log order, wrongly guessed ones derived again; ``tally`` takes what they say."""
    result = Stitched([], {}, {})
    before: Derived | None = None
    for facts in sorted(said, key=lambda facts: facts.number):

        def again(split: Split, begin: WalkState, number: int = facts.number) -> Derived:
            result.begins[number] = begin
            return derive_split(plan.root, split, wanted, begin)

        found = settled(facts.found, before, again)
        if facts.number in result.begins:
            facts = facts_of(facts.number, found)
        elif not found.records:
            facts = Facts(facts.number, found, None)
        else:
            facts = replace(facts, found=found)
        tally.add(facts.found)
        for stretch in facts.found.stretches:
            if stretch.key not in result.queues:
                result.queues[stretch.key] = Growing.of(stretch)
            result.queues[stretch.key].add(stretch)
        result.facts.append(facts)
        before = found
    return result


def keys_to_look_up(plan: AuditPlan, parts: Stitched) -> set[Place]:
    """Return the keys of which the driver needs store time and physical offset."""
    return places_to_look_up([facts.keys for facts in parts.facts if facts.keys], shape_of(plan))


def looked_up(found: Derived, places: Iterable[Place]) -> list[tuple[Place, tuple[int, int]]]:
    """Return store time and physical offset of keys of a split."""
    keys = found.keys
    assert keys is not None  # whoever asks knows of a key
    return [(place, keys.record_of(place.key)) for place in places]


def orders_of(tally: Tally, parts: Stitched, times: dict[Place, tuple[int, int]]) -> Orders:
    """Return what workers are to do."""
    plan, wanted = tally.plan, tally.wanted
    sizes, shape = sizes_of(plan), shape_of(plan)
    view = tally.view()
    placed = {key: queue.placement(view) for key, queue in sorted(parts.queues.items())}
    cuts = cut([facts.keys for facts in parts.facts if facts.keys], shape, times.__getitem__)
    files = [file for key in placed for file in _queue_files(key, placed[key], sizes)]
    if wanted.ext:
        with_ext = [(key, queue.ext) for key, queue in sorted(parts.queues.items())]
        files += [file for key, count in with_ext for file in _ext_files(key, count, sizes)]
    for file in cuts.files if INDEXES in tally.parts else ():
        weight = 4 * shape.slots + (file.stop - file.first) * KEY.itemsize
        files.append(OutFile(file.path, shape.file_bytes, weight, file))
    splits: dict[int, SplitOrder] = {}
    counts: dict[QueueKey, tuple[int, int]] = {}
    for facts in parts.facts:
        before: list[tuple[int, int]] = []
        for stretch in facts.found.stretches:
            units, ext = counts.get(stretch.key, (0, 0))
            before.append((units, ext))
            counts[stretch.key] = units + stretch.count, ext + max(stretch.ext, 0)
        if facts.found.records:
            numbers, first_key = np.array(before, np.int64).reshape(-1, 2), cuts.first_key.get(facts.number, 0)
            splits[facts.number] = SplitOrder(parts.begins.get(facts.number), numbers, first_key)
    by_path = {file.path: number for number, file in enumerate(files)}
    return Orders(wanted, sizes, placed, splits, files, cuts, tally.intact(), by_path)


def _queue_files(key: QueueKey, placed: Placed, sizes: FileSizes) -> Iterator[OutFile]:
    per_file, unit, directory = sizes.per_file(key[0]), UNIT_BYTES[key[0]], queue_directory(*key)
    for first in range(placed.first - placed.first % per_file, placed.stop, per_file):
        weight = (min(placed.stop, first + per_file) - first) * unit
        yield OutFile(f"{directory}/{file_name(first * unit)}", sizes.of(key[0]), weight)


def _ext_files(key: QueueKey, count: int, sizes: FileSizes) -> Iterator[OutFile]:
    directory = queue_directory(QUEUE_EXT, *key[1:])
    for first in range(0, count, sizes.per_ext_file):
        path = f"{directory}/{file_name(first // sizes.per_ext_file * sizes.ext_bytes)}"
        yield OutFile(path, sizes.ext_bytes, sizes.ext_bytes)


def truly(root: str, orders: Orders, number: int, found: Derived) -> Derived | None:
    """Return a split as the driver ordered it, None where it holds nothing.

    Raises:
        UnreadableError: It is not what the driver was told: somebody writes into the log.
    """
    order = orders.splits.get(number)
    if order is None:
        return None
    if order.begin is not None:
        found = derive_split(root, found.split, orders.wanted, order.begin)
    if len(found.stretches) != len(order.before):
        raise UnreadableError(f"{found.split.path}: changed while it was read")
    return found


def shared_out(orders: Orders, number: int, found: Derived) -> Iterator[Shared]:
    """Yield the pieces of files that a split holds, small enough to travel."""
    order = orders.splits[number]
    for stretch, (before, ext_before) in zip(found.stretches, order.before.tolist(), strict=True):
        for piece in laid(stretch, before, ext_before, orders.placed[stretch.key], orders.sizes):
            file = orders.numbers[piece.path]
            if isinstance(piece, Bridge) or piece.times > 1:
                yield file, piece.position, piece
                continue
            for at in range(0, len(piece.data), PIECE_BYTES):
                data = bytes(piece.data[at : at + PIECE_BYTES])
                yield file, piece.position + at, piece._replace(position=piece.position + at, data=data)
    keys = found.keys
    if keys is None:
        return
    for cut_file in orders.cuts.files:
        if cut_file.path not in orders.numbers:
            continue
        low = max(cut_file.first - order.first_key, 0)
        high = min(cut_file.stop - order.first_key, len(keys))
        for at in range(low, high, PIECE_BYTES // KEY.itemsize):
            stop = min(at + PIECE_BYTES // KEY.itemsize, high)
            yield orders.numbers[cut_file.path], order.first_key + at, Keys(keys.part(at, stop).copy())

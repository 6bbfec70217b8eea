"""The rebuild shared out, without Spark: facts, orders, pieces in any order, files laid by their pieces."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rebuilds import built, log_with_lists, no_waiting_for_disks, random_log, settings_of, tree
from storebuilder import StoreBuilder, forged

from storeio.audit import AuditPlan, prepare
from storeio.errors import WriteError
from storeio.kernels.place import KEY
from storeio.rebuild.cuts import KeyCount, Place, cut, places_to_look_up
from storeio.rebuild.derive import Derived, Keys, derive_split
from storeio.rebuild.index import IndexWriter, Shape
from storeio.rebuild.lay import WRITING, lay
from storeio.rebuild.node import rebuild
from storeio.rebuild.old import old_units
from storeio.rebuild.packed import packed
from storeio.rebuild.shares import (
    Orders,
    OutFile,
    Shared,
    facts_of,
    keys_to_look_up,
    looked_up,
    orders_of,
    shared_out,
    stitched,
    truly,
)
from storeio.rebuild.tally import Names, Tally, shape_of, wanted_of
from storeio.rebuilt import PARTS
from storeio.staging import Staging, created, write_all

__all__ = ["no_waiting_for_disks"]


def irregular_log(root: Path) -> StoreBuilder:
    """Return a log with every trouble: epochs, gaps, wrong numbers, a hole, and bodies that imitate records."""
    builder = StoreBuilder(root, units_per_file=8, index_units=40, index_slots=10)
    for i in range(140):
        body = b"x" * 60
        if i % 11 == 0:  # imitations begin where a split may look for its first record
            at = builder.end + 88 + 3
            body = forged(at, topic="t", body=b"not a message") * 30
        number = {20: 2**45, 40: 5, 41: 6, 70: 90, 71: 91, 100: 110, 101: 111}.get(i)
        builder.message("t", 0, body, queue_offset=number, keys=f"k{i % 9}", unique_key=f"u{i}")
        if number is not None:  # behind the wrong one the queue goes on as if it had its own
            builder.next_offsets["t", 0] = (number if number < 2**40 else i) + 1
        builder.message("other", i % 3, b"y" * 30, tags="tag", keys=None if i % 4 else f"o{i}")
    return builder


@pytest.mark.parametrize("split_bytes", [None, 4096, 700])
def test_ext_units_of_some_units_of_a_queue_come_out_as_on_one_node(split_bytes: int | None, tmp_path: Path) -> None:
    builder = log_with_lists(tmp_path / "store", 1, ordinary=True, ext=True, ext_bytes=204)
    given = settings_of(builder.settings)
    built(builder, tmp_path / "node", split_bytes=split_bytes)
    shared_rebuild(tmp_path / "store", tmp_path / "shared", given, split_bytes)
    assert tree(tmp_path / "shared") == tree(tmp_path / "node")
    assert tree(tmp_path / "node", "consumequeue_ext/%LMQ%a") != {}


def with_hole(builder: StoreBuilder, root: Path) -> None:
    """Write the store with its queues, then lose a stretch of the log near its end; the queues still point there."""
    built(builder, root.parent / "old")
    shutil.copytree(root.parent / "old" / "consumequeue", root / "consumequeue")
    base, at = divmod(builder.end - 5000, builder.settings.segment_bytes)
    segment = root / "commitlog" / f"{base * builder.settings.segment_bytes:020d}"
    data = bytearray(segment.read_bytes())
    data[at : at + 2500] = bytes(2500)
    segment.write_bytes(data[: builder.settings.segment_bytes])


def pieces_of(orders: Orders, plan: AuditPlan, found: dict[int, Derived]) -> list[Shared]:
    shared: list[Shared] = []
    for number, guess in found.items():
        true = truly(plan.root, orders, number, guess)
        if true is not None:
            shared += shared_out(orders, number, true)
    return shared


def small(orders: Orders) -> Orders:
    """Return orders as they reach a worker."""
    sent: Orders = pickle.loads(pickle.dumps(packed(orders)))
    assert dict(sent.placed) == orders.placed
    assert list(sent.files) == sent.files[:] == orders.files
    return sent


def shared_rebuild(
    root: Path,
    partial: Path,
    given: dict[str, str],
    split_bytes: int | None,
    queues: Names | None = None,
    parts_wanted: tuple[str, ...] = PARTS,
) -> Tally:
    """Rebuild below ``partial`` as workers do, pieces coming in any order."""
    plan = prepare(str(root), given=given, split_bytes=split_bytes)
    wanted = wanted_of(plan, queues, parts_wanted)
    tally = Tally(plan, wanted, frozenset(parts_wanted))
    found = {number: derive_split(plan.root, split, wanted) for number, split in enumerate(plan.splits)}
    facts = [facts_of(number, derived) for number, derived in found.items()]
    assert all(not stretch.units for fact in facts for stretch in fact.found.stretches)
    random.Random(1).shuffle(facts)
    parts = stitched(plan, wanted, facts, tally)
    true = {n: derive_split(plan.root, plan.splits[n], wanted, parts.begins.get(n)) for n in found}
    times = dict(row for place in keys_to_look_up(plan, parts) for row in looked_up(true[place.split], [place]))
    orders = small(orders_of(tally, parts, times))
    shared = sorted(pieces_of(orders, plan, found), key=lambda row: row[:2])
    by_file = {n: [row[2] for row in rows] for n, rows in itertools.groupby(shared, key=lambda row: row[0])}
    assert set(by_file) <= set(range(len(orders.files)))
    for path in {file.path.rpartition("/")[0] for file in orders.files} | {WRITING}:
        (partial / path).mkdir(parents=True)
    with_gaps = {key for key, placed in orders.placed.items() if placed.gaps}
    old = pickle.loads(pickle.dumps(old_units(plan, orders.intact, with_gaps)))
    for number, file in enumerate(orders.files):
        lay(number, file, by_file.get(number, []), partial, old, shape_of(plan))
    assert list((partial / WRITING).iterdir()) == []
    (partial / WRITING).rmdir()
    data = tally.checkpoint(orders.cuts.rolled_ms, orders.cuts.last_ms)
    assert (data is not None) == ("checkpoint" in parts_wanted)
    if data is not None:
        (partial / "checkpoint").write_bytes(data)
    return tally


@pytest.mark.parametrize("split_bytes", [None, 4096, 8192])
@pytest.mark.parametrize("hole", [False, True])
def test_an_irregular_store_comes_out_as_on_one_node(split_bytes: int | None, hole: bool, tmp_path: Path) -> None:
    builder = irregular_log(tmp_path / "store")
    if hole:
        with_hole(builder, tmp_path / "store")
    else:
        built(builder, tmp_path / "before")
    given = settings_of(builder.settings)
    result = rebuild(tmp_path / "store", tmp_path / "node", given=given, split_bytes=split_bytes)
    shared_rebuild(tmp_path / "store", tmp_path / "shared", given, split_bytes)
    assert tree(tmp_path / "shared") == tree(tmp_path / "node")
    queue = next(queue for queue in result.queues if queue.topic == "t")
    assert queue.gaps
    assert queue.replaced
    assert queue.moved
    assert bool(queue.kept) == hole


def test_some_guess_was_wrong(tmp_path: Path) -> None:
    """Else the test above would not show that a split is derived again."""
    builder = irregular_log(tmp_path / "store")
    built(builder, tmp_path / "new")
    plan = prepare(str(tmp_path / "store"), given=settings_of(builder.settings), split_bytes=4096)
    wanted = wanted_of(plan, None, PARTS)
    facts = [facts_of(n, derive_split(plan.root, split, wanted)) for n, split in enumerate(plan.splits)]
    assert stitched(plan, wanted, facts, Tally(plan, wanted, frozenset(PARTS))).begins


@pytest.mark.parametrize("seed", range(4))
def test_random_logs_come_out_as_on_one_node(seed: int, tmp_path: Path) -> None:
    sizes: dict[str, Any] = (
        {"ext": True, "units_per_file": 7},
        {"multi_dispatch": True, "index_units": 31},
        {"index_units": 2, "index_slots": 3},
        {"index_units": 17},
    )[seed]
    builder = random_log(tmp_path / "store", seed, **sizes)
    built(builder, tmp_path / "node")
    for split_bytes in (None, 4096):
        place = tmp_path / f"shared-{split_bytes}"
        shared_rebuild(tmp_path / "store", place, settings_of(builder.settings), split_bytes)
        assert tree(place) == tree(tmp_path / "node")


NO_KEYS: list[tuple[Names | None, tuple[str, ...]]] = [
    (None, ("queues",)),
    (frozenset({("other", None)}), ("queues",)),
    (frozenset({("t", 0)}), ("queues",)),
]


@pytest.mark.parametrize(("queues", "parts"), NO_KEYS)
def test_without_keys_it_comes_out_as_on_one_node(queues: Names | None, parts: tuple[str, ...], tmp_path: Path) -> None:
    builder = irregular_log(tmp_path / "store")
    built(builder, tmp_path / "node", queues=queues, parts=parts)
    shared_rebuild(tmp_path / "store", tmp_path / "shared", settings_of(builder.settings), 4096, queues, parts)
    assert tree(tmp_path / "shared") == tree(tmp_path / "node")


def test_a_log_without_records_comes_out_as_on_one_node(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    rebuild(tmp_path / "store", tmp_path / "node")
    shared_rebuild(tmp_path / "store", tmp_path / "shared", {}, None)
    assert tree(tmp_path / "shared") == tree(tmp_path / "node")


def test_no_keys_make_no_index_files() -> None:
    cuts = cut([], Shape(3, 4), lambda place: (0, 0))
    assert (cuts.files, cuts.keys, cuts.rolled_ms, cuts.last_ms) == ([], 0, 0, 0)


class _Sink:
    """What ``IndexWriter`` writes to, kept."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}

    def write(self, path: str, position: int, data: Any, *, size: int) -> None:
        content = self.files.setdefault(path, bytearray(size))
        content[position : position + len(data)] = bytes(data)


@pytest.mark.parametrize("seed", range(60))
def test_index_files_are_cut_where_the_writer_cuts_them(seed: int) -> None:
    chance = random.Random(seed)
    shape = Shape(3, chance.randrange(2, 7))
    sink = _Sink()
    writer = IndexWriter(sink, shape)  # type: ignore[arg-type]
    counts: list[KeyCount] = []
    splits: dict[int, Keys] = {}
    now = 10**12
    for number in range(chance.randrange(1, 9)):
        count = chance.randrange(0, 9)
        times = np.array([now := now + chance.randrange(3) for _ in range(count)], np.int64)
        offsets = np.arange(count, dtype=np.int64) * 10 + number * 1000
        packed = np.zeros(count, KEY)
        packed["key_hash"], packed["physical_offset"], packed["store_timestamp_ms"] = range(count), offsets, times
        keys = Keys(packed.view(np.uint8), not count or chance.random() < 0.5)
        first_ms = int(times[0]) - chance.randrange(2) if count else now
        splits[number] = Keys(keys.packed.copy())  # the writer makes units of the others
        writer.add(keys, first_ms)
        counts.append(KeyCount(number, count, keys.more, first_ms, int(times[-1]) if count else 0))
    writer.close()
    asked = places_to_look_up(counts, shape)

    def look_up(place: Place) -> tuple[int, int]:
        assert place in asked
        return splits[place.split].record_of(place.key)

    cuts = cut(counts, shape, look_up)
    assert [file.path for file in cuts.files] == writer.files
    assert (cuts.keys, cuts.rolled_ms, cuts.last_ms) == (writer.entries, writer.rolled_ms, writer.last_ms)
    assert [file.stop for file in cuts.files[:-1]] == [file.first for file in cuts.files[1:]]


def test_a_task_that_fails_half_way_leaves_nothing_and_is_run_again(tmp_path: Path) -> None:
    builder = irregular_log(tmp_path / "store")
    built(builder, tmp_path / "node")
    plan = prepare(str(tmp_path / "store"), given=settings_of(builder.settings))
    wanted = wanted_of(plan, None, PARTS)
    tally = Tally(plan, wanted, frozenset(PARTS))
    found = {number: derive_split(plan.root, split, wanted) for number, split in enumerate(plan.splits)}
    parts = stitched(plan, wanted, [facts_of(n, one) for n, one in found.items()], tally)
    times = dict(row for place in keys_to_look_up(plan, parts) for row in looked_up(found[place.split], [place]))
    orders = orders_of(tally, parts, times)
    shared = sorted(pieces_of(orders, plan, found), key=lambda row: row[:2])
    partial = tmp_path / "partial"
    for path in {file.path.rpartition("/")[0] for file in orders.files} | {WRITING}:
        (partial / path).mkdir(parents=True)
    whole = tree(tmp_path / "node")
    old = old_units(plan, orders.intact)
    for number, file in enumerate(orders.files):
        pieces = [piece for n, _, piece in shared if n == number]

        def breaking(pieces: list[Any] = pieces) -> Iterator[Any]:
            yield from pieces[: len(pieces) // 2]
            raise RuntimeError("the worker was lost")

        with pytest.raises(RuntimeError):
            lay(number, file, breaking(), partial, old, shape_of(plan))
        assert not (partial / file.path).exists()
        assert list((partial / WRITING).iterdir()) == []
        for _ in range(2):  # twice, as a speculative task does
            lay(number, file, pieces, partial, old, shape_of(plan))
            assert (partial / file.path).read_bytes() == whole[file.path]


def test_a_worker_that_does_not_see_the_directory(tmp_path: Path) -> None:
    """Not even an empty one is made: files would lie where nobody looks for them."""
    builder = irregular_log(tmp_path / "store")
    built(builder, tmp_path / "node")
    plan = prepare(str(tmp_path / "store"), given=settings_of(builder.settings))
    file = OutFile("consumequeue/t/0/00000000000000000000", 160, 160)
    with pytest.raises(WriteError, match="gone: is not there; every worker must share"):
        lay(0, file, [], tmp_path / "gone", old_units(plan, np.zeros((0, 2), np.int64)), shape_of(plan))
    assert not (tmp_path / "gone").exists()


def test_a_late_attempt_cannot_write_into_what_is_removed(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "new")
    staging.make_directory(WRITING)
    handle = created(staging.partial / WRITING / "late", 100)
    staging.remove(WRITING)
    write_all(handle, 0, b"x" * 100)  # whose file has no name any more
    os.close(handle)
    with pytest.raises(FileNotFoundError):
        created(staging.partial / WRITING / "later", 100)
    staging.write("checkpoint", 0, b"c", size=1)
    assert staging.finish(1) == ["checkpoint"]
    assert tree(tmp_path / "new") == {"checkpoint": b"c"}
    assert [path.name for path in tmp_path.iterdir()] == ["new"]

"""The rebuild shared out, without Spark: facts, orders, parcels in any order, files laid by their pieces."""

from __future__ import annotations

import os
import pickle
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from rebuilds import (
    built,
    irregular_log,
    log_with_lists,
    no_waiting_for_disks,
    random_log,
    settings_of,
    tree,
    with_hole,
)
from storebuilder import StoreBuilder

from storeio.audit import AuditPlan, prepare
from storeio.errors import WriteError
from storeio.kernels.place import KEY
from storeio.output.staging import Staging, created, write_all
from storeio.rebuild.cuts import KeyCount, Place, cut
from storeio.rebuild.derive import Keys, Wanted, derive_split
from storeio.rebuild.index import IndexWriter, Shape
from storeio.rebuild.lay import Target, lay_in, lay_parcel, pieces_of_queues
from storeio.rebuild.layout import Write
from storeio.rebuild.node import rebuild
from storeio.rebuild.old import old_units
from storeio.rebuild.parcels import R_COUNT, parcels
from storeio.rebuild.shares import Facts, Orders, facts_of, orders_of, stitched
from storeio.rebuild.spill import WRITING, spill
from storeio.rebuild.tally import Names, Tally, shape_of, wanted_of
from storeio.rebuilt import PARTS

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]

T = TypeVar("T")


@pytest.mark.parametrize("split_bytes", [None, 4096, 700])
def test_ext_units_of_some_units_of_a_queue_come_out_as_on_one_node(split_bytes: int | None, tmp_path: Path) -> None:
    builder = log_with_lists(tmp_path / "store", 1, ordinary=True, ext=True, ext_bytes=204)
    given = settings_of(builder.settings)
    built(builder, tmp_path / "node", split_bytes=split_bytes)
    shared_rebuild(tmp_path / "store", tmp_path / "shared", given, split_bytes)
    assert tree(tmp_path / "shared") == tree(tmp_path / "node")
    assert tree(tmp_path / "node", "consumequeue_ext/%LMQ%a") != {}


def cut_anywhere(items: Sequence[T], chance: random.Random) -> Iterator[Sequence[T]]:
    """Yield the items in order, one to five together."""
    at = 0
    while at < len(items):
        count = chance.randrange(1, 6)
        yield items[at : at + count]
        at += count


def said_by_workers(plan: AuditPlan, wanted: Wanted, partial: Path, chance: random.Random) -> list[Facts]:
    """Return the facts of all splits as they reach the driver, in any order; what splits hold is spilled."""
    (partial / WRITING).mkdir(parents=True)
    found = [(number, derive_split(plan.root, split, wanted)) for number, split in enumerate(plan.splits)]
    facts = [one for part in cut_anywhere(found, chance) for one in facts_of(partial, part)]
    assert all(not stretch.units for fact in facts for stretch in fact.found.stretches)
    chance.shuffle(facts)
    sent: list[Facts] = pickle.loads(pickle.dumps(facts))
    return sent


def orders_for(
    root: Path, partial: Path, given: dict[str, str], split_bytes: int | None,
    queues: Names | None = None, parts_wanted: tuple[str, ...] = PARTS,
) -> tuple[Tally, Orders, Target]:  # fmt: skip
    """Return what the driver decides, and what workers know of all files, whose directories are there."""
    plan = prepare(str(root), given=given, split_bytes=split_bytes)
    wanted = wanted_of(plan, queues, parts_wanted)
    tally = Tally(plan, wanted, frozenset(parts_wanted))
    said = said_by_workers(plan, wanted, partial, random.Random(1))
    orders = orders_of(tally, stitched(plan, wanted, said, tally, partial), partial)
    for path in {file.path.rpartition("/")[0] for file in orders.files}:
        (partial / path).mkdir(parents=True)
    with_gaps = {key for key, placed in orders.placed.items() if placed.gaps}
    return tally, orders, Target(partial, orders.sizes, shape_of(plan), old_units(plan, orders.intact, with_gaps))


def shared_rebuild(
    root: Path, partial: Path, given: dict[str, str], split_bytes: int | None,
    queues: Names | None = None, parts_wanted: tuple[str, ...] = PARTS,
) -> Tally:  # fmt: skip
    """Rebuild below ``partial`` as workers do, files shared out by chance."""
    tally, orders, target = orders_for(root, partial, given, split_bytes, queues, parts_wanted)
    sent: Target = pickle.loads(pickle.dumps(target))
    chance = random.Random(2)
    groups = list(cut_anywhere(range(len(orders.files)), chance))
    chance.shuffle(groups)
    done = [
        file.path
        for parcel in pickle.loads(pickle.dumps(parcels(orders, groups)))
        for file, _ in lay_parcel(parcel, sent)
    ]
    assert sorted(done) == sorted(file.path for file in orders.files)
    assert {path.suffix for path in (partial / WRITING).iterdir()} <= {".spill"}
    shutil.rmtree(partial / WRITING)
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
    said = said_by_workers(plan, wanted, tmp_path / "partial", random.Random(1))
    true = stitched(plan, wanted, said, Tally(plan, wanted, frozenset(PARTS)), tmp_path / "partial").facts
    assert {facts.spilled.path for facts in true} - {facts.spilled.path for facts in said}


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

    def look_up(place: Place) -> tuple[int, int]:
        return splits[place.split].record_of(place.key)

    cuts = cut(counts, shape, look_up)
    assert [file.path for file in cuts.files] == writer.files
    assert (cuts.keys, cuts.rolled_ms, cuts.last_ms) == (writer.entries, writer.rolled_ms, writer.last_ms)
    assert [file.stop for file in cuts.files[:-1]] == [file.first for file in cuts.files[1:]]


def test_a_task_that_fails_half_way_leaves_nothing_and_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = irregular_log(tmp_path / "store")
    built(builder, tmp_path / "node")
    partial = tmp_path / "partial"
    _, orders, target = orders_for(tmp_path / "store", partial, settings_of(builder.settings), None)
    whole = tree(tmp_path / "node")
    spills = set((partial / WRITING).iterdir())
    for number, file in enumerate(orders.files):
        (parcel,) = parcels(orders, [[number]])
        with monkeypatch.context() as lost:
            lost.setattr(os, "fsync", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                list(lay_parcel(parcel, target))
        assert not (partial / file.path).exists()
        assert set((partial / WRITING).iterdir()) == spills
        for _ in range(2):  # twice, as a speculative task does
            list(lay_parcel(parcel, target))
            assert (partial / file.path).read_bytes() == whole[file.path]


def test_no_more_is_held_than_stands_in_the_files(tmp_path: Path) -> None:
    """A queue that began again and again has a file of its last units, however many there were before."""
    builder = StoreBuilder(tmp_path / "store", units_per_file=8, index_units=40, index_slots=10)
    for i in range(60):
        builder.message("t", 0, b"x", queue_offset=i % 3)
    built(builder, tmp_path / "node")
    _, orders, target = orders_for(tmp_path / "store", tmp_path / "partial", settings_of(builder.settings), 4096)
    (number,) = (n for n, file in enumerate(orders.files) if file.queue is not None)
    (parcel,) = parcels(orders, [[number]])
    assert sum(parcel.rows[:, R_COUNT]) == 60
    ((path, pieces),) = pieces_of_queues(parcel, target).items()
    assert sum(len(piece.data) for piece in pieces if isinstance(piece, Write)) == 3 * 20
    list(lay_parcel(parcel, target))
    assert (tmp_path / "partial" / path).read_bytes() == (tmp_path / "node" / path).read_bytes()


def test_a_worker_that_does_not_see_the_directory(tmp_path: Path) -> None:
    """Not even an empty one is made: files would lie where nobody looks for them."""
    builder = irregular_log(tmp_path / "store")
    built(builder, tmp_path / "node")
    _, orders, target = orders_for(tmp_path / "store", tmp_path / "partial", settings_of(builder.settings), None)
    gone = replace(target, place=tmp_path / "gone")
    with pytest.raises(WriteError, match="gone: is not there; every worker must share"):
        lay_in(orders.files[0], [], gone)
    with pytest.raises(WriteError, match="gone: is not there; every worker must share"):
        spill(tmp_path / "gone", [derive_split(str(tmp_path / "store"), orders.facts[0].found.split, Wanted(()))])
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

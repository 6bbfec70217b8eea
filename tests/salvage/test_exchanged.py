"""Records that stand in one another's places are all there: each goes back to its own, and none is lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import golden_data as golden
import pytest
from broker.brokers import run
from golden_data import given_for
from salvages import bytes_of, changed_in, records_of

from storeio.apply import apply_plan
from storeio.plan.results import SALVAGE
from storeio.planning import plan_store
from storeio.planning.layout import EXCHANGED, PROVEN
from storeio.salvage.node import salvage

STORES = ("base-4.9.8", "rich-5.3.3", "ext-5.5.1")
Block = tuple[int, int]  # physical offset and length, within one segment
Chosen = Callable[[str, int, int], list[Block]]


def segment_bytes(name: str) -> int:
    return int(golden.options(name)["clFile"])


def records(name: str) -> list[Block]:
    """Return place and size of the records of the log's files."""
    size = segment_bytes(name)
    return sorted((at, len(raw)) for at, raw in bytes_of(golden.store(name), size).items())


def alike(name: str, count: int, seed: int) -> list[Block]:
    """Return some records of one size."""
    by_size: dict[int, list[Block]] = {}
    for at, size in records(name):
        by_size.setdefault(size, []).append((at, size))
    chosen = random.Random(seed)
    return chosen.sample(chosen.choice([each for each in by_size.values() if len(each) >= count]), count)


def next_to_each_other(name: str, count: int, seed: int) -> list[Block]:
    """Return records of a segment that follow each other."""
    size, all_of_them = segment_bytes(name), records(name)
    runs = [all_of_them[i : i + count] for i in range(len(all_of_them) - count)]
    return random.Random(seed).choice([run for run in runs if len({at // size for at, _ in run}) == 1])


def rotated(root: Path, name: str, blocks: list[Block]) -> None:
    """Write the last of some records where the first began, and the others, in order, behind it.

    Where they follow each other, that is behind one another; else each into the place of the next one.
    """
    size, whole = segment_bytes(name), sorted(blocks)
    files = {at: root / f"commitlog/{at // size * size:020d}" for at, _ in whole}
    raws = [files[at].read_bytes()[at % size : at % size + length] for at, length in whole]
    is_row = all(a + length == b for (a, length), (b, _) in itertools.pairwise(whole))
    new = [raws[-1], *raws[:-1]]
    places = [whole[0][0] + sum(map(len, new[:i])) for i in range(len(new))] if is_row else [at for at, _ in whole]
    for at, raw in zip(places, new, strict=True):
        with (root / f"commitlog/{at // size * size:020d}").open("r+b") as file:
            file.seek(at % size)
            file.write(raw)


DAMAGES = [
    pytest.param(alike, 2, id="two of one size"),
    pytest.param(alike, 3, id="three of one size"),
    pytest.param(next_to_each_other, 2, id="neighbours"),
    pytest.param(next_to_each_other, 5, id="five in a row"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize(("chosen", "count"), DAMAGES)
def test_all_go_back(chosen: Chosen, count: int, name: str, seed: int, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    sound = bytes_of(golden.store(name), segment_bytes(name))
    rotated(root, name, chosen(name, count, seed))
    assert len(changed_in(root, sound, segment_bytes(name))) == count
    made = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert made.lost_count == 0
    assert changed_in(tmp_path / "new", sound, segment_bytes(name)) == []
    plan = plan_store(root, tmp_path / "plan", given=given_for(name), allow_log=True, goal=SALVAGE, jobs=1)
    assert (plan.cures, plan.lost) == (True, 0)
    apply_plan(tmp_path / "plan", root, allow_log=True)
    assert changed_in(root, sound, segment_bytes(name)) == []


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STORES)
def test_those_that_are_intact_go_back_where_another_is_damaged(
    name: str, seed: int, count: int, tmp_path: Path
) -> None:
    root, size = golden.copy_of(name, tmp_path / "store"), segment_bytes(name)
    sound = bytes_of(golden.store(name), size)
    blocks = alike(name, count, seed)
    rotated(root, name, blocks)
    at, length = min(blocks)
    with (root / f"commitlog/{at // size * size:020d}").open("r+b") as file:
        file.seek(at % size + 8)
        file.write(random.Random(seed).randbytes(length - 8))
    made = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    damaged = max(blocks)[0]
    assert made.lost_count == len(records_of(golden.store(name), size)[damaged].numbers)
    assert changed_in(tmp_path / "new", sound, size) == [damaged]


def test_of_a_copy_and_the_record_that_it_covers_nothing_is_exchanged(tmp_path: Path) -> None:
    name = "base-4.9.8"
    (one, size), (other, _) = alike(name, 2, 1)
    root, sound = golden.copy_of(name, tmp_path / "store"), bytes_of(golden.store(name), segment_bytes(name))
    with (root / golden.segment(other // segment_bytes(name))).open("r+b") as file:
        file.seek(other % segment_bytes(name))
        file.write(sound[one])
    made = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert made.lost_count == 1
    assert changed_in(tmp_path / "new", sound, segment_bytes(name)) == [other]
    assert size == len(sound[other])


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", STORES)
def test_a_repair_leaves_them_to_a_salvage(name: str, count: int, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    sound = bytes_of(golden.store(name), segment_bytes(name))
    rotated(root, name, alike(name, count, 7))
    repair = plan_store(root, tmp_path / "repair", given=given_for(name), allow_log=True, jobs=1)
    assert any(line.startswith((EXCHANGED, PROVEN)) for line in repair.plan.left)
    assert not any(action.path.startswith("commitlog") for action in repair.plan.actions)
    apply_plan(tmp_path / "repair", root, allow_log=True)
    saved = plan_store(root, tmp_path / "plan", given=given_for(name), allow_log=True, goal=SALVAGE, jobs=1)
    apply_plan(tmp_path / "plan", root, allow_log=True)
    assert (saved.cures, saved.lost) == (True, 0)
    assert changed_in(root, sound, segment_bytes(name)) == []


@pytest.mark.broker
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
def test_a_real_broker_then_delivers_each_message(name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    rotated(root, name, alike(name, 3, 5))
    plan_store(root, tmp_path / "plan", given=given_for(name), allow_log=True, goal=SALVAGE, jobs=1)
    apply_plan(tmp_path / "plan", root, allow_log=True)
    version = name.rpartition("-")[2]
    started = run(version, root, golden.options(name), stop="halt")
    expected = run(version, golden.copy_of(name, tmp_path / "sound"), golden.options(name), stop="halt")
    assert started.delivered == expected.delivered
    assert started.queues == expected.queues

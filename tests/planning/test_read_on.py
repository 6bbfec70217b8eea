"""Brokers ask no record where it lies: what units and keys behind the last one in its place point at, they keep."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import golden_data as golden
import pytest
from broker.brokers import run
from golden_data import given_for

from storeio.apply import apply_plan
from storeio.plan.results import SALVAGE, Planned
from storeio.planning import plan_store
from storeio.planning.layout import COPIED, PROVEN
from storeio.planning.read_on import READ_ON
from storeio.predict.start import simulate
from storeio.salvage.node import salvage

SEGMENT = 32768
STORES = ("base-4.9.8", "base-5.3.3", "base-5.5.1")
Damage = Callable[[Path, str], None]


def misplaced(by: int, count: int) -> Damage:
    """Return what writes wrong places into the last records."""

    def damage(root: Path, name: str) -> None:
        for record in golden.dump(name)[-count:]:
            at = int(record["phy_offset"])
            with (root / golden.segment(at // SEGMENT)).open("r+b") as file:
                file.seek(at % SEGMENT + 28)
                file.write(struct.pack(">q", at + by))

    return damage


def overwritten(root: Path, name: str) -> None:
    """Copy another segment over the last one."""
    del name
    shutil.copyfile(root / golden.segment(3), root / golden.segment(9))


def begun(root: Path, name: str) -> None:
    """Copy the first record-aligned half of another segment over the last one."""
    del name
    data = (root / golden.segment(3)).read_bytes()
    with (root / golden.segment(9)).open("r+b") as file:
        file.write(data[: SEGMENT // 2])


def shortened(root: Path, name: str) -> None:
    """Copy a shorter record over the last one."""
    last = golden.dump(name)[-1]
    other = next(row for row in golden.dump(name) if int(row["size"]) < int(last["size"]) - 8)
    copied(root, int(other["phy_offset"]), int(other["size"]), int(last["phy_offset"]))


def copied(root: Path, at: int, count: int, to: int) -> None:
    data = (root / golden.segment(at // SEGMENT)).read_bytes()[at % SEGMENT : at % SEGMENT + count]
    with (root / golden.segment(to // SEGMENT)).open("r+b") as file:
        file.seek(to % SEGMENT)
        file.write(data)


def moved(root: Path, name: str) -> None:
    """Move the last segment but one over the last."""
    del name
    (root / golden.segment(8)).rename(root / golden.segment(9))


DAMAGES = [
    pytest.param(misplaced(20, 3), id="a little behind"),
    pytest.param(misplaced(-1, 40), id="a little before"),
    pytest.param(shortened, id="a shorter one over the last"),
    pytest.param(moved, id="moved"),
    pytest.param(misplaced(-SEGMENT, 3), id="one segment before"),
    pytest.param(misplaced(SEGMENT, 1), id="one segment behind"),
    pytest.param(misplaced(2 * SEGMENT, 40), id="many, two behind"),
    pytest.param(overwritten, id="overwritten"),
    pytest.param(begun, id="half overwritten"),
]


def version_of(name: str) -> str:
    return name.rpartition("-")[2]


def ends(root: Path, name: str) -> dict[str, int]:
    """Return where the numbers of each queue go on after a start."""
    start = simulate(root, broker=version_of(name), given=given_for(name)).outcome.after_start
    assert start is not None
    return {queue: stop for queue, (_, stop, _) in start.queues.items()}


def planned(root: Path, name: str, out: Path, *, allow_log: bool = False, goal: str = "repair") -> Planned:
    made = plan_store(root, out, broker=version_of(name), given=given_for(name), allow_log=allow_log, goal=goal, jobs=1)
    if made.plan.actions:
        apply_plan(out, root, allow_log=allow_log)
    return made


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("allow_log", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_number_of_what_brokers_read_is_given_out_again(
    damage: Damage, allow_log: bool, name: str, tmp_path: Path
) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    sound = ends(root, name)
    damage(root, name)
    before = ends(root, name)
    planned(root, name, tmp_path / "plan.json", allow_log=allow_log)
    after = ends(root, name)
    assert all(after[queue] >= stop for queue, stop in before.items())
    saved = planned(root, name, tmp_path / "salvage.json", allow_log=True, goal=SALVAGE)
    assert saved.cures
    assert ends(root, name) == sound


@pytest.mark.parametrize("name", STORES)
def test_it_says_what_it_leaves_and_why(name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    misplaced(-SEGMENT, 3)(root, name)
    (root / "consumequeue/topic_1/1" / f"{0:020d}").unlink()  # of a queue that is to be mended besides
    first = min((root / "index").iterdir())
    first.unlink()
    before = ends(root, name)
    made = planned(root, name, tmp_path / "plan.json")
    assert not made.cures
    assert f"{READ_ON}; left for that: the index" in made.plan.left
    assert not first.exists()
    assert any(line.startswith("CQ_BEYOND_LOG") for line in made.plan.left)
    assert (root / "consumequeue/topic_1/1" / f"{0:020d}").is_file()
    assert ends(root, name) == before


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("by", [1, 20, -1, -SEGMENT])
def test_records_that_follow_others_lie_where_they_do(by: int, count: int, name: str, tmp_path: Path) -> None:
    """Whatever place they say, which no broker asks: they would overlap, or leave a gap that nothing fits into."""
    root = golden.copy_of(name, tmp_path / "store")
    misplaced(by, count)(root, name)
    saved = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert (saved.lost, saved.problems) == ([], [])
    for path in (root / "commitlog").iterdir():
        assert (tmp_path / "new/commitlog" / path.name).read_bytes() == (
            golden.store(name) / "commitlog" / path.name
        ).read_bytes()


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("count", [1, 5])
def test_copies_behind_the_log_become_no_messages(count: int, name: str, tmp_path: Path) -> None:
    """Brokers read over them; with the place at which they lie, consumers would get them again."""
    root = golden.copy_of(name, tmp_path / "store")
    rows = golden.dump(name)
    first, last = rows[100], rows[99 + count]
    start, end = int(first["phy_offset"]), int(rows[-1]["phy_offset"]) + int(rows[-1]["size"])
    length = int(last["phy_offset"]) + int(last["size"]) - start
    assert start // SEGMENT == (start + length - 1) // SEGMENT
    copied(root, start, length, end)
    before = ends(root, name)
    made = planned(root, name, tmp_path / "plan.json", allow_log=True)
    assert COPIED in " ".join(made.plan.left)
    assert ends(root, name) == before
    saved = planned(root, name, tmp_path / "salvage.json", allow_log=True, goal=SALVAGE)
    assert saved.cures
    assert ends(root, name) == before


def test_a_record_whose_checksum_proves_its_place_gets_no_other(tmp_path: Path) -> None:
    """One was written over another of the same length: with another place in it, its property CRC fits no more."""
    name, size = "rich-5.5.1", 65536
    root = golden.copy_of(name, tmp_path / "store")
    path = sorted((root / "commitlog").iterdir())[-2]
    base = int(path.name)
    rows = [row for row in golden.dump(name) if base <= int(row["phy_offset"]) < base + size]
    pairs = (
        (a, b)
        for a in rows
        for b in rows
        if a["size"] == b["size"] and int(a["phy_offset"]) + 2000 < int(b["phy_offset"])
    )
    at, other = (int(row["phy_offset"]) - base for row in next(pairs))
    length = int.from_bytes(path.read_bytes()[at : at + 4], "big")
    data = bytearray(path.read_bytes())
    data[at : at + length] = data[other : other + length]
    path.write_bytes(data)
    made = planned(root, name, tmp_path / "plan.json", allow_log=True)
    assert path.read_bytes() == data
    assert any(PROVEN in line or COPIED in line for line in made.plan.left)


@pytest.mark.broker
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("damage", [DAMAGES[4], DAMAGES[7], DAMAGES[2]])
def test_real_brokers_deliver_what_they_did(damage: Damage, name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    damage(root, name)
    first = run(version_of(name), shutil.copytree(root, tmp_path / "first"), golden.options(name), stop="halt")
    planned(root, name, tmp_path / "plan.json")
    then = run(version_of(name), root, golden.options(name), stop="halt")
    assert (then.outcome, then.queues, then.delivered) == (first.outcome, first.queues, first.delivered)

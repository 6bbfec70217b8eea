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
from storeio.planning.read_on import READ_ON
from storeio.predict.start import simulate

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


DAMAGES = [
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


@pytest.mark.broker
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("damage", [DAMAGES[0], DAMAGES[3]])
def test_real_brokers_deliver_what_they_did(damage: Damage, name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    damage(root, name)
    first = run(version_of(name), shutil.copytree(root, tmp_path / "first"), golden.options(name), stop="halt")
    planned(root, name, tmp_path / "plan.json")
    then = run(version_of(name), root, golden.options(name), stop="halt")
    assert (then.outcome, then.queues, then.delivered) == (first.outcome, first.queues, first.delivered)

"""``storeio plan --goal salvage``: the log made whole in place is the one that a salvage writes, and can be undone."""

from __future__ import annotations

from pathlib import Path

import golden_data as golden
import pytest
import salvages
from applies import tree_of
from rebuilds import no_waiting_for_disks
from salvages import log_of
from sampled import seeds

from storeio import audit
from storeio.apply import apply_plan, undo
from storeio.errors import UsageError
from storeio.planning import SALVAGE, plan_store
from storeio.salvage.node import salvage

__all__ = ["no_waiting_for_disks"]

STORES = ("base-4.9.8", "base-5.3.3", "rich-5.5.1")


def assert_in_place_as_elsewhere(damage: salvages.Damage, tmp_path: Path) -> None:
    """Write into a store what a salvage writes elsewhere, find it sound, and take it back."""
    sizes = {"mappedFileSizeCommitLog": str(damage.segment_bytes)}
    salvage(damage.root, tmp_path / "new", given=sizes, jobs=1)
    before = tree_of(damage.root)
    found = plan_store(damage.root, tmp_path / "plan.json", given=sizes, allow_log=True, goal=SALVAGE, jobs=1)
    if found.plan.actions:
        apply_plan(tmp_path / "plan.json", damage.root, allow_log=True)
    assert log_of(damage.root, damage.segment_bytes) == log_of(tmp_path / "new", damage.segment_bytes)
    after = audit.check(damage.root, given=sizes, jobs=1)
    assert after.exit_code == 0, (damage.kinds, [f for f in after.findings if f.severity != "info"][:5])
    if found.plan.actions:
        undo(damage.root)
    assert tree_of(damage.root) == before


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(2, 12))
@pytest.mark.parametrize("name", STORES)
def test_in_place_as_elsewhere(name: str, seed: int, tmp_path: Path) -> None:
    assert_in_place_as_elsewhere(salvages.damaged(name, seed, tmp_path / "store"), tmp_path)


@pytest.mark.share(2)
# 589 of base-5.3.3: the log's end is gone, and of the units that point there one between others is damaged.
@pytest.mark.parametrize(("name", "seed"), [("base-5.3.3", 589), ("ext-5.5.1", 561), ("rich-4.9.8", 4)])
def test_in_place_where_units_are_overwritten(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    salvages.overwrite_units(damage)
    assert_in_place_as_elsewhere(damage, tmp_path)


def test_a_copy_gives_back_what_was_lost(tmp_path: Path) -> None:
    name = "base-5.3.3"
    root, size = golden.copy_of(name, tmp_path / "store"), int(golden.options(name)["clFile"])
    path = root / "commitlog" / f"{size:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:4000] + bytes(3000) + whole[7000:])
    sizes = {"mappedFileSizeCommitLog": str(size)}
    plan_store(
        root, tmp_path / "plan.json", given=sizes, allow_log=True, goal=SALVAGE, donors=[golden.store(name)], jobs=1
    )
    apply_plan(tmp_path / "plan.json", root, allow_log=True)
    assert path.read_bytes() == whole


def test_it_needs_leave_to_change_the_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--allow-log"):
        plan_store(golden.store("base-5.3.3"), tmp_path / "plan.json", goal=SALVAGE)
    with pytest.raises(UsageError, match="--donor"):
        plan_store(golden.store("base-5.3.3"), tmp_path / "plan.json", allow_log=True, donors=["elsewhere"])

"""``storeio salvage`` on damaged stores of real brokers: every intact message, no false one, exact losses."""

from __future__ import annotations

from pathlib import Path

import golden_data as golden
import pytest
import salvages
from rebuilds import no_waiting_for_disks

from storeio import audit
from storeio.salvage.node import salvage

__all__ = ["no_waiting_for_disks"]

STORES = ("base-4.9.8", "base-5.3.3", "base-5.5.1", "rich-4.9.8", "rich-5.3.3", "rich-5.5.1", "ext-5.5.1", "upgraded")
SEEDS = 12


def check_one(name: str, seed: int, place: Path) -> None:
    """Assert that a damaged store is salvaged to exactly what is left of it, and is sound then."""
    damage = salvages.damaged(name, seed, place / "store")
    given = {"mappedFileSizeCommitLog": str(damage.segment_bytes)}
    result = salvage(damage.root, place / "new", given=given, jobs=1)
    difference = salvages.compared(damage, place / "new", result)
    assert difference.right, (damage.kinds, difference)
    assert result.problems == []
    after = audit.check(place / "new", given=given, jobs=1)
    assert after.exit_code == 0, (damage.kinds, [f for f in after.findings if f.severity != "info"][:5])


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", STORES)
def test_random_damage(name: str, seed: int, tmp_path: Path) -> None:
    check_one(name, seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS, 20 * SEEDS))
@pytest.mark.parametrize("name", STORES)
def test_more_random_damage(name: str, seed: int, tmp_path: Path) -> None:
    check_one(name, seed, tmp_path)


@pytest.mark.parametrize("name", golden.STORES)
def test_a_sound_store_comes_out_as_it_was(name: str, tmp_path: Path) -> None:
    root = golden.store(name)
    sizes = {"mappedFileSizeCommitLog": str(golden.options(name)["clFile"])}
    result = salvage(root, tmp_path / "new", given=sizes, jobs=1)
    assert result.exit_code == 0
    assert not (result.lost or result.restored or result.dropped or result.moved)
    for path in sorted((root / "commitlog").iterdir()):
        assert (tmp_path / "new" / "commitlog" / path.name).read_bytes() == path.read_bytes(), path.name
    for folder in ("consumequeue", "batchconsumequeue", "consumequeue_ext"):
        for path in (root / folder).rglob("*"):
            if path.is_file():
                new = tmp_path / "new" / path.relative_to(root)
                assert new.read_bytes() == path.read_bytes(), str(new)

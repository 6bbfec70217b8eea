"""A record and an index unit contradict each other: the unit's hash chain tells which of both is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden_data as golden
import pytest
from broker.brokers import run
from broker.whole import keys_of, records_of
from golden_data import given_for

from storeio import audit
from storeio.apply import apply_plan
from storeio.format import index
from storeio.plan.results import REPAIR, SALVAGE
from storeio.planning import plan_store
from storeio.planning.reasons import DAMAGED

pytestmark = pytest.mark.share(1)
NAME, SEGMENT = "base-5.5.1", 32768
KEYS = b"KEYS\x01"


def keyed() -> list[int]:
    """Return the place in the log of the last letter of some records' keys, of all index files."""
    found = []
    for row in golden.dump(NAME):
        at, size = int(row["phy_offset"]), int(row["size"])
        data = (golden.store(NAME) / golden.segment(at // SEGMENT)).read_bytes()[at % SEGMENT : at % SEGMENT + size]
        if (name := data.find(KEYS)) >= 0:
            stop = data.find(b"\x02", name)
            found.append(at + (stop if stop >= 0 else size) - 1)
    return found[:: len(found) // 5]


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def unit_places(path: Path) -> list[int]:
    """Return where the written units of an index file lie."""
    entries = int(index.decode_header(path.read_bytes())["unit_count"]) - 1
    start = index.units_start(golden.options(NAME)["indexSlots"])
    return [start + index.UNIT_BYTES * number for number in range(1, entries + 1)]


def content(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "index").iterdir()}


def damaged(tmp_path: Path, place: int, *bits: int) -> Path:
    """Return a store in which some bits of a key's last letters are others, from the last one on."""
    root = golden.copy_of(NAME, tmp_path / "store")
    for back, bit in enumerate(bits):
        flip(root / golden.segment(place // SEGMENT), place % SEGMENT - back, bit)
    return root


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("bit", [0, 4])
def test_the_index_knows_better_than_a_record_whose_key_is_damaged(bit: int, which: int, tmp_path: Path) -> None:
    place = keyed()[which]
    root = damaged(tmp_path, place, bit)
    before = content(root)
    made = plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1)
    assert any(line.startswith("LOG_INDEX_DISAGREES") for line in made.plan.left)
    apply_plan(tmp_path / "plan.json", root)
    assert content(root) == before
    salvaged = plan_store(root, tmp_path / "log.json", given=given_for(NAME), allow_log=True, goal=SALVAGE, jobs=1)
    assert (salvaged.cures, salvaged.lost) == (True, 0)
    apply_plan(tmp_path / "log.json", root, allow_log=True)
    assert content(root) == before
    segment = golden.segment(place // SEGMENT)
    assert (root / segment).read_bytes() == (golden.store(NAME) / segment).read_bytes()


def test_the_rest_of_the_index_is_mended_all_the_same(tmp_path: Path) -> None:
    root = damaged(tmp_path, keyed()[1], 0)
    before = content(root)
    last = max((root / "index").iterdir())
    flip(last, unit_places(last)[5] + 8)
    plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    assert content(root) == before


def test_where_nothing_tells_what_the_key_was_the_index_is_left(tmp_path: Path) -> None:
    root = damaged(tmp_path, keyed()[1], 0, 1)
    before, log = content(root), (root / golden.segment(keyed()[1] // SEGMENT)).read_bytes()
    for goal in (REPAIR, SALVAGE):
        made = plan_store(root, tmp_path / goal, given=given_for(NAME), allow_log=True, goal=goal, jobs=1)
        assert f"{DAMAGED}; left for that: the index" in made.plan.left
        apply_plan(tmp_path / goal, root, allow_log=True)
        assert content(root) == before
        assert (root / golden.segment(keyed()[1] // SEGMENT)).read_bytes() == log


@pytest.mark.parametrize("number", [1, 7, -1])
@pytest.mark.parametrize("bit", [0, 6])
def test_a_unit_that_is_damaged_is_mended(bit: int, number: int, tmp_path: Path) -> None:
    root = golden.copy_of(NAME, tmp_path / "store")
    last = max((root / "index").iterdir())
    sound = content(root)
    flip(last, unit_places(last)[number] + 3, bit)
    made = plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1)
    assert any(finding.code == "LOG_INDEX_DISAGREES" for finding in made.before.findings)
    assert made.cures
    apply_plan(tmp_path / "plan.json", root)
    assert content(root) == sound
    assert audit.check(root, given=given_for(NAME), jobs=1).exit_code == 0


@pytest.mark.parametrize(("name", "other"), [("base-5.5.1", "base-long-5.5.1"), ("ext-5.3.3", "ext-4.9.8")])
def test_the_index_of_another_store_speaks_against_no_record(name: str, other: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    shutil.rmtree(root / "index")
    shutil.copytree(golden.store(other) / "index", root / "index")
    made = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert DAMAGED not in " ".join(made.plan.left)


@pytest.mark.broker
def test_a_real_broker_then_finds_the_message_by_its_own_key(tmp_path: Path) -> None:
    root = damaged(tmp_path, keyed()[1], 0)
    plan_store(root, tmp_path / "plan.json", given=given_for(NAME), allow_log=True, goal=SALVAGE, jobs=1)
    apply_plan(tmp_path / "plan.json", root, allow_log=True)
    keys = keys_of(records_of(golden.dump(NAME), golden.options(NAME)), tags=True)
    started = run("5.5.1", root, golden.options(NAME), keys=keys, stop="halt")
    assert {key: set(found) for key, found in started.hits.items()} == {key: set(found) for key, found in keys.items()}

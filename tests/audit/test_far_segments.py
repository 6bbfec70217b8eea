"""Segments that are nowhere near the log, and records that name such places: bounded work, and words, not a hang."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
import salvages
from golden_data import given_for

from storeio import audit
from storeio.checks.places import MOST_MISSING, may_belong
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.planning import plan_store
from storeio.predict.start import simulate
from storeio.rebuild.node import rebuild
from storeio.salvage.node import salvage
from storeio.simulate.ends import STARTS

pytestmark = pytest.mark.share(2)

NAME = "base-5.3.3"
SIZE = int(golden.options(NAME)["clFile"])
GIVEN = given_for(NAME)
FAR = (SIZE << 42, (1 << 62) - SIZE, 1 << 62)


def starts_in(base: int) -> list[int]:
    """Return where the records of a segment lie."""
    places = (int(row["phy_offset"]) for row in golden.dump(NAME))
    return sorted(place for place in places if base <= place < base + SIZE)


def segment_for(base: int) -> bytes:
    """Return the log's first segment as it would be at another place."""
    data = bytearray((golden.store(NAME) / "commitlog" / f"{0:020d}").read_bytes())
    for at in starts_in(0):
        struct.pack_into(">q", data, at + log.PHYSICAL_OFFSET_AT, base + at)
    return bytes(data)


def damaged(base: int, data: bytes, place: Path) -> Path:
    """Return the store with one more segment."""
    root = golden.damaged(NAME, [], place)
    (root / "commitlog" / f"{base:020d}").write_bytes(data)
    return root


@pytest.mark.share(2)
@pytest.mark.parametrize("base", FAR)
def test_an_empty_segment_far_behind_the_log(base: int, tmp_path: Path) -> None:
    root = damaged(base, bytes(SIZE), tmp_path / "store")
    found = audit.check(root, given=GIVEN, jobs=1)
    assert [finding.code for finding in found.findings if finding.severity == "error"] == ["LOG_GAP"]
    saved = salvage(root, tmp_path / "saved", given=GIVEN, jobs=1)
    assert (saved.exit_code, saved.problems, saved.lost) == (0, [], [])
    assert salvages.records_of(tmp_path / "saved", SIZE) == salvages.records_of(golden.store(NAME), SIZE)
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures
    assert [action.path for action in plan.plan.actions] == [f"commitlog/{base:020d}"]
    assert simulate(root, broker="5.3.3", given=GIVEN).outcome.outcome == STARTS


@pytest.mark.parametrize("base", FAR)
def test_records_in_their_place_far_behind_the_log(base: int, tmp_path: Path) -> None:
    root = damaged(base, segment_for(base), tmp_path / "store")
    found = audit.check(root, given=GIVEN, jobs=1)
    (gap,) = [finding for finding in found.findings if finding.code == "LOG_GAP"]
    assert gap.count == (base - 10 * SIZE) // SIZE
    with pytest.raises(UnreadableError, match=f"commitlog/{10 * SIZE:020d}: .* segments are missing"):
        salvage(root, tmp_path / "saved", given=GIVEN, jobs=1)
    assert not (tmp_path / "saved").exists()
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert not [action for action in plan.plan.actions if action.path.startswith("commitlog")]
    assert [text for text in plan.plan.left if "segments are missing" in text]
    built = rebuild(root, tmp_path / "built", given=GIVEN, jobs=1)
    assert built.records == len(golden.dump(NAME)) + len(starts_in(0))
    assert simulate(root, broker="5.3.3", given=GIVEN).outcome.outcome == STARTS


def test_a_gap_of_many_segments_is_filled(tmp_path: Path) -> None:
    base = 200 * SIZE
    root = damaged(base, segment_for(base), tmp_path / "store")
    salvage(root, tmp_path / "saved", given=GIVEN, jobs=1)
    assert len(list((tmp_path / "saved" / "commitlog").iterdir())) == 201
    assert audit.check(tmp_path / "saved", given=GIVEN, jobs=1).log.records > len(golden.dump(NAME))


@pytest.mark.share(2)
@pytest.mark.parametrize("bit", [56, 44, 40, 17, 16, 15])
def test_one_record_alone_that_names_another_segment_is_wrong_itself(bit: int, tmp_path: Path) -> None:
    """All of the last segment but its first record is lost, and of that the physical offset is damaged."""
    base = 9 * SIZE
    path, (first, second, *_) = f"commitlog/{base:020d}", starts_in(base)
    wrong = struct.pack(">q", first ^ 1 << bit).hex()
    edits: list[list[Any]] = [
        ["zero", path, second - base, base + SIZE - second],
        ["write", path, log.PHYSICAL_OFFSET_AT, wrong],
    ]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures
    assert not [action for action in plan.plan.actions if action.path.startswith("commitlog") and action.path != path]
    repair = plan_store(root, tmp_path / "repair.json", given=GIVEN, jobs=1, allow_log=True)
    assert not [action for action in repair.plan.actions if action.path.startswith("commitlog")]
    saved = salvage(root, tmp_path / "saved", given=GIVEN, jobs=1)
    assert len(saved.restored) == 1
    original = (golden.store(NAME) / path).read_bytes()[: second - base]
    assert (tmp_path / "saved" / path).read_bytes()[: second - base] == original


def test_where_a_segment_may_belong() -> None:
    others = {0, SIZE, 2 * SIZE}
    assert may_belong(1 << 62, 5, set(), SIZE, is_alone=True)
    for is_alone in (True, False):
        assert may_belong(3 * SIZE, 9 * SIZE, others, SIZE, is_alone=is_alone)
        assert may_belong(3 * SIZE, None, others, SIZE, is_alone=is_alone)
        assert not may_belong(SIZE << 40, 9 * SIZE, others, SIZE, is_alone=is_alone)
        assert not may_belong(-(SIZE << 40), 9 * SIZE, others, SIZE, is_alone=is_alone)
    assert may_belong(4 * SIZE, 3 * SIZE, others, SIZE, is_alone=False)
    assert not may_belong(4 * SIZE, 3 * SIZE, others, SIZE, is_alone=True)


def test_segments_that_all_have_wrong_names(tmp_path: Path) -> None:
    """Somebody numbered the files anew: nothing stands in its place, so nothing says where the log is."""
    edits = [["rename", f"commitlog/{i * SIZE:020d}", f"commitlog/{(i + 1000) * SIZE:020d}"] for i in range(10)]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures
    assert {action.kind for action in plan.plan.actions} == {"rename"}
    assert MOST_MISSING > 1000


@pytest.mark.parametrize("off", [100, SIZE - 1])
def test_an_empty_segment_between_two_places(off: int, tmp_path: Path) -> None:
    """The last segment was lost, and an empty one got a name that is none."""
    base = 9 * SIZE
    edits: list[list[Any]] = [["delete", f"commitlog/{base:020d}"], ["create", f"commitlog/{base + off:020d}", SIZE]]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures
    assert (f"commitlog/{base + off:020d}", "move") in [(action.path, action.kind) for action in plan.plan.actions]

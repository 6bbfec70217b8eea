"""Nothing is taken from queues and index that points at records which the log has again once it is mended."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import golden_data
import pytest
from golden_data import given_for
from rebuilds import tree

from storeio import audit
from storeio.apply import apply_plan
from storeio.paths import file_name
from storeio.plan.results import SALVAGE
from storeio.planning import plan_store
from storeio.planning.planner import AGAIN
from storeio.planning.reasons import MISPLACED

pytestmark = pytest.mark.share(2)

NAME: Final = "base-5.3.3"
SIZE: Final = int(golden_data.options(NAME)["clFile"])
LAST: Final = 9  # number of the last segment
DERIVED: Final = ("consumequeue", "index", "checkpoint")


def segment(number: int) -> str:
    return f"commitlog/{file_name(number * SIZE)}"


def shifted(root: Path) -> None:
    """Have bytes come into the last segment, behind which its records lie off their places."""
    rows = [row for row in golden_data.dump(NAME) if int(row["phy_offset"]) >= LAST * SIZE]
    at, path = int(rows[20]["phy_offset"]) - LAST * SIZE, root / segment(LAST)
    data = path.read_bytes()
    path.write_bytes((data[:at] + b"\7" * 100 + data[at:])[:SIZE])


MISPLACED_BY: Final = {
    "a gap in front of it": lambda root: (root / segment(LAST)).rename(root / segment(LAST + 3)),
    "the next name": lambda root: (root / segment(LAST)).rename(root / segment(LAST + 1)),
    "a name across segments": lambda root: (root / segment(LAST)).rename(root / f"commitlog/{LAST * SIZE + 5:020d}"),
    "no number": lambda root: (root / segment(LAST)).rename(root / "commitlog/last"),
    "bytes that came in": shifted,
}


@pytest.mark.parametrize("count", [5, 12, 30])
def test_records_in_a_row_whose_places_are_wrong_are_mended_at_once_or_more_is_said_to_come(
    count: int, tmp_path: Path
) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    whole = tree(root)
    places = [int(row["phy_offset"]) for row in golden_data.dump(NAME) if int(row["phy_offset"]) >= 5 * SIZE]
    with (root / segment(5)).open("r+b") as file:
        for place in places[10 : 10 + count]:
            file.seek(place % SIZE + 28)
            file.write(struct.pack(">q", place + 8))
    plans = []
    while not plans or plans[-1].plan.actions:
        plans.append(plan_store(root, tmp_path / f"{len(plans)}", given=given_for(NAME), jobs=1, allow_log=True))
        apply_plan(tmp_path / f"{len(plans) - 1}", root, allow_log=True)
    assert tree(root) == whole
    assert {action.path for plan in plans for action in plan.plan.actions} == {segment(5)}
    for plan in plans:
        assert plan.cures is not any(text.startswith(AGAIN) for text in plan.plan.left)
    assert len(plans) == (2 if count < 24 else 3)


@pytest.mark.parametrize("allow_log", [False, True])
@pytest.mark.parametrize("how", ["a byte went away", "another name"])
def test_so_are_batch_queues(how: str, allow_log: bool, tmp_path: Path) -> None:
    name = "rich-5.3.3"
    root = golden_data.copy_of(name, tmp_path / "store")
    last = max((root / "commitlog").iterdir())
    data = last.read_bytes()
    if how == "another name":
        last.rename(root / "commitlog/x.bak")
    else:
        last.write_bytes(data[:7735] + data[7736:] + b"\0")
    batches = {path: path.read_bytes() for path in (root / "batchconsumequeue").rglob("*") if path.is_file()}
    made = plan_store(root, tmp_path / "plan", given=given_for(name), jobs=1, broker="5.3.3", allow_log=allow_log)
    assert MISPLACED in " ".join(made.plan.left)
    apply_plan(tmp_path / "plan", root, allow_log=allow_log)
    assert {path: path.read_bytes() for path in batches} == batches
    plan_store(root, tmp_path / "log", given=given_for(name), jobs=1, broker="5.3.3", allow_log=True, goal=SALVAGE)
    apply_plan(tmp_path / "log", root, allow_log=True)
    assert {path: path.read_bytes() for path in batches} == batches


@pytest.mark.parametrize("how", MISPLACED_BY)
def test_queues_that_know_of_misplaced_records_are_left(how: str, tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    whole = audit.check(root)
    MISPLACED_BY[how](root)
    found = plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1)
    assert [action.path for action in found.plan.actions if action.path.split("/")[0] in DERIVED] == []
    assert any(text.startswith(f"{MISPLACED}; left for that: ") for text in found.plan.left)
    if found.plan.actions:
        apply_plan(tmp_path / "plan.json", root)
    # The log is mended later: all is as it was.
    plan_store(root, tmp_path / "2.json", given=given_for(NAME), jobs=1, allow_log=True, goal=SALVAGE)
    apply_plan(tmp_path / "2.json", root, allow_log=True)
    after = audit.check(root)
    assert (after.exit_code, after.log.records) == (0, whole.log.records)
    assert tree(root, "consumequeue") == tree(golden_data.store(NAME), "consumequeue")


def test_a_plan_that_mends_the_log_calls_nothing_lost(tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    MISPLACED_BY["a gap in front of it"](root)
    found = plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1, allow_log=True)
    assert (found.lost, found.after.verdict) == (0, "sound")


def test_intact_records_behind_the_end_that_say_another_place_are_not_cleared(tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    shifted(root)
    plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1, allow_log=True)
    apply_plan(tmp_path / "plan.json", root, allow_log=True)
    found = plan_store(root, tmp_path / "2.json", given=given_for(NAME), jobs=1, allow_log=True, goal=SALVAGE)
    assert (found.lost, found.after.log.records, found.after.verdict) == (0, 850, "sound")


def test_a_copy_of_what_the_log_has_keeps_nothing_from_being_planned(tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    (root / segment(LAST + 3)).write_bytes((root / segment(2)).read_bytes())
    queue = root / f"consumequeue/topic_0/0/{file_name(0)}"
    queue.write_bytes(queue.read_bytes()[:-40] + bytes(40))
    found = plan_store(root, tmp_path / "plan.json", given=given_for(NAME), jobs=1)
    assert f"consumequeue/topic_0/0/{file_name(0)}" in {action.path for action in found.plan.actions}
    assert not any(text.startswith(MISPLACED) for text in found.plan.left)

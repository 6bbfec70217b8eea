"""What lies beside the segments of a log, or where one belongs, and may be all that is left of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import salvages
from strays import QUEUE, SEGMENT, SIZES, copy, log_of, of_segment, planned

from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)


@pytest.mark.parametrize("name", ["-1", f"{0:020d}.bak", f"old/{0:020d}"])
def test_what_brokers_read_under_another_name_or_stop_at_is_not_taken_from_them(name: str, tmp_path: Path) -> None:
    """Under ``-1`` brokers deliver the first segment; with the second they do not start, 4.x not with the third."""
    root = copy(tmp_path)
    segment, stray = root / "commitlog" / f"{0:020d}", root / "commitlog" / name
    stray.parent.mkdir(exist_ok=True)
    segment.rename(stray)
    for allow_log in (False, True):
        assert not planned(root, tmp_path, allow_log=allow_log).plan.actions
    assert stray.is_file()


@pytest.mark.parametrize(
    ("name", "risk"), [("-1", "log"), (f"-{SEGMENT}", "log"), ("x", "metadata"), ("x/7", "metadata")]
)
def test_a_copy_of_a_segment_goes_at_the_risk_of_what_brokers_make_of_its_name(
    name: str, risk: str, tmp_path: Path
) -> None:
    root = copy(tmp_path)
    before = log_of(root)
    stray = root / "commitlog" / name
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(of_segment(4)(root))
    found = planned(root, tmp_path)
    assert [(action.kind, action.path, action.risk) for action in found.plan.actions] == [
        ("move", f"commitlog/{name.split('/')[0]}", risk)
    ]
    assert found.cures
    assert log_of(root) == before


# What keeps brokers from starting, and so from deleting all queues of a log that is not there.
IN_THE_WAY = ["commitlog/x", f"{QUEUE}/x", "checkpoint/x"]


@pytest.mark.parametrize("goal", ["repair", "salvage"])
@pytest.mark.parametrize("name", IN_THE_WAY)
def test_without_a_log_no_broker_is_made_to_start(name: str, goal: str, tmp_path: Path) -> None:
    root = copy(tmp_path)
    for path in (root / "commitlog").iterdir():
        path.unlink()
    if not (root / name).parent.is_dir():
        (root / name).parent.unlink()
        (root / name).parent.mkdir()
    (root / name).write_bytes(b"in the way")
    found = planned(root, tmp_path, goal)
    assert found.predicted_before.outcome.outcome == "refuses"
    assert found.plan.actions == ()
    assert found.lost == len(salvages.originals_of("base-5.3.3"))


def inside(segment: Path) -> Path:
    return segment / segment.name


def beside_as(name: str) -> Callable[[Path], Path]:
    return lambda segment: segment.with_name(name)


@pytest.mark.parametrize("place", [inside, beside_as("x"), beside_as("1"), beside_as("-1")])
def test_a_directory_that_has_a_segment_s_name_makes_room_for_it(place: Callable[[Path], Path], tmp_path: Path) -> None:
    root = copy(tmp_path)
    before = log_of(root)
    segment = root / "commitlog" / f"{4 * SEGMENT:020d}"
    data = segment.read_bytes()
    segment.unlink()
    segment.mkdir()
    place(segment).write_bytes(data)
    saved = salvage(root, tmp_path / "saved", given=SIZES, jobs=1)
    assert (saved.lost, saved.problems, saved.tombstones) == ([], [], 0)
    assert salvages.records_of(tmp_path / "saved", SEGMENT) == salvages.originals_of("base-5.3.3")
    assert planned(root, tmp_path, "salvage").cures
    assert log_of(root) == before

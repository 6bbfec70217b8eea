"""Whole files that no broker leaves so: each is told, and a plan ends with a sound store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import golden_data as golden
import pytest
from storebuilder import StoreBuilder

from storeio import audit
from storeio.apply import apply_plan
from storeio.planning import plan_store

GIVEN = {
    "mappedFileSizeCommitLog": "16384",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "50",
    "maxIndexNum": "200",
}


def built(root: Path, messages: int = 100) -> Path:
    """Return the root of a store with a queue of so many messages, 50 units a file, and a queue behind it."""
    builder = StoreBuilder(root)
    for number in range(messages):
        builder.message("a", 0, b"body", unique_key=f"U{number}")
    for _ in range(30):
        builder.message("b", 0, b"body")
    return builder.close()


def mended(root: Path, given: dict[str, str], broker: str | None = None) -> list[tuple[str, str]]:
    """Carry out a plan that cures a store; return what it moved away: kinds and paths."""
    out = root.parent / "plan.json"
    found = plan_store(root, out, given=given, broker=broker, jobs=1)
    assert found.cures, found.plan.left
    apply_plan(out, root)
    assert audit.check(root, given=given, jobs=1).exit_code == 0
    return [(action.kind, action.path) for action in found.plan.actions]


@pytest.mark.parametrize("base", [2000, 100_000])
def test_zeros_behind_a_full_file_go(base: int, tmp_path: Path) -> None:
    """Brokers take them for a unit, and give the next message the number behind it."""
    root = built(tmp_path / "store")
    path = f"consumequeue/a/0/{base:020d}"
    (root / path).write_bytes(bytes(1000))
    told = [finding for finding in audit.check(root, given=GIVEN, jobs=1).findings if finding.code == "CQ_UNWRITTEN"]
    assert [finding.path for finding in told] == [path]
    assert mended(root, GIVEN) == [("move", path)]


@pytest.mark.parametrize("name", ["09223372036854774000", f"{10**12:020d}"])
def test_what_lies_between_a_queue_and_a_file_far_behind_it_is_not_read(name: str, tmp_path: Path) -> None:
    root = built(tmp_path / "store", messages=51)
    last = root / f"consumequeue/a/0/{1000:020d}"
    data = bytearray(last.read_bytes())
    data[11] ^= 1  # the size in its only unit
    last.write_bytes(data)
    last.with_name(name).write_bytes(data)
    assert ("move", f"consumequeue/a/0/{name}") in mended(root, GIVEN)


def test_of_two_index_files_of_one_number_one_goes(tmp_path: Path) -> None:
    root = built(tmp_path / "store")
    path = max((root / "index").iterdir())
    data = bytearray(path.read_bytes())
    path.with_name(f"0{path.name}").write_bytes(data)
    data[-8:] = b"\xab" * 8  # behind its last unit
    path.write_bytes(data)
    assert ("move", f"index/0{path.name}") in mended(root, GIVEN)
    assert [each.name for each in (root / "index").iterdir() if int(each.name) == int(path.name)] == [path.name]


def all_moved(root: Path) -> None:
    (root / "batchconsumequeue").mkdir()
    (root / "consumequeue/topic_0").rename(root / "batchconsumequeue/topic_0")


def one_moved(root: Path) -> None:
    (root / "batchconsumequeue/topic_0").mkdir(parents=True)
    (root / "consumequeue/topic_0/0").rename(root / "batchconsumequeue/topic_0/0")


def noise(root: Path) -> None:
    golden.declare(root, {"topic_0": None, "topic_1": None})
    place = root / "batchconsumequeue/topic_0/0"
    place.mkdir(parents=True)
    (place / f"{0:020d}").write_bytes(b"\xab" * 200)


@pytest.mark.parametrize("change", [all_moved, one_moved, noise])
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_an_ordinary_topic_stays_one(version: str, change: Callable[[Path], None], tmp_path: Path) -> None:
    """Of its queue's last file, which has but one unit, nothing tells."""
    root = golden.copy_of(f"base-{version}", tmp_path / "store")
    before = {path.name: path.read_bytes() for path in (root / "consumequeue/topic_0/0").iterdir()}
    change(root)
    options = golden.options(f"base-{version}")
    given = {
        "mappedFileSizeCommitLog": str(options["clFile"]),
        "mappedFileSizeConsumeQueue": str(20 * options["cqEntries"]),
        "maxHashSlotNum": str(options["indexSlots"]),
        "maxIndexNum": str(options["indexNum"]),
    }
    assert mended(root, given, version)[0][1].startswith("batchconsumequeue/topic_0")
    assert {path.name: path.read_bytes() for path in (root / "consumequeue/topic_0/0").iterdir()} == before

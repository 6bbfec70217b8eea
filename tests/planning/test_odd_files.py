"""Whole files that no broker leaves so: each is told, and a plan ends with a sound store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import golden_data as golden
import pytest
from golden_data import given_for
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
    place = root / "batchconsumequeue/topic_0/0"
    place.mkdir(parents=True)
    (place / f"{0:020d}").write_bytes(b"\xab" * 200)


def noise_and_table(root: Path) -> None:
    golden.declare(root, {"topic_0": None, "topic_1": None})
    noise(root)


@pytest.mark.parametrize("change", [all_moved, one_moved, noise, noise_and_table])
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_an_ordinary_topic_stays_one(version: str, change: Callable[[Path], None], tmp_path: Path) -> None:
    """Of its queue's last file, which has but one unit, nothing tells."""
    root = golden.copy_of(f"base-{version}", tmp_path / "store")
    before = {path.name: path.read_bytes() for path in (root / "consumequeue/topic_0/0").iterdir()}
    change(root)
    assert mended(root, given_for(f"base-{version}"), version)[0][1].startswith("batchconsumequeue/topic_0")
    assert {path.name: path.read_bytes() for path in (root / "consumequeue/topic_0/0").iterdir()} == before


def beside(root: Path, data: bytes) -> None:
    place = root / "consumequeue/bcq_a/0"
    place.mkdir(parents=True)
    (place / f"{0:020d}").write_bytes(data)


def instead(root: Path, data: bytes) -> None:
    shutil.rmtree(root / "batchconsumequeue/bcq_a")
    beside(root, data)


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda root: shutil.move(root / "batchconsumequeue/bcq_a", root / "consumequeue/bcq_a"),
        lambda root: instead(root, bytes(4000)),
        lambda root: beside(root, bytes(4000)),
        lambda root: beside(root, b"\xab" * 4000),
    ],
    ids=["moved", "zeros instead", "zeros beside", "noise beside"],
)
def test_a_batch_topic_stays_one(change: Callable[[Path], None], declared: bool, tmp_path: Path) -> None:
    """No broker of 5.x starts while a topic's directory lies with queues of the other type."""
    root = golden.copy_of("rich-5.3.3", tmp_path / "store")
    if declared:
        golden.declare(root, {place.name: "BatchCQ" for place in (root / "batchconsumequeue").iterdir()})
    before = {path.name: path.read_bytes() for path in (root / "batchconsumequeue/bcq_a/0").iterdir()}
    change(root)
    assert ("move", "consumequeue/bcq_a") in mended(root, given_for("rich-5.3.3"), "5.3.3")
    assert {path.name: path.read_bytes() for path in (root / "batchconsumequeue/bcq_a/0").iterdir()} == before


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "%LMQ%a0", "topic_c"])
@pytest.mark.parametrize("is_moved", [True, False])
def test_batch_queues_under_an_ordinary_topics_name_go(is_moved: bool, topic: str, tmp_path: Path) -> None:
    root = golden.copy_of("rich-5.3.3", tmp_path / "store")
    if topic == "topic_c":
        topic = next(place.name for place in sorted((root / "consumequeue").iterdir()) if place.name[0].isalpha())
    before = {path: path.read_bytes() for path in root.glob(f"consumequeue/{topic}/*/*")}
    shutil.copytree(root / "batchconsumequeue/bcq_b", root / f"batchconsumequeue/{topic}")
    if is_moved:
        shutil.rmtree(root / "batchconsumequeue/bcq_b")
    assert ("move", f"batchconsumequeue/{topic}") in mended(root, given_for("rich-5.3.3"), "5.3.3")
    assert before
    assert {path: path.read_bytes() for path in root.glob(f"consumequeue/{topic}/*/*")} == before


def renamed(file: Path) -> None:
    file.rename(file.with_name(f"{4000:020d}"))


def with_fillers(file: Path) -> None:
    """Put three units of what brokers write in front of a queue's first number into its file."""
    file.write_bytes((bytes(8) + (2**31 - 1).to_bytes(4, "big") + bytes(8)) * 3 + file.read_bytes()[:-60])


@pytest.mark.parametrize("change", [renamed, with_fillers])
@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_a_light_queue_begins_where_its_first_message_says(
    version: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    root = golden.copy_of(f"rich-{version}", tmp_path / "store")
    file = root / f"consumequeue/%LMQ%a1/0/{0:020d}"
    before = file.read_bytes()
    change(file)
    told = audit.check(root, given=given_for(f"rich-{version}"), jobs=1).findings
    assert {(finding.code, finding.topic) for finding in told if finding.topic} == {("CQ_SHIFTED", "%LMQ%a1")}
    mended(root, given_for(f"rich-{version}"), version)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("which", "name"), [(0, "20991231235959999"), (-1, "1"), (3, "20991231235959999"), (2, "+"), (2, "0")]
)
def test_index_files_are_in_the_order_of_the_log(which: int, name: str, tmp_path: Path) -> None:
    """Queries with a begin time go by it: they miss what lies in front of a file that begins before."""
    root = built(tmp_path / "store", messages=900)
    old = sorted((root / "index").iterdir())[which]
    name = f"{name}{old.name}" if name in ("+", "0") else name
    old.rename(old.with_name(name))
    told = [finding for finding in audit.check(root, given=GIVEN, jobs=1).findings if finding.code == "INDEX_ORDER"]
    assert [finding.path for finding in told] == [f"index/{name}"]
    mended(root, GIVEN)
    assert name not in {path.name for path in (root / "index").iterdir()}


@pytest.mark.parametrize(("which", "name"), [(-1, "20991231235959999"), (2, "+")])
def test_a_copied_index_file_goes(which: int, name: str, tmp_path: Path) -> None:
    """Brokers answer each of its keys twice, and never more than so many in all."""
    root = built(tmp_path / "store", messages=900)
    old = sorted((root / "index").iterdir())[which]
    copy = old.with_name(f"{old.name}0" if name == "+" else name)
    shutil.copyfile(old, copy)
    (told,) = [f for f in audit.check(root, given=GIVEN, jobs=1).findings if f.severity != "info"]
    assert (told.code, told.path) == ("INDEX_COPY", f"index/{copy.name}")
    mended(root, GIVEN)
    assert copy.name not in {path.name for path in (root / "index").iterdir()}


def test_a_blank_index_file_behind_others_is_told(tmp_path: Path) -> None:
    root = built(tmp_path / "store")
    size = next((root / "index").iterdir()).stat().st_size
    (root / "index/20991231235959999").write_bytes(bytes(size))
    (finding,) = audit.check(root, given=GIVEN, jobs=1).findings
    assert (finding.code, finding.path) == ("INDEX_ORDER", "index/20991231235959999")
    mended(root, GIVEN)


@pytest.mark.parametrize("name", ["config", "index"])
def test_a_file_where_a_directory_belongs_goes(name: str, tmp_path: Path) -> None:
    root = golden.without("base-5.3.3", tmp_path / "store", name)
    (root / name).write_bytes(b"x")
    assert ("move", name) in mended(root, given_for("base-5.3.3"), "5.3.3")


def test_a_directory_in_place_of_what_abort_held_goes(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    (root / "abort.bak").unlink(missing_ok=True)
    (root / "abort.bak/inside").mkdir(parents=True)
    assert mended(root, given_for("base-5.3.3"), "5.3.3") == [("move", "abort.bak")]


def test_a_light_queues_file_with_a_negative_name_is_told_and_goes(tmp_path: Path) -> None:
    root = golden.copy_of("rich-5.3.3", tmp_path / "store")
    file = root / f"consumequeue/%LMQ%a0/0/{0:020d}"
    before = file.read_bytes()
    file.rename(file.with_name("-0000000000000004000"))
    assert any("-0000000000000004000" in path for _, path in mended(root, given_for("rich-5.3.3"), "5.3.3"))
    assert file.read_bytes() == before


@pytest.mark.parametrize("name", ["base-5.3.3", "ext-5.3.3"])
def test_index_files_of_zeros_are_not_replaced_by_others_of_the_default_size(name: str, tmp_path: Path) -> None:
    """Their length says that the broker makes others, and not how many slots these have."""
    edits = [
        ["zero", f"index/{path.name}", 0, path.stat().st_size]
        for path in sorted((golden.store(name) / "index").iterdir())
    ]
    root = golden.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", jobs=1)
    assert not [action.path for action in found.plan.actions if action.path.startswith("index/")]
    assert any("maxHashSlotNum and maxIndexNum as the broker has them" in text for text in found.plan.left)

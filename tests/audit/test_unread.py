"""Of what cannot be read nothing is said but that: neither that messages are lost, nor that files are damaged."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest
from faults import Faults
from golden_data import segment

from storeio import audit
from storeio.codes import INFO
from storeio.errors import UnreadableError
from storeio.planning.node import plan_store
from storeio.predict.into import write_into
from storeio.predict.start import simulate
from storeio.reading import around
from storeio.report.simulation import simulation_object, warning_sentence
from storeio.results import Audit, messages_in

pytestmark = pytest.mark.share(2)

STORE: Final = "base-5.3.3"
SEGMENT: Final = 32768
BLOCK: Final = 4096
EACH: Final = 3  # files of a kind that one after the other cannot be read
UNITS: Final = f"consumequeue/topic_0/0/{1000:020d}"
EVERY_KIND: Final = ("rich-4.9.8", "rich-5.3.3", "ext-5.5.1", "base-5.5.1")


def wrong(found: Audit) -> list[tuple[str, str]]:
    """Return code and path of what is wrong."""
    return [(f.code, f.path) for f in found.findings if f.severity != INFO]


def require_only_unread(found: Audit, paths: Collection[str]) -> None:
    """Require that nothing is said but that these could not be read."""
    assert sorted(wrong(found)) == [("UNREADABLE", path) for path in sorted(paths)]
    assert found.lost == []
    assert all(not queue.lost for queue in found.queues)
    assert [text.partition(": ")[0] for text in found.failed] == sorted(paths)
    assert found.exit_code == 12


@pytest.mark.parametrize("numbers", [(0,), (4,), (8,), (9,), (8, 9), (0, 1, 5), range(10)])
def test_messages_in_segments_that_cannot_be_read_are_not_lost(
    numbers: Collection[int], store: Path, faults: Faults
) -> None:
    whole = audit.check(store)
    paths = [segment(number) for number in numbers]
    for path in paths:
        faults.deny(path)
    found = audit.check(store)
    require_only_unread(found, paths)
    assert found.log.records + messages_in(found.unread) == whole.log.records == 850
    assert found.bytes_by_kind()["commitlog"]["missing"] == len(paths) * SEGMENT


@pytest.mark.parametrize("path", ["commitlog", segment(3)])
def test_nor_are_those_of_a_log_that_cannot_be_listed(path: str, store: Path, faults: Faults) -> None:
    if path == "commitlog":
        faults.deny(path)
    else:  # a link that leads to itself: not even its length is told
        (store / path).unlink()
        (store / path).symlink_to((store / path).name)
    found = audit.check(store)
    require_only_unread(found, [path])
    assert found.log.records + messages_in(found.unread) == 850


@pytest.mark.parametrize("path", ["consumequeue", "consumequeue/topic_0", "consumequeue/topic_0/1", "index"])
def test_files_in_directories_that_cannot_be_listed_are_not_missing(path: str, store: Path, faults: Faults) -> None:
    faults.deny(path)
    require_only_unread(audit.check(store), [path])


@pytest.mark.share(2)
@pytest.mark.parametrize("name", EVERY_KIND)
def test_nothing_else_follows_from_one_file_that_cannot_be_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    usual = {(f.code, f.path) for f in audit.check(root).findings}
    kinds = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "checkpoint")
    files = [path for kind in kinds for path in sorted(root.rglob("*")) if path.relative_to(root).parts[0] == kind]
    files = [path for path in files if path.is_file()]
    chance = random.Random(name)
    of_kinds = [[path for path in files if path.relative_to(root).parts[0] == kind] for kind in kinds]
    for path in (path for of_kind in of_kinds for path in chance.sample(of_kind, min(len(of_kind), EACH))):
        with monkeypatch.context() as patch:
            Faults(root, patch).deny(str(path.relative_to(root)))
            found = audit.check(root)
        told = {(f.code, f.path) for f in found.findings if f.severity != INFO} - usual
        assert told == {("UNREADABLE", str(path.relative_to(root)))}, path
        assert found.lost == []


def test_what_is_lost_beside_it_is_told(store: Path, faults: Faults) -> None:
    (store / segment(2)).write_bytes(bytes(SEGMENT))
    lost = audit.check(store)
    faults.deny(segment(6))
    found = audit.check(store)
    assert messages_in(found.lost) == messages_in(lost.lost) > 0
    assert found.lost == lost.lost
    assert messages_in(found.unread) > 0
    assert {code for code, _ in wrong(found)} == {code for code, _ in wrong(lost)} | {"UNREADABLE"}


@pytest.mark.share(2)
@pytest.mark.parametrize(("seed", "split_bytes"), [(0, 4096), (1, None), (2, 4096)])
@pytest.mark.parametrize("name", ["base-5.3.3", "rich-5.3.3"])
def test_around_bad_blocks_the_rest_is_read(
    name: str, seed: int, split_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, chance = golden.copy_of(name, tmp_path / "store"), random.Random(seed)
    whole = audit.check(root)
    usual = wrong(whole)
    faults, bad = Faults(root, monkeypatch), []
    for _ in range(chance.choice([1, 1, 3])):
        path = f"commitlog/{chance.choice(sorted(p.name for p in (root / 'commitlog').iterdir()))}"
        block = chance.randrange((root / path).stat().st_size // BLOCK) * BLOCK
        faults.fail(path, block + chance.randrange(BLOCK), block + BLOCK)
        bad.append((path, block))
    found = audit.check(root, split_bytes=split_bytes)
    told = [f for f in found.findings if f.severity != INFO and (f.code, f.path) not in usual]
    assert {f.code for f in told} == {"UNREADABLE"}
    assert {(f.path, at) for f in told for at in range(f.position, f.position + f.length, BLOCK)} == set(bad)
    assert [f"{f.path}: bytes {f.position} to {f.position + f.length}: Input/output error" for f in told] == sorted(
        found.failed
    )
    assert found.lost == []
    assert whole.log.records - found.log.records <= len(bad) * 60
    if name == STORE:  # in which each message is in one queue
        assert messages_in(found.unread) == whole.log.records - found.log.records


@pytest.mark.parametrize("shift", [0, 1, 90, 4095])
def test_a_record_that_is_read_in_part_is_not_taken_for_intact(shift: int, store: Path, faults: Faults) -> None:
    """Its head and body may be there, and what its properties were is not."""
    rows = [row for row in golden.dump(STORE) if SEGMENT < int(row["phy_offset"]) < 2 * SEGMENT - 5000]
    row = rows[0]
    end = int(row["phy_offset"]) + int(row["size"]) - SEGMENT
    path = store / segment(1)
    data = path.read_bytes()
    faults.fail(segment(1), end - 8, end + shift)
    found = audit.check(store, split_bytes=SEGMENT)
    assert path.read_bytes() == data
    unread = [range(p.first_queue_offset, p.stop_queue_offset) for p in found.unread if p.topic == row["topic"]]
    assert any(int(row["queue_offset"]) in numbers for numbers in unread)
    assert found.lost == []


@pytest.mark.parametrize(
    ("path", "start", "stop"),
    [(segment(3), 4096, 8192), (segment(9), 0, 4096), ("checkpoint", 0, 4096), (UNITS, 0, 1000)],
)
def test_a_start_is_told_as_far_as_it_is_known(
    path: str, start: int, stop: int, store: Path, faults: Faults, tmp_path: Path
) -> None:
    faults.fail(path, start, stop)
    found = simulate(store, broker="5.3.3")
    assert found.unread == (f"{path}: bytes {start} to {stop}: Input/output error",)
    assert found.exit_code & 8
    assert warning_sentence(found).startswith("UNSURE: ")
    assert simulation_object(found)["unread"] == list(found.unread)
    state = found.outcome.after_start
    assert state is not None
    assert path not in state.files or not state.files[path][1]
    with pytest.raises(UnreadableError, match=path):
        write_into(found, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("path", "mends"), [(segment(3), False), ("checkpoint", True), (UNITS, True), ("config/topics.json", False)]
)
def test_a_plan_mends_what_does_not_rest_on_it(
    path: str, mends: bool, store: Path, faults: Faults, tmp_path: Path
) -> None:
    golden.declare(store, {"topic_0": None, "topic_1": None})
    other = "consumequeue/topic_1/0/" + UNITS.rpartition("/")[2]
    golden.apply_edits(store, [["zero", other, 40, 20]])
    faults.deny(path)
    made = plan_store(store, tmp_path / "plan.json")
    assert [(action.kind, action.path) for action in made.plan.actions] == ([("write", other)] if mends else [])
    assert (made.cures, made.exit_code) == (False, 12)
    assert any(text.startswith(f"UNREADABLE {path} ") for text in made.plan.left)
    assert "is not known" in made.plan.left[-1]


def test_too_many_bad_blocks_are_given_up(store: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "MOST_BLOCKS", 2)
    faults.fail(segment(3), 0, 3 * BLOCK)
    require_only_unread(audit.check(store, split_bytes=SEGMENT), [segment(3)])


def test_units_into_a_missing_segment_point_into_damage(store: Path) -> None:
    """And are no damage themselves, whatever holes there are in the segments around it."""
    (store / segment(4)).unlink()
    data = bytearray((store / segment(7)).read_bytes())
    data[5000:5004] = b"\x7f\xff\xff\xff"
    data[300:304] = b"\x7f\xff\xff\xff"
    (store / segment(7)).write_bytes(data)
    found = audit.check(store)
    codes = {code for code, _ in wrong(found)}
    assert "CQ_INTO_DAMAGE" in codes
    assert not codes & {"CQ_UNIT_ORPHAN", "LOG_QUEUE_OFFSET_GAP"}

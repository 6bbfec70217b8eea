"""One number of a queue that is far too great: the audit tells which record's it is, and salvage what it was."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
import salvages
from golden_data import given_for
from implied import Settings
from rebuilds import settings_of
from storebuilder import StoreBuilder

from storeio import audit, inspect
from storeio.checks.numbering import number_queue
from storeio.checks.segments import LogView, Segment
from storeio.format import commitlog as log
from storeio.paths import describe
from storeio.rebuild.node import rebuild
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

BASE = "base-5.3.3"
QUEUE = "topic_1", 0


def places() -> list[int]:
    """Return where the records of the queue lie, by number."""
    rows = [row for row in golden.dump(BASE) if (row["topic"], int(row["queue_id"])) == QUEUE]
    return [int(row["phy_offset"]) for row in sorted(rows, key=lambda row: int(row["queue_offset"]))]


@pytest.mark.share(2)
@pytest.mark.parametrize("wild", [2**62 + 17, 2**41, -3])
@pytest.mark.parametrize("number", [0, 1, 2, 60, -2, -1])
def test_the_record_is_named_and_mended(number: int, wild: int, tmp_path: Path) -> None:
    found = places()
    number, place = number % len(found), found[number]
    segment = place - place % 32768
    at = place - segment + log.QUEUE_OFFSET_AT
    edit = ["write", f"commitlog/{segment:020d}", at, struct.pack(">q", wild).hex()]
    root = golden.damaged(BASE, [edit], tmp_path / "store")
    audited = audit.check(root, given=given_for(BASE), jobs=1)
    fields = [f for f in audited.findings if f.code == "LOG_FIELD"]
    assert {f.physical_offset for f in fields} == {place}
    assert any(f"expected {number}" in f.detail for f in fields)
    assert not [f for f in audited.findings if f.code == "LOG_QUEUE_OFFSET_REPEATED"]
    assert not audited.lost
    result = salvage(root, tmp_path / "new", given=given_for(BASE), jobs=1)
    assert (result.exit_code, result.problems) == (0, [])
    assert salvages.records_of(tmp_path / "new", 32768)[place].raw == salvages.originals_of(BASE)[place].raw


@pytest.mark.parametrize("byte", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
def test_a_last_record_alone_tells_of_no_more_messages_than_the_log_has_room_for(
    name: str, byte: int, tmp_path: Path
) -> None:
    """With queues or without: what lies between its number and the others is not lost, and not filled."""
    row = max(
        (row for row in golden.dump(name) if (row["topic"], row["queue_id"]) == ("topic_0", "1")),
        key=lambda row: int(row["queue_offset"]),
    )
    place, number = int(row["phy_offset"]), int(row["queue_offset"])
    at = place % 32768 + log.QUEUE_OFFSET_AT + byte
    edit = ["write", f"commitlog/{place - place % 32768:020d}", at, "26"]
    root = golden.damaged(name, [edit], tmp_path / "store")
    bare = golden.damaged(name, [edit, ["rmtree", "consumequeue"]], tmp_path / "bare")
    for each in (root, bare):
        assert not audit.check(each, given=given_for(name), jobs=1).lost
        result = salvage(each, tmp_path / f"{each.name}-new", given=given_for(name), jobs=1)
        assert (result.exit_code, result.problems, result.lost) == (0, [], [])
        assert (
            salvages.records_of(tmp_path / f"{each.name}-new", 32768)[place].raw
            == salvages.originals_of(name)[place].raw
        )
    built = rebuild(bare, tmp_path / "built", given=given_for(name), jobs=1)
    assert {(queue.topic, queue.queue_id): queue.stop for queue in built.queues}["topic_0", 1] == number + 1


@pytest.mark.parametrize("said", [2**40, 2**56, -5, 230, 150, 88, 86])
@pytest.mark.parametrize("split_bytes", [None, 20_000])
def test_a_wrong_number_is_one_thing(said: int, split_bytes: int | None, tmp_path: Path) -> None:
    """Nothing follows from it of queue files: the unit stands where the numbers beside it say."""
    root = golden.copy_of("base-5.5.1", tmp_path / "store")
    before = audit.check(root)
    view = next(v for v in inspect.records(root) if (v.topic, v.queue_id, v.queue_offset) == ("topic_0", 0, 87))
    with (root / view.path).open("r+b") as file:
        file.seek(view.position + log.QUEUE_OFFSET_AT)
        file.write(said.to_bytes(8, "big", signed=True))
    found = audit.check(root, split_bytes=split_bytes)
    wrong = [f for f in found.findings if f.severity != "info"]
    assert {f.code for f in wrong} <= {"LOG_FIELD", "LOG_UNIT_DISAGREES"}
    (field,) = (f for f in wrong if f.code == "LOG_FIELD")
    assert (field.position, field.count) == (view.position + log.QUEUE_OFFSET_AT, 1)
    assert "expected 87" in field.detail
    assert all(f.path.startswith("commitlog/") for f in wrong)
    assert [q for q in found.queues if q.topic == "topic_0"] == [q for q in before.queues if q.topic == "topic_0"]


def test_a_wrong_number_hides_no_missing_unit(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.5.1", tmp_path / "store")
    view = next(v for v in inspect.records(root) if (v.topic, v.queue_id, v.queue_offset) == ("topic_0", 0, 87))
    with (root / view.path).open("r+b") as file:
        file.seek(view.position + log.QUEUE_OFFSET_AT)
        file.write((2**40).to_bytes(8, "big"))
    with (root / "consumequeue/topic_0/0/00000000000000001000").open("r+b") as file:
        file.seek(740)
        file.write(bytes(20))
    found = audit.check(root).findings
    assert any(f.position == 740 and f.path.startswith("consumequeue/topic_0/0/") for f in found)


@pytest.mark.parametrize(("numbers", "wrong"), [
    ([0, 1, 2, 3, 7, 4, 6, 5, 8, 9], [4, 5, 7]),
    ([0, 1, 2, 4, 5, 6, 6, 8, 9], [6]),  # one is missing, and one wrong: that is less than that three are
    ([0, 1, 2, 4, 5, 6, 6], []),
    ([0, 1, 9, 2, 3, 4, 5, 6, 7, 8], [2]),  # one is of another queue, whose number would be the next
    ([0, 1, 6, 2, 3, 4, 5, 7, 8], [2]),
    ([0, 1, 4, 5, 2, 3, 6, 7], [2, 3, 4, 5]),
    ([0, 1, 2, 4, 5, 5, 6, 7, 8], [3, 4]),  # there is room for no other
])  # fmt: skip
def test_of_numbers_that_are_mixed_up_one_that_is_right_is_not_told(numbers: list[int], wrong: list[int]) -> None:
    rows = [(number, number + 1, at * 100, at * 100 + 100, 1, 0) for at, number in enumerate(numbers)]
    view = LogView([Segment(describe(f"commitlog/{0:020d}", 1000), np.empty((4, 0), np.int64))], 0, 1000)
    told = number_queue("t", 0, [np.array(rows, np.int64).T], view).findings
    assert [
        at + number * 100
        for finding in told
        if finding.code == "LOG_FIELD" and (at := finding.physical_offset) is not None
        for number in range(finding.count)
    ] == [100 * number for number in wrong]


@pytest.mark.parametrize(("hole", "lost"), [
    ([], [(20, 100)]),
    ([(6000, 6100)], [(20, 100)]),  # no room for more than one of them
    ([(6000, 20_000)], [(20, 100), (20, 100)]),
])  # fmt: skip
def test_numbers_that_go_back_and_jump_again_are_lost_once(
    hole: list[tuple[int, int]], lost: list[tuple[int, int]]
) -> None:
    starts = [(0, 0), (100, 2000), (0, 4000), (100, hole[0][1] if hole else 6000)]  # number and place, 20 records each
    rows = [(number, number + 20, at, at + 2000, 20, 0) for number, at in starts]
    view = LogView([Segment(describe(f"commitlog/{0:020d}", 32_768), np.empty((4, 0), np.int64))], 0, 22_000, hole)
    found = number_queue("t", 0, [np.array(rows, np.int64).T], view)
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in found.lost] == lost
    gaps = [finding for finding in found.findings if finding.code == "LOG_QUEUE_OFFSET_GAP"]
    assert [gap.count for gap in gaps] == [80] * (1 if hole else 2)


@pytest.mark.parametrize("inner", [1000, 20_000])
def test_a_record_of_many_messages_behind_a_hole_leaves_room_for_as_many(inner: int, tmp_path: Path) -> None:
    """Each record of a batch queue has thousands of numbers, and so had those that the hole took."""
    builder = StoreBuilder(tmp_path / "store", settings=Settings(segment_bytes=16384, batch_topics=("bq",)))
    for count, others in ((10, 100), (60, 100), (1, 1)):
        for _ in range(count):
            builder.message("bq", body=b"x" * 50, inner=inner)
            builder.message("o", body=b"x" * 200)
        for _ in range(others):
            builder.message("o", body=b"x" * 100)
    root = builder.close()
    golden.declare(root, {"bq": "BatchCQ"})
    for segment in sorted((root / "commitlog").iterdir())[1:-1]:
        segment.write_bytes(bytes(16384))
    shutil.rmtree(root / "batchconsumequeue")
    records = [view for view in inspect.records(root) if view.topic == "bq"]
    assert records[-1].queue_offset == 70 * inner
    found = audit.check(root, given=settings_of(builder.settings), jobs=1)
    assert not [f for f in found.findings if f.code == "LOG_FIELD"]
    lost = sum(part.stop_queue_offset - part.first_queue_offset for part in found.lost if part.topic == "bq")
    assert lost == (71 - len(records)) * inner

"""Units that are of other records than the queue's, or of none: they tell of no lost message."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden_data
import pytest
from golden_data import given_for
from implied import Settings
from rebuilds import settings_of
from storebuilder import StoreBuilder

import storeio

pytestmark = pytest.mark.share(1)
NAME = "base-5.3.3"


def test_a_queue_of_another_store_tells_of_no_lost_message(tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    place = Path("consumequeue/topic_1/1")
    shutil.rmtree(root / place)
    shutil.copytree(golden_data.store("base-5.4.0") / place, root / place)
    found = storeio.check(root, jobs=1, given=given_for(NAME))
    assert {"CQ_UNIT_WRONG", "CQ_BEYOND_LOG"} <= {f.code for f in found.findings}
    assert (found.lost, [f for f in found.findings if f.code == "LOG_TAIL_LOST"]) == ([], [])
    made = storeio.salvage(root, tmp_path / "out", jobs=1, given=given_for(NAME), broker="5.3.3")
    assert (made.exit_code, made.tombstones, made.records) == (0, 0, 850)
    assert storeio.check(tmp_path / "out", jobs=1).exit_code == 0


def test_a_queue_that_only_lost_some_units_is_believed(tmp_path: Path) -> None:
    """Its last units name messages of the log's tail, which is gone."""
    root = golden_data.copy_of(NAME, tmp_path / "store")
    max((root / "commitlog").iterdir()).unlink()
    queue = root / "consumequeue/topic_1/1/00000000000000001000"
    queue.write_bytes(b"\x01" * 1000)
    found = storeio.check(root, jobs=1, given=given_for(NAME))
    assert sum(part.stop_queue_offset - part.first_queue_offset for part in found.lost) == 72
    assert any(part.topic == "topic_1" and part.queue_id == 1 for part in found.lost)


def test_bytes_that_slid_within_a_queue_tell_of_no_message_no_segment_could_hold(tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    queue = root / "consumequeue/topic_1/0/00000000000000004000"
    data = queue.read_bytes()
    queue.write_bytes((data[:100] + b"\x01" * 12 + data[100:])[: len(data)])
    found = storeio.check(root, jobs=1, given=given_for(NAME))
    assert "CQ_BEYOND_LOG" in {f.code for f in found.findings}
    assert list(found.lost) == []
    assert storeio.salvage(root, tmp_path / "out", jobs=1, given=given_for(NAME), broker="5.3.3").exit_code == 0


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize(
    ("own", "place", "other", "taken"),
    [
        ("ext-5.5.1", "consumequeue/SCHEDULE_TOPIC_XXXX/10", "rich-4.9.8", "consumequeue/topic_0/0"),
        ("ext-5.5.1", "consumequeue/SCHEDULE_TOPIC_XXXX/3", "rich-5.3.3", "consumequeue/topic_2/0"),
        ("rich-5.3.3", "batchconsumequeue/bcq_a/0", "rich-5.3.3", "consumequeue/topic_1/0"),
        ("rich-5.3.3", "batchconsumequeue/bcq_b/1", "rich-5.5.1", "consumequeue/topic_2/1"),
    ],
)
def test_a_longer_file_over_a_short_queue_tells_of_none(
    own: str, place: str, other: str, taken: str, cut: int, tmp_path: Path
) -> None:
    root = golden_data.copy_of(own, tmp_path / "store")
    for segment in sorted((root / "commitlog").iterdir())[::-1][:cut]:
        segment.unlink()
    queue = Path(place).parent.name, int(Path(place).name)
    others = [
        part for part in storeio.check(root, jobs=1, given=given_for(own)).lost if (part.topic, part.queue_id) != queue
    ]
    shutil.rmtree(root / place)
    shutil.copytree(golden_data.store(other) / taken, root / place)
    assert storeio.check(root, jobs=1, given=given_for(own)).lost == others
    if not cut:
        made = storeio.salvage(root, tmp_path / "out", jobs=1, given=given_for(own), broker=own.rpartition("-")[2])
        assert (made.exit_code, made.tombstones, made.lost) == (0, 0, [])


@pytest.mark.parametrize("damaged", [0, 1, 2, 12])
def test_a_queue_of_which_all_messages_are_lost_is_believed_though_some_units_are_damaged(
    damaged: int, tmp_path: Path
) -> None:
    """Those that are damaged point amid the log, where no record begins."""
    builder = StoreBuilder(tmp_path / "store", settings=Settings(segment_bytes=16384, units_per_file=200))
    for _ in range(100):
        builder.message("old", body=b"x" * 100)
    lost = [builder.message("new", body=b"y" * 100) for _ in range(150)]
    root = builder.close()
    first = lost[0].physical_offset // 16384 + 1
    kept = sum(placed.physical_offset < first * 16384 for placed in lost)
    for segment in sorted((root / "commitlog").iterdir())[first:]:
        segment.unlink()
    log = root / "commitlog" / f"{(first - 1) * 16384:020d}"
    log.write_bytes(log.read_bytes()[: lost[0].physical_offset % 16384].ljust(16384, b"\0"))
    with (root / f"consumequeue/new/0/{0:020d}").open("r+b") as file:
        for number in range(damaged):
            file.seek(20 * (10 + 7 * number))
            file.write((1000 + number).to_bytes(8, "big"))
    found = storeio.check(root, jobs=1, given=settings_of(builder.settings))
    assert kept
    counted = sum(part.stop_queue_offset - part.first_queue_offset for part in found.lost if part.topic == "new")
    assert 150 - damaged <= counted <= 150

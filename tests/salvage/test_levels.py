"""Delayed messages of whose level, or of its name, one byte is wrong: they lie in the queue of their level."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import golden_data as golden
import pytest
from salvages import bytes_of, change_byte, changed_in
from sampled import seeds
from storebuilder import StoreBuilder

from storeio import audit, inspect
from storeio.format import commitlog as log
from storeio.salvage.node import salvage

PROPERTY = b"DELAY\1"
TOPIC = log.SCHEDULE_TOPIC.encode()


@pytest.mark.parametrize("seed", seeds(4, 40))
@pytest.mark.parametrize("with_queues", [True, False])
@pytest.mark.parametrize("name", ["rich-4.9.8", "rich-5.3.3"])  # without and with a property CRC
def test_one_wrong_byte_is_told_and_restored(name: str, with_queues: bool, seed: int, tmp_path: Path) -> None:
    chance, segment = random.Random(seed), int(golden.options(name)["clFile"])
    golden.copy_of(name, tmp_path / "store")
    records = bytes_of(tmp_path / "store", segment)
    # Clients' batches have no level, neither.
    delayed = [at for at, raw in records.items() if log.decode_record(raw).topic == TOPIC and PROPERTY in raw]
    place = chance.choice(delayed)
    start = records[place].index(PROPERTY)
    stop = start + len(records[place][start:].partition(b"\2")[0])
    change_byte(tmp_path / "store", place + chance.randrange(start, stop), 1 << chance.randrange(8), segment)
    if not with_queues:
        shutil.rmtree(tmp_path / "store/consumequeue")
    found = audit.check(tmp_path / "store", jobs=1)
    assert [one for one in found.findings if one.code.startswith("LOG_")]
    result = salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    assert not result.lost and not result.dropped
    assert changed_in(tmp_path / "new", records, segment) == []


@pytest.mark.parametrize(
    ("level", "told"),
    [("3", None), ("4", "DELAY 4"), ("0", "DELAY 0"), ("30", "DELAY 30"), (None, "no DELAY"), ("003", None)],
)
def test_a_level_that_is_not_that_of_the_queue_is_told_once(
    level: str | None, told: str | None, tmp_path: Path
) -> None:
    builder = StoreBuilder(tmp_path, segment_bytes=8192)
    builder.message(log.SCHEDULE_TOPIC, 2, delay=3)
    properties = {"REAL_TOPIC": "T", "REAL_QID": "0", **({"DELAY": level} if level else {})}
    placed = builder.message(log.SCHEDULE_TOPIC, 2, properties=properties)
    ((_, data),) = builder.segment_files()
    builder.close()
    findings = [one for one in audit.check(tmp_path, jobs=1).findings if one.code == "LOG_FIELD"]
    odd = [view.odd for view in inspect.records(tmp_path)]
    assert ([bool(one) for one in odd], len(findings)) == ([False, told is not None], int(told is not None))
    for finding in findings:
        assert finding.physical_offset == placed.physical_offset
        assert finding.detail == f"{told}, where a delayed message has level 3, that of its queue"
        assert not level or data[finding.position : finding.position + finding.length] == level.encode()


def test_a_client_s_batch_has_no_level(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, segment_bytes=8192)
    builder.batch(log.SCHEDULE_TOPIC, 2, [b"one", b"two"])
    builder.close()
    assert "LOG_FIELD" not in {one.code for one in audit.check(tmp_path, jobs=1).findings}
    assert not any(view.odd for view in inspect.records(tmp_path))


def test_a_message_whose_level_nothing_restores_is_kept(tmp_path: Path) -> None:
    """Two digits are wrong: brokers deliver it, at another time."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=8192)
    for level in (3, 14, 14, 14):
        builder.message("T", delay=level)
    path = builder.close() / f"commitlog/{0:020d}"
    before = bytes_of(tmp_path / "store", 8192)
    at = sorted(before)[2]
    raw = before[at].replace(PROPERTY + b"14", PROPERTY + b"05")
    path.write_bytes(path.read_bytes().replace(before[at], raw))
    result = salvage(tmp_path / "store", tmp_path / "new", given={"mappedFileSizeCommitLog": "8192"}, jobs=1)
    assert not result.lost and not result.restored
    assert changed_in(tmp_path / "new", {**before, at: raw}, 8192) == []


@pytest.mark.parametrize("queue_id", [-1, 77])
@pytest.mark.parametrize("level", [9, None])
def test_the_only_message_of_a_queue_is_of_that_of_its_unit(level: int | None, queue_id: int, tmp_path: Path) -> None:
    """So say the unit and the level; of a queue id that may be one the unit alone says nothing."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=8192)
    for _ in range(5):
        builder.message("T", 0, b"body")
    alone = builder.message("T", 0 if level else 5, b"body", delay=level)
    for _ in range(3):
        builder.message("T", 0, b"body")
    path = builder.close() / f"commitlog/{0:020d}"
    before = bytes_of(tmp_path / "store", 8192)
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, alone.physical_offset + log.QUEUE_ID_AT, queue_id)
    path.write_bytes(data)
    result = salvage(tmp_path / "store", tmp_path / "new", given={"mappedFileSizeCommitLog": "8192"}, jobs=1)
    assert not result.lost and not result.dropped
    is_told = level is not None or queue_id < 0
    changed = changed_in(tmp_path / "new", before, 8192)
    assert changed == ([] if is_told else [alone.physical_offset])

"""Units of queues and entries of index files, as inspection shows them, against the log they come from."""

from __future__ import annotations

from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
from storebuilder import StoreBuilder

from storeio import inspect
from storeio.format import index as index_format
from storeio.inspect.indexunits import index_files, slots_of
from storeio.inspect.reader import Reader

pytestmark = pytest.mark.share(2)

SOUND = ("rich-4.9.8", "rich-5.5.1", "ext-5.5.1", "upgraded")


@pytest.mark.parametrize("name", SOUND)
def test_units_of_sound_stores_agree_with_their_records(name: str) -> None:
    views = list(inspect.units(golden.store(name)))
    written = [view for view in views if view.state == "written"]
    assert [view.why for view in written if view.why] == []
    assert all(view.record is not None and view.record.valid for view in written)
    assert {view.state for view in views} <= {"written", "zero", "pre-blank"}
    queued = [row for row in golden.dump(name) if int(row["sys_flag"]) & 0xC in (0, 8)]
    own = [view for view in written if not view.topic.startswith("%LMQ%")]
    assert sorted(view.physical_offset or 0 for view in own) == sorted(int(row["phy_offset"]) for row in queued)
    assert {view.kind for view in own} >= {"consumequeue"}


def test_ext_units_are_shown_with_their_units() -> None:
    views = [view for view in inspect.units(golden.store("ext-5.5.1")) if view.state == "written"]
    with_ext = [view for view in views if view.ext is not None]
    assert with_ext
    for view in with_ext:
        assert view.ext is not None
        assert view.record is not None
        assert (view.ext.tags_code, view.ext.store_timestamp_ms) == (
            view.record.tags_code,
            view.record.store_timestamp_ms,
        )
    assert with_ext[0].as_json()["ext"]["size"] >= 20


def test_units_by_queue_and_offset() -> None:
    root = golden.store("rich-5.5.1")
    views = list(inspect.units(root, topic="topic_3", queue_id=1, queue_offset=(2, 4)))
    assert [view.queue_offset for view in views] == [2, 3, 4]
    (view,) = inspect.units(root, topic="topic_3", queue_id=1, queue_offset=2)
    assert (view.position, view.count, view.kind) == (40, 1, "consumequeue")
    (batch,) = inspect.units(root, topic="bcq_b", queue_id=0, queue_offset=1)
    assert (batch.queue_offset, batch.batch_size, batch.kind) == (0, 2, "batchconsumequeue")
    assert batch.record is not None
    assert batch.record.batch_size == 2
    assert list(inspect.units(root, topic="nobody")) == []


def test_empty_units_are_counted_and_ragged_tails_shown(tmp_path: Path) -> None:
    StoreBuilder(tmp_path / "s").close()
    path = tmp_path / "s" / "consumequeue" / "t" / "0" / f"{2000:020d}"
    path.parent.mkdir(parents=True)
    blank = (0).to_bytes(8, "big") + (2**31 - 1).to_bytes(4, "big") + bytes(8)
    broken = (-5).to_bytes(8, "big", signed=True) + (7).to_bytes(4, "big") + bytes(8)
    path.write_bytes(blank * 3 + broken + bytes(20 * 70_000) + b"rag")
    views = list(inspect.units(tmp_path / "s"))
    assert [(v.state, v.queue_offset, v.count, v.position) for v in views] == [
        ("pre-blank", 100, 3, 0), ("invalid", 103, 1, 60), ("zero", 104, 70_000, 80), ("ragged", None, 1, 1_400_080),
    ]  # fmt: skip
    (file,) = (f for f in inspect.files(tmp_path / "s") if f.path.endswith(path.name))
    assert file.summary.startswith("4 of 70004 units used, the first 3 pre-blank")
    assert "3 bytes too many" in file.summary


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    for queue_id in (0, 0, 1, 0):
        builder.message("t", queue_id, b"x")
    builder.close()
    path = next((tmp_path / "s" / "consumequeue" / "t" / "0").iterdir())
    data = bytearray(path.read_bytes())
    other = next(view.physical_offset for view in inspect.records(tmp_path / "s", queue_id=1))
    data[20:28] = other.to_bytes(8, "big")
    data[40:48] = (2**40).to_bytes(8, "big")
    data[8:12] = (17).to_bytes(4, "big")
    path.write_bytes(data)
    whys = [view.why or "" for view in inspect.units(tmp_path / "s", queue_id=0) if view.state == "written"]
    assert "size is" in whys[0]
    assert "of another queue: t/1" in whys[1]
    assert "no intact record" in whys[2]


@pytest.mark.parametrize("name", SOUND)
def test_index_entries_agree_with_their_records(name: str) -> None:
    reader = Reader(golden.store(name), note=pytest.fail)
    entries = list(inspect.index_entries(reader))
    assert entries
    assert [entry.why for entry in entries if entry.why] == []
    for entry in entries[::97]:
        assert entry.slot == entry.key_hash % 500
        assert entry.record is not None
    expected = sum(max(int(f.details["unit_count"] or 0) - 1, 0) for f in inspect.files(reader) if f.kind == "index")
    assert len(entries) == expected
    place = entries[len(entries) // 2].physical_offset
    assert [e.number for e in inspect.index_entries(reader, at=place)] == [
        e.number for e in entries if e.physical_offset == place
    ]


@pytest.mark.parametrize("name", golden.STORES)
def test_hash_slots_are_told_from_the_content(name: str) -> None:
    reader = Reader(golden.store(name))
    for file in index_files(reader):
        assert slots_of(reader, file) == golden.options(name)["indexSlots"]


def test_index_entries_of_a_key() -> None:
    root = golden.store("rich-5.5.1")
    rows = [row for row in golden.dump("rich-5.5.1") if "k454" in row["keys"].split(" ") and row["sys_flag"] != "12"]
    assert [e.physical_offset for e in inspect.index_entries(root, key="k454")] == [int(r["phy_offset"]) for r in rows]
    of_topic = inspect.index_entries(root, key="k454", topic=rows[0]["topic"])
    assert [e.physical_offset for e in of_topic] == [
        int(r["phy_offset"]) for r in rows if r["topic"] == rows[0]["topic"]
    ]
    assert list(inspect.index_entries(root, key="nobody")) == []


def test_a_cycle_of_index_units_hangs_nothing(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "s")
    path = next((root / "index").iterdir())
    slots = golden.options("base-5.3.3")["indexSlots"]
    data = bytearray(path.read_bytes())
    start = index_format.units_start(slots)
    units = np.frombuffer(data, dtype=index_format.UNIT, offset=start)
    count = int(index_format.decode_header(bytes(data))["unit_count"])
    changed = units.copy()
    changed["previous"][:count] = (np.arange(count) + 1) % count
    data[start : start + changed.nbytes] = changed.tobytes()
    path.write_bytes(data)
    row = next(r for r in golden.dump("base-5.3.3") if r["keys"] not in ("", "null"))
    found = [v.physical_offset for v in inspect.records(root, key=row["keys"].split(" ")[0], topic=row["topic"])]
    assert int(row["phy_offset"]) in found


def test_files_say_what_they_hold() -> None:
    root = golden.store("rich-5.5.1")
    views = {view.path: view for view in inspect.files(root)}
    assert set(views) == {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() or not any(p.iterdir())}
    assert all(view.size == (root / view.path).stat().st_size for view in views.values() if view.kind != "other")
    first = views["commitlog/" + "0" * 20]
    assert first.details["first_store_timestamp_ms"] == int(golden.dump("rich-5.5.1")[0]["store_timestamp"])
    assert views["checkpoint"].details["logic_physical_offset"]
    assert "Z)" in views["checkpoint"].summary
    queue = views["consumequeue/topic_3/1/" + "0" * 20]
    units = [u for u in inspect.units(root, topic="topic_3", queue_id=1) if u.state == "written"]
    assert queue.details["used"] == len(units)
    batch = views["batchconsumequeue/bcq_a/0/" + "0" * 20]
    assert batch.details["last_queue_offset"]
    assert views["lock"].summary == "says lock"

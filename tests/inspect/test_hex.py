"""The annotated hex view: every field of every kind of file, at its place, with its value."""

from __future__ import annotations

import random
from pathlib import Path

import golden_data as golden
import pytest
from storebuilder import LOCAL_V6, StoreBuilder

from storeio import inspect
from storeio.errors import UsageError
from storeio.format import commitlog as log
from storeio.inspect.hexview import HexView
from storeio.inspect.reader import Reader
from storeio.inspect.text import hex_view_lines

FIELDS = [
    "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp_ms",
    "born_host", "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset", "body_length",
    "body", "topic_length", "topic", "properties_length", "properties",
]  # fmt: skip


def assert_covers(view: HexView, root: Path, start: int, stop: int) -> None:
    """Check that the fields follow each other from start to stop, and show the file's own bytes."""
    data = (root / view.path).read_bytes()
    at = start
    for field in view.fields:
        assert field.position == at
        assert data[at:].startswith(field.raw)
        at += field.length
    assert at == stop


@pytest.mark.parametrize("name", ["rich-4.9.8", "rich-5.5.1"])
def test_every_field_of_a_record(name: str) -> None:
    root, rows = golden.store(name), golden.dump(name)
    reader = Reader(root)
    size = golden.options(name)["clFile"]
    for row in random.Random(1).sample(rows, 60):
        place, length = int(row["phy_offset"]), int(row["size"])
        view = inspect.hex_view(reader, place + random.Random(place).randrange(length), most=1 << 20)
        assert [field.name for field in view.fields] == FIELDS
        assert_covers(view, root, place % size, place % size + length)
        values = {field.name: field.value for field in view.fields}
        for column, field in (("size", "size"), ("topic", "topic"), ("queue_id", "queue_id"), ("flag", "flag"),
                              ("queue_offset", "queue_offset"), ("phy_offset", "physical_offset"),
                              ("body_crc", "body_crc"), ("reconsume", "reconsume_times"), ("body_len", "body_length"),
                              ("prepared_offset", "prepared_transaction_offset")):  # fmt: skip
            assert values[field] == row[column] or values[field].endswith("…")
        assert values["store_timestamp_ms"].startswith(row["store_timestamp"])
        assert values["magic"].startswith("0xDAA320A")
        assert values["born_host"] in ("127.0.0.1:10911", "[2001:db8::1]:10911")
        assert len([f for f in view.fields if f.position <= view.position < f.position + f.length]) == 1


def test_flags_are_named(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    builder.message("t", 0, b"x", born_host=LOCAL_V6, transaction=0x8, compressed=True, sys_flag=0x200)
    builder.close()
    view = inspect.hex_view(tmp_path / "s", 0)
    flag = next(field for field in view.fields if field.name == "sys_flag")
    assert flag.value == "0x219 (compressed, born host IPv6, commit, zstd)"


def test_long_bodies_are_cut_and_say_so(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    builder.message("t", 0, b"x" * 5000)
    builder.close()
    view = inspect.hex_view(tmp_path / "s", 0, most=64)
    body = next(field for field in view.fields if field.name == "body")
    assert (len(body.raw), body.length) == (64, 5000)
    assert any("4936 more bytes" in line for line in hex_view_lines(view))


def test_a_damaged_record_is_read_as_far_as_it_leads(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    for _ in range(3):
        builder.message("t", 0, b"body")
    builder.close()
    path = tmp_path / "s" / "commitlog" / ("0" * 20)
    data = bytearray(path.read_bytes())
    data[84:88] = (100_000).to_bytes(4, "big")
    path.write_bytes(data)
    view = inspect.hex_view(tmp_path / "s", 3)
    assert view.title.startswith("damaged record (body length leads out of the segment)")
    assert [field.name for field in view.fields] == [*FIELDS[:15], ""]
    second = next(v.physical_offset for v in inspect.records(tmp_path / "s") if v.valid)
    assert_covers(view, tmp_path / "s", 0, second)


def test_blank_zero_and_garbage(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s", segment_bytes=4096)
    for _ in range(9):
        builder.message("t", 0, bytes(700))
    builder.close()
    first = sorted((tmp_path / "s" / "commitlog").iterdir())[0]
    blank = max(v.position + v.extent for v in inspect.records(tmp_path / "s") if v.path.endswith(first.name))
    view = inspect.hex_view(tmp_path / "s", blank + 20)
    assert view.title.startswith("blank record")
    assert [f.name for f in view.fields] == ["size", "magic", ""]
    assert view.fields[1].value == f"0x{log.MAGIC_BLANK & 0xFFFFFFFF:08X} (blank: end of the segment)"
    zero = inspect.hex_view(tmp_path / "s", builder.end + 100)
    assert zero.title.startswith("zero bytes from physical offset")
    first.write_bytes(bytes(range(256)) * 16)
    assert inspect.hex_view(tmp_path / "s", 1000).title.startswith("bytes that are no record")


def test_queue_units() -> None:
    root = golden.store("rich-5.5.1")
    path = "consumequeue/topic_3/1/" + "0" * 20
    view = inspect.hex_view(root, 70, path)
    assert view.title == "unit 3 of the file, queue offset 3, written"
    assert [(f.position, f.name) for f in view.fields] == [(60, "physical_offset"), (68, "size"), (72, "tags_code")]
    assert_covers(view, root, 60, 80)
    batch = inspect.hex_view(root, 46, "batchconsumequeue/bcq_b/0/" + "0" * 20)
    assert [f.name for f in batch.fields] == [
        "physical_offset", "size", "tags_code", "store_timestamp_ms", "base_queue_offset", "batch_size",
        "compacted_offset", "reserved",
    ]  # fmt: skip
    assert_covers(batch, root, 46, 92)


def test_ext_units_are_found_by_hopping() -> None:
    root = golden.store("ext-5.5.1")
    reader = Reader(root)
    unit = [v for v in inspect.units(reader) if v.ext is not None][5]
    assert unit.ext is not None
    for inside in (0, 1, unit.ext.size - 1):
        view = inspect.hex_view(reader, unit.ext.position + inside, unit.ext.path)
        assert view.title == f"ext unit at {unit.ext.position}, {unit.ext.size} bytes"
        assert_covers(view, root, unit.ext.position, unit.ext.position + unit.ext.size)
        assert [f.name for f in view.fields][:4] == ["size", "tags_code", "store_timestamp_ms", "bitmap_length"]
    last = reader.listing.get(unit.ext.path)
    assert last is not None
    assert "bytes" in inspect.hex_view(reader, last.size - 1, unit.ext.path).title


def test_index_header_slots_and_units() -> None:
    root = golden.store("rich-5.5.1")
    reader = Reader(root)
    path = next(f.path for f in inspect.files(reader) if f.kind == "index")
    header = inspect.hex_view(reader, 0, path)
    assert_covers(header, root, 0, 40)
    assert header.fields[-1].name == "unit_count"
    slot = inspect.hex_view(reader, 43, path)
    assert (slot.title, slot.fields[0].position) == ("hash slot 0 of 500", 40)
    entry = next(inspect.index_entries(reader))
    unit = inspect.hex_view(reader, entry.position + 19, path)
    assert unit.title == "index unit 1"
    assert_covers(unit, root, entry.position, entry.position + 20)


def test_checkpoint_and_others() -> None:
    root = golden.store("rich-5.5.1")
    assert_covers(inspect.hex_view(root, 47, "checkpoint"), root, 0, 48)
    rest = inspect.hex_view(root, 48, "checkpoint", most=32)
    assert (rest.title, rest.fields[0].raw, rest.fields[0].length) == ("bytes", bytes(32), 4048)
    assert inspect.hex_view(root, 1, "lock").fields[0].raw == b"ock"


@pytest.mark.parametrize(
    ("position", "path"),
    [(0, "nope"), (0, "commitlog"), (4096, "checkpoint"), (-1, "checkpoint"), (10**15, None), (0, "../etc/passwd")],
)
def test_what_the_store_has_not_is_refused(position: int, path: str | None) -> None:
    with pytest.raises(UsageError):
        inspect.hex_view(golden.store("rich-5.5.1"), position, path)

"""Records of which several fields are damaged, each of which something tells; and what goes missing with one."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from builts import Built, built, messages, places, queue_id
from implied import PREPARED, ROLLBACK, Settings
from rebuilds import settings_of
from storebuilder import StoreBuilder, inner_body

from storeio.format import commitlog as log
from storeio.salvage.node import salvage

WRONG_NUMBER = struct.pack(">q", 1 << 20)
NOWHERE = struct.pack(">q", 1 << 60)
ANOTHER_QUEUE = queue_id(1 << 14)


def tagged(tmp_path: Path) -> Built:
    """Return a store of messages with tags and keys in two queues."""

    def write(builder: StoreBuilder) -> None:
        for i in range(10):
            builder.message("T", i % 2, b"body %d" % i, tags="tagA", keys=f"k{i}")

    return built(tmp_path, write)


def batches(tmp_path: Path) -> Built:
    """Return a store of inner batches in two queues."""

    def write(builder: StoreBuilder) -> None:
        for i in range(10):
            builder.message("B", i % 2, inner_body([b"%d" % i * 20] * 3), inner=3)

    return built(tmp_path, write, batch_topics=frozenset({"B"}), batch_units_per_file=200)


def unit_gone(store: Built, place: int) -> None:
    """Overwrite the units that point at a place with zeros."""
    old = struct.pack(">qi", place, len(store.before[place]))
    for path in store.root.glob("*consumequeue/*/*/*"):
        path.write_bytes(path.read_bytes().replace(old, bytes(len(old))))


@pytest.mark.parametrize("gone", [1, 3, 8])
def test_bytes_that_are_gone_take_nothing_from_the_message_behind(gone: int, tmp_path: Path) -> None:
    """The damaged record keeps its size, and so swallows the first bytes of the next one, which are all there."""
    store = tagged(tmp_path)
    at = places(store)
    segment = store.root / "commitlog" / ("0" * 20)
    data = segment.read_bytes()
    cut = at[4] + store.before[at[4]].index(b"tagA")
    segment.write_bytes(data[:cut] + data[cut + gone :] + bytes(gone))
    result, now = store.saved(tmp_path)
    assert [(part.queue_id, part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [(0, 2, 3)]
    assert {place: store.before[place] for place in at if place != at[4]}.items() <= now.items()


@pytest.mark.parametrize("unit", ["whole", "gone"])
def test_the_flag_of_a_queues_last_message(unit: str, tmp_path: Path) -> None:
    """It says that the message has no number, and its number is the next one of its queue."""
    store = tagged(tmp_path)
    place = places(store)[-1]
    store.put(place + log.SYS_FLAG_AT, struct.pack(">i", log.SYS_PREPARED))
    if unit == "gone":
        unit_gone(store, place)
    store.assert_restored(tmp_path)


@pytest.mark.parametrize("hit", [4, 8, 9])
@pytest.mark.parametrize(
    ("field", "at", "data"),
    [("queue_id", log.QUEUE_ID_AT, ANOTHER_QUEUE), ("queue_offset", log.QUEUE_OFFSET_AT, WRONG_NUMBER)],
)
def test_a_property_and_a_field_of_the_head(field: str, at: int, data: bytes, hit: int, tmp_path: Path) -> None:
    store = tagged(tmp_path)
    place = places(store)[hit]
    tag = place + store.before[place].index(b"tagA") + 3
    store.put(tag, bytes((b"A"[0] ^ 0x83,)))
    store.put(place + at, data)
    result, now = store.saved(tmp_path)
    assert (result.lost, result.dropped, now) == ([], [], store.before)
    assert [(row.physical_offset, row.field) for row in result.restored] == [(place, "properties"), (place, field)]
    assert result.restored_count == 1
    for row in result.restored:
        assert bytes.fromhex(row.new) in store.before[place]


@pytest.mark.parametrize("unit", ["whole", "gone"])
def test_a_batchs_number_and_place(unit: str, tmp_path: Path) -> None:
    store = batches(tmp_path)
    place = places(store)[4]
    store.put(place + log.QUEUE_OFFSET_AT, WRONG_NUMBER)
    store.put(place + log.PHYSICAL_OFFSET_AT, NOWHERE)
    if unit == "gone":
        unit_gone(store, place)
    store.assert_restored(tmp_path)


def test_a_batchs_number_and_queue_id_that_its_unit_tells(tmp_path: Path) -> None:
    store = batches(tmp_path)
    place = places(store)[4]
    store.put(place + log.QUEUE_OFFSET_AT, WRONG_NUMBER)
    store.put(place + log.QUEUE_ID_AT, ANOTHER_QUEUE)
    store.assert_restored(tmp_path)


def test_a_batchs_queue_id_whose_unit_points_at_another_record(tmp_path: Path) -> None:
    store = batches(tmp_path)
    place = places(store)[4]
    store.put(place + log.QUEUE_ID_AT, ANOTHER_QUEUE)
    old = struct.pack(">qi", place, len(store.before[place]))
    for path in store.root.glob("batchconsumequeue/B/0/*"):
        path.write_bytes(path.read_bytes().replace(old, struct.pack(">qi", 0, len(store.before[0]))))
    store.assert_restored(tmp_path)


@pytest.mark.parametrize(
    ("at", "unit"),
    [
        (log.SIZE_AT, "whole"), (log.SIZE_AT, "gone"), (log.MAGIC_AT, "whole"), (log.MAGIC_AT, "gone"),
        (log.BODY_CRC_AT, "gone"),
    ],
)  # fmt: skip
def test_a_hole_and_a_queue_id(at: int, unit: str, tmp_path: Path) -> None:
    store = tagged(tmp_path)
    place = places(store)[4]
    store.put(place + at, b"\1")
    store.put(place + log.QUEUE_ID_AT, ANOTHER_QUEUE)
    if unit == "gone":
        unit_gone(store, place)
    store.assert_restored(tmp_path)


def test_what_lay_in_a_directory_of_a_segments_name_is_told_by_its_own(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", settings=Settings(segment_bytes=4096))
    while len(builder.segments) < 3:
        messages(0)(builder)
    root = builder.close()
    segment = root / "commitlog" / f"{4096:020d}"
    data = segment.read_bytes()
    segment.unlink()
    segment.mkdir()
    (segment / segment.name).write_bytes(data)
    found = salvage(root, tmp_path / "new", given=settings_of(builder.settings), jobs=1)
    assert found.lost == []
    assert [Path(piece.source) for piece in found.moved] == [segment / segment.name]


@pytest.mark.parametrize("hit", [5, 6, 8, 9, 10, 11])
def test_what_an_earlier_life_left_does_not_become_what_its_unit_tells(hit: int, tmp_path: Path) -> None:
    """A log was cut and written anew, with messages of the same size; one new record did not reach the disk."""

    def life(queues: list[int], begin_ms: int) -> Callable[[StoreBuilder], None]:
        def write(builder: StoreBuilder) -> None:
            messages(0, 1, 0, 1)(builder)
            builder.now_ms += begin_ms
            for queue in queues:
                builder.message("T", queue, b"%d" % begin_ms * 10, tags="tagA")

        return write

    old = built(tmp_path / "old", life([0, 0, 1, 1, 0, 1, 0, 0], 10_000))
    new = built(tmp_path / "new", life([1, 0, 0, 1, 1, 0, 1, 0], 20_000))
    at = places(new)
    assert at == places(old)
    new.put(at[hit], old.before[at[hit]])
    result, now = new.saved(tmp_path / "salvaged")
    assert {place: new.before[place] for place in at if place != at[hit]}.items() <= now.items()
    assert old.before[at[hit]][log.BORN_TIMESTAMP_AT :] not in now[at[hit]]
    assert len(result.dropped) == result.lost_count == 1


@pytest.mark.parametrize("transaction", [PREPARED, ROLLBACK])
def test_a_transactions_number_that_is_the_next_one_by_chance(transaction: int, tmp_path: Path) -> None:
    def write(builder: StoreBuilder) -> None:
        messages(*[0] * 4)(builder)
        builder.message("T", 0, b"half", transaction=transaction, properties={"TRAN_MSG": "true", "PGROUP": "g"})
        builder.message("U", 0, b"other")

    store = built(tmp_path, write)
    store.put(places(store)[4] + log.QUEUE_OFFSET_AT, struct.pack(">q", 4))
    store.assert_restored(tmp_path)


def test_a_queues_last_message_behind_a_lost_one_stays_in_its_queue(tmp_path: Path) -> None:
    """Another queue lacks its number, too, and no unit is left."""
    store = built(tmp_path, messages(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0))
    at = places(store)
    for place in (at[9], at[10]):  # number 4 of queue 1, number 5 of queue 0
        store.put(place, bytes(len(store.before[place])))
    store.put(at[11] + log.MAGIC_AT, b"\1")
    shutil.rmtree(store.root / "consumequeue")
    result, now = store.saved(tmp_path)
    assert now[at[11]] == store.before[at[11]]
    assert [(part.queue_id, part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [
        (0, 5, 6), (1, 4, 5),
    ]  # fmt: skip

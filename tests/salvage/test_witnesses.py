"""Records of which a field is damaged, and besides it the unit that would tell what stood there, or a neighbour."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest
from builts import Built, built, messages, places, queue_id
from implied import PREPARED
from storebuilder import StoreBuilder, forged, inner_body

from storeio.format import commitlog as log

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
BATCH = 46  # bytes of a unit of a batch queue


QUEUE_ID = log.QUEUE_ID_AT
OF_T2 = (2, 2, 2, 2, 2, 2, 0, 2, 2, 2, 0, 2)
WRONG_SIZE = struct.pack(">i", 1 << 20)


@pytest.mark.parametrize("unit_too", [False, True])
def test_a_stray_in_a_sound_queue_changes_no_record_of_it(unit_too: bool, tmp_path: Path) -> None:
    store = built(tmp_path, messages(*OF_T2))
    store.put(places(store)[7] + QUEUE_ID, queue_id(0))  # number 6 of queue 2
    if unit_too:
        store.unit("consumequeue/T/2", 6, WRONG_SIZE, at=8)
    store.assert_restored(tmp_path)


@pytest.mark.parametrize("unit_too", [False, True])
def test_the_first_record_of_a_queue_that_strays_into_another(unit_too: bool, tmp_path: Path) -> None:
    store = built(tmp_path, messages(3, 3, 0))
    store.put(0 + QUEUE_ID, queue_id(0))
    if unit_too:
        store.unit("consumequeue/T/3", 0, WRONG_SIZE, at=8)
    store.assert_restored(tmp_path)


@pytest.mark.parametrize("wrong", [4, None], ids=["at another record", "amid one"])
def test_a_stray_amid_its_queue_whose_unit_points_elsewhere(wrong: int | None, tmp_path: Path) -> None:
    store = built(tmp_path, messages(*[0] * 20))
    at = places(store)
    store.put(at[10] + QUEUE_ID, queue_id(226))
    store.unit("consumequeue/T/0", 10, struct.pack(">q", at[wrong] if wrong is not None else at[10] - 100))
    store.assert_restored(tmp_path)


def test_the_last_record_of_a_queue_strays_and_its_unit_has_no_size(tmp_path: Path) -> None:
    store = built(tmp_path, messages(*[3] * 18))
    store.put(places(store)[17] + QUEUE_ID, queue_id(16899))
    store.unit("consumequeue/T/3", 17, struct.pack(">i", 142 - 2**31), at=8)
    store.assert_restored(tmp_path)


@pytest.mark.parametrize("table", [None, 4], ids=["of any", "of its own"])
def test_the_only_record_of_a_queue_has_a_queue_id_that_its_topic_has_not(table: int | None, tmp_path: Path) -> None:
    store = built(tmp_path, messages(0, 0, 1, 0, 0))
    store.put(places(store)[2] + QUEUE_ID, queue_id(7471105 if table is None else 77))
    if table is not None:
        topics = {"T": {"topicName": "T", "readQueueNums": table, "writeQueueNums": table}}
        (store.root / "config").mkdir()
        (store.root / "config/topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    store.assert_restored(tmp_path)


def test_a_unit_of_a_topic_of_another_length_is_not_that_of_a_record(tmp_path: Path) -> None:
    def write(builder: StoreBuilder) -> None:
        for topic, count in (("other", 50), ("T", 50), ("orders", 90), ("other", 50), ("T", 50)):
            builder.message(topic, 0, b"x" * count)

    store = built(tmp_path, write)
    at = places(store)
    kept = {place: store.before[place] for place in (at[0], at[1], at[3])}
    for place in (at[2], at[4]):
        store.put(place, bytes(len(store.before[place])))
    one, other = store.root / "consumequeue/T/0", store.root / "consumequeue/orders/0"
    one.rename(tmp_path / "aside"), other.rename(one), (tmp_path / "aside").rename(other)
    _, now = store.saved(tmp_path)
    assert kept.items() <= now.items()


def test_a_number_behind_a_record_that_its_unit_restores(tmp_path: Path) -> None:
    store = built(tmp_path, messages(*[0] * 7))
    at = places(store)
    store.put(at[5], struct.pack(">i", 142 + 256))
    store.put(at[6] + log.QUEUE_OFFSET_AT, struct.pack(">q", 6 | 1 << 48))
    store.unit("consumequeue/T/0", 6, b"\x5a" * 20)
    store.assert_restored(tmp_path)


def test_the_loss_of_a_queues_first_records_is_told(tmp_path: Path) -> None:
    store = built(tmp_path, messages(*[0] * 7))
    at = places(store)
    for place, born in ((at[0], bytes(8)), (at[1], b"\x91" * 8)):
        store.put(place + log.BORN_TIMESTAMP_AT, born)
    store.unit("consumequeue/T/0", 1, b"\x01", at=1)
    result, now = store.saved(tmp_path)
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [(0, 1), (1, 2)]
    assert {place: store.before[place] for place in at[2:]}.items() <= now.items()


@pytest.mark.parametrize("queues", [True, False])
def test_a_shifted_place_takes_nothing_from_the_record_behind_it(queues: bool, tmp_path: Path) -> None:
    store = built(tmp_path, messages(*[0] * 9))
    at = places(store)
    store.put(at[4] + log.PHYSICAL_OFFSET_AT, struct.pack(">q", at[4] + 2))
    if queues:
        store.put(at[3] + log.MAGIC_AT, bytes(4))
        store.assert_restored(tmp_path)
        return
    store.put(at[4] - 2, b"\x7f\x13")  # the length of the properties in front
    shutil.rmtree(store.root / "consumequeue")
    _, now = store.saved(tmp_path)
    assert {place: store.before[place] for place in at if place not in at[3:5]}.items() <= now.items()


def test_a_record_alone_beside_too_few_bytes_goes_not_the_one_that_goes_on(tmp_path: Path) -> None:
    def write(builder: StoreBuilder) -> None:
        messages(*[0] * 5)(builder)
        inside = forged(builder.end + 90, topic="forged", store_ms=builder.now_ms)
        builder.message("T", 0, b".." + inside + b"." * 40)
        messages(*[0] * 5)(builder)

    store = built(tmp_path, write)
    at = places(store)
    store.put(at[4], b"\x91" * (at[5] + 60 - at[4]))
    shutil.rmtree(store.root / "consumequeue")
    result, now = store.saved(tmp_path)
    assert {place: store.before[place] for place in at if place not in at[4:6]}.items() <= now.items()
    assert [(part.topic, part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [("T", 4, 6)]


def test_one_bit_of_the_topic_of_a_prepared_message(tmp_path: Path) -> None:
    def write(builder: StoreBuilder) -> None:
        messages(0, 0)(builder)
        builder.message(HALF_TOPIC, 0, b"h" * 50, transaction=PREPARED, properties={"REAL_TOPIC": "T", "REAL_QID": "0"})

    store = built(tmp_path, write)
    place = places(store)[-1]
    at = place + store.before[place].index(HALF_TOPIC.encode()) + 16
    store.put(at, bytes((HALF_TOPIC.encode()[16] ^ 0x80,)))
    store.assert_restored(tmp_path)


def test_a_last_page_of_zeros_that_begins_in_the_topic(tmp_path: Path) -> None:
    topic = "orders-of-the-northern-region"
    store = built(tmp_path, lambda b: [b.message(topic, 0, b"x" * 50, properties=b"") for _ in range(6)])
    place = places(store)[-1]
    store.put(place + len(store.before[place]) - 9, bytes(9))
    store.unit(f"consumequeue/{topic}/0", 5, bytes(20))
    store.assert_restored(tmp_path)


def test_a_topic_that_is_no_text_and_like_none_is_no_message(tmp_path: Path) -> None:
    store = built(tmp_path, lambda b: [b.message("orders", 0, b"x" * 50) for _ in range(6)])
    at = places(store)
    store.put(at[5] + store.before[at[5]].index(b"orders"), b"\1\2\3")
    store.unit("consumequeue/orders/0", 5, bytes(20))
    result, now = store.saved(tmp_path)
    assert {place: store.before[place] for place in at[:5]}.items() <= now.items()
    assert [row.physical_offset for row in result.dropped] == [at[5]]


def test_a_record_whose_size_and_properties_are_damaged_is_lost(tmp_path: Path) -> None:
    store = built(tmp_path, lambda b: [b.message("T", 0, b"x" * 50, tags="tagA") for _ in range(4)])
    at = places(store)
    store.put(at[3], b"\xff" * 4)
    store.put(at[3] + len(store.before[at[3]]) - 10, bytes(10))
    result, now = store.saved(tmp_path)
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [(3, 4)]
    assert {place: store.before[place] for place in at[:3]}.items() <= now.items()


def batches(tmp_path: Path) -> Built:
    """Return a store of six inner batches of two messages."""

    def write(builder: StoreBuilder) -> None:
        for _ in range(6):
            builder.message("B", 0, inner_body([b"x" * 20] * 2), inner=2)

    return built(tmp_path, write, batch_topics=frozenset({"B"}), batch_units_per_file=200)


def test_a_lost_batch_has_the_number_that_its_neighbours_leave(tmp_path: Path) -> None:
    store = batches(tmp_path)
    store.put(places(store)[2] + 100, b"\x91" * 8)
    store.unit("batchconsumequeue/B/0", 2, struct.pack(">q", 4 | 1 << 30), at=28, size=BATCH)
    result, _ = store.saved(tmp_path)
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [(4, 6)]


def test_a_queues_first_batch_has_the_number_of_its_properties(tmp_path: Path) -> None:
    store = batches(tmp_path)
    store.put(0 + log.QUEUE_OFFSET_AT, struct.pack(">q", 2))
    store.unit("batchconsumequeue/B/0", 0, struct.pack(">i", -1), at=8, size=BATCH)
    store.assert_restored(tmp_path)


def test_a_queues_first_batch_strays_and_the_next_is_restored(tmp_path: Path) -> None:
    store = batches(tmp_path)
    store.put(0 + QUEUE_ID, queue_id(1 << 29))
    store.put(places(store)[1] + log.MAGIC_AT, b"\x47\xe5\x87\x71")
    store.unit("batchconsumequeue/B/0", 1, b"\xff" * BATCH, size=BATCH)
    store.assert_restored(tmp_path)


@pytest.mark.parametrize("inside", [False, True])
def test_a_unit_that_is_one_byte_too_long_takes_nothing_from_the_record_behind(inside: bool, tmp_path: Path) -> None:
    def write(builder: StoreBuilder) -> None:
        messages(0, 0)(builder)
        body = b".." + forged(builder.end + 90, store_ms=builder.now_ms) if inside else b""
        builder.message("T", 0, body.ljust(400, b"x"))
        builder.message(HALF_TOPIC, 0, b"h" * 50, transaction=PREPARED, properties={"REAL_TOPIC": "T", "REAL_QID": "0"})
        messages(0)(builder)

    store = built(tmp_path, write)
    at = places(store)
    store.put(at[2] + log.MAGIC_AT, bytes(8))  # its body's CRC, too
    store.unit("consumequeue/T/0", 2, struct.pack(">i", at[3] - at[2] + 1), at=8)
    result, now = store.saved(tmp_path)
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [(2, 3)]
    assert {place: store.before[place] for place in (*at[:2], *at[3:])}.items() <= now.items()


def test_records_with_their_own_units_are_no_strangers(tmp_path: Path) -> None:
    store = built(tmp_path, messages(*[0] * 13))
    at = places(store)
    store.put(at[0] + QUEUE_ID, queue_id(1))
    store.put(at[9] + log.QUEUE_OFFSET_AT, bytes(8))
    _, now = store.saved(tmp_path)
    assert {place: store.before[place] for place in at[1:]}.items() <= now.items()


@pytest.mark.parametrize("bit", [20, 30, 45])
def test_the_number_of_a_queues_only_record_in_a_log_that_begins_later(bit: int, tmp_path: Path) -> None:
    def write(builder: StoreBuilder) -> None:
        messages(0)(builder)
        while len(builder.segments) < 2:
            builder.message("other", 0, b"o" * 300)
        messages(0)(builder)

    store = built(tmp_path, write, segment_bytes=4096)
    first, last = "0" * 20, f"{4096:020d}"
    (store.root / "commitlog" / first).unlink()
    place = max(store.before)
    store.before = {at: raw for at, raw in store.before.items() if at >= 4096}
    store.write(f"commitlog/{last}", place - 4096 + log.QUEUE_OFFSET_AT, struct.pack(">q", 1 | 1 << bit))
    store.assert_restored(tmp_path)

"""The pure parts of a salvage: new records, how they cover a hole, and which damaged field has one answer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
import slow
from hypothesis import given
from hypothesis import strategies as st
from storebuilder import StoreBuilder

from storeio.dispatch import is_copied
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP, RUN_STOP_AT
from storeio.salvage.evidence import (
    Known,
    Unit,
    agrees,
    has_readable_numbers,
    property_crc_agrees,
    whole_record,
)
from storeio.salvage.fillers import LEAST_BYTES, Lost, Setting, filler, least_tombstone, tombstone
from storeio.salvage.holes import BLANK, TOMBSTONE, Hole, TooSmallError, Want, filled
from storeio.salvage.numbers import Place, Run, numbers_of, without
from storeio.salvage.one_byte import single_bytes
from storeio.salvage.restore import restored
from storeio.salvage.room import Room

DELAYS = [0] * 19
NOW_MS = 1_700_000_000_000


def read(raw: bytes, physical: int) -> slow.Head:
    """Return a record as the slow decoder reads it, which demands that brokers accept it."""
    head = slow.read(raw, physical, 0, DELAYS)
    assert head.why == h.OK
    assert (head.size, head.physical) == (len(raw), physical)
    return head


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("size", [*range(LEAST_BYTES, 160), 1000, 70_000, 4 << 20])
def test_fillers_of_every_size(size: int, crc: bool) -> None:
    made = filler(4096, size, Setting(NOW_MS, property_crc=crc))
    assert len(made) == size
    head = read(made.whole(), 4096)
    assert (head.sys_flag, head.store_ms) == (log.SYS_ROLLBACK, NOW_MS)
    assert property_crc_agrees(made.whole()) in ((True, None) if crc else (None,))
    assert not crc or size < 140 or property_crc_agrees(made.whole())


@pytest.mark.parametrize("size", [0, 1, LEAST_BYTES - 1, (4 << 20) + 200])
def test_no_filler_of_other_sizes(size: int) -> None:
    with pytest.raises(ValueError, match="no filler"):
        filler(0, size, Setting(NOW_MS))


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("properties", [{}, {"DELAY": "3", "REAL_TOPIC": "a", "REAL_QID": "0"}])
@pytest.mark.parametrize("topic", ["T", "主题", "x" * 127, "y" * 128])
def test_tombstones_of_every_size(topic: str, properties: Mapping[str, str], crc: bool) -> None:
    lost = Lost(topic.encode(), 3, 77, properties)
    least = least_tombstone(lost)
    for size in (*range(least, least + 80), least + 5000):
        raw = tombstone(1 << 40, size, lost, Setting(NOW_MS, property_crc=crc)).whole()
        head = read(raw, 1 << 40)
        assert (head.topic, head.queue_id, head.queue_offset, head.sys_flag) == (topic.encode(), 3, 77, 0)
        assert {name: head.pairs[name] for name in properties} == dict(properties)
        assert head.body_length > 0 or "STOREIO_TOMBSTONE" not in head.pairs
        assert property_crc_agrees(raw) is not False
    with pytest.raises(ValueError, match="no tombstone"):
        tombstone(0, least - 1, lost, Setting(NOW_MS))


@pytest.mark.parametrize("topic", ["%RETRY%g", "orders"])
def test_a_tombstone_is_in_the_light_queues_that_it_names(topic: str) -> None:
    lists = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "4"}
    lost = Lost(topic.encode(), 3, 77, lists)
    for size in range(least_tombstone(lost), least_tombstone(lost) + 60):
        raw = tombstone(1 << 40, size, lost, Setting(NOW_MS)).whole()
        head = read(raw, 1 << 40)
        assert not is_copied(topic, log.decode_record(raw).properties)
        assert {name: head.pairs[name] for name in lists} == lists


@given(st.data())
def test_a_hole_is_covered_exactly(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 4000))
    length = data.draw(st.integers(LEAST_BYTES, 3000))
    closes = data.draw(st.booleans())
    stop = 8192 if closes else min(start + length, 8100)
    wants, at = [], start
    for number in range(data.draw(st.integers(0, 8))):
        lost = Lost(b"topic", 0, number, {})
        if data.draw(st.booleans()):
            at += data.draw(st.integers(0, 200))
            size = data.draw(st.integers(least_tombstone(lost), 400))
            wants.append(Want(lost, at, size))
            at += size
        else:
            wants.append(Want(lost))
    hole = Hole(start, stop, 0, 8192, closes, Setting(NOW_MS), wants)
    patches = list(filled(hole))
    at = start
    for patch in patches:
        assert patch.physical_offset == at
        if patch.kind == BLANK:
            assert patch.bytes.head == log.encode_blank(8192 - at)
        else:
            read(patch.bytes.whole(), at)
        at = patch.stop
    assert at == stop
    placed = [patch.lost.queue_offset for patch in patches if patch.kind == TOMBSTONE and patch.lost]
    assert sorted([*placed, *(want.lost.queue_offset for want in hole.unplaced)]) == list(range(len(wants)))


@given(st.data())
def test_numbers_of_a_queue_rise_through_a_hole(data: st.DataObject) -> None:
    """Those without a place lie between those that have one."""
    at, number, wants = 0, {b"a": 0, b"b": 0}, []
    for _ in range(data.draw(st.integers(1, 12))):
        topic = data.draw(st.sampled_from(sorted(number)))
        lost = Lost(topic, 0, number[topic], {})
        number[topic] += 1
        size = data.draw(st.integers(least_tombstone(lost), 400))
        wants.append(Want(lost, at, size) if data.draw(st.booleans()) else Want(lost, low=at, high=at + size))
        at += size + data.draw(st.sampled_from((0, 0, 92, 300)))
    for i, want in enumerate(wants):
        if want.place < 0:
            own = [other for other in wants if other.queue == want.queue and other.place >= 0]
            low = max((other.place + other.size for other in own if other.place <= want.low), default=0)
            high = min((other.place for other in own if other.place >= want.high), default=at)
            wants[i] = Want(want.lost, low=low, high=high)
    hole = Hole(0, max(at, LEAST_BYTES), 0, 8192, False, Setting(NOW_MS), wants)
    placed = [patch.lost for patch in filled(hole) if patch.kind == TOMBSTONE and patch.lost]
    for topic in number:
        numbers = [lost.queue_offset for lost in placed if lost.topic == topic]
        assert numbers == sorted(numbers)
    assert len(placed) + len(hole.unplaced) == len(wants)


def test_a_hole_that_no_record_fits_into_is_refused() -> None:
    with pytest.raises(TooSmallError):
        list(filled(Hole(0, LEAST_BYTES - 1, 0, 8192, False, Setting(NOW_MS))))


# ---- Damaged records

FIELDS: Mapping[str, Callable[[bytearray], None]] = {
    "size": lambda raw: struct.pack_into(">i", raw, 0, 5),
    "magic": lambda raw: struct.pack_into(">i", raw, 4, 0),
    "queue_id": lambda raw: struct.pack_into(">i", raw, 12, 9),
    "queue_offset": lambda raw: struct.pack_into(">q", raw, 20, 2**40),
    "physical_offset": lambda raw: struct.pack_into(">q", raw, 28, 12),
    "sys_flag": lambda raw: struct.pack_into(">i", raw, 36, 0x10),
    "prepared_transaction_offset": lambda raw: struct.pack_into(">q", raw, 76, -4),
    "body_length": lambda raw: struct.pack_into(">i", raw, 84, 2**31 - 1),
    "topic_length": lambda raw: struct.pack_into(">b", raw, 88 + 200, 99),
    "topic": lambda raw: raw.__setitem__(slice(89 + 200, 91 + 200), b"\xff\xff"),
    "properties_length": lambda raw: struct.pack_into(">h", raw, 89 + 200 + 5, -1),
}


def one_record(*, property_crc: bool = False) -> tuple[bytes, Known]:
    """Return a record and what its queue unit and its neighbour tell."""
    builder = StoreBuilder(property_crc=property_crc)
    builder.message("other", 1, b"before")
    placed = builder.message("topic", 2, bytes(range(200)), tags="TagA", keys="k1 k2")
    size = len(placed.raw)
    unit = Unit("topic", 2, placed.queue_offset, placed.physical_offset, size, slow.java_hash("TagA"))
    return placed.raw, Known(placed.physical_offset, ((size, "queue unit"),), unit, property_crc=property_crc)


@pytest.mark.parametrize("property_crc", [False, True])
@pytest.mark.parametrize("field", FIELDS)
def test_one_damaged_field_is_restored(field: str, property_crc: bool) -> None:
    raw, known = one_record(property_crc=property_crc)
    damaged = bytearray(raw)
    FIELDS[field](damaged)
    found = restored(bytes(damaged) + bytes(300), known)
    assert found is not None
    assert found.raw == raw
    assert [change.field for change in found.changes] == [field]
    assert "body CRC" in found.evidence


def damaged_in(raw: bytes, *names: str) -> bytes:
    """Return a record of which some fields are damaged."""
    data = bytearray(raw)
    for name in names:
        FIELDS[name](data)
    return bytes(data)


TOLD = ("size", "magic", "queue_id", "queue_offset")


@pytest.mark.parametrize("names", [*combinations(TOLD, 2)], ids="-".join)
def test_two_fields_that_a_unit_tells_are_restored(names: Sequence[str]) -> None:
    raw, known = one_record()
    damaged = damaged_in(raw, *names)
    found = restored(damaged + bytes(300), known)
    assert found is not None
    assert found.raw == raw
    assert [change.field for change in found.changes] == list(names)
    assert all(damaged[one.position :].startswith(one.old) for one in found.changes)
    assert all(raw[one.position :].startswith(one.new) for one in found.changes)
    alone = restored(damaged, replace(known, unit=None))
    assert alone is None or alone.raw != raw
    assert known.unit is not None
    other = known.unit._replace(tags_code=known.unit.tags_code + 1)
    assert restored(damaged, replace(known, unit=other)) is None


def test_two_fields_that_may_be_those_of_another_message_stay() -> None:
    raw, known = one_record()
    other = bytearray(raw)
    struct.pack_into(">i", other, log.QUEUE_ID_AT, 1)
    struct.pack_into(">q", other, log.QUEUE_OFFSET_AT, 7)
    assert restored(bytes(other), known) is None
    FIELDS["queue_offset"](other)
    assert restored(bytes(other), known) is not None
    (stored,) = struct.unpack_from(">q", raw, log.BORN_HOST_AT + 8)
    for before, behind, fits in ((stored, stored, True), (stored + 1, None, False), (None, stored - 1, False)):
        found = restored(bytes(other), replace(known, before_ms=before, near_ms=behind))
        assert (found is not None) == fits


@pytest.mark.parametrize("names", [*combinations(TOLD, 3)], ids="-".join)
def test_a_head_of_which_more_is_wrong_is_that_of_another_record(names: Sequence[str]) -> None:
    raw, known = one_record()
    assert restored(damaged_in(raw, *names), known) is None


@pytest.mark.parametrize("other", sorted(FIELDS.keys() - {*TOLD, "physical_offset"}))
def test_two_damaged_fields_are_not(other: str) -> None:
    raw, known = one_record()
    assert restored(damaged_in(raw, "queue_id", other), known) is None


def test_what_an_earlier_life_of_the_log_left_is_not_made_another_message() -> None:
    """It has the same topic, size and tags, and an intact body; number and place are another record's."""
    raw, known = one_record()
    stale = bytearray(raw)
    struct.pack_into(">q", stale, log.QUEUE_OFFSET_AT, 7)
    struct.pack_into(">q", stale, log.PHYSICAL_OFFSET_AT, 1 << 30)
    assert restored(bytes(stale), known) is None
    struct.pack_into(">q", stale, log.PHYSICAL_OFFSET_AT, 1 << 55)  # but where nobody can have been
    found = restored(bytes(stale), known)
    assert found is not None
    assert found.raw == raw


@pytest.mark.parametrize("position", [88, 150, 287])
def test_a_body_is_never_changed(position: int) -> None:
    for property_crc in (False, True):
        raw, known = one_record(property_crc=property_crc)
        damaged = bytearray(raw)
        damaged[position] ^= 1
        assert restored(bytes(damaged), known) is None


def test_every_bit_of_a_head_with_a_property_crc() -> None:
    raw, known = one_record(property_crc=True)
    for bit in range(8 * 88):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        found = restored(bytes(damaged) + bytes(300), known)
        assert found is not None, bit
        assert found.raw == raw, bit


@pytest.mark.parametrize("change", [0xFF, 0xA5])
def test_every_byte_of_a_head_and_its_properties_with_a_property_crc(change: int) -> None:
    raw, known = one_record(property_crc=True)
    for at in (*range(88), *range(288, len(raw) - 20)):
        damaged = bytearray(raw)
        damaged[at] ^= change
        found = restored(bytes(damaged) + bytes(300), known)
        assert found is not None, at
        assert found.raw == raw, at


@given(st.binary(min_size=1, max_size=300), st.data())
def test_the_single_byte_that_explains_a_crc(covered: bytes, data: st.DataObject) -> None:
    place, change = data.draw(st.integers(0, len(covered) - 1)), data.draw(st.integers(1, 255))
    low, high = data.draw(st.integers(0, place)), data.draw(st.integers(place + 1, len(covered)))
    damaged = covered[:place] + bytes((covered[place] ^ change,)) + covered[place + 1 :]
    difference = log.body_crc(covered) ^ log.body_crc(damaged)
    assert (place, change) in list(single_bytes(damaged, difference, [range(low, place), range(place, high)]))
    for at, other in single_bytes(damaged, difference, [range(low, high)]):
        again = damaged[:at] + bytes((damaged[at] ^ other,)) + damaged[at + 1 :]
        assert log.body_crc(again) == log.body_crc(covered)


@pytest.mark.parametrize(("flag", "answer"), [(0x0C, False), (0x04, False), (0x08, True), (0x00, True)])
def test_what_a_queue_unit_points_at_was_not_rolled_back(flag: int, answer: bool) -> None:
    raw, known = one_record()
    changed = raw[:36] + struct.pack(">i", flag) + raw[40:]
    assert (agrees(changed, known) is not None) == answer
    without = replace(known, unit=None)
    assert agrees(changed, without) is not None


@pytest.mark.parametrize(("base", "count", "answer"), [
    ("0", "2", True), ("x", "2", False), ("0", "2\xff", False), ("0", "40000", False), ("", "x", True),
    ("9" * 30, "1", False),
])  # fmt: skip
def test_an_inner_batch_has_numbers_that_brokers_can_read(base: str, count: str, answer: bool) -> None:
    record = log.decode_record(one_record()[0])
    said = f"INNER_BASE\x01{base}\x02INNER_NUM\x01{count}\x02".encode()
    assert has_readable_numbers(replace(record, properties=said)) == answer


@pytest.mark.parametrize(("prepared", "answer"), [(0, True), (1, True), (-1, False), (2**40, False)])
def test_a_prepared_message_lies_before_what_ends_it(prepared: int, answer: bool) -> None:
    raw, known = one_record()
    changed = raw[:76] + struct.pack(">q", prepared) + raw[84:]
    assert (agrees(changed, known) is not None) == answer


def test_what_is_restored_is_whole() -> None:
    raw, _ = one_record()
    assert whole_record(raw) is not None
    assert whole_record(raw[:-1]) is None
    assert whole_record(raw[:100] + b"?" + raw[101:]) is None


@given(st.lists(st.integers(0, 9), max_size=20), st.data())
def test_room_is_found_and_taken_as_by_looking_at_each_hole(free: list[int], data: st.DataObject) -> None:
    room = Room(free)
    for _ in range(10):
        first, count = data.draw(st.integers(0, len(free) + 1)), data.draw(st.integers(0, 9))
        found = next((i for i in range(first, len(free)) if free[i] >= count), len(free))
        assert room.following(first, count) == found
        if found < len(free):
            free[found] -= count
            room.take(found, count)
            assert room.free(found) == free[found]


def without_one(table: list[Run], place: int, record: log.Record) -> list[Run]:
    """Return runs without one record, each of them looked at."""
    left: list[Run] = []
    number, count = numbers_of(record)
    for run in table:
        if not (run[RUN_START_AT] <= place < run[RUN_STOP_AT] and run[RUN_FIRST] <= number < run[RUN_STOP]):
            left.append(run)
            continue
        before, after = list(run), list(run)
        before[RUN_STOP], before[RUN_STOP_AT] = number, place
        after[RUN_FIRST], after[RUN_START_AT] = number + count, place + record.size
        before[RUN_RECORDS] = max(number - run[RUN_FIRST], 1)
        after[RUN_RECORDS] = max(run[RUN_STOP] - number - count, 1)
        left += [part for part in (before, after) if part[RUN_FIRST] < part[RUN_STOP]]
    return left


@given(st.data())
def test_runs_without_many_records_are_those_without_one_after_the_other(data: st.DataObject) -> None:
    """Runs of a queue, some of which overlap in places or numbers, and records of which some are none of theirs."""
    record = log.decode_record(one_record()[0])
    table: list[Run] = []
    for _ in range(data.draw(st.integers(0, 4))):
        first, count, at = (data.draw(st.integers(low, high)) for low, high in ((0, 20), (1, 12), (0, 20)))
        run = [0] * 5
        run[RUN_FIRST], run[RUN_STOP], run[RUN_RECORDS] = first, first + count, count
        run[RUN_START_AT], run[RUN_STOP_AT] = at * 100, (at + count) * 100
        table.append(run)
    gone: list[Place] = [
        (at * 100, replace(record, queue_offset=number, size=100))
        for at, number in data.draw(st.dictionaries(st.integers(0, 32), st.integers(0, 32), max_size=12)).items()
    ]
    expected = table
    for place, one in sorted(gone, key=lambda row: row[0]):
        expected = without_one(expected, place, one)
    assert without(table, gone) == expected

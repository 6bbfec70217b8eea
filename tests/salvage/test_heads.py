"""Heads of records that no broker writes, and records that only seem to be of another queue: messages are kept."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import golden_data as golden
import pytest
import salvages
from golden_data import given_for
from other_stores import PLACE
from other_stores import store as other_store
from salvages import in_record, numbers_of
from storebuilder import StoreBuilder

from storeio import audit, findings
from storeio.format import commitlog as log
from storeio.planning import plan_store
from storeio.salvage import regions
from storeio.salvage.node import salvage
from storeio.salvage.survey import Survey

pytestmark = pytest.mark.share(2)

NAME = "base-5.3.3"
SIZE = int(golden.options(NAME)["clFile"])
GIVEN = given_for(NAME)


def field_at(raw: bytes, field: str) -> int:
    """Return where in a record the port of a host stands, or how often it was consumed anew."""
    (flag,) = struct.unpack_from(">i", raw, log.SYS_FLAG_AT)
    born, store = log.host_bytes(flag)
    born_stop = log.BORN_HOST_AT + born
    return {"born": born_stop - 4, "store": born_stop + 8 + store - 4, "times": born_stop + 8 + store}[field]


@pytest.mark.share(2)
@pytest.mark.parametrize(("field", "at", "data"), [
    ("born", 0, b"\xff"), ("born", 1, b"\x01"), ("store", 0, b"\xff"), ("store", 0, b"\xff\xff\xff\xff"),
    ("store", 1, b"\x80"), ("times", 0, b"\x80"), ("times", 0, b"\xff"),
])  # fmt: skip
@pytest.mark.parametrize("which", [40, -1])
def test_a_head_with_one_answer_is_restored(field: str, at: int, data: bytes, which: int, tmp_path: Path) -> None:
    originals = salvages.originals_of(NAME)
    place = sorted(originals)[which]
    raw = originals[place].raw
    root = golden.damaged(NAME, [in_record(place, field_at(raw, field) + at, data)], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.problems) == (0, [], [])
    assert salvages.records_of(tmp_path / "new", SIZE)[place].raw == raw
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures


@pytest.mark.parametrize("at", [log.PHYSICAL_OFFSET_AT + 5, log.SYS_FLAG_AT + 1, log.BORN_TIMESTAMP_AT + 2])
@pytest.mark.parametrize("which", [40, 200, -1])
def test_so_is_one_besides_its_place_where_its_unit_vouches_for_it(which: int, at: int, tmp_path: Path) -> None:
    originals = salvages.originals_of(NAME)
    place = sorted(originals)[which]
    raw = originals[place].raw
    edits = [
        in_record(place, where, bytes((raw[where] ^ bits,)))
        for where, bits in ((log.PHYSICAL_OFFSET_AT + 7, 0x11), (at, 0x24))
    ]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.problems) == (0, [], [])
    assert salvages.records_of(tmp_path / "new", SIZE)[place].raw == raw


@pytest.mark.parametrize(("field", "data"), [
    ("born", b"\x01\xff\x12\x34"), ("born", b"\xff\xff\xff\xff"), ("times", b"\xff\xff\xff\xff"),
])  # fmt: skip
def test_a_field_of_which_nobody_knows_more_is_not_guessed(field: str, data: bytes, tmp_path: Path) -> None:
    originals = salvages.originals_of(NAME)
    place = sorted(originals)[40]
    at = field_at(originals[place].raw, field)
    root = golden.damaged(NAME, [in_record(place, at, data)], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.restored, len(result.lost), len(result.dropped)) == ([], 1, 1)


def flag_of(raw: bytes, transaction: int) -> bytes:
    """Return a record's system flag with another state of a transaction in it."""
    (flag,) = struct.unpack_from(">i", raw, log.SYS_FLAG_AT)
    return struct.pack(">i", flag & ~log.SYS_TRANSACTION | transaction)


@pytest.mark.parametrize("which", [0, 40, -1])
@pytest.mark.parametrize("queues", [True, False])
def test_a_message_that_seems_prepared_stays_in_its_queue(which: int, queues: bool, tmp_path: Path) -> None:
    """A unit that points at it says so; without queues the number that its own lacks, or has next: not the first."""
    originals = salvages.originals_of(NAME)
    place = sorted(originals)[which]
    raw = originals[place].raw
    edits = [in_record(place, log.SYS_FLAG_AT, flag_of(raw, log.SYS_PREPARED))]
    root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.problems) == (0, [], [])
    saved = salvages.records_of(tmp_path / "new", SIZE)[place]
    assert saved.raw[log.BORN_HOST_AT :] == raw[log.BORN_HOST_AT :]
    assert (saved.raw == raw) == (queues or which != 0)
    assert audit.check(tmp_path / "new", given=GIVEN, jobs=1).exit_code == 0


@pytest.mark.share(2)
@pytest.mark.parametrize("state", [0, log.SYS_COMMIT])
@pytest.mark.parametrize("number", [None, 7])
@pytest.mark.parametrize("prepared", [log.SYS_PREPARED, log.SYS_ROLLBACK])
def test_a_prepared_message_enters_no_queue(number: int | None, state: int, prepared: int, tmp_path: Path) -> None:
    """Neither because its number is damaged nor because its flag is: the queue goes on as if it were not there."""
    name = "rich-4.9.8"
    size = int(golden.options(name)["clFile"])
    originals = salvages.originals_of(name)
    flags = {place: struct.unpack_from(">i", one.raw, log.SYS_FLAG_AT)[0] for place, one in originals.items()}
    place = [at for at, flag in sorted(flags.items()) if flag & log.SYS_TRANSACTION == prepared][9]
    at, raw = place - place % size, originals[place].raw
    change = (log.QUEUE_OFFSET_AT, struct.pack(">q", number)) if number else (log.SYS_FLAG_AT, flag_of(raw, state))
    root = golden.damaged(
        name, [["write", f"commitlog/{at:020d}", place - at + change[0], change[1].hex()]], tmp_path / "store"
    )
    given = given_for(name)
    assert audit.check(root, given=given, jobs=1).exit_code > 0
    plan = plan_store(root, tmp_path / "plan.json", given=given, jobs=1)
    assert not [action.path for action in plan.plan.actions if action.path.startswith("consumequeue/")]
    result = salvage(root, tmp_path / "new", given=given, jobs=1)
    assert (result.exit_code, result.lost, result.problems) == (0, [], [])
    saved = salvages.records_of(tmp_path / "new", size)[place].raw
    one_bit = number is not None or prepared ^ state == log.SYS_PREPARED
    assert saved == raw if one_bit else saved[log.BORN_HOST_AT :] == raw[log.BORN_HOST_AT :]
    assert audit.check(tmp_path / "new", given=given, jobs=1).exit_code == 0


def test_tombstones_name_no_damaged_host(tmp_path: Path) -> None:
    """They lie behind the log's last record, whose own store host is damaged."""
    originals = salvages.originals_of(NAME)
    place, *lost = sorted(originals)[-5:]
    at = field_at(originals[place].raw, "store")
    base = place - place % SIZE
    edits = [
        in_record(place, at, b"\xff\xff"),
        ["zero", f"commitlog/{base:020d}", lost[0] - base, SIZE - (lost[0] - base)],
    ]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (len(result.restored), result.tombstones, result.problems) == (1, len(lost), [])
    assert audit.check(tmp_path / "new", given=GIVEN, jobs=1).exit_code == 0


@pytest.mark.share(2)
@pytest.mark.parametrize("shift", [1, 50, 350])
@pytest.mark.parametrize("tail", [True, False])
def test_units_in_a_queue_file_with_a_wrong_name_tell_true_numbers(shift: int, tail: bool, tmp_path: Path) -> None:
    """All units of the file are so many numbers off, those of lost messages, too."""
    name, wrong = (f"consumequeue/topic_1/0/{base * 20:020d}" for base in (200, 200 + shift))
    originals = salvages.originals_of(NAME)
    places = [at for at in sorted(originals) if originals[at].name == ("topic_1", 0) and at >= 9 * SIZE]
    first = places[-2] if tail else places[1]
    stop = 10 * SIZE if tail else places[3]
    damage = ["zero", f"commitlog/{9 * SIZE:020d}", first - 9 * SIZE, stop - first]
    root = golden.damaged(NAME, [["rename", name, wrong], damage], tmp_path / "store")
    gone = [originals[at] for at in sorted(originals) if first <= at < stop]
    want = sorted((*row.name, number) for row in gone for number in row.numbers)
    found = audit.check(root, given=GIVEN, jobs=1)
    assert sorted(numbers_of(found.lost)) == want
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert sorted(numbers_of(result.lost)) == want
    assert result.problems == []
    assert audit.check(tmp_path / "new", given=GIVEN, jobs=1).exit_code == 0
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures


def test_a_prepared_message_right_behind_the_first_one_begins_no_queue_again(tmp_path: Path) -> None:
    """Its flag is lost, and its number is 0, but the unit of that is still the first one's."""
    name = "rich-4.9.8"
    size, originals = int(golden.options(name)["clFile"]), salvages.originals_of(name)
    first: dict[tuple[str, int], int] = {}
    for place, row in sorted(originals.items()):
        if row.numbers and first.get(row.name, place) != place:
            first[row.name] = -1  # two messages have been stored
        first.setdefault(row.name, place if row.numbers else -1)
        if not row.numbers and first[row.name] >= 0:
            break
    edit = [
        "write",
        f"commitlog/{place - place % size:020d}",
        place % size + log.SYS_FLAG_AT,
        flag_of(row.raw, 0).hex(),
    ]
    root = golden.damaged(name, [edit], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", size)
    assert [at for at in originals if now[at].raw != originals[at].raw] == []


def test_the_only_message_of_a_delay_level_is_no_stranger(tmp_path: Path) -> None:
    """A segment is lost, and with it the first message of another level: both had the number 0."""
    name = "ext-5.5.1"
    size = int(golden.options(name)["clFile"])
    edits = [["delete", f"commitlog/{5 * size:020d}"], ["zero", f"commitlog/{7 * size:020d}", 0, size],
             ["rmtree", "consumequeue_ext"]]  # fmt: skip
    root = golden.damaged(name, edits, tmp_path / "store")
    originals = salvages.originals_of(name)
    kept = {at: row for at, row in originals.items() if at // size not in (5, 7)}
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert result.dropped == []
    records = salvages.records_of(tmp_path / "new", size)
    assert {at: records[at].raw for at in kept} == {at: row.raw for at, row in kept.items()}


@pytest.mark.parametrize("which", [0, 4])
def test_a_lost_batch_loses_all_its_numbers(which: int, tmp_path: Path) -> None:
    """Place, system flag and born time are zeroed, so that only properties and unit say that it is a batch."""
    name = "tinymix-5.5.1"
    whole = other_store(name, tmp_path)
    options = json.loads((PLACE / f"{name}.options.json").read_text())
    size = int(options["clFile"])
    settings = {
        "mappedFileSizeCommitLog": str(size),
        "mapperFileSizeBatchConsumeQueue": str(options["set.mapperFileSizeBatchConsumeQueue"]),
    }
    originals = salvages.records_of(whole, size)
    batches = [at for at in sorted(originals) if originals[at].head.batch_size > 1]
    place = batches[which]
    row = originals[place]
    shutil.copytree(whole, tmp_path / "store")
    edit = ["zero", f"commitlog/{place - place % size:020d}", place % size + log.PHYSICAL_OFFSET_AT + 2, 16]
    golden.apply_edits(tmp_path / "store", [edit])
    result = salvage(tmp_path / "store", tmp_path / "new", given=settings, jobs=1)
    assert numbers_of(result.lost) == [(*row.name, number) for number in row.numbers]
    assert result.problems == []


def test_a_queue_file_whose_name_overlaps_the_next_one(tmp_path: Path) -> None:
    """The numbers at the border are those of both files; messages on both sides of it are lost."""
    originals = salvages.originals_of(NAME)
    places = {originals[at].head.queue_offset: at for at in originals if originals[at].name == ("topic_1", 0)}
    first, stop = places[197], places[204]
    assert first // SIZE == stop // SIZE
    edits = [
        ["rename", f"consumequeue/topic_1/0/{3000:020d}", f"consumequeue/topic_1/0/{3020:020d}"],
        ["zero", f"commitlog/{first - first % SIZE:020d}", first % SIZE, stop - first],
    ]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    gone = [originals[at] for at in sorted(originals) if first <= at < stop]
    assert sorted(numbers_of(result.lost)) == sorted((*row.name, number) for row in gone for number in row.numbers)
    assert result.problems == []


def test_the_unit_of_a_lost_record_in_a_misnamed_queue_file(tmp_path: Path) -> None:
    """Its properties are garbage, and its unit stands one number too high, as all of the file do."""
    originals = salvages.originals_of(NAME)
    (place,) = [
        at for at in originals if originals[at].name == ("topic_1", 0) and originals[at].numbers == range(58, 59)
    ]
    raw = originals[place].raw
    edits = [
        ["rename", f"consumequeue/topic_1/0/{1000:020d}", f"consumequeue/topic_1/0/{1020:020d}"],
        in_record(place, len(raw) - 20, bytes(20)),
    ]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert numbers_of(result.lost) == [("topic_1", 0, 58)]
    assert result.problems == []


def test_a_property_crc_knows_better_than_a_unit(tmp_path: Path) -> None:
    """The unit of the damaged record stands in a file with another name."""
    name = "rich-5.5.1"
    size = int(golden.options(name)["clFile"])
    originals = salvages.originals_of(name)
    (place,) = [
        at for at in originals if originals[at].name == ("topic_2", 0) and originals[at].numbers == range(12, 13)
    ]
    edits = [
        ["rename", f"consumequeue/topic_2/0/{0:020d}", f"consumequeue/topic_2/0/{28000:020d}"],
        ["write", f"commitlog/{place - place % size:020d}", place % size + log.QUEUE_ID_AT, "ff"],
    ]
    root = golden.damaged(name, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert (result.lost, result.problems, len(result.restored)) == ([], [], 1)
    assert salvages.records_of(tmp_path / "new", size)[place].raw == originals[place].raw


@pytest.mark.parametrize("said", [b"KEYS\1\2u\1v\2", b"u\1v\2TAGS\1\2", b"u\1v\2TAGS\1", b"KEYS\1\2TAGS\1\2"])
def test_an_empty_property_is_no_damage(said: bytes, tmp_path: Path) -> None:
    """Brokers store what ``setKeys("")`` and the like lead to as it comes in a batch, 4.x in other messages, too."""
    builder = StoreBuilder(tmp_path / "store")
    for number in range(6):
        builder.message("t", 0, b"body", properties=said if number == 3 else b"KEYS\1k\2u\1v\2")
    root = builder.close()
    assert [f.code for f in audit.check(root).findings if f.severity != "info"] == []
    result = salvage(root, tmp_path / "saved")
    assert (result.exit_code, result.lost) == (0, [])
    log_path = f"commitlog/{0:020d}"
    assert (tmp_path / "saved" / log_path).read_bytes() == (root / log_path).read_bytes()


@pytest.mark.parametrize("said", [b"KEYS\1\2ey\2", b"TAGS\1\2\2u\1v\2", b"\1v\2", b"u\1v\2TAGS\1\2\2", b"no separator"])
def test_a_property_that_no_producer_writes_is_found(said: bytes, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store")
    for number in range(6):
        builder.message("t", 0, b"body", properties=said if number == 3 else b"KEYS\1k\2u\1v\2")
    assert [f.code for f in audit.check(builder.close()).findings if f.severity != "info"] == ["LOG_PROPERTIES"]


@pytest.mark.parametrize("lands", [True, False])
def test_what_only_looks_like_heads_is_not_read_again_and_again(
    lands: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand places name themselves as records, of half the segment each, or up to where records go on."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=1 << 20)
    for _ in range(50):
        builder.message("t", 0, b"x" * 100)
    place = builder.close() / "commitlog" / f"{0:020d}"
    data = bytearray(place.read_bytes())
    (size,) = struct.unpack_from(">i", data)
    last = len(data) - size - 8
    record = bytes(data[49 * size : 50 * size])
    for at in range(50 * size, last - 200, 96):
        whole = last - at if lands else min(last - at, len(data) // 2)
        data[at : at + size] = record
        struct.pack_into(">i", data, at, whole)
        struct.pack_into(">q", data, at + log.PHYSICAL_OFFSET_AT, at)
        struct.pack_into(">i", data, at + 84, whole - 100)
    data[last : last + size] = record
    struct.pack_into(">qq", data, last + log.QUEUE_OFFSET_AT, 50, last)
    data[last + size :] = log.encode_blank(8)
    place.write_bytes(data)
    read, asked = Survey.read, 0

    def counted(self: Survey, start: int, stop: int) -> bytes:
        nonlocal asked
        asked += stop - start
        return read(self, start, stop)

    monkeypatch.setattr(Survey, "read", counted)
    monkeypatch.setattr(regions, "BESIDES_TRIED", 0)
    found = salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    assert (found.records, found.lost, found.restored) == (51, [], [])
    assert asked < 16 * len(data)


@pytest.mark.parametrize("at", [log.BORN_HOST_AT + 4, log.QUEUE_OFFSET_AT])
def test_records_between_more_damaged_heads_than_a_report_lists(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report folds them into a range; what lies in it and is sound is neither judged nor changed."""
    originals = salvages.originals_of(NAME)
    places = sorted(originals)[10:130:3]
    root = golden.damaged(NAME, [in_record(place, at, b"\xff" * 2) for place in places], tmp_path / "store")
    monkeypatch.setattr(findings, "MOST_ROWS", 3)
    assert any(f.count > 3 for f in audit.check(root, given=GIVEN, jobs=1).findings if f.code == "LOG_FIELD")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    new = salvages.records_of(tmp_path / "new", SIZE)
    assert {place for place, record in originals.items() if new[place].raw != record.raw} <= set(places)
    assert {fixed.physical_offset for fixed in result.restored} <= set(places)


@pytest.mark.parametrize(("where", "with_what", "restored"), [(-1, b"~", 1), (-6, b"000\x02\x02\x02", 0)])
def test_a_record_whose_property_crc_is_no_more_amid_others_in_an_upgraded_log(
    where: int, with_what: bytes, restored: int, tmp_path: Path
) -> None:
    """Most records of that log are of brokers that write none, and have nothing else that tells of damage there."""
    root = golden.copy_of("upgraded", tmp_path / "store")
    size = int(golden.options("upgraded")["clFile"])
    before = salvages.originals_of("upgraded")
    having = [at for at, record in sorted(before.items()) if b"__CRC32#" in record.raw]
    assert 20 < len(having) < len(before) / 2
    at = having[len(having) // 2]
    file, end = f"commitlog/{at - at % size:020d}", at % size + len(before[at].raw)
    golden.apply_edits(root, [["write", file, end + where, with_what.hex()]])
    found = salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)}, jobs=1)
    assert found.problems == []
    assert [row.physical_offset for row in found.restored] == [at] * restored
    assert [row.physical_offset for row in found.dropped] == [at] * (1 - restored)
    now = salvages.records_of(tmp_path / "new", size)
    assert [p for p, record in before.items() if now[p].raw != record.raw] == [at] * (1 - restored)

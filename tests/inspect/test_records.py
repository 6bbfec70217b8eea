"""What ``storeio.inspect.records`` gives equals the broker's own decode, whichever way it is asked."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from typing import Any

import golden_data as golden
import pytest

from storeio import inspect
from storeio.errors import NotAStoreError, UsageError
from storeio.inspect import logwalk
from storeio.inspect.lookup import parse_message_id
from storeio.inspect.reader import Reader

pytestmark = pytest.mark.share(2)

Row = dict[str, str]
SOME = ("rich-4.9.8", "rich-5.5.1", "ext-5.5.1", "upgraded", "base-5.3.3")


def java_host(text: str) -> str:
    """Return one of our hosts as Java's ``SocketAddress`` prints it."""
    if not text.startswith("["):
        return f"/{text}"
    address, _, port = text[1:].partition("]:")
    groups = ipaddress.IPv6Address(address).exploded.split(":")
    return f"/[{':'.join(f'{int(group, 16):x}' for group in groups)}]:{port}"


def dump_row(view: inspect.RecordView) -> Row:
    """Return a record as a line of the dump."""
    line = view.as_json()
    pairs: dict[str, str] = line["properties"]
    listed = sorted(pairs.items(), key=lambda pair: pair[0].encode("utf-16-be"))
    text = "{" + ", ".join(f"{name}={value}" for name, value in listed) + "}"
    same = {
        "phy_offset": "physical_offset", "size": "size", "topic": "topic", "queue_id": "queue_id",
        "queue_offset": "queue_offset", "sys_flag": "sys_flag", "store_timestamp": "store_timestamp_ms",
        "tags_code": "tags_code", "prepared_offset": "prepared_transaction_offset", "batch_size": "batch_size",
        "body_crc": "body_crc", "born_timestamp": "born_timestamp_ms", "flag": "flag", "reconsume": "reconsume_times",
        "body_len": "body_length",
    }  # fmt: skip
    return {column: str(line[name]) for column, name in same.items()} | {
        "keys": pairs.get("KEYS", "null" if pairs else ""),
        "uniq_key": pairs.get("UNIQ_KEY", "null"),
        "born_host": java_host(line["born_host"]),
        "store_host": java_host(line["store_host"]),
        "properties": text.replace("\t", "\\t").replace("\n", "\\n"),
    }


def offsets(found: Iterator[inspect.RecordView]) -> list[int]:
    """Return where the records lie."""
    return [view.physical_offset for view in found]


def places(rows: list[Row]) -> list[int]:
    """Return where the dump's records lie."""
    return [int(row["phy_offset"]) for row in rows]


def pair_of(row: Row, name: str) -> str | None:
    """Return a property of a dump's line; only for names whose values hold no comma."""
    for part in row["properties"][1:-1].split(", "):
        if part.startswith(f"{name}="):
            return part[len(name) + 1 :]
    return None


def is_queued(row: Row) -> bool:
    return int(row["sys_flag"]) & 0xC in (0, 8)


@pytest.mark.parametrize("name", golden.STORES)
def test_every_record_equals_the_broker_decode(name: str) -> None:
    found = list(inspect.records(golden.store(name)))
    expected = golden.dump(name)
    assert len(found) == len(expected)
    assert all(view.valid and not view.odd and view.why is None for view in found)
    for view, row in zip(found, expected, strict=True):
        mine = dump_row(view)
        assert {column: mine[column] for column in row} == row


def test_json_has_the_fields_of_the_interface() -> None:
    line = next(inspect.records(golden.store("base-5.5.1"))).as_json()
    assert list(line) == [
        "physical_offset", "size", "magic", "topic", "queue_id", "queue_offset", "sys_flag", "flag",
        "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times",
        "prepared_transaction_offset", "body_crc", "body_length", "properties", "tags_code", "batch_size", "valid",
    ]  # fmt: skip


def test_hosts_have_the_form_of_the_interface() -> None:
    hosts = {view.born_host for view in inspect.records(golden.store("rich-5.5.1"))}
    assert hosts == {"127.0.0.1:10911", "[2001:db8::1]:10911"}


@pytest.mark.parametrize("name", SOME)
def test_at_finds_starts_and_insides(name: str) -> None:
    root, rows = Reader(golden.store(name)), golden.dump(name)
    for row in random.Random(7).sample(rows, 40):
        start, size = int(row["phy_offset"]), int(row["size"])
        for inside in (start, start + 1, start + size // 2, start + size - 1):
            assert offsets(inspect.records(root, at=inside)) == [start]
        assert offsets(inspect.records(root, at=start, scan=True)) == [start]


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("around", [1, 3, 200])
def test_around_gives_neighbours_across_segments(name: str, around: int) -> None:
    root, all_places = Reader(golden.store(name)), places(golden.dump(name))
    for k in (0, 1, 77, 78, 79, 80, 81, 200, len(all_places) - 1):
        expected = all_places[max(k - around, 0) : k + around + 1]
        assert offsets(inspect.records(root, at=all_places[k], around=around)) == expected


def test_at_in_a_blank_record_says_so_and_shows_neighbours() -> None:
    root, notes = golden.store("base-5.3.3"), []
    rows = golden.dump("base-5.3.3")
    ends = [int(row["phy_offset"]) + int(row["size"]) for row in rows]
    k = next(k for k, end in enumerate(ends[:-1]) if end != int(rows[k + 1]["phy_offset"]))
    assert list(inspect.records(root, at=ends[k], note=notes.append)) == []
    assert "a blank record" in notes[0]
    assert offsets(inspect.records(root, at=ends[k], around=1)) == places(rows[k : k + 2])
    assert list(inspect.records(root, at=ends[-1], note=notes.append)) == []
    assert "zero bytes" in notes[1]
    assert list(inspect.records(root, at=10**12, note=notes.append)) == []
    assert "no segment" in notes[2]


@pytest.mark.parametrize("back", [128, 1024, 5000])
def test_a_start_in_the_middle_gives_what_a_walk_of_all_gives(back: int) -> None:
    name = "rich-5.5.1"
    reader, rows = Reader(golden.store(name)), golden.dump(name)
    for row in rows[::7]:
        place = int(row["phy_offset"])
        segment = reader.holding(place)[0]
        stretch = next(logwalk.walk_near(reader, segment, place - (segment.base_offset or 0), back=back))
        starts = stretch.walked.records[0] + stretch.base_offset
        assert place in starts.tolist()
        last = max(p for p in places(rows) if p < stretch.base_offset + segment.size)
        assert starts.tolist() == [p for p in places(rows) if int(starts[0]) <= p <= last]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", SOME)
def test_queue_offsets_through_the_queue_and_by_scan(name: str) -> None:
    root, notes = Reader(golden.store(name), note=pytest.fail), []
    queues: dict[tuple[str, int], list[Row]] = {}
    for row in golden.dump(name):
        if is_queued(row):
            queues.setdefault((row["topic"], int(row["queue_id"])), []).append(row)
    for (topic, queue_id), rows in queues.items():
        base = [int(pair_of(row, "INNER_BASE") or row["queue_offset"]) for row in rows]
        first, last = base[len(base) // 3], base[-1]
        expected = [
            int(row["phy_offset"])
            for row, start in zip(rows, base, strict=True)
            if start <= last and start + int(row["batch_size"]) > first
        ]
        asked: dict[str, Any] = {"topic": topic, "queue_id": queue_id}
        assert offsets(inspect.records(root, **asked, queue_offset=(first, last))) == expected
        assert offsets(inspect.records(root, **asked, queue_offset=(first, last), scan=True)) == expected
        assert offsets(inspect.records(root, **asked, queue_offset=last)) == [int(rows[-1]["phy_offset"])]
        assert offsets(inspect.records(root, **asked, queue_offset=(0, 2**63 - 1))) == places(rows)
    assert notes == []


def is_dispatched(row: Row, light: str) -> bool:
    """Tell whether a broker puts a record into a light queue."""
    names, items = (pair_of(row, name) for name in ("INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"))
    if names is None or items is None:
        return False
    listed = names.rstrip(",").split(",")
    return light in listed and len(listed) == len(items.rstrip(",").split(","))


def test_light_queues_through_their_units() -> None:
    for name in ("rich-4.9.8", "rich-5.5.1"):
        root = Reader(golden.store(name))
        for light in ("%LMQ%a0", "%LMQ%shared"):
            rows = [row for row in golden.dump(name) if is_dispatched(row, light)]
            found = offsets(inspect.records(root, topic=light, queue_id=0, queue_offset=(0, 2**63 - 1)))
            assert found == places([row for row in rows if is_queued(row)])
            assert offsets(inspect.records(root, topic=light)) == places(rows)


def test_a_queue_that_does_not_answer_is_replaced_by_a_scan(tmp_path: Any) -> None:
    rows = [row for row in golden.dump("base-5.3.3") if is_queued(row)]
    topic, queue_id = rows[5]["topic"], int(rows[5]["queue_id"])
    path = f"consumequeue/{topic}/{queue_id}/{0:020d}"
    offset = int(rows[5]["queue_offset"])
    for edits in (
        [["write", path, offset * 20, "00" * 20]],
        [["write", path, offset * 20 + 7, "01"]],
        [["delete", path]],
    ):
        root = golden.damaged("base-5.3.3", edits, tmp_path / str(len(list(tmp_path.iterdir()))))
        notes: list[str] = []
        found = inspect.records(root, topic=topic, queue_id=queue_id, queue_offset=offset, note=notes.append)
        assert offsets(found) == [int(rows[5]["phy_offset"])]
        assert "scanning the log" in notes[0]


@pytest.mark.parametrize("name", SOME)
def test_keys_through_the_index_and_by_scan(name: str) -> None:
    notes: list[str] = []
    root, rows = Reader(golden.store(name), note=notes.append), golden.dump(name)
    with_keys = [row for row in rows if row["keys"] not in ("null", "") and is_queued(row)]
    for row in random.Random(3).sample(with_keys, 12):
        for key in row["keys"].split(" "):
            expected = [int(r["phy_offset"]) for r in rows if key in r["keys"].split(" ")]
            indexed = [int(r["phy_offset"]) for r in rows if key in r["keys"].split(" ") and r["sys_flag"] != "12"]
            found = offsets(inspect.records(root, key=key))
            assert set(indexed) <= set(found) <= set(expected)
            assert offsets(inspect.records(root, key=key, scan=True)) == expected
            narrowed = offsets(inspect.records(root, key=key, topic=row["topic"]))
            assert int(row["phy_offset"]) in narrowed
    assert not any("scanning" in note for note in notes)


@pytest.mark.parametrize("name", SOME)
def test_unique_keys_and_message_ids(name: str) -> None:
    root, rows = Reader(golden.store(name)), golden.dump(name)
    unique = [row for row in rows if row["uniq_key"] != "null" and is_queued(row)]
    for row in random.Random(5).sample(unique, 12):
        expected = [int(r["phy_offset"]) for r in rows if r["uniq_key"] == row["uniq_key"] and r["sys_flag"] != "12"]
        assert set(expected) <= set(offsets(inspect.records(root, unique_key=row["uniq_key"])))
        assert set(expected) <= set(offsets(inspect.records(root, message_id=row["uniq_key"])))
    for row in random.Random(6).sample(rows, 12):
        address, _, port = row["store_host"][1:].rpartition(":")
        packed = ipaddress.ip_address(address.strip("[]")).packed
        message_id = (packed + int(port).to_bytes(4, "big") + int(row["phy_offset"]).to_bytes(8, "big")).hex()
        assert len(message_id) in (32, 56)
        assert offsets(inspect.records(root, message_id=message_id.upper())) == [int(row["phy_offset"])]


def test_message_id_of_another_host_is_said() -> None:
    notes: list[str] = []
    found = inspect.records(
        golden.store("base-5.3.3"), message_id="0A000001" + "00002A9F" + "0" * 16, note=notes.append
    )
    assert offsets(found) == [0]
    assert "names host 10.0.0.1:10911" in notes[0]


@pytest.mark.parametrize("text", ["", "zz" * 16, "00" * 15, "00" * 17])
def test_what_is_no_message_id(text: str) -> None:
    assert parse_message_id(text) is None


@pytest.mark.parametrize("name", SOME)
def test_topic_tag_and_time(name: str) -> None:
    root, rows = Reader(golden.store(name)), golden.dump(name)
    for topic in {row["topic"] for row in rows}:
        assert offsets(inspect.records(root, topic=topic)) == places([r for r in rows if r["topic"] == topic])
    for tag in {pair_of(row, "TAGS") for row in rows} - {None}:
        assert offsets(inspect.records(root, tag=tag)) == places([r for r in rows if pair_of(r, "TAGS") == tag])
    times = [int(row["store_timestamp"]) for row in rows]
    since, until = times[len(times) // 3], times[len(times) // 2]
    expected = places([row for row in rows if since <= int(row["store_timestamp"]) <= until])
    assert offsets(inspect.records(root, since_ms=since, until_ms=until)) == expected
    assert offsets(inspect.records(root, since_ms=since, until_ms=until, limit=3)) == expected[:3]
    assert offsets(inspect.records(root, until_ms=-(10**30))) == []


def test_filters_combine() -> None:
    root, rows = Reader(golden.store("rich-5.5.1")), golden.dump("rich-5.5.1")
    expected = [r for r in rows if r["topic"] == "topic_1" and r["queue_id"] == "2" and pair_of(r, "TAGS") == "order"]
    assert expected
    assert offsets(inspect.records(root, topic="topic_1", queue_id=2, tag="order")) == places(expected)
    assert offsets(inspect.records(root, at=places(expected)[0], tag="other")) == []


@pytest.mark.parametrize(
    "asked",
    [
        {"queue_offset": 1},
        {"queue_offset": (3, 1), "topic": "t", "queue_id": 0},
        {"since_ms": 2, "until_ms": 1},
        {"around": 1},
        {"at": 1, "message_id": "0" * 32},
        {"at": 1, "around": -1},
        {"limit": -1},
    ],
)
def test_questions_without_sense_are_refused_at_once(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        inspect.records(golden.store("base-5.3.3"), **asked)


def test_what_is_no_store(tmp_path: Any) -> None:
    with pytest.raises(NotAStoreError):
        inspect.records(tmp_path)

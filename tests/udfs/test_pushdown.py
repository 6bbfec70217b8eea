"""Columns and conditions of queries, without Spark: fewer bytes and rows, never another answer."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import golden_data as golden
import pyarrow as pa
import pytest
from conditions import Word, is_true, random_condition, read_here, stores, timed_store
from datasources import begins_here, forged_store

from storeio import scan
from storeio.audit.moment import Moment
from storeio.audit.running import moment_at
from storeio.audit.store_now import StoreNow
from storeio.config import StoreConfig
from storeio.errors import UsageError
from storeio.scan import Listing
from udfs import begins as states
from udfs import units
from udfs.conditions import parse
from udfs.datasource import FilesReader, RecordsReader
from udfs.options import Options
from udfs.schemas import BATCH_UNITS, INDEX_UNITS, KINDS, RECORD_SCHEMA, RECORDS, SCHEMAS, UNITS

pytestmark = pytest.mark.share(2)


@pytest.mark.parametrize("what", [RECORDS, UNITS, INDEX_UNITS])
def test_under_a_running_broker_rows_are_those_of_one_moment(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "base-5.5.1"
    root, given = str(golden.store(name)), "mappedFileSizeConsumeQueue=1000"
    options = Options(root, what, 8192, settings=given)
    log_stop = int(golden.dump(name)[500]["phy_offset"])
    whole = read_here(options, ["physical_offset"])

    def moment(listing: Listing, config: StoreConfig, shape: tuple[int, int] | None) -> tuple[Listing, Moment]:
        return moment_at(StoreNow(root, config, shape), listing, log_stop, {})

    monkeypatch.setattr("storeio.audit.plan.moment_of", moment)
    found = read_here(options, ["physical_offset"])
    assert found == [row for row in whole if row["physical_offset"] < log_stop]
    assert 0 < len(found) < len(whole)


@pytest.mark.parametrize("what", KINDS)
def test_conditions_choose_the_rows_that_sql_would(what: str, tmp_path: Path) -> None:
    """And with what two passes know of the splits, whose times then leave whole splits out."""
    names = [name for name in SCHEMAS[what].names if name != "properties"]
    chance = random.Random(what)
    chosen = 0
    for root in stores(tmp_path):
        options = Options(str(root), what, 1 << 20 if what == BATCH_UNITS else 16384, stale=True)
        known = replace(options, begins=states.to_text(begins_here(options))) if what == RECORDS else options
        rows = read_here(known, names)
        for number in range((8 if what == RECORDS else 24) if rows else 0):
            words = [random_condition(chance, rows, names) for _ in range(chance.randint(1, 2))]
            shown = sorted({"physical_offset", *chance.choices(names, k=2)})
            expected = [{n: row[n] for n in shown} for row in rows if all(is_true(word, row) for word in words)]
            given = replace(known if number % 4 else options, pushed=json.dumps(words))
            assert read_here(given, shown) == expected, words
            chosen += len(expected)
    assert chosen > 500


@pytest.mark.parametrize(
    "text",
    [
        "[", "{}", "7", '[["=", "colour", 1]]', '[["=", "size", "x"]]', '[["=", "size"]]', '[["like", "topic", ""]]',
        '[["in", "size", 3]]', '[["not"]]', '[["and", ["=", "size", 1]]]', '[["=", "size", [1]]]',
        '[["=", "topic", 1]]',
        '[["=", "size", 99999999999999999999]]', "[" * 5000,
    ],
)  # fmt: skip
def test_conditions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="pushed="):
        Options("x", pushed=text).conditions()


class Counted:
    """Counts the bytes that are asked for of each file."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bytes: dict[str, int] = {}
        for module in (states, units):
            patch.setattr(module, "read_range", self.read)

    def read(self, root: str, path: str, start: int, stop: int) -> scan.Bytes:
        """Count and read."""
        self.bytes[path] = self.bytes.get(path, 0) + stop - start
        return scan.read_range(root, path, start, stop)

    def of(self, options: Options, names: Sequence[str]) -> tuple[int, int, set[str]]:
        """Return the rows and bytes of a read, and the files that it asked for."""
        self.bytes.clear()
        rows = len(read_here(options, names))
        return rows, sum(self.bytes.values()), set(self.bytes)


def test_physical_offsets_choose_segments_and_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = forged_store(tmp_path / "store")
    counted = Counted(monkeypatch)
    segments = [f.base_offset or 0 for f in Options(str(root)).plan().segments]
    assert len(segments) == 3
    everything = counted.of(Options(str(root)), ["size"])
    words = [[">=", "physical_offset", segments[1]], ["<", "physical_offset", segments[2]]]
    some = counted.of(Options(str(root), pushed=json.dumps(words)), ["size"])
    assert len(everything[2]) == len(segments)
    assert some[2] == {f"commitlog/{segments[1]:020d}"}
    assert 0 < some[0] < everything[0]
    assert some[1] * 2 < everything[1]
    begins = states.to_text(begins_here(Options(str(root), split_bytes=2048)))
    words[0][2] = segments[2] - 2048
    reader = RecordsReader(Options(str(root), split_bytes=2048, begins=begins, pushed=json.dumps(words)), ["size"])
    assert len(reader.partitions()) == 1


def test_times_choose_splits_where_a_first_walk_has_seen_them(tmp_path: Path) -> None:
    root = str(timed_store(tmp_path / "store"))
    words = json.dumps([[">=", "store_timestamp_ms", 1_700_000_060_000]])
    known = Options(root, split_bytes=1024, begins=states.to_text(begins_here(Options(root, split_bytes=1024))))
    names = ["store_timestamp_ms"]
    found = {}
    for begins in ("", known.begins):
        options = Options(root, split_bytes=1024, begins=begins, pushed=words)
        found[begins] = len(RecordsReader(options, names).partitions())
        assert len(read_here(options, names)) == 4
    assert found[known.begins] <= 3
    assert found[""] > len(RecordsReader(known, names).partitions()) > 20, "what is known to be empty is not walked"


def test_topics_and_places_choose_queue_files(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(golden.store("rich-5.5.1"))
    counted = Counted(monkeypatch)
    rows = read_here(Options(root, UNITS), ["path", "topic", "queue_id", "queue_offset", "position"])
    queues = {(row["topic"], row["queue_id"]): row["path"] for row in rows}
    topic, queue_id = max(queues, key=lambda key: sum((r["topic"], r["queue_id"]) == key for r in rows))
    everything = counted.of(Options(root, UNITS), ["size"])
    words: list[Word] = [["in", "topic", [topic, "no such"]], ["=", "queue_id", queue_id]]
    one = counted.of(Options(root, UNITS, pushed=json.dumps(words)), ["size"])
    assert one[2] == {row["path"] for row in rows if (row["topic"], row["queue_id"]) == (topic, queue_id)}
    words.append(["=", "queue_offset", next(r["queue_offset"] for r in rows if r["topic"] == topic) + 1])
    unit = counted.of(Options(root, UNITS, pushed=json.dumps(words)), ["size"])
    assert unit[0] <= 1
    assert unit[1] <= 60 < one[1] < everything[1]
    nothing = counted.of(Options(root, UNITS, pushed='[["=", "topic", "no such"]]'), ["size"])
    assert nothing == (0, 0, set())


def test_queue_offsets_under_a_name_that_is_nearly_too_high(tmp_path: Path) -> None:
    unit = (7).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8)
    place = tmp_path / "consumequeue" / "T" / "0"
    place.mkdir(parents=True)
    (tmp_path / "commitlog").mkdir()
    (place / f"{2**63 - 5:020d}").write_bytes(3 * unit)
    options = Options(str(tmp_path), UNITS)
    first = (2**63 - 5) // 20
    rows = [{"queue_offset": first + n} for n in range(3)]
    assert read_here(options, ["queue_offset"]) == rows
    for word in (["<", "queue_offset", 0], [">", "queue_offset", first]):
        expected = [row for row in rows if is_true(word, row)]
        assert read_here(replace(options, pushed=json.dumps([word])), ["queue_offset"]) == expected


def test_numbers_choose_index_units(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    root = str(golden.store("rich-5.5.1"))
    words = [["<=", "number", 3], [">", "number", 1]]
    everything = counted.of(Options(root, INDEX_UNITS), ["number"])
    some = counted.of(Options(root, INDEX_UNITS, pushed=json.dumps(words)), ["number"])
    assert some[0] == 2 * len(some[2])
    assert some[1] * 10 < everything[1]


def many_queues(root: Path, count: int) -> Path:
    """Return a store of queues with two units each, in files of the usual length, and one full file of another."""
    (root / "commitlog").mkdir(parents=True)
    unit = (7).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8)
    for number in range(count + 1):
        place = root / "consumequeue" / f"T{number // 1000}" / str(number % 1000)
        place.mkdir(parents=True)
        with open(place / f"{0:020d}", "wb") as file:
            file.write(unit * (300_000 if number == count else 2))
            file.truncate(6_000_000)
    return root


def test_tiny_queues_share_tasks_and_a_large_one_has_many(tmp_path: Path) -> None:
    root = str(many_queues(tmp_path / "store", 20_000))
    reader = FilesReader(Options(root, UNITS, 1 << 20), ["size"])
    found = reader.partitions()
    pieces = [part.pieces for part in found if hasattr(part, "pieces")]
    assert len(pieces) == len(found) < 20_000 * units.LEAST_WEIGHT // (1 << 20) + 10
    large = [group for group in pieces if any("T20/0/" in piece.file.path for piece in group)]
    assert len(large) >= 5
    assert sum(piece.stop - piece.start for group in pieces for piece in group) <= 20_000 * 4100 + 6_000_000
    batches = list(reader.read(found[0]))
    assert sum(map(len, batches)) == 2 * len(pieces[0])
    assert len(batches) == 1
    one = json.dumps([["=", "topic", "T3"], ["=", "queue_id", 5]])
    assert len(read_here(Options(root, UNITS, pushed=one), ["size"])) == 2


def test_conditions_know_their_columns() -> None:
    types = {"a": pa.int32(), "b": pa.string()}
    found = parse('[["or", ["=", "a", 1], ["not", ["in", "b", ["x", null]]]], ["<", "a", 7]]', types)
    assert [sorted(condition.columns) for condition in found] == [["a", "b"], ["a"]]
    assert found[0].span("a") == (float("-inf"), float("inf"))
    assert found[1].span("a") == (float("-inf"), 6)


def test_columns_are_those_of_the_option() -> None:
    root = str(golden.store("base-4.9.8"))
    assert Options.parse({"path": root, "columns": "size, topic"}).schema().names == ["size", "topic"]
    assert Options.parse({"path": root, "columns": "size,body"}).schema().names == ["size", "body"]
    assert Options.parse({"path": root, "columns": "size", "body": "true"}).schema().names == ["size", "body"]
    assert Options.parse({"path": root}).schema() == RECORD_SCHEMA
    for bad in ("sighs", "size,size", "Size"):
        with pytest.raises(UsageError, match="columns"):
            Options.parse({"path": root, "columns": bad})
    with pytest.raises(UsageError, match="body"):
        Options.parse({"path": root, "what": UNITS, "columns": "body"})


@pytest.mark.parametrize("step", [64, 1024, 4096])
def test_splits_walked_in_parts_give_the_same_rows(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in RECORD_SCHEMA.names if name != "properties"]
    options = Options(str(forged_store(tmp_path / "store")), split_bytes=16384, stale=True)
    expected = read_here(options, names)
    monkeypatch.setattr(states, "WALK_BYTES", step)
    assert read_here(options, names) == expected

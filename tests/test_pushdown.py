"""Columns and conditions of queries: fewer bytes and rows, never another answer."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from storebuilder import StoreBuilder
from test_datasource import begins_here, forged_store

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
from udfs.datasource import NAME, FilesReader, Options, RecordsReader, read_records, register
from udfs.schemas import BATCH_UNITS, INDEX_UNITS, KINDS, RECORD_SCHEMA, RECORDS, SCHEMAS, UNITS, as_markdown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
Word = list[Any]
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "starts": str.startswith,
    "ends": str.endswith,
    "contains": str.__contains__,
}


def is_true(word: Word, row: Row) -> bool | None:
    """Return what SQL makes of a condition, one row at a time: the slow, obvious way."""
    name, *rest = word
    if name == "not":
        found = is_true(rest[0], row)
        return None if found is None else not found
    if name in ("and", "or"):
        parts = [is_true(part, row) for part in rest]
        decided = name == "or"
        return decided if decided in parts else None if None in parts else not decided
    value, wanted = row[rest[0]], rest[1]
    if name == "is null":
        return value is None
    if name == "is not null":
        return value is not None
    if name == "<=>":
        return bool(value == wanted)
    if name == "in":
        return None if value is None else True if value in wanted else None if None in wanted else False
    return None if value is None or wanted is None else COMPARED[name](value, wanted)


def sql_of(word: Word) -> str:
    """Return a condition as SQL."""
    name, *rest = word
    if name == "not":
        return f"NOT ({sql_of(rest[0])})"
    if name in ("and", "or"):
        return f"({sql_of(rest[0])}) {name.upper()} ({sql_of(rest[1])})"
    column, value = rest
    if name.startswith("is "):
        return f"{column} {name.upper()}"
    if name == "in":
        return f"{column} IN ({', '.join(map(literal, value))})"
    if name in ("starts", "ends", "contains"):
        return f"{name.replace('starts', 'startswith').replace('ends', 'endswith')}({column}, {literal(value)})"
    return f"{column} {name} {literal(value)}"


def literal(value: object) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)


def random_condition(chance: random.Random, rows: Sequence[Row], columns: Sequence[str], depth: int = 2) -> Word:
    """Return a condition about values that rows have, values next to them, and values that none has."""
    if depth and chance.random() < 0.5:
        parts = [random_condition(chance, rows, columns, depth - 1) for _ in range(2)]
        return chance.choice([["not", parts[0]], ["and", *parts], ["or", *parts]])
    column = chance.choice(columns)
    values = [row[column] for row in chance.choices(rows, k=3)]
    known = next((row[column] for row in rows if row[column] is not None), None)
    if isinstance(known, bool) or known is None:
        return [chance.choice(["is null", "is not null"]), column, None]
    if isinstance(known, str):
        values += ["", "no such", values[0] and values[0].upper()]
        names = ["=", "<=>", "<", ">=", "in", "starts", "ends", "contains"]
    else:
        values += [0, -1, (values[0] or 0) + 1, 2**31 - 1, -(2**31)]
        names = ["=", "<=>", "<", "<=", ">", ">=", "in", "in"]
    name = chance.choice([*names, "is null", "is not null"])
    if name.startswith("is "):
        return [name, column, None]
    if name == "in":
        return [name, column, chance.sample([*values, None], chance.randint(0, 4))]
    if name in ("starts", "ends", "contains"):
        return [name, column, (chance.choice(values) or "x")[:3]]
    return [name, column, chance.choice(values)]


def read_here(options: Options, names: Sequence[str]) -> list[Row]:
    """Return what the reader's tasks yield, without Spark."""
    reader = (RecordsReader if options.what == RECORDS else FilesReader)(options, names)
    batches: Iterator[pa.RecordBatch] = itertools.chain.from_iterable(map(reader.read, reader.partitions()))
    return [row for batch in batches for row in batch.to_pylist()]


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


def stores(directory: Path) -> list[Path]:
    """Return a sound store, one whose segments are damaged, and one with forged records and several segments."""
    cases = [case for case in golden.cases("fuzz-5.5.1") if any("commitlog" in edit[1] for edit in case["edits"])]
    queues = [case for case in golden.cases("fuzz-5.5.1") if any("consumequeue" in edit[1] for edit in case["edits"])]
    return [
        golden.store("rich-5.5.1"),
        golden.damaged("base-5.5.1", cases[3]["edits"], directory / "damaged"),
        golden.damaged("base-5.5.1", queues[2]["edits"], directory / "queue"),
        forged_store(directory / "forged"),
    ]


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
        for number in range((12 if what == RECORDS else 40) if rows else 0):
            words = [random_condition(chance, rows, names) for _ in range(chance.randint(1, 2))]
            shown = sorted({"physical_offset", *chance.choices(names, k=2)})
            expected = [{n: row[n] for n in shown} for row in rows if all(is_true(word, row) for word in words)]
            given = replace(known if number % 4 else options, pushed=json.dumps(words))
            assert read_here(given, shown) == expected, words
            chosen += len(expected)
    assert chosen > 1000


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


def timed_store(root: Path, count: int = 64) -> Path:
    """Return a store whose messages were stored a second apart, several segments long."""
    builder = StoreBuilder(root, segment_bytes=8192)
    for number in range(count):
        builder.message("T", number % 4, b"x" * 300, store_ms=1_700_000_000_000 + 1000 * number)
    return builder.close()


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


@pytest.fixture
def source(spark: SparkSession) -> SparkSession:
    """Return the session with the data source in it."""
    register(spark)
    register(spark)  # once more is harmless
    return spark


def scans(frame: DataFrame) -> list[tuple[str, str]]:
    """Return what each scan of a query reads: the filters and the columns, as Spark's plan tells them."""
    text = frame._jdf.queryExecution().explainString(
        frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]
    )
    return re.findall(r"(?:PushedFilters: \[(.*)\]\n)?ReadSchema: struct<(.*)>", text)


def test_a_count_reads_one_small_column(source: SparkSession) -> None:
    frame = source.read.format(NAME).option("body", "true").load(str(golden.store("rich-5.5.1")))
    assert "body" in frame.columns
    assert scans(frame.groupBy().count()) == [("", "valid:boolean")]
    assert frame.count() == len(golden.dump("rich-5.5.1"))
    by_topic = frame.where("queue_id = 1").groupBy("topic").count()
    assert [columns for _, columns in scans(by_topic)] == ["topic:string,queue_id:int"]
    assert [columns for _, columns in scans(frame.select("body", "size"))] == ["size:int,body:binary"]


def test_queries_of_one_frame_do_not_mix(source: SparkSession) -> None:
    """As Spark's own way of pushing filters lets them: see the next test."""
    rows = [row.asDict() for row in source.read.format(NAME).load(str(golden.store("rich-5.5.1"))).collect()]
    frame = source.read.format(NAME).load(str(golden.store("rich-5.5.1")))
    topics = sorted({row["topic"] for row in rows})[:2]
    counts = [sum(row["topic"] == topic for row in rows) for topic in topics]
    first, second = (frame.where(f"topic = '{topic}'") for topic in topics)
    assert first.count() == counts[0]
    assert frame.count() == len(rows)
    assert second.union(first).count() == sum(counts)
    joined = first.alias("a").join(second.alias("b"), how="cross")
    assert joined.count() == counts[0] * counts[1]
    assert frame.count() == len(rows)


def five() -> type[DataSource]:
    """Return a source of five numbers; made here, since workers cannot import tests."""

    class Five(DataSource):
        """Five numbers, with filters pushed as Spark 4.2 would have it."""

        @classmethod
        def name(cls) -> str:
            """Return the name for ``format``."""
            return "five_numbers"

        def schema(self) -> str:
            """Return the one column."""
            return "number int"

        def reader(self, schema: object) -> DataSourceReader:
            """Return a reader that takes equality."""

            class Reader(DataSourceReader):
                wanted: tuple[int, ...] = (0, 1, 2, 3, 4)

                def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
                    self.wanted = tuple(f.value for f in filters if isinstance(f, EqualTo))
                    yield from filters

                def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
                    return ((number,) for number in self.wanted)

            return Reader()

    return Five


def test_why_spark_is_not_asked_to_push_filters(source: SparkSession) -> None:
    """When this fails, Spark does it rightly: ``udfs/pushdown.py`` may then go."""
    source.dataSource.register(five())
    source.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source.read.format("five_numbers").load()
        assert frame.count() == 5
        assert frame.where("number = 1").count() == 1
        assert frame.count() == 1, "a read without a filter gets all five again"
    finally:
        source.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize("what", [RECORDS, UNITS, BATCH_UNITS, INDEX_UNITS])
def test_filters_in_spark_change_nothing(what: str, source: SparkSession, tmp_path: Path) -> None:
    """All filters in one query, each with scans of its own; the rows are those that SQL's own rules choose."""
    from pyspark.sql import functions as F

    chance = random.Random(what)
    names = [name for name in SCHEMAS[what].names if name != "properties"]
    size = {BATCH_UNITS: 32 << 20, INDEX_UNITS: 100_000}.get(what, 400_000)  # a few tasks for each scan
    for root in stores(tmp_path)[:2]:
        frame = source.read.format(NAME).options(path=str(root), what=what, split_bytes=size).load()
        rows = [row.asDict() for row in frame.select(*names).collect()]
        if not rows:
            continue
        words = [random_condition(chance, rows, names) for _ in range(6)]
        words = [word for word in words if "in" not in str(word) or "[]" not in str(word)]
        parts = [frame.select(*names).where(sql_of(word)).withColumn("n", F.lit(n)) for n, word in enumerate(words)]
        found = [row.asDict() for row in union_of(parts).collect()]
        expected = [{**row, "n": n} for n, word in enumerate(words) for row in rows if is_true(word, row)]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        assert found


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.union(frame)
    return joined


def test_two_passes_know_times_in_spark(source: SparkSession, tmp_path: Path) -> None:
    root = str(timed_store(tmp_path / "store"))
    frame = read_records(source, root, split_bytes="1024")
    late = frame.where("store_timestamp_ms >= 1700000060000")
    assert late.rdd.getNumPartitions() <= 3 < 20 < frame.rdd.getNumPartitions()
    assert late.count() == 4


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


DOCS = Path(__file__).parent.parent / "docs" / "datasource.md"


def test_the_documentation_has_all_columns_and_options() -> None:
    text = DOCS.read_text()
    assert as_markdown() in text
    hidden = {"begins", "pushed"}
    options = text.partition("## Options")[2].partition("##")[0]
    assert set(re.findall(r"^\| `(\w+)`", options, re.M)) == {field.name for field in fields(Options)} - hidden


def test_sql_of_the_documentation(source: SparkSession) -> None:
    root = golden.store("rich-5.5.1")
    block = DOCS.read_text().partition("```sql\n")[2].partition("```")[0]
    statements = [one.strip() for one in block.replace("/data/rocketmq/store", str(root)).split(";") if one.strip()]
    answers = [source.sql(statement).collect() for statement in statements]
    try:
        rows = golden.dump("rich-5.5.1")
        by_topic = answers[3]
        assert [row[0] for row in by_topic] == sorted({row["topic"] for row in rows})
        assert sum(row[1] for row in by_topic) == len(rows) == answers[-1][0][0]
        assert sum(row[2] for row in by_topic) == sum(int(row["size"]) for row in rows)
        counted = Counter(row["topic"] for row in rows)
        assert all(row[1] == counted[row[0]] for row in by_topic)
        assert len(answers[6]) == sum(1000 <= int(row["phy_offset"]) <= 20000 for row in rows) > 0
    finally:
        for view in ("records", "units", "heads"):
            source.catalog.dropTempView(view)


@pytest.mark.parametrize("step", [64, 1024, 4096])
def test_splits_walked_in_parts_give_the_same_rows(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in RECORD_SCHEMA.names if name != "properties"]
    options = Options(str(forged_store(tmp_path / "store")), split_bytes=16384, stale=True)
    expected = read_here(options, names)
    monkeypatch.setattr(states, "WALK_BYTES", step)
    assert read_here(options, names) == expected

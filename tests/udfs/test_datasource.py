"""The ``rocketmq_store`` data source: the same records as the sequential walk, whatever the splits."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import golden_data as golden
import pyarrow as pa
import pytest
from damage import mutate
from datasources import NAMES, Row, begins_here, expected_rows, forged_store
from faults import Faults
from golden_data import java_map
from sampled import sampled

from storeio import audit
from storeio.errors import UnreadableError, UsageError
from storeio.format import batchqueue, consumequeue
from storeio.kernels.tables import GAP_BLOCK
from storeio.store import open_store
from udfs import begins
from udfs.arrow import batch_of
from udfs.datasource import FilesReader, RecordsReader, read_records, register
from udfs.options import NAME, Options
from udfs.records import Shown, record_batches
from udfs.schemas import BATCH_UNITS, INDEX_UNITS, SCHEMAS, UNITS, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.share(2)


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    """Return the rows of Arrow batches, maps as dicts."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [row | {"properties": None if row["properties"] is None else dict(row["properties"])} for row in rows]


def read_here(options: Options) -> list[Row]:
    """Return what the reader's tasks yield, without Spark."""
    reader = RecordsReader(options, NAMES)
    return rows_of(itertools.chain.from_iterable(map(reader.read, reader.partitions())))


@pytest.mark.parametrize("name", golden.STORES)
def test_rows_equal_what_inspect_shows(name: str) -> None:
    root = golden.store(name)
    assert read_here(Options(str(root))) == list(expected_rows(root))


@pytest.mark.parametrize(("what", "place"), [("records", "commitlog"), ("units", "consumequeue/topic_0")])
def test_what_cannot_be_listed_is_not_taken_for_empty(
    what: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    faults = Faults(root, monkeypatch)
    options = Options(str(root), what=what)
    options.plan()
    faults.deny(place)
    with pytest.raises(UnreadableError, match=f"{place}: Permission denied"):
        options.plan()


@pytest.mark.parametrize("number", sampled(range(0, 50, 4), range(0, 50, 12)))
def test_rows_of_damaged_stores(number: int, tmp_path: Path) -> None:
    damages = [case["edits"] for case in golden.cases("fuzz-5.5.1") if any("commitlog" in e[1] for e in case["edits"])]
    root = golden.damaged("base-5.5.1", damages[number], tmp_path / "store")
    for stale in (False, True):
        assert read_here(Options(str(root), split_bytes=4096, stale=stale)) == list(expected_rows(root, stale=stale))


@pytest.mark.parametrize("seed", sampled(range(3), [0]))
def test_damage_across_the_ends_of_splits(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged record that no size bounds ends where the next begins, in whatever split or part of one that is."""
    rng = random.Random(seed)
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    logs = sorted(p.relative_to(root) for p in root.glob("commitlog/*"))
    for _ in range(30):
        mutate(rng, root, logs)
    expected = list(expected_rows(root))
    sizes = (1024, 2048, 5000, 16384)
    assert any(is_cut(row, size) for row in expected for size in sizes)
    for size in sizes:
        options = Options(str(root), split_bytes=size)
        assert read_here(options) == expected, size
        known = begins.to_text(begins_here(options))
        assert read_here(Options(str(root), split_bytes=size, begins=known)) == expected, size
    monkeypatch.setattr(begins, "WALK_BYTES", 4096)
    assert read_here(Options(str(root))) == expected


def is_cut(row: Row, split_bytes: int) -> bool:
    """Tell whether a damaged record of a segment of 32 KiB reaches over the end of a split."""
    at, step = row["physical_offset"] % 32768, -(-split_bytes // GAP_BLOCK) * GAP_BLOCK
    return not row["valid"] and at // step != (at + row["extent"] - 1) // step


def test_forged_records_for_every_split_size(tmp_path: Path) -> None:
    root = forged_store(tmp_path / "store")
    expected = list(expected_rows(root))
    for step in (64, 192, 576, 1024, 4096, 16384):
        options = Options(str(root), split_bytes=step)
        known = begins.to_text(begins_here(options))
        assert read_here(Options(str(root), split_bytes=step, begins=known)) == expected
        if step > 64:  # each task walks from its segment's start: with tiny splits that takes long
            assert read_here(options) == expected


def test_guesses_alone_would_be_wrong(tmp_path: Path) -> None:
    """Else the test above shows nothing."""
    root = forged_store(tmp_path / "store")
    splits = Options(str(root), split_bytes=256).plan().splits
    guessed = [Shown(str(root), begins.walk(str(root), split, None)) for split in splits]
    found = rows_of(itertools.chain.from_iterable(record_batches(shown, NAMES) for shown in guessed))
    assert len(found) > len(list(expected_rows(root)))


def test_native_numbers_in_the_dtypes_order() -> None:
    units = consumequeue.decode(bytes(range(40)))
    batch = batch_of({name: units[name] for name in units.dtype.names})
    assert batch.schema.names == list(consumequeue.UNIT.names or ()) == schema_of(consumequeue.UNIT).names
    assert batch.to_pylist() == [dict(zip(batch.schema.names, unit, strict=True)) for unit in units.tolist()]
    assert [field.dataType.simpleString() for field in schema_of(batchqueue.UNIT)] == (
        ["bigint", "int", "bigint", "bigint", "bigint", "smallint", "int", "int"]
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "no path"),
        ({"path": "x", "colour": "red"}, "colour"),
        ({"path": "x", "what": "all"}, "what=all"),
        ({"path": "x", "split_bytes": "0"}, "split_bytes=0"),
        ({"path": "x", "split_bytes": "64M"}, "split_bytes=64M"),
        ({"path": "x", "body": "perhaps"}, "body=perhaps"),
    ],
)
def test_bad_options(given: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Options.parse(given)


def test_settings_reach_the_walk() -> None:
    root = str(golden.store("rich-5.5.1"))

    def delays_ms(options: Options) -> set[int]:
        rows = (row for row in read_here(options) if row["topic"] == "SCHEDULE_TOPIC_XXXX")
        return {row["tags_code"] - row["store_timestamp_ms"] for row in rows if "DELAY" in row["properties"]}

    assert delays_ms(Options(root)) > {1000, 5000}
    assert delays_ms(Options(root, settings="messageDelayLevel=" + " ".join(["2h"] * 18))) == {7_200_000}


@pytest.fixture
def source(spark: SparkSession) -> SparkSession:
    """Return the session with the data source in it."""
    register(spark)
    return spark


def as_dump(row: Row) -> dict[str, str]:
    """Return a row of the data source as the broker's decoder prints it."""
    properties = row["properties"]
    renamed = {
        "phy_offset": "physical_offset", "size": "size", "topic": "topic", "queue_id": "queue_id",
        "queue_offset": "queue_offset", "sys_flag": "sys_flag", "store_timestamp": "store_timestamp_ms",
        "tags_code": "tags_code", "prepared_offset": "prepared_transaction_offset", "batch_size": "batch_size",
        "body_crc": "body_crc", "born_timestamp": "born_timestamp_ms", "flag": "flag",
        "reconsume": "reconsume_times", "body_len": "body_length",
    }  # fmt: skip
    told = {theirs: str(row[ours]) for theirs, ours in renamed.items()}
    told["uniq_key"] = properties.get("UNIQ_KEY", "null")
    told["keys"] = properties.get("KEYS", "null" if properties else "")
    told["properties"] = java_map(properties)
    return told


def test_all_records_equal_the_brokers_decode(source: SparkSession) -> None:
    """All versions in one job; hosts are compared in ``test_rows_equal_what_inspect_shows``."""
    frames = [source.read.format(NAME).load(str(golden.store(name))) for name in golden.RICH]
    frame: DataFrame = frames[0]
    for other in frames[1:]:
        frame = frame.union(other)
    rows = iter([row.asDict() for row in frame.collect()])
    for name in golden.RICH:
        for wanted in golden.dump(name):
            found = as_dump(next(rows))
            assert found == {column: wanted[column] for column in found}
    assert next(rows, None) is None


def test_two_passes_and_one_pass_in_spark(source: SparkSession, tmp_path: Path) -> None:
    root = str(forged_store(tmp_path / "store"))
    expected = list(expected_rows(Path(root)))
    assert [row.asDict() for row in read_records(source, root, split_bytes="4096").collect()] == expected
    plain = source.read.format(NAME).options(path=root, split_bytes="4096").load()
    assert plain.rdd.getNumPartitions() > 8
    assert [row.asDict() for row in plain.collect()] == expected


def test_only_the_columns_asked_for(source: SparkSession) -> None:
    root = golden.store("base-4.9.8")
    reader = source.read.format(NAME).option("body", "true").schema("size int, body binary, topic string")
    rows = reader.load(str(root)).collect()
    for row, wanted in zip(rows, golden.dump("base-4.9.8"), strict=True):
        assert (str(row["size"]), row["topic"], str(len(row["body"]))) == (
            (wanted["size"], wanted["topic"], wanted["body_len"])
        )


@pytest.mark.parametrize(
    ("options", "schema", "text"),
    [
        ({"what": "all"}, None, "what=all"),
        ({}, "size string", "no column size string"),
        ({}, "sighs int", "no column sighs"),
    ],
)
def test_misuse_is_told(source: SparkSession, options: dict[str, str], schema: str | None, text: str) -> None:
    reader = source.read.format(NAME).options(**options)
    with pytest.raises(Exception, match=text):
        (reader.schema(schema) if schema else reader).load(str(golden.store("base-4.9.8"))).collect()


def test_units_are_those_of_the_files(source: SparkSession) -> None:
    root = golden.store("rich-5.5.1")
    store = open_store(root)
    frames = {
        what: source.read.format(NAME).options(path=str(root), what=what, split_bytes=size).load()
        for what, size in ((UNITS, "200000"), (BATCH_UNITS, "20000000"), (INDEX_UNITS, "50000"))
    }
    for what, frame in frames.items():
        assert frame.schema == SCHEMAS[what]
    for kind, what, place in (("consumequeue", UNITS, "queue_offset"), ("batchconsumequeue", BATCH_UNITS, "position")):
        rows = sorted(frames[what].collect(), key=itemgetter("topic", "queue_id", place))
        found = {key: [tuple(row) for row in part] for key, part in itertools.groupby(rows, lambda r: (r[1], r[2]))}
        names = SCHEMAS[what].names
        first = names.index("physical_offset")
        queues = [(topic, queue_id) for k, topic, queue_id in store.plan.queues if k == kind]
        for key in queues:
            units = [tuple(unit) for unit in store.units(*key, kind=kind).tolist()]
            assert [row[first : first + len(units[0])] for row in found[key]] == units
        assert len(found) == len(queues) > 3
    rows = sorted(frames[INDEX_UNITS].collect(), key=itemgetter("path", "number"))
    parts = {path: list(part) for path, part in itertools.groupby(rows, lambda row: row["path"])}
    for path, units in store.index_units():
        assert [tuple(row)[3:7] for row in parts[path]] == [tuple(unit) for unit in units.tolist()]
        assert [row["number"] for row in parts[path]] == list(range(1, len(units) + 1))


def test_holes_of_a_queue_file_are_no_partitions(tmp_path: Path) -> None:
    """Units lie where blocks of the file system begin, within and between them; a disk without holes has no room."""
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    queue = next((root / "consumequeue").glob("*/*/*"))
    units = [1 << 20, 5 << 20, (5 << 20) + 1, 3 << 30, 51 << 30]
    with queue.open("r+b") as file:
        try:
            file.truncate(1 << 40)
        except OSError:
            pytest.skip("no file so large here")
        for unit in units:
            file.seek(unit * 20)
            file.write((1).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8))
    reader = FilesReader(Options(str(root), UNITS, split_bytes=1 << 16), ["path", "position"])
    partitions = reader.partitions()
    assert len(partitions) < 100
    batches = itertools.chain.from_iterable(map(reader.read, partitions))
    rows = [row["position"] for batch in batches for row in batch.to_pylist() if row["path"].endswith(queue.name)]
    assert [at for at in rows if at >= 1 << 20] == [20 * unit for unit in units]


def test_a_store_without_log(source: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert audit.prepare(str(tmp_path)).splits == []
    assert read_records(source, str(tmp_path)).collect() == []

"""Columns and conditions of Spark's queries: fewer bytes and rows, never another answer."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import golden_data as golden
import pytest
from conditions import is_true, random_condition, sql_of, stores, timed_store
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from udfs.datasource import read_records, register
from udfs.options import NAME, Options
from udfs.schemas import BATCH_UNITS, INDEX_UNITS, RECORDS, SCHEMAS, UNITS, as_markdown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.share(2)


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


DOCS = Path(__file__).parents[2] / "docs" / "datasource.md"


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

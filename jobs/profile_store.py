"""``spark-submit jobs/profile_store.py``: what stores hold: sizes, rates, topics, tags, times, as Delta tables.

One pass over the log counts records by segment, queue, tag, stretch of time and power of two of their size.
Every table is a sum over those counts.
"""

from __future__ import annotations

import argparse
import functools
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs import tables
from jobs.common import build_session, run_job
from jobs.declared import PROFILE_RUNS
from jobs.stores import (
    given_of,
    master_of,
    new_run_id,
    positive,
    require_text,
    separate_errors,
    source_options,
    store_parser,
    stores_of,
)
from storeio import __version__
from storeio.commands.console import explain, json_sink, put, terminal_width
from storeio.errors import StoreError, UnreadableError
from storeio.paths import COMMITLOG
from storeio.report import to_json
from storeio.report.tables import bytes_text, table
from storeio.report.tables import counted as counted_text
from storeio.results import EXIT_SOUND
from storeio.safe import printable, time_text
from storeio.scan import list_store
from storeio.uris import shown
from udfs.checks import workers_named
from udfs.datasource import read_records

DESCRIPTION: Final = "Profile RocketMQ stores with Spark: sizes, rates, topics, tags, times, as Delta tables."
READ: Final = ("path", "topic", "queue_id", "tag", "store_timestamp_ms", "size", "body_length", "valid")
FINEST: Final = ("store", "path", "topic", "queue_id", "tag", "bucket_start_ms", "min_bytes")
FEW: Final = 50_000  # counts, of which no table has more rows: for Spark, a commit is longer work than they are
TOLD: Final = (
    "records", "bytes", "body_bytes", "min_size", "mean_size", "max_size", "first_store_timestamp_ms",
    "last_store_timestamp_ms", "records_per_second", "bytes_per_second",
)  # fmt: skip


def counted(records: DataFrame, bucket_ms: int) -> DataFrame:
    """Return how many valid records, and how large, there are of everything that a table tells apart."""
    store_ms, size = F.col("store_timestamp_ms"), F.col("size").cast("long")
    told = records.filter("valid").withColumns(
        {
            "bucket_start_ms": F.floor(store_ms / bucket_ms).cast("long") * bucket_ms,
            "min_bytes": F.pow(F.lit(2.0), F.length(F.bin("size")) - 1).cast("long"),
        }
    )
    return told.groupBy(*FINEST).agg(
        F.count("*").alias("records"),
        F.sum(size).alias("bytes"),
        F.sum(F.col("body_length").cast("long")).alias("body_bytes"),
        F.min("size").alias("min_size"),
        F.max("size").alias("max_size"),
        F.min(store_ms).alias("first_store_timestamp_ms"),
        F.max(store_ms).alias("last_store_timestamp_ms"),
    )


def summed(counts: DataFrame, *keys: str) -> DataFrame:
    """Return the counts added up by store and these keys, with sizes, times and rates."""
    added = counts.groupBy("store", *keys).agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum("body_bytes").alias("body_bytes"),
        F.min("min_size").alias("min_size"),
        F.max("max_size").alias("max_size"),
        F.min("first_store_timestamp_ms").alias("first_store_timestamp_ms"),
        F.max("last_store_timestamp_ms").alias("last_store_timestamp_ms"),
        F.countDistinct("queue_id").alias("queues"),
        F.countDistinct("topic").alias("topics"),
    )
    seconds = (F.col("last_store_timestamp_ms") - F.col("first_store_timestamp_ms")) / 1000
    return with_rates(added.withColumn("mean_size", F.col("bytes") / F.col("records")), seconds)


def with_rates(frame: DataFrame, seconds: Column) -> DataFrame:
    """Return the frame with records and bytes per second; null where no time has passed."""
    passed = F.when(seconds > 0, seconds)
    rates = {name: (F.col(name.split("_")[0]) / passed) for name in ("records_per_second", "bytes_per_second")}
    return frame.withColumns(rates)


def profile(counts: DataFrame, bucket_ms: int) -> dict[str, DataFrame]:
    """Return the rows of each table but ``profile_runs``, without the run's id."""
    over_time = summed(counts, "topic", "bucket_start_ms").withColumn("bucket_ms", F.lit(bucket_ms))
    return {
        "profile_topics": summed(counts, "topic"),
        "profile_queues": summed(counts, "topic", "queue_id"),
        "profile_tags": summed(counts, "topic", "tag"),
        "profile_time": with_rates(over_time, F.col("bucket_ms") / 1000),
        "profile_sizes": summed(counts, "topic", "min_bytes").withColumn("max_bytes", 2 * F.col("min_bytes")),
        "profile_segments": summed(counts, "path"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    args = parser().parse_args(words)
    stores, given = stores_of(args), given_of(args)
    code = EXIT_SOUND
    readable = []
    for store in stores:
        try:
            require_text([store], "rows of records")
            code |= told_of_log(store, list_store(store).unreadable)
            readable.append(store)
        except (StoreError, OSError) as error:
            code |= explain(error, store)
    if readable:
        run(args, readable, source_options(args, given), arguments=shown(shlex.join(words)))
    return code


def told_of_log(store: str, unreadable: Sequence[tuple[str, str]]) -> int:
    """Return the exit code's bits after saying what of the log was listed and cannot be opened: it is not counted."""
    code = EXIT_SOUND
    for path, why in unreadable:
        if path.split("/")[0] in (".", COMMITLOG):
            code |= explain(UnreadableError(f"{path}: {why}"), store)
    return code


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("profile_store", DESCRIPTION)
    made.add_argument(
        "--bucket-seconds", metavar="N", type=positive, default=3600, help="rows of profile_time (default: an hour)"
    )
    return made


def run(args: argparse.Namespace, stores: Sequence[str], options: dict[str, str], *, arguments: str) -> None:
    """Count, write the tables, and print what they say of each topic."""
    started_ms = time.time_ns() // 1_000_000
    spark = build_session("storeio profile", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, PROFILE_RUNS)
    bucket_ms = args.bucket_seconds * 1000
    counts = counted(records_of(spark, stores, options), bucket_ms).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with workers_named("count of the records"):
            are_few = counts.count() <= FEW
        frames = profile(counts, bucket_ms)
        totals = summed(
            spark.createDataFrame([(shown(s),) for s in stores], "store string").join(counts, "store", how="left")
        )
        facts = {"tool": "storeio", "version": __version__, "arguments": arguments, "started_ms": started_ms}
        found = {row["store"]: row for row in totals.collect()}
        topics = frames["profile_topics"].orderBy("topic").collect()
        report(args, [found[shown(store)] for store in stores], topics)
        facts["seconds"] = time.time_ns() // 1_000_000 / 1000 - started_ms / 1000
        frames[PROFILE_RUNS] = totals.withColumns({name: F.lit(value) for name, value in facts.items()})
        written = {name: rows_of_run(name, frame, run_id, are_few=are_few) for name, frame in frames.items()}
        tables.write_run(spark, args.tables, run_id, written, runs=PROFILE_RUNS)
    finally:
        counts.unpersist()
    if not args.quiet:
        put(sys.stderr, f"run {run_id} is in {shown(args.tables)}")


def rows_of_run(name: str, frame: DataFrame, run_id: str, *, are_few: bool) -> DataFrame | pa.Table:
    """Return the rows of a table with the run's id; few of them as a table, which local ones take without Spark."""
    rows = tables.in_contract(frame.withColumn("run_id", F.lit(run_id)).coalesce(1), name)
    return tables.rows_of(name, rows.toArrow().to_pylist()) if are_few else rows


def records_of(spark: SparkSession, stores: Sequence[str], options: dict[str, str]) -> DataFrame:
    """Return the records of all stores, with the columns that are counted."""
    parts = [
        read_records(spark, store, columns=READ, **options).withColumn("store", F.lit(shown(store))) for store in stores
    ]
    return functools.reduce(DataFrame.unionByName, parts)


def report(args: argparse.Namespace, totals: Sequence[Row], topics: Sequence[Row]) -> None:
    """Print one object a store where JSON goes to, and the topics of each store as text."""
    with json_sink(args.json, args.stores, quiet=args.quiet) as sink:
        for number, total in enumerate(totals):
            part = [row for row in topics if row["store"] == total["store"]]
            put(sink, to_json(as_object(total, part)))
            if not args.quiet and args.json != "-":
                put(sys.stdout, ("\n" if number else "") + as_text(total, part))


def as_object(total: Row, topics: Sequence[Row]) -> dict[str, Any]:
    """Return what the tables say of one store and its topics."""
    found = {name: total[name] for name in ("store", *TOLD)}
    return {**found, "topics": [{name: row[name] for name in ("topic", "queues", *TOLD)} for row in topics]}


def as_text(total: Row, topics: Sequence[Row]) -> str:
    """Return the same as a table for a terminal."""
    first, last = (time_text(total[name]) for name in ("first_store_timestamp_ms", "last_store_timestamp_ms"))
    head = f"{printable(total['store'])}: {counted_text(total['records'] or 0, 'message')}"
    lines = [f"{head}, {bytes_text(total['bytes'] or 0)}, stored from {first} to {last}", ""]
    rows = [
        (row["topic"], row["queues"], f"{row['records']:,}", bytes_text(row["bytes"]), row["min_size"],
         f"{row['mean_size']:.0f}", row["max_size"], rate_text(row["records_per_second"]))
        for row in topics
    ]  # fmt: skip
    columns = ("topic", "queues", "messages", "bytes", "smallest", "mean", "largest", "per second")
    return "\n".join([*lines, *table(columns, rows, terminal_width())])


def rate_text(rate: float | None) -> str:
    """Return a rate with one decimal, a dash where there is none."""
    return "-" if rate is None else f"{rate:,.1f}"


if __name__ == "__main__":
    separate_errors()
    run_job(main)

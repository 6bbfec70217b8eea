"""``spark-submit jobs/profile_store.py``: what stores hold: sizes, rates, topics, tags, times, as Delta tables.

One pass over the log counts records by segment, queue, tag, stretch of time and power of two of their size.
Every table is a sum over those counts.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs import tables
from jobs.calls import StoreCall, kept
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
from storeio.report.tables import bytes_text, table
from storeio.report.tables import counted as counted_text
from storeio.results import EXIT_FAILED, EXIT_SOUND
from storeio.safe import printable, time_text
from storeio.scan import list_store, may_be_of
from storeio.uris import shown
from udfs.checks import WorkersError, workers_named
from udfs.datasource import read_records

DESCRIPTION: Final = "Profile RocketMQ stores with Spark: sizes, rates, topics, tags, times, as Delta tables."
READ: Final = ("path", "topic", "queue_id", "tag", "store_timestamp_ms", "size", "body_length", "valid")
FINEST: Final = ("store", "path", "topic", "queue_id", "tag", "bucket_start_ms", "min_bytes")
FEW: Final = 50_000  # counts, of which no table has more rows: for Spark, a commit is longer work than they are
COUNT: Final = "count of the records"
TOLD: Final = (
    "records", "bytes", "body_bytes", "min_size", "mean_size", "max_size", "first_store_timestamp_ms",
    "last_store_timestamp_ms", "records_per_second", "bytes_per_second",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """What was counted of one store: the sum, that of each topic, and what of its log was not."""

    total: Row
    topics: Sequence[Row]
    failed: Sequence[str]

    @property
    def exit_code(self) -> int:
        """The store's bits of the exit code."""
        return int(self.total["exit_code"])


class Call(StoreCall[Profile]):
    """One call of the job: what was asked for, and what has become of the stores."""

    def as_object(self, result: Profile) -> dict[str, Any]:
        """Return a result as JSON has it."""
        return as_object(result)

    def show(self, result: Profile) -> None:
        """Print a result for people."""
        if not self.args.quiet:
            put(sys.stdout, ("\n" if self.done else "") + as_text(result))


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
    with json_sink(args.json, stores, quiet=args.quiet) as sink:
        call = Call(args, given, sink)
        logs = listed(call, stores)
        if logs:
            run(call, logs, arguments=shown(shlex.join(words)))
    return call.exit_code


def listed(call: Call, stores: Sequence[str]) -> dict[str, list[str]]:
    """Return what of its log cannot be opened and so is not counted, for each store that can be listed."""
    found = {}
    for store in stores:
        try:
            require_text([store], "rows of records")
            unread = [(path, why) for path, why in list_store(store).unreadable if may_be_of(path, (COMMITLOG,))]
        except (StoreError, OSError) as error:
            call.fail(store, error)
            continue
        found[store] = [printable(f"{path}: {why}") for path, why in unread]
        for text in found[store]:
            explain(UnreadableError(text), store)
    return found


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("profile_store", DESCRIPTION)
    made.add_argument(
        "--bucket-seconds", metavar="N", type=positive, default=3600, help="rows of profile_time (default: an hour)"
    )
    return made


def run(call: Call, logs: Mapping[str, Sequence[str]], *, arguments: str) -> None:
    """Count, print what there is of each topic, and write the tables; ``logs`` has what is not counted, by store."""
    args = call.args
    started_ms = time.time_ns() // 1_000_000
    spark = build_session("storeio profile", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, PROFILE_RUNS)
    with contextlib.ExitStack() as cleaning:
        parts = counts_of(call, spark, [*logs], cleaning)
        logs = {store: failed for store, failed in logs.items() if shown(store) not in call.failed}
        if not logs:
            return
        counts = functools.reduce(DataFrame.unionByName, (part for part, _ in parts))
        are_few = sum(rows for _, rows in parts) <= FEW
        try:
            with workers_named(COUNT):
                frames = profile(counts, args.bucket_seconds * 1000)
                totals = totals_of(spark, counts, logs)
                found = {row["store"]: row for row in totals.collect()}
                topics = frames["profile_topics"].orderBy("topic").collect()
        except WorkersError as error:
            for store in logs:
                call.fail(store, error)
            return
        for store, failed in logs.items():
            mine = [row for row in topics if row["store"] == shown(store)]
            call.report(Profile(found[shown(store)], mine, failed))
        facts = {"tool": "storeio", "version": __version__, "arguments": arguments, "started_ms": started_ms}
        facts["seconds"] = time.time_ns() // 1_000_000 / 1000 - started_ms / 1000
        frames[PROFILE_RUNS] = totals.withColumns({name: F.lit(value) for name, value in facts.items()})

        def written() -> dict[str, DataFrame | pa.Table]:
            with workers_named("tables of the profile"):
                return {name: rows_of_run(name, frame, run_id, are_few=are_few) for name, frame in frames.items()}

        failed_bits = kept(spark, args.tables, run_id, PROFILE_RUNS, written, made=True)
    call.exit_code |= failed_bits
    if not (failed_bits or args.quiet):
        put(sys.stderr, f"run {run_id} is in {shown(args.tables)}")


def counts_of(
    call: Call, spark: SparkSession, stores: Sequence[str], cleaning: contextlib.ExitStack
) -> list[tuple[DataFrame, int]]:
    """Return the stores' counts, made together, and how many rows these are; where that fails of each that can be."""
    try:
        with workers_named(COUNT):
            records = records_of(spark, stores, source_options(call.args, call.given))
            counts = counted(records, call.args.bucket_seconds * 1000).persist(StorageLevel.MEMORY_AND_DISK)
            cleaning.callback(counts.unpersist)
            return [(counts, counts.count())]
    except (StoreError, OSError) as error:
        if len(stores) > 1:
            return [part for store in stores for part in counts_of(call, spark, [store], cleaning)]
        call.fail(stores[0], error)
        return []


def totals_of(spark: SparkSession, counts: DataFrame, logs: Mapping[str, Sequence[str]]) -> DataFrame:
    """Return a row for each store, of one without records, too, with what of its log is not counted."""
    told = [
        (shown(store), EXIT_FAILED if failed else EXIT_SOUND, "\n".join(failed) or None)
        for store, failed in logs.items()
    ]
    stores = spark.createDataFrame(told, "store string, exit_code int, failed string")
    return summed(stores.select("store").join(counts, "store", how="left")).join(stores, "store", how="inner")


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


def as_object(found: Profile) -> dict[str, Any]:
    """Return what the tables say of one store and its topics."""
    total = {name: found.total[name] for name in ("store", *TOLD, "exit_code")}
    topics = [{name: row[name] for name in ("topic", "queues", *TOLD)} for row in found.topics]
    return {**total, "failed": [*found.failed], "topics": topics}


def as_text(found: Profile) -> str:
    """Return the same as a table for a terminal."""
    total = found.total
    first, last = (time_text(total[name]) for name in ("first_store_timestamp_ms", "last_store_timestamp_ms"))
    head = f"{printable(total['store'])}: {counted_text(total['records'] or 0, 'message')}"
    part = " in what could be read" if found.failed else ""
    lines = [f"{head}{part}, {bytes_text(total['bytes'] or 0)}, stored from {first} to {last}", ""]
    rows = [
        (row["topic"], row["queues"], f"{row['records']:,}", bytes_text(row["bytes"]), row["min_size"],
         f"{row['mean_size']:.0f}", row["max_size"], rate_text(row["records_per_second"]))
        for row in found.topics
    ]  # fmt: skip
    columns = ("topic", "queues", "messages", "bytes", "smallest", "mean", "largest", "per second")
    return "\n".join([*lines, *table(columns, rows, terminal_width())])


def rate_text(rate: float | None) -> str:
    """Return a rate with one decimal, a dash where there is none."""
    return "-" if rate is None else f"{rate:,.1f}"


if __name__ == "__main__":
    separate_errors()
    run_job(main)

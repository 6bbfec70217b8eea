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
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs import tables
from jobs.calls import StoreCall, kept
from jobs.common import build_session, run_job
from jobs.declared import PROFILE_RUNS
from jobs.profiles import counted, profile, records_of, summed
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
from storeio.commands.console import explain, terminal_width
from storeio.commands.outputs import json_sink
from storeio.errors import StoreError, UnreadableError
from storeio.paths import COMMITLOG
from storeio.report.tables import bytes_text, table
from storeio.report.tables import counted as counted_text
from storeio.results import EXIT_FAILED, EXIT_SOUND
from storeio.safe import printable, time_text
from storeio.scan import Listing, list_store, may_be_of
from storeio.uris import shown
from udfs.checks import WorkersError, workers_named

DESCRIPTION: Final = "Profile RocketMQ stores with Spark: sizes, rates, topics, tags, times, as Delta tables."
FEW: Final = 50_000  # counts, of which no table has more rows: for Spark, a commit is longer work than they are
COUNT: Final = "count of the records"
TOLD: Final = (
    "records", "bytes", "body_bytes", "min_size", "mean_size", "max_size", "first_store_timestamp_ms",
    "last_store_timestamp_ms", "records_per_second", "bytes_per_second",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Log:
    """The files of a store's log as they were listed, and what of it is not counted."""

    paths: tuple[str, ...]
    failed: tuple[str, ...]


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

    def as_sentence(self, result: Profile) -> str:
        """Return how much a store holds."""
        return sentence(result)

    def as_text(self, result: Profile) -> str:
        """Return that and a table of the topics."""
        return as_text(result)


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
    return call.exit_code | sink.code


def listed(call: Call, stores: Sequence[str]) -> dict[str, Log]:
    """Return the log of each store that can be listed; what of it cannot be opened, and so is not counted, is said."""
    found = {}
    for store in stores:
        try:
            require_text([store], "rows of records")
            listing = list_store(store)
        except (StoreError, OSError) as error:
            call.fail(store, error)
            continue
        unread = [(path, why) for path, why in listing.unreadable if may_be_of(path, (COMMITLOG,))]
        log = Log(log_paths(listing), tuple(printable(f"{path}: {why}") for path, why in unread))
        found[store] = log
        tell_uncounted(store, log.failed)
    return found


def log_paths(listing: Listing) -> tuple[str, ...]:
    """Return the paths of all segments."""
    return tuple(file.path for file in listing.of_kind(COMMITLOG))


def tell_uncounted(store: str, failed: Sequence[str]) -> None:
    """Say what of a log is not counted."""
    for text in failed:
        explain(UnreadableError(text), store)


def listed_again(store: str, log: Log) -> Log:
    """Return a log after the count, with the segments that went since: a read lists anew, and does not miss them.

    Those that a running broker added since may be counted or not.
    """
    try:
        now = frozenset(log_paths(list_store(store)))
    except (StoreError, OSError) as error:
        went = [f"{COMMITLOG}: could not be listed again: {error}"]
    else:
        went = [f"{path}: went while the log was read" for path in log.paths if path not in now]
    tell_uncounted(store, went)
    return replace(log, failed=(*log.failed, *went))


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("profile_store", DESCRIPTION)
    made.add_argument(
        "--bucket-seconds", metavar="N", type=positive, default=3600, help="rows of profile_time (default: an hour)"
    )
    return made


def run(call: Call, logs: Mapping[str, Log], *, arguments: str) -> None:
    """Count, print what there is of each topic, and write the tables."""
    args = call.args
    started_ms = time.time_ns() // 1_000_000
    spark = build_session("storeio profile", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, PROFILE_RUNS)
    with contextlib.ExitStack() as cleaning:
        parts = counts_of(call, spark, [*logs], cleaning)
        failed = {each.store for each in call.failed}
        logs = {store: listed_again(store, log) for store, log in logs.items() if shown(store) not in failed}
        if not logs:
            return
        counts = functools.reduce(DataFrame.unionByName, (part for part, _ in parts))
        are_few = sum(rows for _, rows in parts) <= FEW
        try:
            with workers_named(COUNT):
                frames = profile(counts, args.bucket_seconds * 1000)
                totals = totals_of(spark, counts, codes_of(call, logs))
                found = {row["store"]: row for row in totals.collect()}
                topics: dict[str, list[Any]] = {}
                for row in frames["profile_topics"].orderBy("topic").collect():
                    topics.setdefault(row["store"], []).append(row)
        except WorkersError as error:
            for store in logs:
                call.fail(store, error)
            return
        for store, log in logs.items():
            call.report(Profile(found[shown(store)], topics.get(shown(store), []), log.failed))
        facts = {"tool": "storeio", "version": __version__, "arguments": arguments, "started_ms": started_ms}
        facts["seconds"] = time.time_ns() // 1_000_000 / 1000 - started_ms / 1000
        frames[PROFILE_RUNS] = totals.withColumns({name: F.lit(value) for name, value in facts.items()})

        def written() -> dict[str, DataFrame | pa.Table]:
            with workers_named("tables of the profile"):
                return {name: rows_of_run(name, frame, run_id, are_few=are_few) for name, frame in frames.items()}

        call.exit_code |= kept(spark, args.tables, run_id, PROFILE_RUNS, written, made=True, quiet=args.quiet)


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


def codes_of(call: Call, logs: Mapping[str, Log]) -> list[tuple[str, int, str | None]]:
    """Return each store with its bits of the exit code and what went wrong; those of which nothing is counted, too."""
    counted_ones = [
        (shown(store), EXIT_FAILED if log.failed else EXIT_SOUND, "\n".join(log.failed) or None)
        for store, log in logs.items()
    ]
    return [*counted_ones, *((each.store, each.exit_code, each.error) for each in call.failed)]


def totals_of(spark: SparkSession, counts: DataFrame, codes: list[tuple[str, int, str | None]]) -> DataFrame:
    """Return a row for each store, of one without records, too, with what of its log is not counted."""
    stores = spark.createDataFrame(codes, "store string, exit_code int, failed string")
    return summed(stores.select("store").join(counts, "store", how="left")).join(stores, "store", how="inner")


def rows_of_run(name: str, frame: DataFrame, run_id: str, *, are_few: bool) -> DataFrame | pa.Table:
    """Return the rows of a table with the run's id; few of them as a table, which local ones take without Spark."""
    rows = tables.in_contract(frame.withColumn("run_id", F.lit(run_id)).coalesce(1), name)
    return tables.rows_of(name, rows.toArrow().to_pylist()) if are_few else rows


def as_object(found: Profile) -> dict[str, Any]:
    """Return what the tables say of one store and its topics."""
    total = {name: found.total[name] for name in ("store", *TOLD, "exit_code")}
    topics = [{name: row[name] for name in ("topic", "queues", *TOLD)} for row in found.topics]
    return {"tool": "storeio", "version": __version__, **total, "failed": [*found.failed], "topics": topics}


def sentence(found: Profile) -> str:
    """Return how much a store holds, in one line."""
    total = found.total
    first, last = (time_text(total[name]) for name in ("first_store_timestamp_ms", "last_store_timestamp_ms"))
    head = f"{printable(total['store'])}: {counted_text(total['records'] or 0, 'message')}"
    part = " in what could be read" if found.failed else ""
    return f"{head}{part}, {bytes_text(total['bytes'] or 0)}, stored from {first} to {last}"


def as_text(found: Profile) -> str:
    """Return the same, and a table of the topics, for a terminal."""
    lines = [sentence(found), ""]
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

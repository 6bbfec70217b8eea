"""``spark-submit jobs/maintain_tables.py``: what keeps the tables of nightly audits small.

Old runs go from the tables of audits, and with them what stands for itself no longer: verdicts on parts that newer
ones replace. Small files are joined, and what nothing names any more is removed, after Delta's own week of grace. The
history of findings stays. It may run beside audits, and again after it was killed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Final

from delta.tables import DeltaTable
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs import history, tables
from jobs.commits import retried
from jobs.common import JobParser, build_session, run_job
from jobs.declared import AUDITED_PARTS, MORE_TABLES, RECORDS, RUNS
from jobs.stores import positive, separate_errors
from jobs.table_errors import tables_told
from storeio import __version__
from storeio.commands.outputs import json_sink, say
from storeio.output.targets import refuse_inside
from storeio.report import TABLES, to_json

DESCRIPTION: Final = "Delete old runs from the tables of audits, join small files, remove what nothing names."
DAY_MS: Final = 86_400_000
# Tables have no folders here: with the usual 10,000, VACUUM lists each of them in as many tasks, nearly all empty.
LISTING: Final = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "4"}
MOST_AT_A_TIME: Final = 4  # tables whose files are joined
MADE_ID: Final = re.compile(r"(\d{8}T\d{6})Z-[0-9a-f]{8}")
Counts = dict[str, dict[str, int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    args = parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    if args.json not in (None, "-"):  # before the session
        refuse_inside("--json", args.json)
    spark = build_session("storeio maintenance", master=args.master, extra=LISTING)
    _keep_output_ours(quiet=args.quiet)
    before_ms = time.time_ns() // 1_000_000 - args.keep_days * DAY_MS
    with json_sink(args.json, (), quiet=args.quiet) as sink:
        counts = maintained(spark, args.tables, before_ms)
        sink.put(to_json({"tool": "storeio", "version": __version__, "tables": args.tables, "counts": counts}))
    code = sink.code
    if args.json != "-" and not args.quiet:
        rows = (f"{name}: {row['deleted']} rows deleted, {row['joined']} files joined" for name, row in counts.items())
        code |= say("\n".join(rows))
    return code


def _keep_output_ours(*, quiet: bool) -> None:
    """Have what VACUUM prints go to standard error, or nowhere: standard output may be JSON alone."""
    if SparkContext._jvm is not None:
        io, system = SparkContext._jvm.java.io, SparkContext._jvm.java.lang.System
        system.setOut(io.PrintStream(io.OutputStream.nullOutputStream()) if quiet else system.err)


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = JobParser(prog="maintain_tables", description=DESCRIPTION, allow_abbrev=False)
    made.add_tables(note="")
    made.add_argument("--keep-days", metavar="N", type=positive, default=90, help="of runs and verdicts (default: 90)")
    made.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write what was done as JSON; - is standard output"
    )
    made.add_argument("--quiet", action="store_true", help="print nothing")
    made.add_argument("--master", metavar="URL", help="where to run, unless spark-submit says so (default: local[*])")
    return made


def maintained(spark: SparkSession, where: str, before_ms: int) -> Counts:
    """Delete what is older, join files, vacuum; return what was done to each table that is there.

    Raises:
        TablesError: There are no tables, or they could not be read or written. What is done is done.
    """
    there = [name for name in (*TABLES, RECORDS, *MORE_TABLES) if tables.exists(spark, where, name)]
    if not there:
        raise tables.TablesError(f"{where}: no tables there")
    with tables_told(where):
        deleted = dict.fromkeys(there, 0)
        if RUNS in there:
            # What old runs know of findings is kept before they go.
            stores = [row["store"] for row in _load(spark, where, RUNS).select("store").distinct().collect()]
            history.update(spark, where, stores)
            deleted |= _delete_runs(spark, where, there, before_ms)
        if AUDITED_PARTS in there:
            deleted[AUDITED_PARTS] = _delete_verdicts(spark, where, before_ms)
        with ThreadPoolExecutor(MOST_AT_A_TIME) as pool:
            joined = list(pool.map(lambda name: _joined(spark, where, name), there))
        return {name: {"deleted": deleted[name], "joined": count} for name, count in zip(there, joined, strict=True)}


def _load(spark: SparkSession, where: str, name: str) -> DataFrame:
    return spark.read.format("delta").load(tables.path_of(where, name))


def _delete_runs(spark: SparkSession, where: str, there: Sequence[str], before_ms: int) -> dict[str, int]:
    """Delete the rows of old runs. ``runs`` comes last: where this is killed, it is done again."""
    rows = [row.asDict() for row in _load(spark, where, RUNS).select("run_id", "store", "started_ms").collect()]
    newest = {row["store"]: row["run_id"] for row in sorted(rows, key=lambda row: (row["started_ms"], row["run_id"]))}
    young = {row["run_id"] for row in rows if row["started_ms"] >= before_ms} | set(newest.values())
    listed = {row["run_id"] for row in rows}
    deleted = {}
    for name in [*(n for n in there if (n in TABLES or n == RECORDS) and n != RUNS), RUNS]:
        held = {row["run_id"] for row in _load(spark, where, name).select("run_id").distinct().collect()}
        left = {run_id for run_id in held - listed if _made_before(run_id, before_ms)}  # of runs that never ended
        old = sorted((held & listed - young) | left)
        deleted[name] = _deleted(spark, where, name, old)
    return deleted


def _made_before(run_id: str, before_ms: int) -> bool:
    """Tell whether a run's id names an older time; one that somebody gave says nothing."""
    found = MADE_ID.fullmatch(run_id)
    if not found:
        return False
    try:
        made = datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return False
    return made.timestamp() * 1000 < before_ms


def _deleted(spark: SparkSession, where: str, name: str, run_ids: Sequence[str]) -> int:
    """Delete the rows of runs; return how many there were."""
    if not run_ids:
        return 0
    chosen = F.col("run_id").isin(list(run_ids))
    count = _load(spark, where, name).filter(chosen).count()
    path = tables.path_of(where, name)
    table = DeltaTable.forPath(spark, path)
    retried(lambda: table.delete(chosen), path)
    return count


def _delete_verdicts(spark: SparkSession, where: str, before_ms: int) -> int:
    """Delete verdicts that newer ones replace, and those on parts that nobody has looked at for so long."""
    part = Window.partitionBy("store", "kind", "path", "start", "stop").orderBy(F.col("looked_ms").desc(), "digest")
    ranked = _load(spark, where, AUDITED_PARTS).select("*", F.row_number().over(part).alias("rank"))
    old = [row["digest"] for row in ranked.filter((F.col("rank") > 1) | (F.col("looked_ms") < before_ms)).collect()]
    if not old:
        return 0
    path = tables.path_of(where, AUDITED_PARTS)
    table = DeltaTable.forPath(spark, path).alias("t")
    source = spark.createDataFrame([(digest,) for digest in sorted(set(old))], "digest string").alias("s")
    retried(lambda: table.merge(source, "t.digest = s.digest").whenMatchedDelete().execute(), path)
    return len(old)


def _joined(spark: SparkSession, where: str, name: str) -> int:
    """Join a table's small files and remove files that nothing has named for a week; return how many were joined."""
    path = tables.path_of(where, name)
    table = DeltaTable.forPath(spark, path)
    metrics = retried(lambda: table.optimize().executeCompaction(), path).select("metrics.numFilesRemoved").first()
    retried(table.vacuum, path)
    return int(metrics[0]) if metrics else 0


if __name__ == "__main__":
    separate_errors()
    run_job(main)

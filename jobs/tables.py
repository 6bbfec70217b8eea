"""The Delta tables: their columns, writing one run so that all of it appears at once, reading finished runs.

A run's rows are in several tables, and Delta commits one table at a time. So the table that lists runs
is written last, in one commit, and readers take only runs that it lists: ``finished``. What a run that
failed has written before is never seen; it is deleted at once where possible, else by the next run of
the same id. Runs of different ids only append and do not disturb each other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import deltalake
import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaProtocolError, TableNotFoundError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from jobs.declared import (
    ACTIONS,
    MORE_TABLES,
    PROFILE_RUNS,
    REBUILDS,
    REBUILT_QUEUES,
    RUNS,
    SALVAGE_LOST,
    SALVAGED_MESSAGES,
    SALVAGES,
    SIMULATIONS,
    STANDING,
)
from jobs.unusable import TablesError as TablesError
from jobs.unusable import refuse_file, tables_told
from storeio.errors import UsageError
from storeio.report.rows import BINARY, DOUBLE, INT, LONG, STRING, TABLES, Column, Row
from storeio.uris import is_remote, place_of, shown
from udfs.checks import reason
from udfs.schemas import RECORD_SCHEMA

R = TypeVar("R")

RECORDS: Final = "records"
TRIES: Final = 8  # of one commit, where others commit at the same time
_SPARK: Final = {STRING: StringType(), INT: IntegerType(), LONG: LongType(), DOUBLE: DoubleType(), BINARY: BinaryType()}
_ARROW: Final = {STRING: pa.string(), INT: pa.int32(), LONG: pa.int64(), DOUBLE: pa.float64(), BINARY: pa.binary()}


def schema_of(name: str) -> StructType:
    """Return the schema of a table, each column with its comment."""
    if name == RECORDS:
        return StructType([*map(_field, TABLES[RUNS][:2]), *RECORD_SCHEMA.fields])
    return StructType([_field(column) for column in {**TABLES, **MORE_TABLES}[name]])


def _field(column: Column) -> StructField:
    return StructField(
        column.name, _SPARK[column.type], metadata={"comment": column.meaning or column.name.replace("_", " ")}
    )


def rows_of(name: str, rows: Iterable[Row]) -> pa.Table:
    """Return rows of a table of ``report.rows``."""
    columns = {**TABLES, **MORE_TABLES}[name]
    arrow = pa.schema([(column.name, _ARROW[column.type]) for column in columns])
    return pa.Table.from_pylist(list(rows), schema=arrow)


def frame_of(spark: SparkSession, name: str, rows: Iterable[Row]) -> DataFrame:
    """Return rows of a table of ``report.rows`` as a data frame of one partition."""
    return in_contract(spark.createDataFrame(rows_of(name, rows)).coalesce(1), name)


def in_contract(frame: DataFrame, name: str) -> DataFrame:
    """Return the frame with exactly the columns of the table, their order, types and comments."""
    return frame.select(*(F.col(f.name).cast(f.dataType).alias(f.name, metadata=f.metadata) for f in schema_of(name)))


def path_of(tables: str, name: str) -> str:
    """Return where a table lies."""
    return f"{tables.rstrip('/')}/{name}"


def exists(spark: SparkSession, tables: str, name: str) -> bool:
    """Tell whether the table has been written.

    Raises:
        TablesError: Nobody can tell.
    """
    with tables_told(path_of(tables, name)):
        if not is_remote(tables):  # the first time that Spark is asked for a table it takes seconds
            return deltalake.DeltaTable.is_deltatable(path_of(place_of(tables), name))
        return bool(DeltaTable.isDeltaTable(spark, path_of(tables, name)))


def is_finished(spark: SparkSession, tables: str, run_id: str, runs: str = RUNS) -> bool:
    """Tell whether a run of this id is listed as finished."""
    return exists(spark, tables, runs) and _has_run(spark, tables, runs, run_id)


def _has_run(spark: SparkSession, tables: str, name: str, run_id: str) -> bool:
    with tables_told(path_of(tables, name)):
        return not spark.read.format("delta").load(path_of(tables, name)).filter(F.col("run_id") == run_id).isEmpty()


def refuse_finished(spark: SparkSession, tables: str, run_id: str, runs: str = RUNS) -> None:
    """Raise if a run of this id is finished: it is never replaced.

    Raises:
        UsageError: It is.
        TablesError: The tables cannot be read, or are none.
    """
    refuse_file(path_of(tables, runs))
    if is_finished(spark, tables, run_id, runs):
        raise UsageError(f"run {run_id} is finished and in {path_of(tables, runs)}: choose another --run-id")


def write_run(
    spark: SparkSession,
    tables: str,
    run_id: str,
    frames: Mapping[str, DataFrame | pa.Table],
    *,
    runs: str = RUNS,
    is_new: bool = False,
) -> None:
    """Append one run to its tables; it is visible once all of it is written, and not before.

    Args:
        spark: The session.
        tables: Directory of the tables.
        run_id: In every row of every frame.
        frames: Table name to rows.
        runs: The table that lists finished runs, one of ``frames``.
        is_new: No run before this one can have had its id, so that nothing has to be looked for.

    Raises:
        UsageError: A run of this id is finished.
        TablesError: Writing failed; nothing of the run is visible.
    """
    names = [name for name in frames if name != runs]
    if not is_new:
        refuse_finished(spark, tables, run_id, runs)
        # What a run of this id left that did not end; it may have written tables that this one does not.
        discard(spark, tables, run_id, listed_in(runs))
    try:
        _each(lambda name: append(frames[name], path_of(tables, name)), names)
        append(frames[runs], path_of(tables, runs))
    except Exception as error:
        if _discarded(spark, tables, run_id, runs):
            raise TablesError(f"{shown(tables)}: run {run_id} was not written: {reason(error)}") from error


def _discarded(spark: SparkSession, tables: str, run_id: str, runs: str) -> bool:
    """Delete the rows of a run that failed, if that can be done; return False where it is finished all the same.

    The error may be of a commit that was made, for instance where only its answer was lost: all rows are there then.
    """
    try:
        if is_finished(spark, tables, run_id, runs):
            return False
        discard(spark, tables, run_id, listed_in(runs))
    except Exception:  # the error that led here is the one to report; the rows stay invisible
        return True
    return True


def discard(spark: SparkSession, tables: str, run_id: str, names: Iterable[str]) -> None:
    """Delete the rows of a run that is not finished."""

    def one(name: str) -> None:
        if exists(spark, tables, name) and _has_run(spark, tables, name, run_id):
            table = DeltaTable.forPath(spark, path_of(tables, name))
            retried(lambda: table.delete(F.col("run_id") == run_id))

    with tables_told(tables):
        _each(one, names)


def _each(work: Callable[[str], None], names: Iterable[str]) -> None:
    """Do the work for every table; a commit mostly waits, so several at a time."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(work, names))


def append(frame: DataFrame | pa.Table, path: str) -> None:
    """Append rows in one commit; makes the table, and adds columns that it lacks."""
    if isinstance(frame, pa.Table):
        if _appended_here(frame, path):
            return
        spark = SparkSession.builder.getOrCreate()  # the job's: threads have no active one
        frame = in_contract(spark.createDataFrame(frame).coalesce(1), path.rpartition("/")[2])
    rows = frame
    retried(lambda: rows.write.format("delta").mode("append").option("mergeSchema", "true").save(path))


def _appended_here(rows: pa.Table, path: str) -> bool:
    """Append a few rows without Spark, whose first commits take longer than an audit that reads little.

    False, and nothing done, for a table that is not there yet, not on a local disk, has other columns, or features
    which the library does not know; or if another commit came in between.
    """
    if is_remote(path):
        return False
    try:
        table = deltalake.DeltaTable(place_of(path))
        if _plain(pa.schema(table.schema().to_arrow())) != _plain(rows.schema):
            return False
        deltalake.write_deltalake(table, rows, mode="append")
    except (TableNotFoundError, DeltaProtocolError, CommitFailedError):
        return False
    return True


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def retried(commit: Callable[[], R]) -> R:
    """Return what the commit returns, tried again where another run's commit came in between."""
    for attempt in range(TRIES):
        try:
            return commit()
        except (DeltaConcurrentModificationException, PySparkException) as error:
            if attempt == TRIES - 1 or not is_conflict(error):
                raise
            time.sleep(random.uniform(0.1, 0.5) * (attempt + 1))
    raise AssertionError("not reached")


def is_conflict(error: Exception) -> bool:
    """Tell whether another commit at the same time is to blame, e.g. one that made the table first."""
    if isinstance(error, DeltaConcurrentModificationException):
        return True
    return any(word in str(error) for word in ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"))


def runs_of(name: str) -> str:
    """Return the table that lists the finished runs of a table; itself where every row counts."""
    if name in (SIMULATIONS, ACTIONS, *STANDING):
        return name
    if name in (REBUILDS, REBUILT_QUEUES):
        return REBUILDS
    if name in (SALVAGES, SALVAGE_LOST, SALVAGED_MESSAGES):
        return SALVAGES
    return PROFILE_RUNS if name in MORE_TABLES else RUNS


def listed_in(runs: str) -> list[str]:
    """Return the tables whose finished runs another table lists."""
    return [name for name in (*TABLES, RECORDS, *MORE_TABLES) if runs_of(name) == runs and name != runs]


def finished(spark: SparkSession, tables: str, name: str) -> DataFrame:
    """Return a table's rows of finished runs, all of a table that stands for itself; the only way to read it.

    Raises:
        TablesError: No run has been written there, or it cannot be read.
    """
    runs = runs_of(name)
    for needed in {runs, name}:
        if not exists(spark, tables, needed):
            raise TablesError(f"{path_of(tables, needed)}: no such table; no run has written it")
    with tables_told(path_of(tables, name)):
        table = spark.read.format("delta").load(path_of(tables, name))
        if name in STANDING:  # which an older version may have made, with fewer columns
            given = (
                (F.col(f.name) if f.name in table.columns else F.lit(None).cast(f.dataType), f) for f in schema_of(name)
            )
            return table.select(*(column.alias(f.name) for column, f in given))
        ended = spark.read.format("delta").load(path_of(tables, runs)).select("run_id").distinct()
        return table.join(ended, "run_id", how="left_semi").select(*schema_of(name).names)


def views(spark: SparkSession, tables: str) -> list[str]:
    """Make each table that is there a temporary view of its finished rows, for SQL; return their names."""
    names = [name for name in (*TABLES, RECORDS, *MORE_TABLES) if exists(spark, tables, name)]
    for name in names:
        finished(spark, tables, name).createOrReplaceTempView(name)
    return names


def as_markdown() -> str:
    """Return ``docs/tables.md``'s part that follows from the declarations."""
    parts: list[str] = []
    for name in (*TABLES, RECORDS, *MORE_TABLES):
        parts += [f"### `{name}`", "", "| Column | Type | Meaning |", "|---|---|---|"]
        parts += [
            f"| `{field.name}` | {field.dataType.simpleString()} | {field.metadata.get('comment', '')} |"
            for field in schema_of(name)
        ]
        parts.append("")
    return "\n".join(parts)

"""The Delta tables: their columns, writing one run so that all of it appears at once, reading finished runs.

A run's rows are in several tables, and Delta commits one table at a time. So the table that lists runs
is written last, in one commit, and readers take only runs that it lists: ``finished``. What a run that
failed has written before is never seen; it is deleted at once where possible, else by the next run of
the same id. Runs of different ids only append and do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from jobs import local_delta
from jobs.commits import each_of, retried
from jobs.declared import MORE_TABLES, RECORDS, RUNS, RUNS_OF
from jobs.lazy_session import Spark, session_of
from jobs.table_errors import TablesError as TablesError
from jobs.table_errors import refuse_file, tables_told
from storeio.errors import UsageError
from storeio.process import stop_still
from storeio.report.rows import BINARY, DOUBLE, INT, LONG, STRING, TABLES, Column, Row
from storeio.uris import is_remote, shown
from udfs.checks import reason
from udfs.schemas import RECORD_SCHEMA

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
    """Return rows of a table, one of ``report.rows`` or of ``jobs.declared``."""
    columns = {**TABLES, **MORE_TABLES}[name]
    comments = (field.metadata for field in schema_of(name))
    arrow = pa.schema(
        [pa.field(c.name, _ARROW[c.type], metadata=said) for c, said in zip(columns, comments, strict=True)]
    )
    return pa.Table.from_pylist(list(rows), schema=arrow)


def tuples_of(name: str, rows: Iterable[Sequence[object]]) -> pa.Table:
    """Return rows of a table whose values stand in the order of its columns."""
    names = schema_of(name).names
    return rows_of(name, (dict(zip(names, row, strict=True)) for row in rows))


def frame_of(spark: SparkSession, name: str, rows: pa.Table) -> DataFrame:
    """Return rows of a table as a data frame of one partition."""
    return in_contract(spark.createDataFrame(rows).coalesce(1), name)


def in_contract(frame: DataFrame, name: str) -> DataFrame:
    """Return the frame with exactly the columns of the table, their order, types and comments."""
    return frame.select(*(F.col(f.name).cast(f.dataType).alias(f.name, metadata=f.metadata) for f in schema_of(name)))


def path_of(tables: str, name: str) -> str:
    """Return where a table lies."""
    return f"{tables.rstrip('/')}/{name}"


def exists(spark: Spark, tables: str, name: str) -> bool:
    """Tell whether the table has been written.

    Raises:
        TablesError: Nobody can tell.
    """
    with tables_told(path_of(tables, name)):
        if not is_remote(tables):
            return local_delta.is_there(path_of(tables, name))
        return bool(DeltaTable.isDeltaTable(session_of(spark), path_of(tables, name)))


def is_finished(spark: Spark, tables: str, run_id: str, runs: str = RUNS) -> bool:
    """Tell whether a run of this id is listed as finished."""
    return exists(spark, tables, runs) and _has_run(spark, tables, runs, run_id)


def _has_run(spark: Spark, tables: str, name: str, run_id: str) -> bool:
    found = local_delta.rows(path_of(tables, name), ["run_id"], {"run_id": [run_id]})
    if found is not None:
        return len(found) > 0
    with tables_told(path_of(tables, name)):
        table = session_of(spark).read.format("delta").load(path_of(tables, name))
        return not table.filter(F.col("run_id") == run_id).isEmpty()


def refuse_finished(spark: Spark, tables: str, run_id: str, runs: str = RUNS) -> None:
    """Raise if a run of this id is finished: it is never replaced.

    Raises:
        UsageError: It is.
        TablesError: The tables cannot be read, or are none.
    """
    refuse_file(path_of(tables, runs))
    if is_finished(spark, tables, run_id, runs):
        raise UsageError(f"run {run_id} is finished and in {path_of(tables, runs)}: choose another --run-id")


def write_run(
    spark: Spark,
    tables: str,
    run_id: str,
    frames: Mapping[str, DataFrame | pa.Table],
    *,
    runs: str = RUNS,
    is_new: bool = False,
) -> None:
    """Append one run to its tables; it is visible once all of it is written, and not before.

    Args:
        spark: The session, or what starts it.
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
        each_of(lambda name: append(frames[name], path_of(tables, name), spark), names)
        append(frames[runs], path_of(tables, runs), spark)
    except Exception as error:
        if _discarded(spark, tables, run_id, runs):
            stop_still(error)
            raise TablesError(f"{shown(tables)}: run {run_id} was not written: {reason(error)}") from error


def _discarded(spark: Spark, tables: str, run_id: str, runs: str) -> bool:
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


def discard(spark: Spark, tables: str, run_id: str, names: Iterable[str]) -> None:
    """Delete the rows of a run that is not finished."""

    def one(name: str) -> None:
        if not (exists(spark, tables, name) and _has_run(spark, tables, name, run_id)):
            return
        if not local_delta.deleted(path_of(tables, name), "run_id", [run_id]):
            path = path_of(tables, name)
            table = DeltaTable.forPath(session_of(spark), path)
            retried(lambda: table.delete(F.col("run_id") == run_id), path)

    with tables_told(tables):
        each_of(one, names)


def append(frame: DataFrame | pa.Table, path: str, spark: Spark) -> None:
    """Append rows in one commit; makes the table, and adds columns that it lacks."""
    if isinstance(frame, pa.Table):
        if local_delta.appended(frame, path):
            return
        frame = frame_of(session_of(spark), path.rpartition("/")[2], frame)
    rows = frame
    retried(lambda: rows.write.format("delta").mode("append").option("mergeSchema", "true").save(path), path)


def runs_table(name: str) -> str:
    """Return the table that lists the finished runs of a table; itself where every row counts."""
    return RUNS_OF[name] if name in MORE_TABLES else RUNS


def listed_in(runs: str) -> list[str]:
    """Return the tables whose finished runs another table lists."""
    return [name for name in (*TABLES, RECORDS, *MORE_TABLES) if runs_table(name) == runs and name != runs]


def finished(spark: Spark, tables: str, name: str) -> DataFrame:
    """Return a table's rows of finished runs, all of a table that stands for itself; the only way to read it.

    Raises:
        TablesError: No run has been written there, or it cannot be read.
    """
    runs = runs_table(name)
    for needed in {runs, name}:
        if not exists(spark, tables, needed):
            raise TablesError(f"{path_of(tables, needed)}: no such table; no run has written it")
    with tables_told(path_of(tables, name)):
        session = session_of(spark)
        table = session.read.format("delta").load(path_of(tables, name))
        if runs != name:
            ended = session.read.format("delta").load(path_of(tables, runs)).select("run_id").distinct()
            table = table.join(ended, "run_id", how="left_semi")
        # A table that an older version has made may have fewer columns.
        given = (
            (F.col(f.name) if f.name in table.columns else F.lit(None).cast(f.dataType), f) for f in schema_of(name)
        )
        return table.select(*(column.alias(f.name) for column, f in given))


def rows_with(spark: Spark, tables: str, name: str, wanted: local_delta.Wanted) -> list[Row]:
    """Return a table's rows of finished runs, those with the wanted texts; none of a table that is not there.

    Raises:
        TablesError: It cannot be read.
    """
    runs, names = runs_table(name), schema_of(name).names
    if not all(exists(spark, tables, needed) for needed in {runs, name}):
        return []
    # The list first: of a run that it names all rows are there.
    ended = local_delta.rows(path_of(tables, runs), ["run_id"], {}) if runs != name else None
    found = local_delta.rows(path_of(tables, name), names, wanted)
    if found is None or (runs != name and ended is None):
        frame = finished(spark, tables, name)
        for column, texts in wanted.items():
            frame = frame.filter(F.col(column).isin(list(texts)))
        with tables_told(path_of(tables, name)):
            found, ended = frame.toArrow(), None
    empty = dict.fromkeys(names)
    rows = [{**empty, **row} for row in found.to_pylist()]
    if ended is None:
        return rows
    listed = set(ended["run_id"].to_pylist())
    return [row for row in rows if row["run_id"] in listed]


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

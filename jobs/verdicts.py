"""The table ``audited_parts``: what incremental audits keep for those that follow.

Rows are only added, each complete in itself, so that runs at the same time do not disturb each other, and what a
killed run has left is as good as any. Of several rows of one part the newest counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import tables
from jobs.declared import AUDITED_PARTS
from storeio.incremental.verdicts import PartKey, Verdict, latest, store_name
from storeio.uris import is_remote, place_of
from udfs.checks import reason


def kept(spark: SparkSession, where: str, stores: Sequence[str]) -> dict[str, dict[PartKey, Verdict]]:
    """Return the newest verdict on each part of the stores, by store; nothing where none was kept.

    Raises:
        TablesError: The table could not be read.
    """
    names = [store_name(store) for store in stores]
    try:
        if not tables.exists(spark, where, AUDITED_PARTS):
            return {}
        rows = _read_here(tables.path_of(where, AUDITED_PARTS), names)
        if rows is None:
            rows = tables.finished(spark, where, AUDITED_PARTS).filter(F.col("store").isin(names)).toArrow()
        return latest(rows.to_pylist())
    except Exception as error:
        raise tables.TablesError(f"{tables.path_of(where, AUDITED_PARTS)}: {reason(error)}") from error


def _read_here(path: str, stores: Sequence[str]) -> pa.Table | None:
    """Return the stores' rows without Spark, whose first query takes longer than all else that a quiet night needs.

    None for a table that is not on a local disk, or that has features which the library does not know.
    """
    if is_remote(path):
        return None
    try:
        table = DeltaTable(place_of(path))
        return table.to_pyarrow_table(
            columns=list(tables.schema_of(AUDITED_PARTS).names), filters=[("store", "in", list(stores))]
        )
    except DeltaProtocolError:
        return None


def keep(where: str, verdicts: Sequence[Verdict]) -> None:
    """Add verdicts to the table, in one commit.

    Raises:
        TablesError: They could not be written; the next run looks at these parts again.
    """
    if not verdicts:
        return
    rows = [dataclasses.asdict(verdict) for verdict in verdicts]
    try:
        tables.append(tables.rows_of(AUDITED_PARTS, rows), tables.path_of(where, AUDITED_PARTS))
    except Exception as error:
        raise tables.TablesError(f"{tables.path_of(where, AUDITED_PARTS)}: {reason(error)}") from error

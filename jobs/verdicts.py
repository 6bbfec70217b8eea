"""The table ``audited_parts``: what incremental audits keep for those that follow.

Rows are only added, each complete in itself, so that runs at the same time do not disturb each other, and what a
killed run has left is as good as any. Of several rows of one part the newest counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import SparkSession

from jobs import tables
from jobs.declared import AUDITED_PARTS
from jobs.table_errors import tables_told
from storeio.incremental.verdicts import PartKey, Verdict, latest, store_name


def kept(spark: SparkSession, where: str, stores: Sequence[str]) -> dict[str, dict[PartKey, Verdict]]:
    """Return the newest verdict on each part of the stores, by store; nothing where none was kept.

    Raises:
        TablesError: The table could not be read.
    """
    names = [store_name(store) for store in stores]
    with tables_told(tables.path_of(where, AUDITED_PARTS)):
        return latest(tables.rows_with(spark, where, AUDITED_PARTS, {"store": names}))


def keep(spark: SparkSession, where: str, verdicts: Sequence[Verdict]) -> None:
    """Add verdicts to the table, in one commit.

    Raises:
        TablesError: They could not be written; the next run looks at these parts again.
    """
    if not verdicts:
        return
    rows = [dataclasses.asdict(verdict) for verdict in verdicts]
    with tables_told(tables.path_of(where, AUDITED_PARTS)):
        tables.append(tables.rows_of(AUDITED_PARTS, rows), tables.path_of(where, AUDITED_PARTS), spark)

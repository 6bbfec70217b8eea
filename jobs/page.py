"""The page of an audit job: the report of ``storeio check --html``, with the history that the tables have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

from pyspark.sql import SparkSession

from jobs import tables
from jobs.declared import FINDING_HISTORY, RUNS
from storeio.config import Given
from storeio.output.partials import left_beside
from storeio.output.staging import explained
from storeio.output.whole_file import whole_file
from storeio.predict.start import next_starts
from storeio.report.page import Past, Start, StorePage, past_of, render_page, start_of
from storeio.report.parsed import Failure
from storeio.report.rows import valid_text
from storeio.results import Audit, Unfinished


def write_page(
    spark: SparkSession, where: str, place: Path, audits: Sequence[Audit | Unfinished | Failure], given: Given
) -> tuple[str, ...]:
    """Write the page of all stores, those that could not be audited too; whole or not at all.

    Return sentences on what runs that were killed left beside it.

    Raises:
        TablesError: The tables could not be read.
        WriteError: It could not be written.
    """
    pages = [StorePage(audit, _starts(audit, given), _past(spark, where, audit.store)) for audit in audits]
    notes = left_beside(place)
    with whole_file(place) as partial, explained(str(place)):
        partial.write_text(render_page(pages), encoding="utf-8", errors="backslashreplace")
    return notes


def _starts(audit: Audit | Unfinished | Failure, given: Given) -> list[Start]:
    if not isinstance(audit, Audit):
        return []
    return [*starmap(start_of, next_starts(audit.store, given))]


def _past(spark: SparkSession, where: str, store: str) -> Past:
    wanted = {"store": [valid_text(store)]}
    return past_of(*(tables.rows_with(spark, where, name, wanted) for name in (RUNS, FINDING_HISTORY)))

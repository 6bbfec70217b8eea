"""What the Delta tables of earlier audits say of a store, read without Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from storeio.errors import UnreadableError, UsageError
from storeio.output.targets import followed
from storeio.report.page.past import RUN_COLUMNS, SIGHTING_COLUMNS, Past, past_of
from storeio.uris import is_remote, place_of, refuse_remote

RUNS: Final = "runs"
SIGHTINGS: Final = "finding_history"

Row = Mapping[str, Any]


class Tables:
    """The tables in a directory, each read once."""

    def __init__(self, where: str) -> None:
        """Read the tables.

        Raises:
            UsageError: There are none, or what reads them is not installed.
            UnreadableError: They cannot be read.
        """
        root = refuse_remote(where, "--history reads tables on a local disk")
        self._runs = _rows(os.path.join(root, RUNS), ("store", *RUN_COLUMNS))
        if self._runs is None:
            raise UsageError(f"--history {where}: holds no table {RUNS}; jobs/audit_store.py writes it")
        self._sightings = _rows(os.path.join(root, SIGHTINGS), ("store", *SIGHTING_COLUMNS)) or []

    def past_of(self, store: str) -> Past:
        """Return what they say of one store, named as on the command line."""
        runs = [row for row in self._runs or () if _same(row["store"], store)]
        return past_of(runs, [row for row in self._sightings if _same(row["store"], store)])


def _rows(path: str, columns: tuple[str, ...]) -> list[Row] | None:
    """Return the rows of a table, None where there is none."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"--history {path}: is no UTF-8 text; tables cannot be read from there") from None
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise UsageError("--history: needs deltalake: pip install 'storeio[spark]'") from error
    if not DeltaTable.is_deltatable(path):
        return None
    try:
        rows: list[Row] = DeltaTable(path).to_pyarrow_table(columns=list(columns)).to_pylist()
    except (DeltaError, OSError, ValueError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    return rows


def _same(named: str, store: str) -> bool:
    """Tell whether two names are of one store."""
    one, other = place_of(named), place_of(store)
    if one == other or is_remote(one) or is_remote(other):
        return one == other
    return followed(one) == followed(other)

"""Delta tables on a local disk, read and written without Spark: its first look at a table takes longer than an audit.

Whatever cannot be done here is left to Spark, which then does it or says why not: tables on other file systems, with
features that the library does not know, with other columns, damaged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from jobs.commits import TRIES, alone_at, pause
from storeio.uris import is_remote, place_of

Wanted = Mapping[str, Sequence[str]]
"""Column to the texts that rows may have in it."""

LONGEST_WAIT: Final = 0.1  # before another attempt, seconds
# What a change rests on may be gone after another commit: look again, rather than have the library decide.
AS_SEEN: Final = CommitProperties(max_commit_retries=0)


def is_there(path: str) -> bool:
    """Tell whether a local table has been written."""
    return DeltaTable.is_deltatable(place_of(path))


def rows(path: str, columns: Sequence[str], wanted: Wanted) -> pa.Table | None:
    """Return those of the columns that the table has, of rows with the wanted texts; None: Spark has to look."""
    if is_remote(path):
        return None
    try:
        table = DeltaTable(place_of(path))
        names = {field.name for field in table.schema().fields}
        chosen = ", ".join(f'"{name}"' for name in columns if name in names)
        limits = " and ".join(_among(name, texts) for name, texts in wanted.items()) or "true"
        return pa.table(QueryBuilder().register("t", table).execute(f"select {chosen} from t where {limits}"))
    except Exception:  # of several libraries; whatever it is, Spark meets it too, and says what
        return None


def takes(new: pa.Table, path: str) -> bool:
    """Tell whether such rows can be appended here: to a local table of the same columns, or one that is not there."""
    if is_remote(path):
        return False
    try:
        if not is_there(path):
            return True
        return _plain(pa.schema(DeltaTable(place_of(path)).schema().to_arrow())) == _plain(new.schema)
    except DeltaError:
        return False


def appended(new: pa.Table, path: str) -> bool:
    """Append rows in one commit, which makes the table if need be; False: nothing was done, Spark has to."""
    if not takes(new, path):
        return False
    try:
        with alone_at(path):
            write_deltalake(place_of(path), new, mode="append")
    except DeltaError:  # another commit came in between, too
        return False
    return True


def deleted(path: str, column: str, texts: Sequence[str]) -> bool:
    """Delete rows with one of the texts in the column; False: nothing was done, Spark has to."""
    return _changed(path, lambda table: table.delete(_among(column, texts), commit_properties=AS_SEEN))


def merged(new: pa.Table, path: str, same: str, updates: Mapping[str, str]) -> bool:
    """Update the rows of the table ``t`` that are the ``same`` as one of ``s``, the new ones, and add the others.

    False: nothing was done, Spark has to.
    """
    return _changed(
        path,
        lambda table: (
            table.merge(new, same, source_alias="s", target_alias="t", commit_properties=AS_SEEN)
            .when_matched_update(dict(updates))
            .when_not_matched_insert_all()
            .execute()
        ),
    )


def _changed(path: str, change: Callable[[DeltaTable], object]) -> bool:
    """Make a change that rests on the rows there, again where another commit came in between."""
    if is_remote(path):
        return False
    for attempt in range(TRIES):
        try:
            with alone_at(path):
                change(DeltaTable(place_of(path)))
            return True
        except CommitFailedError:
            pause(attempt, LONGEST_WAIT)
        except DeltaError:
            return False
    return False


def _among(column: str, texts: Sequence[str]) -> str:
    """Return the condition that a column has one of the texts."""
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    return f'"{column}" in ({listed})' if texts else "false"


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])

"""The table ``finding_history``: one row an error or warning of a store, brought up to date after each run.

It follows from ``runs`` and ``findings``; a run that was killed before it came here is caught up with by the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from delta.tables import DeltaTable

from jobs import local_delta, tables
from jobs.commits import retried
from jobs.declared import FINDING_HISTORY, RUNS
from jobs.lazy_session import Spark, session_of
from jobs.table_errors import tables_told
from storeio.findings import ERROR, INFO, WARNING
from storeio.incremental.history import LENGTH, PLACE, History, Moment, Seen, finding_id, folded
from storeio.report.rows import Row, valid_text
from storeio.results import Audit, Unfinished

FINDINGS: Final = "findings"
RUNS_BACK: Final = 10  # finished runs of a store that are looked at again, in case that one was killed

# Of a row in the table, t, and one that was found now, s: words that Spark and ``here`` have in common.
SAME: Final = "t.store = s.store and t.finding_id = s.finding_id"
FIRST: Final = """(s.first_seen_ms < t.first_seen_ms
    or s.first_seen_ms = t.first_seen_ms and s.first_run_id < t.first_run_id)"""
NEWER: Final = """(s.last_seen_ms > t.last_seen_ms
    or s.last_seen_ms = t.last_seen_ms and s.last_run_id >= t.last_run_id)"""
# What was cleared before the last sight is open again; of two moments after it the first counts.
CLEARED: Final = {side: f"{side}.cleared_ms > greatest(t.last_seen_ms, s.last_seen_ms)" for side in "ts"}
CLEARED_FIRST: Final = f"""{CLEARED["s"]} and (t.cleared_ms is null or not {CLEARED["t"]}
    or s.cleared_ms < t.cleared_ms or s.cleared_ms = t.cleared_ms and s.cleared_run_id < t.cleared_run_id)"""
UPDATES: Final = {
    **{name: f"case when {FIRST} then s.{name} else t.{name} end" for name in ("first_seen_ms", "first_run_id")},
    **{
        name: f"case when {NEWER} then s.{name} else t.{name} end"
        for name in ("last_seen_ms", "last_run_id", "detail", LENGTH)
    },
    **{
        name: f"case when {CLEARED_FIRST} then s.{name} when {CLEARED['t']} then t.{name} end"
        for name in ("cleared_ms", "cleared_run_id")
    },
}


def after_run(spark: Spark, where: str, audits: Sequence[Audit | Unfinished], run_id: str) -> None:
    """Bring the history up to date after a run, or begin it with the first run that found something.

    Raises:
        TablesError: It could not be; the next run does it.
    """
    found = any(f.severity != INFO for audit in audits for f in audit.findings)
    if found or tables.exists(spark, where, FINDING_HISTORY):
        update(spark, where, [audit.store for audit in audits], run_id)


def update(spark: Spark, where: str, stores: Sequence[str], run_id: str | None = None) -> None:
    """Bring the history of some stores up to date, after a run; without one, after all runs that there are.

    A store of which the history has nothing, as where that was deleted, is looked at from its first run on.

    Raises:
        TablesError: It could not be; the next run does it.
    """
    names = [valid_text(store) for store in stores]
    with tables_told(tables.path_of(where, FINDING_HISTORY)):
        before = tables.rows_with(spark, where, FINDING_HISTORY, {"store": names})
        runs = _runs(spark, where, names, {} if run_id is None else {row["store"]: run_id for row in before})
        if before or any(run["findings"] for run in runs):
            _merge(spark, where, _changed(spark, where, names, before, runs))


def _runs(spark: Spark, where: str, stores: Sequence[str], new: Mapping[str, str]) -> list[Row]:
    """Return finished runs of each store, with how many findings each has: the last ones where it has a ``new`` one."""
    rows = tables.rows_with(spark, where, RUNS, {"store": stores})
    for row in rows:
        row["findings"] = (row["errors"] or 0) + (row["warnings"] or 0)
    rows.sort(key=lambda row: (row["started_ms"], row["run_id"]))
    found: list[Row] = []
    by_store = _by_store(rows)
    for store in stores:
        mine = by_store.get(store, [])
        found += last_runs(mine, RUNS_BACK, new[store]) if store in new else mine
    return found


def last_runs(runs: Sequence[Row], count: int, run_id: str = "") -> Sequence[Row]:
    """Return the last runs, and some before them: a complete one tells what those behind it saw only pieces of.

    A run that took long, or is of a report that was collected late, may not be among the last: it is with them.
    """
    start = min([max(len(runs) - count, 0), *(n for n, run in enumerate(runs) if run["run_id"] == run_id)])
    while start and not _is_complete(runs[start]):
        start -= 1
    return runs[start:]


def _is_complete(run: Mapping[str, Any]) -> bool:
    return not run["left_parts"] and not run["failed"]  # what could not be read may hide what was seen before


def _by_store(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["store"], []).append(row)
    return found


def _changed(spark: Spark, where: str, stores: Sequence[str], before: Sequence[Row], runs: Sequence[Row]) -> list[Row]:
    """Return the rows that the runs change or add."""
    ids = sorted({run["run_id"] for run in runs if run["findings"]})
    found: dict[tuple[str, str], dict[str, Row]] = {}
    if ids:
        wanted = {"run_id": ids, "store": stores, "severity": (ERROR, WARNING)}
        for row in tables.rows_with(spark, where, FINDINGS, wanted):
            found.setdefault((row["run_id"], row["store"]), {})[finding_id(row)] = row
    changed: list[Row] = []
    known, ran = _by_store(before), _by_store(runs)
    for store in stores:
        old = {row["finding_id"]: _history(row) for row in known.get(store, ())}
        seen = [_seen(run, found.get((run["run_id"], store), {})) for run in ran.get(store, ())]
        new = folded(old, seen)
        changed += [_row(name, row) for name, row in new.items() if old.get(name) != row]
    return changed


def _seen(run: Mapping[str, Any], findings: Mapping[str, Row]) -> Seen:
    places = {name: {column: row[column] for column in _PLACE} for name, row in findings.items()}
    return Seen((run["started_ms"], run["run_id"]), _is_complete(run), places)


_PLACE: Final = (*PLACE, "severity", "detail", LENGTH)


def _history(row: Row) -> History:
    cleared: Moment | None = None
    if row["cleared_ms"] is not None:
        cleared = row["cleared_ms"], row["cleared_run_id"]
    first, last = (row["first_seen_ms"], row["first_run_id"]), (row["last_seen_ms"], row["last_run_id"])
    return History({name: row[name] for name in _PLACE}, first, last, cleared)


def _row(name: str, row: History) -> Row:
    cleared = row.cleared or (None, None)
    times = zip(("first_seen_ms", "first_run_id", "last_seen_ms", "last_run_id"), (*row.first, *row.last), strict=True)
    return {"finding_id": name, **row.place, **dict(times), "cleared_ms": cleared[0], "cleared_run_id": cleared[1]}


def _merge(spark: Spark, where: str, rows: Iterable[Row]) -> None:
    """Put rows into the table; of two runs at the same time the later one's sight counts, whoever commits first."""
    new = tables.rows_of(FINDING_HISTORY, rows)
    path = tables.path_of(where, FINDING_HISTORY)
    if local_delta.merged(new, path, SAME, UPDATES):
        return
    is_there = tables.exists(spark, where, FINDING_HISTORY)
    # An older version may have made it.
    if not is_there or LENGTH not in session_of(spark).read.format("delta").load(path).columns:
        tables.append(new.slice(0, 0), path, spark)
        if local_delta.merged(new, path, SAME, UPDATES):
            return
    session = session_of(spark)
    frame = tables.frame_of(session, FINDING_HISTORY, new).alias("s")
    table = DeltaTable.forPath(session, path).alias("t")
    merge = table.merge(frame, SAME).whenMatchedUpdate(set=dict(UPDATES)).whenNotMatchedInsertAll()
    retried(merge.execute, path)

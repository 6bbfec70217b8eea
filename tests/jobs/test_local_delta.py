"""Delta tables without Spark hold what those with it hold: made, added to, searched, deleted from, merged into."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrameWriter
from pyspark.sql import functions as F

from jobs import commits, history, local_delta, tables
from jobs.declared import FINDING_HISTORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.share(2)

Row = dict[str, Any]
NAMES = tables.schema_of(FINDING_HISTORY).names
ODD = ("plain", "it's", 'a"b', "")


def row(number: int, **told: Any) -> Row:
    """Return a row of the history with these values, and with others that can be told apart."""
    return {**dict.fromkeys(NAMES), "store": "/s", "finding_id": str(number), "queue_id": number, **told}


def sights(number: int, side: str) -> Row:
    """Return a row with any moments, that of the clearing none or after the last sight."""
    rng = random.Random(f"{side}{number}")
    (first, last), ids = sorted(rng.choices(range(3), k=2)), rng.choices("ab", k=3)
    cleared = rng.choice([None, last + 1, last + 2])
    return row(
        number, first_seen_ms=first, first_run_id=ids[0], last_seen_ms=last, last_run_id=ids[1], cleared_ms=cleared,
        cleared_run_id=cleared and ids[2], detail=f"{side}{number}", length=number,
    )  # fmt: skip


def joined(old: Row, new: Row) -> Row:
    """Return what the moments of two sights come to."""
    newest = max(old, new, key=lambda one: (one["last_seen_ms"], one["last_run_id"], one is new))
    oldest = min(old, new, key=lambda one: (one["first_seen_ms"], one["first_run_id"]))
    after = [
        (one["cleared_ms"], one["cleared_run_id"])
        for one in (old, new)
        if one["cleared_ms"] is not None and one["cleared_ms"] > newest["last_seen_ms"]
    ]
    cleared = min(after, default=(None, None))
    return {
        **newest, **{name: oldest[name] for name in ("first_seen_ms", "first_run_id")}, "cleared_ms": cleared[0],
        "cleared_run_id": cleared[1],
    }  # fmt: skip


def all_rows(path: str) -> list[Row]:
    """Return the rows of a table in an order."""
    found = local_delta.rows(path, NAMES, {})
    assert found is not None
    return sorted(found.to_pylist(), key=lambda one: (one["queue_id"], one["store"]))


def test_moments_are_merged_as_spark_merges_them(tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / FINDING_HISTORY)
    sides = [[sights(number, side) for number in range(200)] for side in "ts"]
    olds, news = (tables.rows_of(FINDING_HISTORY, rows) for rows in sides)
    assert not local_delta.merged(olds, path, history.SAME, history.UPDATES)
    assert local_delta.appended(olds.slice(0, 150), path)
    assert local_delta.merged(news, path, history.SAME, history.UPDATES)
    expected = [joined(*both) for both in itertools.islice(zip(*sides, strict=True), 150)] + sides[1][150:]
    assert all_rows(path) == expected
    both = spark.createDataFrame(olds).alias("t").join(spark.createDataFrame(news).alias("s"), F.expr(history.SAME))
    found = both.orderBy("t.queue_id").selectExpr(*(f"{text} as {name}" for name, text in history.UPDATES.items()))
    assert [one.asDict() for one in found.head(150)] == [
        {name: one[name] for name in history.UPDATES} for one in expected[:150]
    ]


def test_rows_are_found_and_deleted_by_any_text(tmp_path: Path, spark: SparkSession) -> None:
    """Also those of a table in which rows were merged, and Spark sees the same."""
    path = str(tmp_path / FINDING_HISTORY)
    new = tables.rows_of(FINDING_HISTORY, [row(n, store=text) for n, text in enumerate(ODD)])
    assert local_delta.appended(new, path) and local_delta.merged(new, path, history.SAME, {"detail": "s.store"})
    for text in ODD:
        found = local_delta.rows(path, ["detail"], {"store": [text]})
        assert found is not None and found["detail"].to_pylist() == [text]
    none = local_delta.rows(path, NAMES, {"store": []})
    assert none is not None and not len(none)
    assert local_delta.deleted(path, "store", ODD[1:3])
    left = spark.read.format("delta").load(path)
    assert sorted(one.store for one in left.collect()) == ["", "plain"]
    assert left.schema == tables.schema_of(FINDING_HISTORY)  # with what each column means


def test_no_row_comes_twice(tmp_path: Path) -> None:
    """Whoever makes the table, and whoever is merged last."""
    path = str(tmp_path / FINDING_HISTORY)

    def put(moment: int) -> bool:
        told = dict.fromkeys(("first_seen_ms", "last_seen_ms"), moment)
        new = tables.rows_of(FINDING_HISTORY, [row(n, **told, first_run_id="", last_run_id="") for n in range(3)])
        empty = new.slice(0, 0)
        return any(local_delta.appended(empty, path) for _ in range(9)) and any(
            local_delta.merged(new, path, history.SAME, history.UPDATES) for _ in range(9)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(put, range(8)))
    assert [(one["first_seen_ms"], one["last_seen_ms"]) for one in all_rows(path)] == [(0, 7)] * 3


@pytest.mark.parametrize("change", ["elsewhere", "damaged", "other columns"])
def test_what_cannot_be_done_is_left_to_spark(change: str, tmp_path: Path) -> None:
    path, new = str(tmp_path / FINDING_HISTORY), tables.rows_of(FINDING_HISTORY, [row(1)])
    if change == "elsewhere":
        path = "s3a://bucket/tables"
    elif change == "damaged":
        (tmp_path / FINDING_HISTORY / "_delta_log").mkdir(parents=True)
        (tmp_path / FINDING_HISTORY / "_delta_log" / f"{0:020d}.json").write_text("garbage\n")
    else:
        assert local_delta.appended(new.drop_columns(["length"]), path)
        found = local_delta.rows(path, ["length", "store"], {})
        assert found is not None and found.column_names == ["store"]
    assert not local_delta.appended(new, path)
    assert not local_delta.merged(new, path, history.SAME, history.UPDATES)
    assert change == "other columns" or local_delta.rows(path, NAMES, {}) is None


@pytest.mark.parametrize("writer", ["library", "Spark"])
def test_nobody_else_commits_to_a_local_table_meanwhile(
    writer: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's writer replaces a commit that gets its name while it writes, and the rows of that are gone."""
    path = str(tmp_path / FINDING_HISTORY)
    owner, name = (DataFrameWriter, "save") if writer == "Spark" else (local_delta, "write_deltalake")
    write, held = getattr(owner, name), []

    def watched(*args: Any, **rest: Any) -> None:
        handle = os.open(path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        held.append(writer)
        write(*args, **rest)

    rows = tables.rows_of(FINDING_HISTORY, [row(1)])
    if writer == "Spark":  # to which a table of an older version is left
        assert local_delta.appended(rows.drop_columns(["length"]), path)
    monkeypatch.setattr(owner, name, watched)
    tables.append(rows, path, spark)
    assert held == [writer]
    assert local_delta.deleted(path, "store", ["/s"])


def test_who_waits_for_another_run_says_so_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commits, "QUIET_POLLS", 1)
    handle, came = os.open(tmp_path, os.O_RDONLY), []

    def wait(name: str) -> None:
        with commits.alone_at(str(tmp_path)):
            came.append(name)

    fcntl.flock(handle, fcntl.LOCK_EX)
    stop = [threading.main_thread().ident, signal.SIGINT]
    timers = [threading.Timer(0.5, signal.pthread_kill, stop), threading.Timer(60, os.close, [handle])]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        commits.each_of(wait, ["one"])
    timers[1].cancel()
    os.close(handle)
    assert came == []
    assert f"{tmp_path}: another run writes there" in capsys.readouterr().err
    commits.each_of(wait, ["one"])
    assert came == ["one"]

"""The profile job: its tables against sums over what the broker's own decoder printed."""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from datasources import unreadable_store

from jobs import profile_store, tables
from storeio.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORES = ("rich-5.3.3", "base-4.9.8")
BUCKET_MS = 1000
SEGMENT = "commitlog/00000000000000032768"  # of the second store, not its first
Record = dict[str, Any]
Key = tuple[Any, ...]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Return where one run over both stores is in ``tables``, with its JSON and what it printed.

    A third one, ``partly``, has a segment that cannot be listed, and a fourth one is not there.
    """
    del spark
    place = tmp_path_factory.mktemp("profile")
    partly = golden.copy_of("base-4.9.8", place / "partly")
    for path in (partly / SEGMENT, partly / "config" / "loop"):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(path.name)
    stores = [*(golden.store(name) for name in STORES), partly, place / "nowhere"]
    words = ["--store", *map(str, stores), "--tables", str(place / "tables"), "--json", str(place / "report.json")]
    words += ["--run-id", "one", "--bucket-seconds", "1", "--split-bytes", "200000"]
    with contextlib.ExitStack() as printing:
        for name, redirect in (("out", contextlib.redirect_stdout), ("err", contextlib.redirect_stderr)):
            printing.enter_context(redirect(printing.enter_context((place / name).open("w"))))
        assert profile_store.main(words) == 8 | 16
    return place


def records() -> list[Record]:
    """Return the records of both stores, with what the tables tell apart."""
    found = []
    for name in STORES:
        segment_bytes = golden.options(name)["clFile"]
        for row in golden.dump(name):
            size, store_ms = int(row["size"]), int(row["store_timestamp"])
            pairs = row["properties"][1:-1].split(", ")  # no value in these stores holds a comma
            tag = next((pair[5:] for pair in pairs if pair.startswith("TAGS=")), None)
            base = int(row["phy_offset"]) // segment_bytes * segment_bytes
            found.append(
                {
                    "store": str(golden.store(name)), "topic": row["topic"], "queue_id": int(row["queue_id"]),
                    "tag": tag, "path": f"commitlog/{base:020d}", "size": size, "body": int(row["body_len"]),
                    "store_ms": store_ms, "bucket_start_ms": store_ms // BUCKET_MS * BUCKET_MS,
                    "min_bytes": 1 << (size.bit_length() - 1),
                }
            )  # fmt: skip
    return found


def summed(keys: tuple[str, ...]) -> dict[Key, Record]:
    """Return the sums that a table with these keys has to have."""
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record in records():
        groups[tuple(record[key] for key in ("store", *keys))].append(record)
    return {key: _told(group) for key, group in groups.items()}


def _told(group: list[Record]) -> Record:
    sizes = [record["size"] for record in group]
    times = [record["store_ms"] for record in group]
    seconds = (max(times) - min(times)) / 1000
    return {
        "records": len(group),
        "bytes": sum(sizes),
        "body_bytes": sum(record["body"] for record in group),
        "min_size": min(sizes),
        "max_size": max(sizes),
        "mean_size": pytest.approx(sum(sizes) / len(sizes)),
        "first_store_timestamp_ms": min(times),
        "last_store_timestamp_ms": max(times),
        "records_per_second": pytest.approx(len(group) / seconds) if seconds else None,
        "bytes_per_second": pytest.approx(sum(sizes) / seconds) if seconds else None,
        "queues": len({record["queue_id"] for record in group}),
        "topics": len({record["topic"] for record in group}),
    }


def per_bucket(told: Record) -> Record:
    """Return the sums of a stretch of time: rates are over all of it."""
    rates = {"records_per_second": told["records"] * 1000 / BUCKET_MS, "bytes_per_second": told["bytes"]}
    return told | rates | {"bucket_ms": BUCKET_MS}


TABLES: dict[str, tuple[tuple[str, ...], Callable[[Record], Record]]] = {
    "profile_topics": (("topic",), lambda told: told),
    "profile_queues": (("topic", "queue_id"), lambda told: told),
    "profile_tags": (("topic", "tag"), lambda told: told),
    "profile_time": (("topic", "bucket_start_ms"), per_bucket),
    "profile_sizes": (("topic", "min_bytes"), lambda told: told),
    "profile_segments": (("path",), lambda told: told),
    "profile_runs": ((), lambda told: told),
}


@pytest.mark.parametrize("name", TABLES)
def test_table(name: str, run: Path, spark: SparkSession) -> None:
    keys, change = TABLES[name]
    expected = {key: change(told) for key, told in summed(keys).items()}
    found = tables.rows_with(spark, str(run / "tables"), name, {})
    rows = [row for row in found if row["store"] not in (str(run / "partly"), str(run / "nowhere"))]
    assert len(rows) < len(found)
    assert {tuple(row[key] for key in ("store", *keys)) for row in rows} == set(expected)
    assert len(rows) == len(expected)
    for row in rows:
        told = expected[tuple(row[key] for key in ("store", *keys))]
        assert {column: row[column] for column in told if column in row} == (
            {column: told[column] for column in told if column in row}
        )
        assert row["run_id"] == "one"
        assert "max_bytes" not in row or row["max_bytes"] == 2 * row["min_bytes"] > row["bytes"] / row["records"]


def test_json(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "report.json").read_text().splitlines()]
    topics = summed(("topic",))
    assert lines.pop()["store"] == str(run / "partly")
    assert lines.pop(0)["store"] == str(run / "nowhere")
    for line, (key, told) in zip(lines, summed(()).items(), strict=True):
        assert line["store"] == key[0]
        told.pop("topics")  # a number in the tables, a list here
        assert {name: line[name] for name in told if name in line} == {n: told[n] for n in told if n in line}
        assert {(key[0], part["topic"]): part["records"] for part in line["topics"]} == (
            {name: part["records"] for name, part in topics.items() if name[0] == key[0]}
        )


def test_text_of_a_store_and_of_none(run: Path) -> None:
    assert "nowhere: no such directory" in (run / "err").read_text()
    lines = (run / "out").read_text().partition(f"{golden.store('base-4.9.8')}: ")[2].splitlines()
    assert lines[0].startswith("850 messages, 317 kB, stored from 2026-11-20T23:57:08")
    assert [line.split()[:3] for line in lines[3:5]] == [["topic_0", "2", "412"], ["topic_1", "2", "438"]]
    assert lines[5] == ""


def test_few_rows_and_many_are_the_same(run: Path, spark: SparkSession) -> None:
    name = "profile_topics"
    given = tables.rows_of(name, tables.rows_with(spark, str(run / "tables"), name, {}))
    frame = spark.createDataFrame(given.drop_columns(["run_id"]))
    few, many = (profile_store.rows_of_run(name, frame, "one", are_few=are_few) for are_few in (True, False))
    assert few == given
    assert [(f.name, f.dataType, f.metadata) for f in many.schema] == (
        [(f.name, f.dataType, f.metadata) for f in tables.schema_of(name)]
    )
    assert [row.asDict() for row in many.collect()] == few.to_pylist()


def test_a_finished_run_is_refused(run: Path) -> None:
    words = ["--store", str(golden.store("base-4.9.8")), "--tables", str(run / "tables"), "--run-id", "one"]
    with pytest.raises(UsageError, match="run one is finished"):
        profile_store.main(words)


def test_quiet_is_one_line_a_store(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    del spark
    words = ["--store", *(str(golden.store(name)) for name in STORES), "--tables", str(tmp_path), "--quiet"]
    assert profile_store.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(golden.store(name)) for name in STORES]
    assert ": 850 messages, " in lines[1]


def test_a_log_that_cannot_be_read_is_one_line_and_one_stores(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = str(unreadable_store(tmp_path / "store")), str(golden.store("base-4.9.8"))
    where = str(tmp_path / "tables")
    assert profile_store.main(["--store", bad, good, "--tables", where, "--json", "-"]) == 8
    out, err = capsys.readouterr()
    told = {line["store"]: line for line in map(json.loads, out.splitlines())}
    assert {store: (line["exit_code"], line.get("records")) for store, line in told.items()} == (
        {bad: (8, None), good: (0, 850)}
    )
    assert re.search(rf"^storeio: .*{bad}.*count of the records: commitlog/00000000000000000000: ", err, re.MULTILINE)
    rows = tables.rows_with(spark, where, "profile_runs", {})
    assert sorted((row["exit_code"], row["store"], row["records"]) for row in rows) == [(0, good, 850), (8, bad, None)]
    assert ["commitlog/00000000000000000000" in row["failed"] for row in rows if row["failed"]] == [True]
    topics = tables.rows_with(spark, where, "profile_topics", {})
    assert {(row["store"], row["topic"]): row["records"] for row in topics} == (
        {(good, "topic_0"): 412, (good, "topic_1"): 438}
    )


def test_a_segment_that_goes_during_the_count_is_said(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count lists the store anew; without a word the sum would be that of another store."""
    del spark
    store, of_all = golden.copy_of("base-4.9.8", tmp_path / "store"), profile_store.records_of

    def records_of(*given: Any) -> DataFrame:
        (store / SEGMENT).unlink()
        return of_all(*given)

    monkeypatch.setattr(profile_store, "records_of", records_of)
    words = ["--store", str(store), "--tables", str(tmp_path / "tables"), "--json", "-"]
    assert profile_store.main(words) == 8
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["failed"] == [f"{SEGMENT}: went while the log was read"]
    assert 0 < told["records"] < 850
    assert told["failed"][0] in err


def test_a_run_without_a_log_that_can_be_read_is_none(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    bad = str(unreadable_store(tmp_path / "store"))
    assert profile_store.main(["--store", bad, "--tables", str(tmp_path / "tables"), "--quiet"]) == 8
    assert not (tmp_path / "tables").exists()


def test_a_segment_that_cannot_be_listed_is_said(run: Path, spark: SparkSession) -> None:
    """The rest is counted, and is known as such; what is not of the log is nothing that a profile counts."""
    err, why = (run / "err").read_text(), f"{SEGMENT}: Too many levels of symbolic links"
    assert f"{run / 'partly'}: {why}" in err
    assert "config/loop" not in err
    told = json.loads((run / "report.json").read_text().splitlines()[-1])
    assert (told["exit_code"], told["failed"]) == (8, [why])
    assert 0 < told["records"] < 850
    assert f"{told['records']} messages in what could be read, " in (run / "out").read_text()
    rows = tables.rows_with(spark, str(run / "tables"), "profile_runs", {})
    told = {Path(row["store"]).name: (row["exit_code"], row["failed"]) for row in rows if row["exit_code"]}
    assert told.pop("partly") == (8, why)
    assert [(code, text.rpartition(": ")[2]) for code, text in told.values()] == [(16, "no such directory")]

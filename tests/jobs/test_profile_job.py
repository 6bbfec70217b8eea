"""The profile job: its tables against sums over what the broker's own decoder printed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from test_datasource import unreadable_store

from jobs import profile_store, tables
from storeio.errors import UsageError
from udfs.checks import WorkersError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORES = ("rich-5.3.3", "base-4.9.8")
BUCKET_MS = 1000
Record = dict[str, Any]
Key = tuple[Any, ...]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Return where one run over both stores is in ``tables``, and its JSON."""
    del spark
    place = tmp_path_factory.mktemp("profile")
    words = ["--store", *(str(golden.store(name)) for name in STORES), "--tables", str(place / "tables")]
    words += ["--run-id", "one", "--bucket-seconds", "1", "--split-bytes", "200000", "--quiet"]
    assert profile_store.main([*words, "--json", str(place / "report.json")]) == 0
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
    rows = [row.asDict() for row in tables.finished(spark, str(run / "tables"), name).collect()]
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
    for line, (key, told) in zip(lines, summed(()).items(), strict=True):
        assert line["store"] == key[0]
        told.pop("topics")  # a number in the tables, a list here
        assert {name: line[name] for name in told if name in line} == {n: told[n] for n in told if n in line}
        assert {(key[0], part["topic"]): part["records"] for part in line["topics"]} == (
            {name: part["records"] for name, part in topics.items() if name[0] == key[0]}
        )


def test_text_of_one_store_and_of_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> None:
    del spark
    roots = [str(tmp_path / "nowhere"), str(golden.store("base-4.9.8"))]
    assert profile_store.main(["--store", *roots, "--tables", str(tmp_path / "tables")]) == 16
    out, err = capsys.readouterr()
    assert "nowhere: not a directory" in err
    assert "850 messages, 317 kB, stored from 2026-11-20T23:57:08" in out
    assert [line.split()[:3] for line in out.splitlines()[3:]] == [["topic_0", "2", "412"], ["topic_1", "2", "438"]]


def test_a_finished_run_is_refused(run: Path) -> None:
    words = ["--store", str(golden.store("base-4.9.8")), "--tables", str(run / "tables"), "--run-id", "one"]
    with pytest.raises(UsageError, match="run one is finished"):
        profile_store.main(words)


def test_a_log_that_cannot_be_read_is_one_line(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    store = unreadable_store(tmp_path / "store")
    with pytest.raises(WorkersError, match=r"UnreadableError: .*00000000000000000000"):
        profile_store.main(["--store", str(store), "--tables", str(tmp_path / "tables")])


def test_a_segment_that_cannot_be_listed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """The rest is counted; what is not of the log is nothing that a profile counts."""
    del spark
    root = golden.copy_of("base-4.9.8", tmp_path / "store")
    segment = sorted((root / "commitlog").iterdir())[1]
    for path in (segment, root / "config" / "loop"):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(path.name)
    words = ["--store", str(root), "--tables", str(tmp_path / "tables"), "--json", "-"]
    assert profile_store.main(words) == 8
    out, err = capsys.readouterr()
    assert f"{root}: commitlog/{segment.name}: Too many levels of symbolic links" in err
    assert "config/loop" not in err
    assert 0 < json.loads(out)["records"] < 850

"""Scheduled audits with Spark: what runs keep, history, concurrency, kills, maintenance."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from deltalake import DeltaTable, write_deltalake
from incrementals import YOUNG_NS, age, full, short_youth

from jobs import audit_store, history, maintain_tables, tables, verdicts
from jobs.declared import AUDITED_PARTS, FINDING_HISTORY
from storeio import cli
from storeio.errors import UsageError
from storeio.safe import time_text
from udfs import checks, incremental

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["short_youth"]
TOP = Path(__file__).parent.parent.parent
SPLIT_BYTES = 16384
Row = dict[str, Any]

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.share(2)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store of a real broker, not written to lately."""
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    age(root)
    return root


def run(place: Path, *stores: Path, code: int = 0, words: tuple[str, ...] = ("--incremental",)) -> list[Row]:
    """Run the job; return its JSON."""
    report = place / f"report-{time.time_ns()}.json"
    given = ["--store", *map(str, stores), "--tables", str(place / "tables"), "--split-bytes", str(SPLIT_BYTES)]
    assert audit_store.main([*given, "--json", str(report), "--quiet", *words]) == code
    return [json.loads(line) for line in report.read_text().splitlines()]


def plain(line: Row) -> Row:
    """Return a report without what differs from run to run."""
    return {name: value for name, value in line.items() if name not in ("started_ms", "seconds", "reading")}


def rows(spark: SparkSession, place: Path, name: str) -> list[Row]:
    """Return a table's rows that count."""
    return tables.rows_with(spark, str(place / "tables"), name, {})


def flip(path: Path, at: int) -> None:
    """Change one bit; the file is then an hour old, by its own time."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    age(path.parent, 1800 + time.time_ns() % 1000)


def segments(store: Path) -> list[Path]:
    """Return the files of the log in order."""
    return sorted((store / "commitlog").iterdir())


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Path, Path, Row]:
    """Return a store, where the tables of a first run of it are, and what that said; none of it to be changed."""
    del spark
    place = tmp_path_factory.mktemp("first")
    root = golden.copy_of("base-5.3.3", place / "store")
    age(root)
    (line,) = run(place, root)
    return root, place, line


@pytest.fixture
def again(first: tuple[Path, Path, Row], tmp_path: Path) -> Path:
    """Return a store that has been audited once; the tables of that are in ``tmp_path``."""
    shutil.copytree(first[1] / "tables", tmp_path / "tables")
    return first[0]


def test_second_run_reads_little_and_says_the_same(
    first: tuple[Path, Path, Row], again: Path, tmp_path: Path, spark: SparkSession
) -> None:
    expected = full(again, SPLIT_BYTES)
    (second,) = run(tmp_path, again, words=("--incremental", "--recheck", "0"))
    assert plain(first[2]) == plain(second) == expected
    readings = [line["reading"] for line in (first[2], second)]
    assert readings[0]["parts_known"] == 0 and readings[1]["parts_known"] == readings[1]["parts"] > 20
    size = sum(p.stat().st_size for p in again.rglob("*") if p.is_file())
    assert readings[1]["bytes_read"] < 0.05 * size
    said = rows(spark, tmp_path, "runs")
    assert sorted(row["bytes_read"] for row in said) == sorted(reading["bytes_read"] for reading in readings)
    assert {row["left_parts"] for row in said} == {0}


def test_findings_are_opened_cleared_and_opened_again(store: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Also: a change is found at once, and a run that had no time clears nothing."""
    seen: list[int] = []
    clears: list[tuple[int, str]] = []
    for step, code in (("", 0), ("flip", 4), ("late", 8), ("heal", 0), ("flip", 4)):
        if step in ("flip", "late"):  # the second time it is as it was
            flip(segments(store)[0], 300)
        late = ("--time-budget", "0.000001s") if step == "late" else ("--recheck", "0")
        page = ("--html", str(tmp_path / "page.html"))
        (line,) = run(tmp_path, store, code=code, words=("--incremental", *late, *page))
        if step != "late":
            assert plain(line) == full(store, SPLIT_BYTES)
        newest = max(rows(spark, tmp_path, "runs"), key=lambda row: row["started_ms"])
        moment = newest["started_ms"], newest["run_id"]
        seen += [moment[0]] if code == 4 else []
        clears += [moment] if seen and code == 0 else []
        if not seen:
            continue
        found = rows(spark, tmp_path, FINDING_HISTORY)
        assert len({row["finding_id"] for row in found}) == len(found)
        (body,) = [row for row in found if row["code"] == "LOG_BODY_CRC"]
        assert (body["first_seen_ms"], body["last_seen_ms"]) == (seen[0], seen[-1])
        cleared = clears[-1] if code == 0 else (None, None)
        assert (body["cleared_ms"], body["cleared_run_id"]) == cleared
    assert len(seen) == 2 and len(clears) == 1
    assert_page_is_the_nodes(store, tmp_path, runs=5, seen=seen)


def test_the_last_runs_go_back_to_a_complete_one() -> None:
    late: list[Row] = [{"left_parts": 3, "failed": None}, {"left_parts": 0, "failed": "commitlog/0: gone"}]
    whole: list[Row] = [{"left_parts": left, "failed": ""} for left in (0, None)]
    for number, one in enumerate([*late, *whole]):
        one["run_id"] = str(number)
    assert history.last_runs([*whole, *late, *late], 2) == [whole[1], *late, *late]
    assert history.last_runs([*late, *whole, *late], 3) == [whole[1], *late]
    assert history.last_runs(late, 1) == late
    assert history.last_runs(whole, 1) == whole[1:]
    assert history.last_runs([], 10) == []


def test_a_run_that_took_long_is_among_the_last() -> None:
    runs: list[Row] = [{"run_id": str(n), "left_parts": n % 2, "failed": ""} for n in range(8)]
    assert history.last_runs(runs, 2, "7") == history.last_runs(runs, 2, "gone") == runs[6:]
    assert history.last_runs(runs, 2, "3") == runs[2:]


@pytest.mark.long
def test_a_deleted_history_is_made_again_from_all_runs(
    store: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "RUNS_BACK", 1)
    flip(segments(store)[0], 300)
    for _ in range(3):
        run(tmp_path, store, code=4)
    before = rows(spark, tmp_path, FINDING_HISTORY)
    shutil.rmtree(tmp_path / "tables" / FINDING_HISTORY)
    run(tmp_path, store, code=4)
    after = rows(spark, tmp_path, FINDING_HISTORY)
    first = min(row["started_ms"] for row in rows(spark, tmp_path, "runs"))
    assert before and [row["first_seen_ms"] for row in after] == [row["first_seen_ms"] for row in before]
    assert {row["first_seen_ms"] for row in after} == {first}


def test_pieces_of_a_finding_are_no_new_ones(store: Path, tmp_path: Path, spark: SparkSession) -> None:
    """A queue is gone, and there was no time for one split of the log; also in a table without the whole's length."""
    queue = max((store / "consumequeue").glob("*/*"), key=lambda q: sum(f.stat().st_blocks for f in q.iterdir()))
    shutil.rmtree(queue)
    age(store)
    run(tmp_path, store, code=4)
    (whole,) = rows(spark, tmp_path, FINDING_HISTORY)
    assert whole["length"] > 0
    path = tables.path_of(str(tmp_path / "tables"), FINDING_HISTORY)
    older = DeltaTable(path).to_pyarrow_table().drop_columns(["length"])
    write_deltalake(path, older, mode="overwrite", schema_mode="overwrite")
    assert [row["length"] for row in rows(spark, tmp_path, FINDING_HISTORY)] == [None]
    run(tmp_path, store, code=4, words=("--incremental", "--recheck", "0"))
    assert [row["length"] for row in rows(spark, tmp_path, FINDING_HISTORY)] == [whole["length"]]
    os.utime(segments(store)[4], (time.time() - 900,) * 2)
    (line,) = run(tmp_path, store, code=12, words=("--incremental", "--recheck", "0", "--time-budget", "0.000001s"))
    assert len(line["findings"]) > 1
    (late,) = rows(spark, tmp_path, FINDING_HISTORY)
    assert (late["finding_id"], late["length"], late["cleared_ms"]) == (whole["finding_id"], whole["length"], None)
    assert late["last_seen_ms"] > whole["last_seen_ms"]


def assert_page_is_the_nodes(store: Path, place: Path, *, runs: int, seen: list[int]) -> None:
    """Compare the job's page with that of the command, which reads the same tables without Spark."""
    words = [str(store), "--html", str(place / "node.html"), "--history", str(place / "tables"), "--quiet"]
    assert cli.run(["check", *words]) == 4
    job, node = ((place / name).read_text() for name in ("page.html", "node.html"))
    assert history_of(job) == history_of(node)
    assert f"{runs} audits from " in node
    assert f"first seen {time_text(seen[0])}, last seen {time_text(seen[-1])}, still open" in node
    assert "LOG_BODY_CRC" in history_of(node)
    assert part_of(job, "What the next start") == part_of(node, "What the next start")


def history_of(page: str) -> str:
    """Return what a page says of earlier audits."""
    return part_of(page, "History")


def part_of(page: str, title: str) -> str:
    """Return a part of a page, up to the next heading."""
    found = page.partition(f"<h2>{title}")[2].partition("<h2>")[0]
    assert found
    return found


def test_damaged_rows_are_as_if_not_there(again: Path, tmp_path: Path) -> None:
    path = tables.path_of(str(tmp_path / "tables"), AUDITED_PARTS)
    DeltaTable(path).update({"content": "concat(substr(content, 1, 40), 'x')"}, predicate="kind = 'split'")
    DeltaTable(path).update({"form": "'of-another-version'"}, predicate="kind = 'file'")
    (line,) = run(tmp_path, again)
    assert plain(line) == full(again, SPLIT_BYTES) and line["reading"]["parts_known"] == 0


def test_kept_parts_that_contradict_the_store_are_read_again(
    again: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    conclude = incremental.StoreRun.result

    def odd(self: Any) -> Any:
        calls.append(len(self.taken_over))
        if self.taken_over:
            raise IndexError("no such file")
        return conclude(self)

    monkeypatch.setattr(incremental.StoreRun, "result", odd)
    (line,) = run(tmp_path, again)
    assert calls[0] > 0 and calls[1] == 0
    assert plain(line) == full(again, SPLIT_BYTES)


def test_tables_that_cannot_be_read_cost_time_only(
    again: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> None:
        raise tables.TablesError("audited_parts: input/output error")

    monkeypatch.setattr(verdicts, "kept", broken)
    (line,) = run(tmp_path, again, code=8)
    assert plain(line) == full(again, SPLIT_BYTES) and line["exit_code"] == 0


def test_workers_in_waves_say_what_the_driver_says(
    store: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental, "LOCAL_BYTES", 0)
    monkeypatch.setattr(incremental, "WAVE_BYTES", 1 << 19)
    waves = []
    on_workers = incremental.on_workers
    monkeypatch.setattr(incremental, "on_workers", lambda *args: waves.append(1) or on_workers(*args))
    (line,) = run(tmp_path, store)
    assert plain(line) == full(store, SPLIT_BYTES)
    parts = rows(spark, tmp_path, AUDITED_PARTS)
    assert len(waves) > 1 and len(parts) == line["reading"]["parts"]
    assert len({(row["kind"], row["path"], row["start"]) for row in parts}) == len(parts)


def test_time_budget(store: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is up after a number of questions; each run goes on where the one before has stopped."""
    asked = [0]

    def is_late(deadline_ms: int | None) -> bool:
        asked[0] += 1
        return deadline_ms is not None and asked[0] > 12

    monkeypatch.setattr(incremental, "is_late", is_late)
    left, codes = [], []
    for _ in range(20):
        asked[0] = 0
        report = tmp_path / "report.json"
        words = ["--store", str(store), "--tables", str(tmp_path / "tables"), "--split-bytes", str(SPLIT_BYTES)]
        codes.append(
            audit_store.main([*words, "--json", str(report), "--quiet", "--incremental", "--time-budget", "9h"])
        )
        line = json.loads(report.read_text())
        left.append(line["reading"]["left_bytes"])
        if not left[-1]:
            break
        assert line["verdict"] == "incomplete" and "queues" not in line
    assert codes == [8] * (len(codes) - 1) + [0] and len(codes) > 2
    assert left == sorted(set(left), reverse=True)
    assert plain(line) == full(store, SPLIT_BYTES)
    said = sorted(rows(spark, tmp_path, "runs"), key=lambda row: row["started_ms"])
    assert [row["verdict"] for row in said] == ["incomplete"] * (len(said) - 1) + ["sound"]
    assert [row["left_bytes"] for row in said] == left


@pytest.mark.long
def test_runs_at_the_same_time(store: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Two of one store and one of another, while the tables are made; then one while they are maintained."""
    other = golden.copy_of("base-4.9.8", tmp_path / "other")
    for root in (store, other):
        flip(segments(root)[0], 300)
    with ThreadPoolExecutor(3) as pool:
        made = [pool.submit(run, tmp_path, root, code=4) for root in (store, other, store)]
        lines = [future.result()[0] for future in made]
        made = [pool.submit(run, tmp_path, store, code=4)]
        maintained = pool.submit(maintain_tables.main, ["--tables", str(tmp_path / "tables"), "--quiet"])
        lines += [future.result()[0] for future in made]
        assert maintained.result() == 0
    for line in lines:
        assert plain(line) == full(Path(line["store"]), SPLIT_BYTES)
    said = rows(spark, tmp_path, "runs")
    assert len(said) == len({row["run_id"] for row in said}) == 4
    found = rows(spark, tmp_path, "findings")
    for row in said:
        assert sum(f["run_id"] == row["run_id"] for f in found) == len(
            full(Path(row["store"]), SPLIT_BYTES)["findings"]
        )
    history = rows(spark, tmp_path, FINDING_HISTORY)
    assert len(history) == len({row["finding_id"] for row in history})
    for root in (store, other):
        expected = [f for f in full(root, SPLIT_BYTES)["findings"] if f["severity"] != "info"]
        mine = [row for row in history if row["store"] == str(root)]
        assert len(mine) == len(expected) > 0
        starts = [row["started_ms"] for row in said if row["store"] == str(root)]
        assert {(row["first_seen_ms"], row["last_seen_ms"]) for row in mine} == {(min(starts), max(starts))}
        assert {row["cleared_ms"] for row in mine} == {None}


KILLED = f"""
import os, signal, sys
from udfs import incremental
from jobs import audit_store, tables
from storeio import fingerprints
fingerprints.YOUNG_NS = {YOUNG_NS}
incremental.LOCAL_BYTES = 0
incremental.WAVE_BYTES = 1 << 16
where, after = sys.argv[1], int(sys.argv[2])
append, done = tables.append, [0]
def counted(*row):
    append(*row)
    done[0] += 1
    if done[0] >= after:
        os.kill(os.getpid(), signal.SIGKILL)
tables.append = counted
audit_store.main(sys.argv[3:])
"""


@pytest.mark.long
def test_a_killed_driver(store: Path, tmp_path: Path, spark: SparkSession) -> None:
    """After some waves were kept, it is killed; done again, the tables are those of a run that nobody disturbed."""
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    for place in (undisturbed, disturbed):
        place.mkdir()
    flip(segments(store)[0], 300)
    words = ["--store", str(store), "--tables", str(disturbed / "tables"), "--split-bytes", str(SPLIT_BYTES)]
    call = [*words, "--incremental", "--run-id", "nightly", "--quiet", "--master", "local[2]"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]  # as conftest.py has it
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(disturbed), "2", *call], cwd=TOP, env=environment, timeout=300, check=False,
        capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    kept = len(rows(spark, disturbed, AUDITED_PARTS))
    assert kept > 0
    words = ("--incremental", "--run-id", "nightly", "--recheck", "0")
    (line,) = run(disturbed, store, code=4, words=words)
    (expected,) = run(undisturbed, store, code=4, words=words)
    assert line["reading"]["parts_known"] == kept < line["reading"]["parts"]
    assert plain(line) == plain(expected)
    free = {"started_ms", "seconds", "arguments", "bytes_read", "parts_known", "looked_ms", "digest"}
    free |= {"first_seen_ms", "last_seen_ms"}
    for name in (*tables.TABLES, AUDITED_PARTS, FINDING_HISTORY):
        found, wanted = (
            sorted(repr({key: row[key] for key in row if key not in free}) for row in rows(spark, place, name))
            for place in (disturbed, undisturbed)
        )
        assert found == wanted, name


@pytest.mark.long
def test_maintenance(store: Path, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    flip(segments(store)[0], 300)
    for _ in range(3):
        run(tmp_path, store, code=4)
    where = str(tmp_path / "tables")
    ids = [row["run_id"] for row in sorted(rows(spark, tmp_path, "runs"), key=lambda row: row["started_ms"])]
    long_ago = int(time.time() * 1000) - 100 * maintain_tables.DAY_MS
    path = tables.path_of(where, "runs")
    spark.sql(f"update delta.`{path}` set started_ms = {long_ago} where run_id = '{ids[0]}'")
    before = rows(spark, tmp_path, FINDING_HISTORY)
    stray = [tmp_path / "tables" / "findings" / f"part-{name}.parquet" for name in ("old", "young")]
    for file in stray:
        file.write_bytes(b"left by a run that was killed")
    os.utime(stray[0], (time.time() - 8 * 86400,) * 2)
    capsys.readouterr()
    for again in range(2):
        assert maintain_tables.main(["--tables", where, "--keep-days", "30", "--json"]) == 0
        counts = json.loads(capsys.readouterr().out)["counts"]
        assert counts["runs"]["deleted"] == (0 if again else 1)
        assert (counts["findings"]["deleted"] > 0) == (not again)
        assert (counts[AUDITED_PARTS]["deleted"] > 0) == (not again)
        assert (counts["files"]["joined"] > 1) == (not again)
        for name in ("runs", "findings", "files", "checks"):
            assert {
                row["run_id"] for row in spark.read.format("delta").load(tables.path_of(where, name)).collect()
            } == (set(ids[1:]))
    assert [file.exists() for file in stray] == [False, True]
    # The history is what it was, but for the first run having been so long ago.
    after = {row["finding_id"]: row for row in rows(spark, tmp_path, FINDING_HISTORY)}
    assert after.keys() == {row["finding_id"] for row in before}
    assert {row["first_seen_ms"] for row in after.values()} == {long_ago}
    (line,) = run(tmp_path, store, code=4, words=("--incremental", "--recheck", "0"))
    assert line["reading"]["parts_known"] == line["reading"]["parts"]


def test_maintenance_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(tables.TablesError, match="no tables there"):
        maintain_tables.main(["--tables", str(tmp_path / "nowhere")])


@pytest.mark.parametrize(
    "words",
    [
        ("--recheck", "1/30"),
        ("--incremental", "--recheck", "2"),
        ("--incremental", "--recheck", "1/0"),
        ("--incremental", "--recheck", "nan"),
        ("--incremental", "--recheck", "1e999999999"),
        ("--incremental", "--recheck", "1e-999999999"),
        ("--incremental", "--time-budget", "soon"),
        ("--incremental", "--time-budget", "0m"),
        ("--incremental", "--time-budget", "1e307s"),
        ("--incremental", "--time-budget", "1e308h"),
    ],
)
def test_wrong_schedules(words: tuple[str, ...], store: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--recheck|--time-budget"):
        audit_store.main(["--store", str(store), "--tables", str(tmp_path / "tables"), *words])


def test_lost_workers_are_said(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise checks.WorkersError("Spark could not finish the commitlog: executor lost")

    monkeypatch.setattr(audit_store, "audit_incrementally", lost)
    (line,) = run(tmp_path, store, code=8)
    assert line["error"].endswith("executor lost")

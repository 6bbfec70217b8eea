"""Reports of hosts become the rows that an audit by Spark writes; nothing of a report that cannot be trusted does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from sampled import sampled

from jobs import audit_store, collect_reports, history, lazy_session, local_delta, tables
from jobs.declared import FINDING_HISTORY
from storeio.cli import run
from storeio.errors import UnreadableError, UsageError
from storeio.report import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FREE = ("run_id", "started_ms", "seconds", "arguments")
CASE = "22-clean"  # a segment in the middle is deleted
Row = dict[str, Any]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a sound store, with index and ext files, and a damaged one."""
    edits = next(case["edits"] for case in golden.cases("rows-5.5.1") if case["id"] == CASE)
    place = tmp_path_factory.mktemp("stores")
    return [golden.store("ext-5.3.3"), golden.damaged("base-5.5.1", edits, place / "damaged")]


@pytest.fixture(scope="module")
def reports(stores: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return what ``storeio check --json`` wrote on each host; the second one names a store that is none, too."""
    place = tmp_path_factory.mktemp("reports")
    assert run(["check", str(stores[0]), "--json", str(place / "a.json"), "--quiet"]) == 0
    both = ["check", str(stores[1]), str(place / "nowhere"), "--json", str(place / "b.json"), "--quiet"]
    assert run(both) == 4 | 16
    return [place / "a.json", place / "b.json"]


def rows_of(spark: SparkSession, where: Path, name: str, run_ids: Sequence[str]) -> list[list[str]]:
    """Return each run's rows as a list that can be compared."""
    found = tables.rows_with(spark, str(where), name, {})
    plain = [(row["run_id"], repr({k: v for k, v in row.items() if k not in FREE})) for row in found]
    return [sorted(text for run_id, text in plain if run_id == one) for one in run_ids]


@pytest.mark.spark
@pytest.mark.parametrize("written", sampled(["by Spark", "here"], ["here"]))
def test_tables_are_those_of_an_audit_by_spark(
    written: str,
    stores: list[Path],
    reports: list[Path],
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the audit's are all read and written with Spark, as on other file systems than local ones."""
    where = tmp_path / "tables"
    words = ["--report", *map(str, reports), "--tables", str(where), "--run-id"]
    assert collect_reports.main([*words, "collected"]) == 4 | 16
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["SOUND", "DAMAGED"]
    assert err == f"storeio: {reports[0].parent / 'nowhere'}: no such directory\nrun collected is in {where}\n"
    audited = ["--store", *map(str, stores), "--tables", str(where), "--run-id", "spark", "--quiet"]
    with monkeypatch.context() as patch:
        if written == "by Spark":
            patch.setattr(local_delta, "is_remote", lambda _: True)
        assert audit_store.main(audited) == 4
    for name in TABLES:
        collected, by_spark = rows_of(spark, where, name, ["collected", "spark"])
        assert collected == by_spark
        assert collected
    seen = tables.finished(spark, str(where), FINDING_HISTORY).collect()
    assert {(row.first_run_id, row.last_run_id) for row in seen} == {("collected", "spark")}
    capsys.readouterr()
    with pytest.raises(UsageError, match="collected is finished"):
        collect_reports.main([*words, "collected"])
    assert capsys.readouterr().out == ""


@pytest.mark.spark
def test_findings_of_reports_are_in_the_history(
    stores: list[Path], reports: list[Path], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where newer runs than those that are looked at each time have come before."""
    where = tmp_path / "tables"
    monkeypatch.setattr(history, "RUNS_BACK", 1)
    for _ in range(2):
        assert audit_store.main(["--store", str(stores[1]), "--tables", str(where), "--quiet"]) == 4
    before = {row.finding_id: row for row in tables.finished(spark, str(where), FINDING_HISTORY).collect()}
    assert collect_reports.main(["--report", str(reports[1]), "--tables", str(where), "--quiet"]) == 4 | 16
    after = tables.finished(spark, str(where), FINDING_HISTORY).collect()
    assert after and {row.finding_id for row in after} == set(before)
    started = json.loads(reports[1].read_text().splitlines()[0])["started_ms"]
    assert {row.first_seen_ms for row in after} == {started}
    assert all(row.last_seen_ms == before[row.finding_id].last_seen_ms > started for row in after)


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no session: local tables do without."""
    monkeypatch.setattr(lazy_session, "build_session", lambda *args, **named: pytest.fail("a session was asked for"))


@pytest.mark.usefixtures("no_session")
def test_hosts_with_a_store_at_the_same_path(reports: list[Path], tmp_path: Path) -> None:
    for host in ("host-1", "host-2"):
        shutil.copy(reports[0], tmp_path / f"{host}.json")
    words = ["--report", str(tmp_path / "host-1.json"), (tmp_path / "host-2.json").as_uri()]
    words += ["--tables", str(tmp_path / "tables"), "--quiet"]
    with pytest.raises(UsageError, match=r"2 reports are of .*--name-by-file"):
        collect_reports.main(words)
    assert collect_reports.main([*words, "--name-by-file"]) == 0
    root = json.loads(reports[0].read_text())["store"]
    found = tables.rows_with(lazy_session.session_later("none"), str(tmp_path / "tables"), "runs", {})
    assert sorted(row["store"] for row in found) == [f"host-1:{root}", f"host-2:{root}"]


@pytest.mark.usefixtures("no_session")
def test_the_history_goes_on_without_spark(reports: list[Path], tmp_path: Path) -> None:
    where = str(tmp_path / "tables")
    for run_id in ("one", "two"):
        words = ["--report", str(reports[1]), "--tables", where, "--quiet", "--run-id", run_id]
        assert collect_reports.main(words) == 4 | 16
    seen = tables.rows_with(lazy_session.session_later("none"), where, FINDING_HISTORY, {})
    assert {(row["first_run_id"], row["last_run_id"], row["cleared_ms"]) for row in seen} == {("one", "two", None)}


def damaged_log(table: Path) -> None:
    """Make a table whose log says nothing."""
    (table / "_delta_log").mkdir(parents=True)
    (table / "_delta_log" / f"{0:020d}.json").write_text("garbage\n")


@pytest.mark.spark
@pytest.mark.parametrize("table", ["runs", "findings"])
def test_a_damaged_table_is_one_line_and_the_reports_count(
    table: str, reports: list[Path], tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    damaged_log(tmp_path / "tables" / table)
    words = ["--report", *map(str, reports), "--tables", str(tmp_path / "tables"), "--quiet"]
    assert collect_reports.main(words) == 4 | 8 | 16
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"storeio: {tmp_path / 'tables'}")
    assert f"/{table}/_delta_log/{0:020d}.json" in line
    assert "An error occurred" not in line


@pytest.mark.usefixtures("no_session")
def test_a_file_instead_of_tables_is_said_and_the_reports_count(
    reports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables").write_text("no directory")
    words = ["--report", str(reports[1]), "--tables", str(tmp_path / "tables"), "--quiet"]
    assert collect_reports.main(words) == 4 | 8 | 16
    assert f"{tmp_path / 'tables'}: is not a directory" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.parametrize("name", ["rebuilds", "salvages", "profile_runs", "actions", "simulations"])
def test_jobs_refuse_a_damaged_list_of_runs_at_once(name: str, tmp_path: Path, spark: SparkSession) -> None:
    damaged_log(tmp_path / name)
    with pytest.raises(tables.TablesError, match=rf"^{tmp_path / name}: \[FAILED_READ_FILE"):
        tables.refuse_finished(spark, str(tmp_path), "one", name)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: b"", "is empty"),
        (lambda data: data[:-1], "line 1: cut off"),
        (lambda data: data[: len(data) // 2], "line 1: cut off"),
        (lambda data: data + data[:100], "line 2: cut off"),
        (lambda data: data[:100] + b"\n" + data[100:], "line 1: not JSON"),
        (lambda data: bytes(4096), "line 1: cut off"),
        (lambda data: b"\xff\xfe\n", "line 1: not JSON"),
        (lambda data: b'{"tool":"storeio","actions":[]}\n', "line 1: no report"),
        (lambda data: data.replace(b'"exit_code":0', b'"exit_code":4'), "line 1: exit_code: contradicts"),
    ],
)
def test_what_is_no_report_writes_nothing(change: Any, says: str, reports: list[Path], tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(change(reports[0].read_bytes()))
    words = ["--report", str(reports[0]), str(tmp_path / "odd.json"), "--tables", str(tmp_path / "tables")]
    with pytest.raises(UsageError, match=rf"odd\.json.*{says}"):
        collect_reports.main(words)
    assert [path.name for path in tmp_path.iterdir()] == ["odd.json"]


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"gone\.json: No such file"):
        collect_reports.main(["--report", str(tmp_path / "gone.json"), "--tables", str(tmp_path / "tables")])


def test_a_line_without_end_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_reports, "MOST_BYTES", 64)
    (tmp_path / "segment").write_bytes(b" " * 100 + b"\n")
    with pytest.raises(UsageError, match="line 1: cut off"):
        list(collect_reports.read_reports(str(tmp_path / "segment"), by_file=False))


def test_tables_inside_a_store_are_refused(stores: list[Path], reports: list[Path]) -> None:
    with pytest.raises(UsageError, match="lies inside the store"):
        collect_reports.main(["--report", str(reports[0]), "--tables", str(stores[0] / "tables")])

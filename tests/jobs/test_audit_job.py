"""The audit job: the report, JSON and exit codes of the node; tables in which a run is there as a whole or not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from applies import hold
from datasources import expected_rows, unreadable_store
from py4j.protocol import Py4JError

from jobs import audit_store, local_delta, tables
from jobs.declared import RECORDS
from storeio import audit
from storeio.errors import UnreadableError, UsageError
from storeio.report import TABLES, audit_object, render, table_rows
from storeio.results import Audit
from udfs import checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOP = Path(__file__).parent.parent.parent
CASE = "22-clean"  # a segment in the middle is deleted
Row = dict[str, Any]

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a sound store and a damaged one."""
    edits = next(case["edits"] for case in golden.cases("rows-5.5.1") if case["id"] == CASE)
    place = tmp_path_factory.mktemp("stores")
    return [golden.copy_of("base-4.9.8", place / "sound"), golden.damaged("base-5.5.1", edits, place / "damaged")]


@pytest.fixture(scope="module")
def finished_run(stores: list[Path], tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Return where one run, ``first``, of both stores with their records is in tables; and its JSON."""
    place = tmp_path_factory.mktemp("run")
    words = ["--store", *map(str, stores), "--tables", str(place / "tables"), "--run-id", "first", "--records"]
    assert audit_store.main([*words, "--json", str(place / "report.json"), "--quiet"]) == 4
    return place


def timeless(value: Audit) -> Row:
    """Return an audit as JSON shows it, less what differs from call to call."""
    return {name: part for name, part in audit_object(value).items() if name not in ("started_ms", "seconds")}


def rows_of(spark: SparkSession, place: Path, name: str) -> list[Row]:
    """Return the finished rows of a table, read without Spark where that can be done, which is much faster."""
    return tables.rows_with(spark, str(place / "tables"), name, {})


def test_json_is_the_nodes(finished_run: Path, stores: list[Path]) -> None:
    lines = [json.loads(line) for line in (finished_run / "report.json").read_text().splitlines()]
    for line, store in zip(lines, stores, strict=True):
        assert {name: line[name] for name in line if name not in ("started_ms", "seconds")} == (
            timeless(audit.check(store))
        )


def test_under_a_running_broker_json_is_the_nodes(tmp_path: Path) -> None:
    """The last record is half written, and its units are there already: workers look at the moment of the driver."""
    name = "rich-5.5.1"
    at, size = int(golden.dump(name)[-1]["phy_offset"]), int(golden.options(name)["clFile"])
    segment, inside = f"commitlog/{at - at % size:020d}", at % size + 60
    root = golden.damaged(name, [["zero", segment, inside, size - inside]], tmp_path / "store")
    broker = hold(tmp_path)
    try:
        words = ["--store", str(root), "--tables", str(tmp_path / "tables"), "--json", str(tmp_path / "report.json")]
        assert audit_store.main([*words, "--quiet"]) & 4 == 4 * bool(audit.check(root).exit_code)
        found, expected = json.loads((tmp_path / "report.json").read_text()), timeless(audit.check(root))
    finally:
        broker.communicate()
    assert {key: found[key] for key in found if key not in ("started_ms", "seconds")} == expected
    assert found["log"]["max_physical_offset"] == at
    assert {one["code"] for one in found["findings"] if one["severity"] != "info"} <= {"CHECKPOINT_AHEAD"}


@pytest.mark.parametrize("how", [[], ["--incremental"]])
def test_a_segment_that_a_running_broker_deletes_meanwhile(
    how: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [golden.copy_of("base-5.3.3", tmp_path / name) for name in ("other", "store")]
    prepare, first = audit.prepare, min((roots[1] / "commitlog").iterdir())

    def prepare_and_delete(*given: Any, **named: Any) -> audit.AuditPlan:
        plan = prepare(*given, **named)
        if plan.root == str(roots[1]):
            first.unlink(missing_ok=True)
        return plan

    monkeypatch.setattr(audit, "prepare", prepare_and_delete)
    broker = hold(tmp_path)
    try:
        words = ["--store", *map(str, roots), "--tables", str(tmp_path / "tables"), *how]
        assert audit_store.main([*words, "--json", str(tmp_path / "report.json"), "--quiet"]) == 0
    finally:
        broker.communicate()
    lines = [json.loads(line) for line in (tmp_path / "report.json").read_text().splitlines()]
    assert [line["store"] for line in lines] == list(map(str, roots))
    assert [line["log"]["min_physical_offset"] for line in lines] == [0, int(golden.options("base-5.3.3")["clFile"])]


def test_tables_hold_what_the_report_says(finished_run: Path, stores: list[Path], spark: SparkSession) -> None:
    expected: dict[str, list[Row]] = {name: [] for name in TABLES}
    for store in stores:
        for name, rows in table_rows(audit.check(store), run_id="first").items():
            expected[name] += rows
    assert expected["lost_messages"]
    for name in TABLES:
        found = rows_of(spark, finished_run, name)
        for row in [*found, *expected[name]]:
            for free in ("started_ms", "seconds", "arguments"):
                row.pop(free, None)
        assert sorted(map(repr, found)) == sorted(map(repr, expected[name]))
    (run, _) = tables.finished(spark, str(finished_run / "tables"), "runs").collect()
    assert "--run-id first" in run.arguments
    assert run.asDict() in rows_of(spark, finished_run, "runs")  # Spark's look and ours


def test_records_table(finished_run: Path, stores: list[Path], spark: SparkSession) -> None:
    found = [row.asDict() for row in tables.finished(spark, str(finished_run / "tables"), RECORDS).collect()]
    expected = [{"run_id": "first", "store": str(store), **row} for store in stores for row in expected_rows(store)]
    place = itemgetter("store", "physical_offset")
    assert sorted(found, key=place) == sorted(expected, key=place)


def test_every_column_has_its_comment(finished_run: Path, spark: SparkSession) -> None:
    for name in (*TABLES, RECORDS):
        stored = spark.read.format("delta").load(tables.path_of(str(finished_run / "tables"), name)).schema
        assert [(f.name, f.dataType, f.metadata) for f in stored] == (
            [(f.name, f.dataType, f.metadata) for f in tables.schema_of(name)]
        )


def test_a_finished_run_is_refused(finished_run: Path, stores: list[Path], spark: SparkSession) -> None:
    words = ["--store", str(stores[0]), "--tables", str(finished_run / "tables"), "--run-id", "first"]
    with pytest.raises(UsageError, match="run first is finished"):
        audit_store.main(words)
    assert len(rows_of(spark, finished_run, "runs")) == 2


def few_frames(value: Audit, run_id: str) -> dict[str, Any]:
    """Return what a run writes, less the tables that behave as these do."""
    frames = audit_store.table_frames([value], run_id, "")
    return {name: frames[name] for name in ("findings", "lost_messages", "runs")}


def counts(spark: SparkSession, target: str) -> dict[str, int]:
    """Return the number of finished rows of each run in ``findings``."""
    return Counter(row["run_id"] for row in tables.rows_with(spark, target, "findings", {}))


def left_by(run_id: str, target: str, name: str) -> int:
    """Return how many rows of a run a table has, whether it is finished or not."""
    found = local_delta.rows(f"{target}/{name}", ["run_id"], {"run_id": [run_id]})
    assert found is not None
    return len(found)


def test_a_killed_run_is_not_seen_and_can_be_done_again(
    stores: list[Path], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, value = str(tmp_path / "tables"), audit.check(stores[1])
    rows = len(value.findings)
    tables.write_run(spark, target, "before", few_frames(value, "before"))
    append, discard = tables.append, tables.discard

    def broken(frame: Any, path: str, session: SparkSession) -> None:
        if path.endswith("/runs"):
            raise OSError("no space left")
        append(frame, path, session)

    monkeypatch.setattr(tables, "append", broken)
    monkeypatch.setattr(tables, "discard", lambda *args: None)  # as if it had been killed
    with pytest.raises(tables.TablesError, match="no space left"):
        tables.write_run(spark, target, "again", few_frames(value, "again"))
    assert left_by("again", target, "findings") == rows
    assert counts(spark, target) == {"before": rows}
    monkeypatch.setattr(tables, "discard", discard)
    with pytest.raises(tables.TablesError, match="no space left"):  # fails by itself, and clears up
        tables.write_run(spark, target, "again", few_frames(value, "again"))
    assert not left_by("again", target, "findings")
    monkeypatch.setattr(tables, "append", append)
    tables.write_run(spark, target, "again", few_frames(value, "again"))
    assert counts(spark, target) == {"before": rows, "again": rows}


def test_tables_that_only_the_killed_run_wrote(
    stores: list[Path], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked for records and the one after it, of the same id, is not: none of them may count."""
    target, append = str(tmp_path / "tables"), tables.append
    words = ["--store", str(stores[0]), "--tables", target, "--run-id", "first", "--quiet"]

    def killed(frame: Any, path: str, session: SparkSession) -> None:
        if path.endswith("/runs"):
            raise KeyboardInterrupt
        append(frame, path, session)

    monkeypatch.setattr(tables, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        audit_store.main([*words, "--records"])
    assert left_by("first", target, RECORDS)
    monkeypatch.setattr(tables, "append", append)
    assert audit_store.main(words) == 0
    assert len(rows_of(spark, tmp_path, "runs")) == 1
    assert rows_of(spark, tmp_path, RECORDS) == [] and not left_by("first", target, RECORDS)


def test_a_commit_whose_answer_is_lost_is_one(
    stores: list[Path], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, value, append = str(tmp_path / "tables"), audit.check(stores[1]), tables.append

    def unanswered(frame: Any, path: str, session: SparkSession) -> None:
        append(frame, path, session)
        if path.endswith("/runs"):
            raise OSError("connection lost")

    monkeypatch.setattr(tables, "append", unanswered)
    tables.write_run(spark, target, "first", few_frames(value, "first"))
    assert counts(spark, target) == {"first": len(value.findings)}


def test_runs_of_different_ids_at_the_same_time(stores: list[Path], tmp_path: Path, spark: SparkSession) -> None:
    """All of them make the tables: whoever comes second tries again."""
    target, value = str(tmp_path / "tables"), audit.check(stores[1])
    ids = ["a", "b", "c"]
    frames = [few_frames(value, run_id) for run_id in ids]
    with ThreadPoolExecutor(len(ids)) as pool:
        list(pool.map(lambda run_id, part: tables.write_run(spark, target, run_id, part), ids, frames))
    assert counts(spark, target) == dict.fromkeys(ids, len(value.findings))


def test_a_store_that_cannot_be_read_stops_no_other(
    stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = audit.prepare

    def unreadable(root: str, **rest: Any) -> audit.AuditPlan:
        if root.endswith("locked"):
            raise UnreadableError(f"{root}: Permission denied")
        return prepare(root, **rest)

    monkeypatch.setattr(audit, "prepare", unreadable)
    roots = [str(tmp_path / "locked"), str(stores[0]), str(tmp_path / "nowhere"), str(stores[1])]
    code = audit_store.main(["--store", *roots, "--tables", (tmp_path / "tables").as_uri(), "--json", "-"])
    assert code == 4 | 8 | 16
    out, err = capsys.readouterr()
    lines = {line["store"]: line for line in map(json.loads, out.splitlines())}
    assert [lines[root]["exit_code"] for root in roots] == [8, 0, 16, 4]
    assert "locked: Permission denied" in err
    assert "nowhere: no such directory" in err


def test_a_segment_that_cannot_be_read(
    stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """The run is in the tables, with the records of the other store."""
    roots = [str(unreadable_store(tmp_path / "store")), str(stores[0])]
    words = ["--store", *roots, "--tables", str(tmp_path / "tables"), "--json", "-", "--records"]
    assert audit_store.main(words) & 8
    out, err = capsys.readouterr()
    assert [json.loads(line)["exit_code"] & 8 for line in out.splitlines()] == [8, 0]
    assert re.fullmatch(rf"storeio: {roots[0]}: its records are in no table.*\nrun \S+ is in .*\n", err)
    found = {name: {row["store"] for row in rows_of(spark, tmp_path, name)} for name in ("runs", "records")}
    assert found == {"runs": {*roots}, "records": {roots[1]}}


def test_text_report_is_the_nodes(
    stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    del spark
    assert audit_store.main(["--store", str(stores[1]), "--tables", str(tmp_path / "tables")]) == 4
    out, err = capsys.readouterr()
    speed = re.compile(r" in [0-9.]+ s \([^)]*\)", re.MULTILINE)
    assert speed.sub("", " ".join(out.split())) == speed.sub("", " ".join(render(audit.check(stores[1])).split()))
    assert re.search(r"run \S+ is in ", err)


def test_tables_inside_a_store_are_refused(stores: list[Path], spark: SparkSession) -> None:
    del spark
    with pytest.raises(UsageError, match="lies inside the store"):
        audit_store.main(["--store", str(stores[0]), "--tables", str(stores[0] / "tables")])


def test_a_task_that_fails_is_one_line(
    spark: SparkSession, stores: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def work(plan: audit.AuditPlan, item: int) -> int:
        raise ValueError(f"item {item} is odd")

    phase: checks.Phase[int, int] = checks.Phase("oddities", work, lambda item: item)
    with pytest.raises(checks.WorkersError, match="oddities: ValueError: item 1 is odd"):
        checks.on_workers(spark.sparkContext, [audit.prepare(str(stores[0]))], [[1]], phase)
    said = capsys.readouterr().err  # as far as the JVM's lines have come through: wrong in most runs, if it is
    assert "\tat " not in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "calling o1.save.\n: org.x.DeltaIOException: [DELTA_NO] Cannot create it\n\tat org.x.Y.z(Y.scala:3)",
            "[DELTA_NO]",
        ),
        (
            "calling o1.x.\n: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class a.B not found",
            "Class a.B",
        ),
        ("calling o1.x.\n: java.lang.NullPointerException\n\tat a.b(C.java)", "java.lang.NullPointerException"),
        (
            "calling o1.x.\n: org.x.SparkException: Job aborted\nValueError: item 1 is odd\n",
            "ValueError: item 1 is odd",
        ),
        (
            "calling o1.x.\n: org.x.SparkException: Job aborted\nOSError: [Errno 28] No space left on device\n\n"
            "The above exception was the direct cause of the following exception:\n\nTraceback (most recent call"
            " last):\nstoreio.errors.WriteError: a/b: could not be written: No space left\n\n\tat org.x.Y.z(Y.scala:3)",
            "a/b: could not be written",
        ),
        (
            "calling o1.save.\n: org.x.SparkException: [TASK_WRITE_FAILED] No rows\n\tat org.x.Y.z(Y.scala:3)\n"
            "Caused by: org.x.FSError: java.io.IOException: x\nCaused by: java.io.IOException: No space left\n",
            "[TASK_WRITE_FAILED] No rows (No space left)",
        ),
        ("calling o1.x. Trace:\npy4j.Py4JException: no such method", "py4j.Py4JException: no such method"),
    ],
)
def test_the_reason_is_not_the_call_of_the_jvm(text: str, says: str) -> None:
    found = checks.reason(Py4JError(f"An error occurred while {text}"))
    assert found.startswith(says)
    assert "\n" not in found


def test_lost_workers_and_tables_that_cannot_be_written(
    stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each adds its bit, and the reports that there are stand."""
    words = ["--store", str(stores[1]), "--tables", str(tmp_path / "tables"), "--json", "-"]
    (tmp_path / "tables").write_text("no directory")
    assert audit_store.main(words) == 4 | 8
    out, err = capsys.readouterr()
    assert json.loads(out)["exit_code"] == 4
    assert re.search(r"was not written: \[DELTA_\w+\] .*tables", err)

    def lost(*_: Any) -> None:
        raise checks.WorkersError("Spark could not finish the commitlog: executor lost")

    monkeypatch.setattr(audit_store, "audit_stores", lost)
    assert audit_store.main(words) == 8
    assert json.loads(capsys.readouterr().out)["error"].endswith("executor lost")


@pytest.mark.slow
def test_spark_submit(stores: list[Path], tmp_path: Path) -> None:
    """A JVM that spark-submit starts, our own settings and jars from the session."""
    submit = [
        str(Path(sys.executable).parent / "spark-submit"),
        "--master",
        "local[2]",
        str(TOP / "jobs/audit_store.py"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]  # as conftest.py has it
    run = subprocess.run(
        [*submit, "--store", str(stores[1]), "--tables", str(tmp_path / "tables"), "--json", "-"],
        cwd=tmp_path, env=environment | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 4, run.stderr
    (line,) = run.stdout.splitlines()
    assert {name: part for name, part in json.loads(line).items() if name not in ("started_ms", "seconds")} == (
        timeless(audit.check(stores[1]))
    )


def test_wrong_use_as_a_script() -> None:
    run = subprocess.run(
        [sys.executable, str(TOP / "jobs/audit_store.py"), "--tables", "x"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 16
    assert "--store" in run.stderr


def test_the_documentation_has_every_column() -> None:
    assert tables.as_markdown() in (TOP / "docs" / "tables.md").read_text()


def test_a_store_is_looked_at_once_whatever_it_is_called(
    stores: list[Path], tmp_path: Path, spark: SparkSession
) -> None:
    store, where = stores[1], tmp_path / "tables"
    (tmp_path / "link").symlink_to(store)
    names = [f"{store}/", store.as_uri(), f"{store.parent}/./{store.name}", str(tmp_path / "link")]
    for run_id in ("first", "second"):
        words = ["--store", *names, "--tables", str(where), "--run-id", run_id, "--quiet"]
        assert audit_store.main(words) == 4
    assert [row["store"] for row in rows_of(spark, tmp_path, "runs")] == [str(store)] * 2
    history = rows_of(spark, tmp_path, "finding_history")
    assert len(history) == len({json.dumps(row, sort_keys=True, default=str) for row in history}) > 0


@pytest.mark.parametrize("name", ["", "a%20b", "a[b]", "a^b", "a|b", "a\\b", "a\tb", "file:///a?b", "file:///a%2520b"])
def test_tables_lie_where_all_libraries_agree(name: str, stores: list[Path], tmp_path: Path) -> None:
    where = name if not name or ":" in name else str(tmp_path / name)
    with pytest.raises(SystemExit) as end:
        audit_store.main(["--store", str(stores[0]), "--tables", where, "--quiet"])
    assert end.value.code == 16
    assert list(tmp_path.iterdir()) == []


def test_tables_may_be_named_by_a_uri(stores: list[Path], tmp_path: Path) -> None:
    where = tmp_path / "ü b"
    words = ["--store", str(stores[0]), "--tables", where.as_uri(), "--run-id", "one", "--quiet"]
    assert audit_store.main(words) == 0
    assert (where / "runs").is_dir()
    with pytest.raises(UsageError, match="is finished"):
        audit_store.main(words)


def test_records_are_read_of_stores_whose_names_are_text(tmp_path: Path) -> None:
    store = golden.copy_of("base-4.9.8", Path(os.fsdecode(os.fsencode(tmp_path) + b"/s\xff")))
    with pytest.raises(UsageError, match="no UTF-8 text"):
        audit_store.main(["--store", str(store), "--tables", str(tmp_path / "tables"), "--records", "--quiet"])
    assert audit_store.main(["--store", str(store), "--tables", str(tmp_path / "tables"), "--quiet"]) == 0

"""The session, its settings, the arguments and exit codes that all jobs share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from jobs import common, local_delta, maintain_tables, profile_store
from jobs.common import build_session, conf_text, job_parser, parse_conf, run_job
from jobs.resolve_jars import MissingJarsError
from storeio.entries import cache_directory
from storeio.errors import NotAStoreError, UsageError
from storeio.incremental.choice import parse_share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

# What a job does, as small as it gets: writes five rows, and prints one line to standard output.
JOB = """
from jobs.common import build_session
spark = build_session("small", master="local[1]", extra={"spark.sql.shuffle.partitions": "3"})
spark.range(5).write.format("delta").save("TABLE")
print(spark.sparkContext.master, spark.conf.get("spark.sql.shuffle.partitions"))
"""
# A task that fails, which the job takes.
FAILS = """
try:
    spark.sparkContext.parallelize([0], 1).map(lambda zero: 1 / zero).collect()
except Exception:
    pass
"""
# Its end, and then what a worker says that notices how the JVM leaves it.
END = """
import atexit
from jobs.common import run_job
atexit.register(spark._jvm.java.lang.System.err.println, "BrokenPipeError")
run_job(lambda: 4)
"""


def test_conf_is_parsed() -> None:
    text = "# why\n\nspark.a  1\nspark.b=two words\n  spark.c\t-Dx=y -Dz\n"
    assert parse_conf(text) == {"spark.a": "1", "spark.b": "two words", "spark.c": "-Dx=y -Dz"}


@pytest.mark.parametrize("text", ["spark.a", "spark.a=", "spark.a 1\nspark.a 2"])
def test_bad_conf_is_wrong_use(text: str) -> None:
    with pytest.raises(UsageError, match=r"spark\.conf line"):
        parse_conf(text)


def test_every_setting_has_a_reason() -> None:
    paragraphs = conf_text("spark.conf").strip().split("\n\n")[1:]
    assert paragraphs
    for paragraph in paragraphs:
        assert paragraph.startswith("# "), paragraph
        assert parse_conf(paragraph), paragraph


def test_small_tables_are_read_in_few_tasks() -> None:
    settings = parse_conf(conf_text("spark.conf"))
    assert int(settings["spark.databricks.delta.snapshotPartitions"]) <= 2
    assert int(settings["spark.sql.shuffle.partitions"]) <= 8


def test_missing_jars_stop_before_java_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREIO_JARS", str(tmp_path))
    with pytest.raises(MissingJarsError, match="run make setup"):
        build_session("none")


def test_arguments_of_all_jobs() -> None:
    parser = job_parser("audit_store", "audit")
    given = parser.parse_args(
        ["--store", "a", "b", "--store", "c", "--tables", "t", "--set", "x=1", "--set", "y=2", "--quiet"]
    )
    assert given.stores == ["a", "b", "c"]
    assert given.settings == ["x=1", "y=2"]
    assert (given.tables, given.quiet, given.json, given.master) == ("t", True, None, None)


@pytest.mark.parametrize("words", [[], ["--store", "a"], ["--store", "a", "--tables", "t", "--nonsense"]])
def test_wrong_arguments_exit_with_16(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        job_parser("audit_store", "audit").parse_args(words)
    assert caught.value.code == 16
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "²", "", str(2**31), "9" * 20, "9" * 5000])
def test_numbers_that_mean_nothing_exit_with_16(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--store", "a", "--tables", "t"]
    for parser, words in (
        (profile_store.parser(), [*common, f"--bucket-seconds={number}"]),
        (profile_store.parser(), [*common, f"--jobs={number}"]),
        (maintain_tables.parser(), ["--tables", "t", f"--keep-days={number}"]),
    ):
        with pytest.raises(SystemExit) as caught:
            parser.parse_args(words)
        assert caught.value.code == 16
        assert "not a number from 1 to 2147483647" in capsys.readouterr().err


def test_large_numbers() -> None:
    words = ["--store", "a", "--tables", "t", "--bucket-seconds", str(2**31 - 1), "--split-bytes", str(2**40)]
    args = profile_store.parser().parse_args(words)
    assert (args.bucket_seconds, args.split_bytes) == (2**31 - 1, 2**40)


@pytest.mark.parametrize(
    ("text", "share"),
    [("1/30", Fraction(1, 30)), ("0.05", Fraction(1, 20)), ("0", 0), (".5", Fraction(1, 2)), ("1e-2", Fraction(1, 100)),
     (" 1. ", 1)],
)  # fmt: skip
def test_shares(text: str, share: Fraction) -> None:
    assert parse_share(text) == share


def raises(error: BaseException) -> Callable[[], int]:
    """Return a job that ends with ``error``."""

    def main() -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("main", "code"),
    [
        (lambda: 0, 0),
        (lambda: 4, 4),
        (raises(UsageError("bad setting")), 16),
        (raises(NotAStoreError("not a store")), 16),
        (raises(MissingJarsError("run make setup")), 8),
        (raises(KeyboardInterrupt()), 32),
    ],
)
def test_exit_codes(main: Callable[[], int], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever started the JVM, it says nothing more: its workers may notice how it leaves them."""
    jvm = Mock()
    monkeypatch.setattr(common.SparkContext, "_jvm", jvm)
    monkeypatch.setattr(common, "end_undisturbed", lambda: None)  # this process goes on
    with pytest.raises(SystemExit) as caught:
        run_job(main)
    assert caught.value.code == code
    jvm.java.lang.System.err.close.assert_called_once()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_job_that_is_stopped_before_it_begins_says_so(number: int) -> None:
    script = f"import signal, sys; sys.argv[0] = '-m'; import jobs; signal.raise_signal({number:d})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (32, "", "storeio: cancelled\n")


# A job that is about to ask the JVM when it is stopped.
STOPPED = """
import logging, signal, sys, time
sys.argv[0] = "-m"
from jobs.common import run_job
from py4j.protocol import Py4JNetworkError
def main():
    print(signal.getsignal(signal.SIGINT).__name__, flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        logging.exception("KeyboardInterrupt while sending command.")  # as py4j does
        try:
            raise Py4JNetworkError("Error while sending or receiving")
        except Py4JNetworkError:
            logging.exception("Exception while sending command.")
        raise
run_job(main)
"""


def test_a_job_that_is_stopped_ends_as_cancelled() -> None:
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"default_int_handler\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == (b"", b"storeio: cancelled\n")
        assert process.returncode == 32


def test_delta_table_of_two_commits(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "number long, name string")
    rows.write.format("delta").save(table)
    rows.write.format("delta").mode("append").save(table)
    assert spark.read.format("delta").load(table).count() == 4
    assert sorted(row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()) == [0, 1]


def test_second_session_is_the_first(spark: SparkSession) -> None:
    again = build_session("again", master="local[7]", extra={"spark.sql.shuffle.partitions": "4"})
    assert again.sparkContext is spark.sparkContext
    assert again.sparkContext.master == "local[2]"


def test_workers_run_this_python(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).collect()
    assert found == [sys.executable]


def run_small_job(command: list[str], folder: Path, end: str = "") -> subprocess.CompletedProcess[str]:
    """Return the finished run of the small job, started in an empty read-only-home folder."""
    job = folder / "job.py"
    job.write_text(JOB.replace("TABLE", str(folder / "table")) + end)
    work = folder / "work"
    work.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # as in an activated environment
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": "/proc/none", "PYTHONDONTWRITEBYTECODE": "1"}
    # Without a home, and so a cache, all kernels would be compiled anew.
    env["STOREIO_CACHE_DIR"] = str(cache_directory())
    env.pop("PYSPARK_GATEWAY_PORT", None)
    env.pop("PYSPARK_PYTHON", None)
    env.pop("PYSPARK_DRIVER_PYTHON", None)
    done = subprocess.run(
        [*command, str(job)], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert not list(work.iterdir())
    found = local_delta.rows(str(folder / "table"), ["id"], {})
    assert found is not None and sorted(found["id"].to_pylist()) == [*range(5)], done.stderr
    return done


@pytest.mark.spark
@pytest.mark.long
def test_python_starts_a_quiet_session(tmp_path: Path) -> None:
    run = run_small_job([sys.executable], tmp_path, END)
    assert (run.returncode, run.stdout, run.stderr) == (4, "local[1] 3\n", "")


@pytest.mark.spark
@pytest.mark.slow
def test_spark_submit_decides_where_to_run(tmp_path: Path) -> None:
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    run = run_small_job([*submit, "--conf", "spark.sql.shuffle.partitions=5"], tmp_path, FAILS + END)
    assert (run.returncode, run.stdout) == (4, "local[2] 5\n"), run.stderr
    assert " INFO " not in run.stderr
    assert "BrokenPipeError" not in run.stderr
    assert "Traceback" not in run.stderr

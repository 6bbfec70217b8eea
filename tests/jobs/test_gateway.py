"""The JVM that a job starts: it does not stay behind, and says what is to be known."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from jobs import gateway
from jobs.table_errors import tables_told
from udfs.checks import workers_named

WORKER = [
    "Traceback (most recent call last):\n",
    '  File "/x/pyspark.zip/pyspark/daemon.py", line 262, in manager\n',
    "    code = worker(sock, authenticated)\n",
    '  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker\n',
    "BrokenPipeError: [Errno 32] Broken pipe\n",
]
ERROR = [*WORKER[:-1], "MemoryError\n"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_job_that_is_stopped_leaves_no_jvm_that_is_about_to_start(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the JVM, which ends with it from then on; who asks once more does not wait."""
    begun: list[bool] = []

    def launch(*_: object, **__: object) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        begun.append(True)

    monkeypatch.setattr(gateway.SparkContext, "_gateway", None)
    monkeypatch.setattr(gateway, "launch_gateway", launch)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        gateway.launch({})
    assert begun == [True] * (times == 1)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("told", [workers_named, tables_told])
def test_a_job_that_is_stopped_is_so_where_spark_cannot_clear_up(told: Callable[[str], Any]) -> None:
    def collect() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), told("x"):
        collect()


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["WARNING: Using incubator modules: x\n", "one\n", *WORKER, "two\n"], ["one\n", "two\n"]),
        ([line for line in WORKER for _ in range(2)], []),
        ([*ERROR, *WORKER], ERROR),
        ([WORKER[0], WORKER[-1]], [WORKER[0], WORKER[-1]]),
        (WORKER[:-1], WORKER[:-1]),
    ],
)
def test_workers_that_end_late_are_no_news(lines: list[str], left: list[str]) -> None:
    assert list(gateway.news(lines)) == left

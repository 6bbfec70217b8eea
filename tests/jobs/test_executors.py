"""A session waits for executors as long as more come, says so where none comes, and ends where Spark has."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import executors


def waited(counts: Iterator[int | None], monkeypatch: pytest.MonkeyPatch) -> tuple[int, float]:
    """Return what comes back where a look finds these numbers, and how many seconds of its own clock it took."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(executors, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(executors, "executors_of", lambda _: next(counts))
    context: Any = SimpleNamespace(master="spark://here:7077")
    return executors.wait_for_executors(context), clock[0]


def numbers(*runs: tuple[int | None, int]) -> Iterator[int | None]:
    """Yield each number so many times."""
    for number, times in runs:
        yield from [number] * times


def test_until_no_more_come(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found, seconds = waited(numbers((0, 20), (1, 5), (2, 5), (7, 100)), monkeypatch)
    assert found == 7
    assert 4.0 <= seconds <= 4.2  # three seconds until the last one came, and one more
    assert capsys.readouterr().err == ""


def test_not_for_ever_where_they_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seconds = waited(numbers(*[(1, 5), (2, 5)] * 100), monkeypatch)
    assert found in (1, 2)
    assert seconds == pytest.approx(executors.MOST_SECONDS, abs=0.2)


def test_none_is_told_once_and_waited_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert waited(numbers((0, 1000), (1, 100)), monkeypatch)[0] == 1
    assert capsys.readouterr().err.count("spark://here:7077: no executor yet") == 1


def test_an_application_that_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(executors.ClusterError, match=r"spark://here:7077: the cluster ended"):
        waited(numbers((0, 10), (None, 1)), monkeypatch)

"""Where the jobs' output goes: nothing that is read is replaced, and that is told before Spark is started."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import golden_data as golden
import pytest

from jobs import audit_store, plan_repair, profile_store, rebuild_queues, salvage_store
from jobs.page import write_page
from storeio.config import Given
from storeio.errors import UsageError, WriteError
from storeio.report.parsed import Failure

CONF = "messageIndexEnable=true\n"
ALL = (audit_store, plan_repair, profile_store, rebuild_queues, salvage_store)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a store, a file of settings and a table; no job gets further than its arguments."""

    def too_late(*args: object, **named: object) -> None:
        pytest.fail("a session was asked for")

    for job in ALL:
        monkeypatch.setattr(job, "build_session", too_late)
    golden.copy_of("base-5.3.3", tmp_path / "store")
    golden.copy_of("base-5.3.3", tmp_path / "other")
    (tmp_path / "x.conf").write_text(CONF)
    (tmp_path / "tables" / "runs" / "_delta_log").mkdir(parents=True)
    return tmp_path


def refused(job: ModuleType, place: Path, words: str) -> str:
    """Return why a job does not begin."""
    wanted = words.replace("HERE", str(place)).split()
    before = sorted(place.rglob("*"))
    with pytest.raises(UsageError) as caught:
        job.main(["--store", str(place / "store"), "--tables", str(place / "tables"), *wanted])
    assert (place / "x.conf").read_text() == CONF
    assert sorted(place.rglob("*")) == before
    return str(caught.value)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (audit_store, ""),
        (plan_repair, "--into HERE/plans"),
        (plan_repair, "--simulate"),
        (profile_store, ""),
        (rebuild_queues, "--into HERE/new"),
        (salvage_store, "--into HERE/new"),
    ],
)
def test_a_report_takes_no_place_of_what_is_read(job: ModuleType, words: str, place: Path) -> None:
    assert "same file" in refused(job, place, f"{words} --conf HERE/x.conf --json HERE/x.conf")
    (place / "link").symlink_to(place / "x.conf")
    assert "same file" in refused(job, place, f"{words} --conf HERE/x.conf --json HERE/link")
    assert "inside a table" in refused(job, place, f"{words} --json HERE/tables/runs/x.json")


@pytest.mark.parametrize("words", ["--conf HERE/x.conf --html HERE/x.conf", "--html HERE/y --json HERE/y"])
def test_a_page_takes_no_place_of_what_is_read(words: str, place: Path) -> None:
    assert "same file" in refused(audit_store, place, words)


def test_a_page_does_not_lie_in_a_table(place: Path) -> None:
    assert "inside a table" in refused(audit_store, place, "--html HERE/tables/runs/x.html")


@pytest.mark.parametrize("end", ["", ".bytes"])
def test_a_plan_takes_no_place_of_what_is_read_or_told(end: str, place: Path) -> None:
    plan = f"HERE/store.plan.json{end}"
    assert "same file" in refused(plan_repair, place, f"--into HERE --json {plan}")
    (place / "x.conf").rename(place / f"store.plan.json{end}")
    (place / "x.conf").symlink_to(place / f"store.plan.json{end}")
    assert "same file" in refused(plan_repair, place, f"--into HERE --conf {plan}")


@pytest.mark.parametrize(
    "words",
    ["--into HERE/other/new", "--into HERE/new --json HERE/other/x.json", "--into HERE/new --tables HERE/other/tables"],
)
def test_nothing_is_put_into_a_donor(words: str, place: Path) -> None:
    assert "inside" in refused(salvage_store, place, f"--donor HERE/other {words}")


def test_a_page_that_cannot_be_written_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(WriteError, match=r"page\.html: could not be written: No space left"):
        write_page(Mock(), str(place / "new"), place / "page.html", [Failure("x", "gone", 8)], Given())

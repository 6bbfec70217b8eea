"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import golden_data as golden
import pytest
import sampled
import temporary
from faults import Faults
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Sessions of tests do little: what the second compiler does for them is never earned back. It halves their time. To
# verify the byte code of Spark's thousands of classes takes a tenth of the rest.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
# Tests start hundreds of processes: where none may keep byte code, each compiles all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says nothing of the program on a machine that does other things, too.
settings.register_profile("any-machine", settings(deadline=None))
settings.load_profile("any-machine")

memory: Final = temporary.in_memory()
gc.disable()  # until all tests are collected: nothing of them is garbage

FAILED: Final = pytest.StashKey[bool]()
FAILED_RUN: Final = pytest.StashKey[bool]()
REMOVED_AT_ONCE: Final = 32
done_with: list[Path] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a test's directory where it failed; remove others, some at a time."""
    report = yield
    item.stash[FAILED] = report.failed or item.stash.get(FAILED, False)
    if call.when == "teardown" and not item.stash[FAILED] and (place := getattr(item, "funcargs", {}).get("tmp_path")):
        done_with.append(place)
        if len(done_with) == REMOVED_AT_ONCE:
            remove()
    return report


def remove() -> None:
    """Remove the directories that nobody needs: to remove one waits for the kernel, and many wait no longer."""
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        list(pool.map(lambda place: shutil.rmtree(place, ignore_errors=True), done_with))
    done_with.clear()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove what is left."""
    remove()
    session.config.stash[FAILED_RUN] = exitstatus == pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove this run's directory in memory, unless a test failed whose files are kept there until the next run."""
    if memory is not None and not config.stash.get(FAILED_RUN, False):
        shutil.rmtree(memory, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a word of Spark where only its tests are wanted: to read all takes ten seconds."""
    wanted = str(config.getoption("markexpr")).startswith("spark")
    if wanted and collection_path.suffix == ".py" and "spark" not in collection_path.read_text(encoding="utf-8"):
        return True
    return None


def pytest_collection_finish() -> None:
    """Leave the thousands of tests out of what is looked through for garbage, and out of what a fork has to copy."""
    gc.enable()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what make test leaves out, and every test that uses the session: ``-m spark`` selects all of them."""
    sampled.leave_out(items)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Yield a directory that is not in memory, where others may be."""
    with tempfile.TemporaryDirectory(dir="/var/tmp" if temporary.is_in_memory() else None) as name:
        yield Path(name)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a copy of a sound store of one broker; a module that needs another has its own."""
    return golden.copy_of("base-5.3.3", tmp_path / "store")


@pytest.fixture
def faults(store: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Return what makes files of the store unreadable."""
    return Faults(store, monkeypatch)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Yield the one session of this test run, on two cores."""
    from jobs.common import build_session

    session = build_session("tests", master="local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Take interrupts, and let child processes take them: a shell starts background jobs with interrupts ignored.

    ``nohup`` has hangups ignored: those of child processes are not, while this one goes on.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the stores of ``other_stores`` are unpacked."""
    return tmp_path_factory.mktemp("stores")

"""A standalone Spark cluster on loopback, and jobs that are submitted to it as a user does.

Master and workers are those of the installed pyspark; drivers and Python workers run an interpreter that has every
dependency, but neither storeio nor a way to the checkout: what they run comes from the wheel. Everything that is
started carries a mark in its environment, by which it is found and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyspark

from jobs.resolve_jars import jars_dir

ROOT: Final = Path(__file__).parents[2]
SPARK: Final = Path(pyspark.__file__).parent
PACKAGES: Final = ("storeio", "udfs", "jobs")
WORKERS: Final = 2
PATIENCE: Final = 600  # seconds for anything to happen, on a busy machine; a test fails then, and does not hang
MARK: Final = "STOREIO_TEST_CLUSTER"
QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # of JVMs that live for seconds: less compiling
SETTINGS: Final = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.shuffle.io.retryWait": "1s",  # blocks of an executor that was killed: asked for three times more
}


def until(what: str, happened: Callable[[], Any]) -> Any:
    """Return the first true value of a function.

    Raises:
        TimeoutError: It did not come.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError(f"not within {PATIENCE} s: {what}")


# ---- What runs on it


def sources() -> dict[str, bytes]:
    """Return the checkout's modules as they are in a wheel."""
    found = (path for top in PACKAGES for path in (ROOT / top).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in found}


def holds(wheel: Path) -> dict[str, bytes]:
    """Return the modules in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}


def current_wheel(place: Path) -> Path:
    """Return a wheel of the checkout as it is now: that of ``make wheel``, else one made below ``place``."""
    for wheel in (ROOT / "dist").glob("storeio-*.whl"):
        if holds(wheel) == sources():
            return wheel
    copy = place / "source"  # a build leaves things beside the sources
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    for name in (*PACKAGES, "conf", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(copy)]
    subprocess.run([sys.executable, *words], cwd=place, stdin=subprocess.DEVNULL, check=True)
    (wheel,) = place.glob("storeio-*.whl")
    assert holds(wheel) == sources()
    return wheel


def bare_python(place: Path) -> Path:
    """Return an interpreter with this one's packages, without storeio, and with the faults of ``faults.py``."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(place)
    python = place / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    shutil.copy(Path(__file__).with_name("faults.py"), packages / "storeio_faults.py")
    # Packages are found in a directory that a .pth file names; its own .pth files, one of which leads to the checkout,
    # are not read.
    theirs = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "tests.pth").write_text("".join(f"{path}\n" for path in sorted(theirs)) + "import storeio_faults\n")
    tried = subprocess.run(
        [str(python), "-c", "import pyspark, numba; import storeio"], cwd=place, env={},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "No module named 'storeio'" in tried.stderr, tried.stderr
    return python


# ---- Processes


def environment_of(pid: int) -> bytes:
    """Return the environment that a process was started with, empty if it is gone or not ours."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not only waited for."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def ancestors(pid: int) -> list[int]:
    """Return a process and those that started it, the nearest first."""
    found = []
    while pid > 1:
        found.append(pid)
        pid = parent_of(pid)
    return found


def kill(pid: int) -> None:
    """End a process at once, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Job:
    """A job that was submitted: what it printed goes into files."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def finish(self) -> int:
        """Return its exit code."""
        return self.process.wait(PATIENCE)

    def said(self) -> str:
        """Return all that it printed, for a message."""
        return self.out.read_text() + self.err.read_text()


@dataclass
class Cluster:
    """A master, workers with one core each, and the jobs on them."""

    place: Path
    python: Path
    wheel: Path
    mark: str = field(default_factory=lambda: f"{MARK}={secrets.token_hex(8)}")
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    url: str = ""
    page: str = ""
    started: int = 0

    @property
    def faults(self) -> Path:
        """Where tests ask for trouble."""
        return self.place / "faults"

    def environment(self) -> dict[str, str]:
        """Return what every process gets; neither a path to the checkout nor what a session of this process set."""
        name, _, value = self.mark.partition("=")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
        kept |= {name: part for name, part in os.environ.items() if name.startswith(("STOREIO_CACHE", "XDG_CACHE"))}
        return kept | {
            "SPARK_HOME": str(SPARK),
            "SPARK_CONF_DIR": str(self.place / "conf"),
            "SPARK_LOCAL_DIRS": str(self.place / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "STOREIO_JARS": str(jars_dir()),
            "STOREIO_FAULTS": str(self.faults),
            "TMPDIR": str(self.place / "tmp"),
            name: value,
        }

    def start(self, name: str, words: Sequence[str], out: Path | None = None) -> tuple[subprocess.Popen[bytes], Path]:
        """Return a program of Spark's, started in an empty directory, and its standard error."""
        self.started += 1
        err = self.place / f"{self.started}-{name}.err"
        with open(out or err, "ab") as output, open(err, "ab") as errors:
            process = subprocess.Popen(
                [str(SPARK / "bin" / words[0]), *words[1:]], cwd=self.place / "empty", env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
            )  # fmt: skip
        return process, err

    def begin(self) -> None:
        """Start the master and the workers."""
        for name in ("conf", "local", "empty", "faults", "tmp", "work"):
            (self.place / name).mkdir(parents=True)
        words = ["spark-class", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        _, log = self.start("master", [*words, "--port", "0", "--webui-port", "0"])
        self.url = str(until("master", lambda: re.findall(r"Starting Spark master at (\S+)", log.read_text()))[0])
        page = until("its page", lambda: re.findall(r"Bound MasterWebUI to .* started at (\S+)", log.read_text()))[0]
        self.page = re.sub(r"//[^:]+", "//127.0.0.1", page).rstrip("/")
        self.add_workers()

    def add_workers(self) -> None:
        """Start workers until all are there again; those that ended are not counted."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        words = ["spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", "0"]
        words += ["--webui-port", "0", "-c", "1", "-m", "1g", "-d", str(self.place / "work"), self.url]
        while len(self.workers) < WORKERS:
            self.workers.append(self.start("worker", words)[0])
        until("workers", lambda: self.state()["aliveworkers"] == WORKERS)

    def state(self) -> dict[str, Any]:
        """Return what the master says."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def submit(self, job: str, *words: str, settings: dict[str, str] | None = None) -> Job:
        """Start a job as a user does, with the code in a wheel."""
        command = ["spark-submit", "--master", self.url, "--py-files", str(self.wheel), "--driver-memory", "512m"]
        for name, value in {**SETTINGS, **(settings or {})}.items():
            command += ["--conf", f"{name}={value}"]
        out = self.place / f"{self.started + 1}-job.out"
        process, err = self.start("job", [*command, str(ROOT / "jobs" / f"{job}.py"), *words], out)
        return Job(process, out, err)

    def ask(self, trouble: str) -> None:
        """Have the next process that comes to a place die or wait: ``die-<place>``, ``hold-<place>``."""
        (self.faults / trouble).touch()

    def had(self, trouble: str) -> int:
        """Return which process died or waits, 0 if none does: ``died-<place>``, ``held-<place>``."""
        return next((int(path.name.rpartition("-")[2]) for path in self.faults.glob(f"{trouble}-*")), 0)

    def held(self, place: str, job: Job) -> int:
        """Return the process that waits at a place, once one does."""

        def waits() -> int:
            assert job.process.poll() is None, job.said()
            return self.had(f"held-{place}")

        return int(until(f"a process at {place}", waits))

    def lose_worker_of(self, pid: int) -> None:
        """End the worker that a Python process belongs to, and its executor, at once."""
        line = ancestors(pid)
        (worker,) = (worker for worker in self.workers if worker.pid in line)
        executor = line[line.index(worker.pid) - 1]
        assert executor != pid
        kill(worker.pid)
        kill(executor)
        worker.wait(PATIENCE)

    def processes(self) -> list[int]:
        """Return everything that was started for this cluster and runs."""
        pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        return [pid for pid in pids if self.mark.encode() in environment_of(pid).split(b"\0") and is_running(pid)]

    def calm(self) -> None:
        """End what a test has left: jobs, executors and faults; workers are all there again."""
        for path in self.faults.iterdir():
            path.unlink()
        daemons = {line for line in self.processes() if self._is_daemon(line)}
        for pid in set(self.processes()) - daemons:
            kill(pid)
        until("no job", lambda: not set(self.processes()) - daemons)
        until("no application", lambda: not self.state()["activeapps"])
        self.add_workers()

    def _is_daemon(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return b"org.apache.spark.deploy.master.Master" in (line := Path(f"/proc/{pid}/cmdline").read_bytes()) or (
                b"org.apache.spark.deploy.worker.Worker" in line
            )
        return False

    def end(self) -> None:
        """End everything."""

        def none() -> bool:
            for pid in self.processes():
                kill(pid)
            return not self.processes()

        until("nothing runs", none)


@contextlib.contextmanager
def running(place: Path) -> Iterator[Cluster]:
    """Yield a cluster that is ended with the block, whatever happens in it."""
    cluster = Cluster(place, bare_python(place / "python"), current_wheel(place / "wheel"))
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.end()

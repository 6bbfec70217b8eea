"""The program ``BrokerStart``, compiled against published artifacts: once a broker version, outside the checkout."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jobs.java import java_path, java_version

HERE: Final = Path(__file__).parent
POM: Final = HERE / "pom.xml"
SOURCE: Final = HERE / "src" / "main" / "java" / "BrokerStart.java"
CLASSES: Final = "classes"
JAR: Final = "start.jar"  # of the classes: a JVM archives no classes of a folder
CLASSPATH: Final = "classpath"
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")  # which mvn puts out in batch mode, too
FAILED: Final = "failed"

OLDEST_JAVA: Final = 17
MAVEN_SECONDS: Final = 600  # all artifacts of a version over a slow line
CONNECT_MS: Final = 10_000
RETRY_SECONDS: Final = 300  # artifacts that could not be had are not asked for by every test


class UnavailableError(Exception):
    """A broker cannot be started here: a program is missing, or artifacts cannot be had."""


def required() -> bool:
    """Tell whether tests have to fail where no broker can be started; else they are skipped."""
    return os.environ.get("STOREIO_BROKER") == "required"


def home() -> Path:
    """Return where built programs are kept: ``STOREIO_BROKER_HOME``, or a folder of the user's cache."""
    return Path(os.environ.get("STOREIO_BROKER_HOME") or Path.home() / ".cache" / "storeio" / "broker")


def missing() -> str | None:
    """Return the line that says what this machine lacks to start brokers, or None."""
    java = java_path()
    if java is None:
        return "java was not found: no broker can be started"
    version = java_version(java)
    if version is None or version < OLDEST_JAVA:
        return f"java {OLDEST_JAVA} or newer is needed to start brokers (found: {version or 'unknown'} at {java})"
    if shutil.which("mvn") is None:
        return "mvn was not found: brokers' artifacts come through it"
    if not Path(java).resolve().with_name("javac").exists():
        return f"javac was not found beside {java}: a JDK is needed, not only a JRE"
    return None


@functools.cache
def classpath(version: str) -> str:
    """Return the class path with which ``BrokerStart`` runs a broker version; builds it at the first use.

    Raises:
        UnavailableError: What is needed is not here and cannot be had.
        RuntimeError: The program does not compile against that version.
    """
    if (lack := missing()) is not None:
        raise UnavailableError(lack)
    digest = hashlib.sha256(POM.read_bytes() + SOURCE.read_bytes()).hexdigest()[:12]
    place = home() / f"{version}-{digest}"
    with only_one():
        if not _is_complete(place):
            _refuse_again()
            _build(version, place)
    return f"{place / JAR}:{(place / CLASSPATH).read_text().strip()}"


@contextmanager
def only_one() -> Iterator[None]:
    """Keep other processes from building, any version: they would download into the same Maven repository."""
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_complete(place: Path) -> bool:
    """Tell whether a build is there and all jars it names still are."""
    names = place / CLASSPATH
    return names.exists() and all(Path(jar).exists() for jar in names.read_text().strip().split(":"))


def _refuse_again() -> None:
    note = home() / FAILED
    if note.exists() and time.time() - note.stat().st_mtime < RETRY_SECONDS:
        raise UnavailableError(f"{note.read_text()} (not tried again for {RETRY_SECONDS} s unless {note} is deleted)")


def _build(version: str, place: Path) -> None:
    """Compile into ``place``, which exists only once it is whole; without the network where that is possible."""
    partial = place.with_name(f"{place.name}.partial")
    for left in (partial, place):
        shutil.rmtree(left, ignore_errors=True)
    said = _maven(version, partial, "-o")
    if said is not None and "COMPILATION ERROR" not in said:
        said = _maven(version, partial)
    if said is None:
        zipped = shutil.make_archive(str(partial / "classes"), "zip", partial / CLASSES)
        Path(zipped).rename(partial / JAR)
        partial.rename(place)
    elif "COMPILATION ERROR" in said:
        raise RuntimeError(f"BrokerStart does not compile against {version}:\n{said}")
    else:
        problem = f"mvn could not get the artifacts of broker {version}: {_first_error(said)}"
        (home() / FAILED).write_text(problem)
        raise UnavailableError(problem)


def _maven(version: str, target: Path, *options: str) -> str | None:
    """Return what Maven said if it failed, else None."""
    command = [
        "mvn", "--quiet", "--batch-mode", *options, "--file", str(POM),
        f"-Dbroker.version={version}", f"-Doutput.directory={target}", f"-Dmdep.outputFile={target / CLASSPATH}",
        f"-Daether.connector.connectTimeout={CONNECT_MS}",
        "compiler:compile", "dependency:build-classpath",
    ]  # fmt: skip
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"[ERROR] mvn did not end within {MAVEN_SECONDS} s"
    return run.stdout + run.stderr if run.returncode else None


def _first_error(said: str) -> str:
    lines = [COLOUR.sub("", line).replace("[ERROR]", "").strip() for line in said.splitlines()]
    return next((line[:300] for line in lines if line), "it did not say why")

"""How the JVM around a broker's store is started, and an archive of its classes, with which starts take less time.

Most of a short start is reading, checking and linking classes. A JVM can map them from an archive instead, which one
that did the same wrote when it ended. It leaves alone what other jars or another JVM were archived for.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.builds import classpath, only_one
from jobs.java import java_path

ALWAYS: Final = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dfile.encoding=UTF-8",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")),
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
QUICK: Final = ("-Xmx2g", "-XX:TieredStopAtLevel=1")  # starts and small stores: less compiling
SERVER: Final = ("-Xmx4g",)  # as brokers run; for timing
ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
MOST_SECONDS: Final = 120


def command(version: str, options: Sequence[str], home: Path) -> list[str]:
    """Return the command line of a JVM that starts a broker's stores.

    Args:
        version: Of the broker.
        options: Of the JVM: heap, compiler, archive.
        home: Where it leaves all that it writes beside stores.

    Raises:
        UnavailableError: That broker cannot be started on this machine.
    """
    # Libraries that brokers unpack stay where they are if the process is killed, 10 MB a start.
    temporary = f"-Djava.io.tmpdir={home}"
    return [str(java_path()), *ALWAYS, temporary, *options, "-cp", classpath(version), "BrokerStart", str(home)]


def line_of(root: Path, arguments: Mapping[str, str]) -> str:
    """Return the line that tells the JVM of one start: the store's root, and arguments of ``BrokerStart``."""
    words = [str(root.absolute()), *(f"{name}={value}" for name, value in arguments.items())]
    return "\t".join(map(escaped, words)) + "\n"


def escaped(text: str) -> str:
    """Return a text as Java writes it, so that it breaks no line."""
    for plain, written in ESCAPES:
        text = text.replace(plain, written)
    return text


@functools.cache
def quick(version: str) -> tuple[str, ...]:
    """Return the options for starts and small stores, with the archive of a version; makes it at the first use.

    Without it, where it cannot be made: a start then takes longer, and nothing else is different.

    Raises:
        UnavailableError: That broker cannot be started on this machine.
    """
    names = classpath(version).split(":")
    archive = Path(names[0]).with_name(f"classes-{_digest([str(java_path()), *names])}.jsa")
    with only_one():
        if not archive.exists():
            _archive(version, archive)
    return (*QUICK, f"-XX:SharedArchiveFile={archive}") if archive.exists() else QUICK


def _digest(names: Sequence[str]) -> str:
    """Return what changes with any of these files."""
    files = [Path(name).resolve() for name in names]
    seen = [(str(file), stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()]]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]


def _archive(version: str, archive: Path) -> None:
    """Start a broker on an empty store, where it takes, gives and finds messages, and keep the classes of that."""
    for old in archive.parent.glob("*.jsa"):
        old.unlink()
    partial = archive.with_suffix(".partial")
    with tempfile.TemporaryDirectory(prefix="storeio-broker-") as scratch:
        home = Path(scratch)
        for name, text in {"put": "a\t0\na\t0\nb\t1\n", "keys": "a\tb\n"}.items():
            (home / name).write_text(text, encoding="utf-8")
        files = {name: str(home / name) for name in ("put", "keys", "found", "delivered")}
        sizes = {"clFile": "65536", "cqEntries": "50", "indexSlots": "200", "indexNum": "800"}
        line = line_of(home / "store", {"stop": "halt", **files, **sizes})
        options = (*QUICK, f"-XX:ArchiveClassesAtExit={partial}")
        try:
            subprocess.run(
                command(version, options, home), cwd=home, input=line, text=True,
                capture_output=True, timeout=MOST_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return
    if partial.exists():
        partial.rename(archive)

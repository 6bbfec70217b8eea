"""The JVM of a job that Python starts, and what of its standard error is told."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from jobs.java import java_problem
from storeio.errors import StoreError
from storeio.process import undivided

# Spark asks for this JVM module by itself, and the JVM says so before it reads any logging set-up.
BANNERS: Final = ("WARNING: Using incubator modules",)

# What a worker prints that has said all, and comes to its end after the JVM has closed its socket.
BEGIN: Final = "Traceback (most recent call last):"
WORKER: Final = re.compile(r'  File ".*\bpyspark/daemon\.py", line \d+, in (manager|worker)$')
END: Final = "BrokenPipeError: "


class NoJavaError(StoreError, OSError):
    """There is no Java on this machine that Spark runs on."""


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM unless this process has one; memory, class path and logging can only be given here.

    Raises:
        NoJavaError: Java is missing or too old; holds the line that names the package.
    """
    if SparkContext._gateway is not None:
        return
    problem = java_problem()
    if problem:
        raise NoJavaError(problem)
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    read_end, write_end = os.pipe()
    threading.Thread(target=_relay, args=(read_end,), daemon=True, name="spark-stderr").start()
    try:
        # A JVM that cannot say where it listens, since nobody waits for that any more, would stay for ever.
        with undivided():
            gateway = launch_gateway(conf, popen_kwargs={"stderr": write_end})  # type: ignore[no-untyped-call]
    finally:
        os.close(write_end)
    SparkContext._ensure_initialized(gateway=gateway)


def _relay(read_end: int) -> None:
    """Copy the JVM's standard error to ours, less what nothing turns off."""
    with open(read_end, encoding="utf-8", errors="replace") as lines:
        for line in news(lines):
            sys.stderr.write(line)
            sys.stderr.flush()


def news(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines less those of every start, and less tracebacks of workers that came to their end too late.

    Those of several workers may be mixed.
    """
    held: list[str] = []  # of a traceback that may be one of these
    for line in lines:
        if line.startswith(BANNERS):
            continue
        if line.startswith(BEGIN) or (held and (WORKER.match(line) or line.startswith("    "))):
            held.append(line)
            continue
        if line.startswith(END) and any(map(WORKER.match, held)):
            held.remove(next(at for at in held if at.startswith(BEGIN)))
            if any(at.startswith(BEGIN) for at in held):
                continue  # another worker's goes on
        else:
            yield from (*held, line)
        held.clear()
    yield from held

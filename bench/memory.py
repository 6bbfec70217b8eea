"""Peak memory of Spark's Python workers and of its driver, over stores of several shapes: ``python -m bench.memory``.

Each case runs in a driver process of its own, local[2]. A thread of it looks at its own process, the JVM and the
Python processes below that some fifty times a second. Resident memory counts pages of mapped files, which the system
takes back when it needs them; anonymous memory is what a process itself holds. Stores are generated and removed again.
What a queue and a segment cost the driver is the slope between two stores that differ in their number alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import pagecache
from bench.generate import generate
from bench.measure import table
from storeio.format import index

Row = dict[str, Any]
MIB: Final = 1 << 20
GIB: Final = 1 << 30
GOAL_WORKER_BYTES: Final = 512 * MIB
LOOK_SECONDS: Final = 0.02
KINDS: Final = ("worker", "driver", "jvm")
WORK: Final = ("audit", "rebuild", "records", "bodies", "units", "count")
HEADINGS: Final = (
    "store", "work", "worker RSS", "worker anon", "driver RSS", "driver anon", "JVM RSS", "rows", "exit", "measured",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """A store: bytes of its log, of a segment and of a body, and its topics with so many queues each.

    With ``wrong_every`` each so-manieth unit of its first index file has a wrong hash.
    """

    name: str
    log_bytes: int
    segment_bytes: int
    body_bytes: int
    topics: int = 4
    queues: int = 4
    works: Sequence[str] = WORK
    wrong_every: int = 0

    def make(self, directory: Path) -> Path:
        """Return the store, written and forgotten by the page cache."""
        per_file = 300_000 if self.topics * self.queues < 1000 else 1000  # a file of each queue, mostly holes
        made = generate(
            directory / self.name.replace(" ", "-"), total_bytes=self.log_bytes, segment_bytes=self.segment_bytes,
            body_bytes=self.body_bytes, topics=self.topics, queues=self.queues, units_per_file=per_file,
        )  # fmt: skip
        if self.wrong_every:
            file = min((made.root / "index").iterdir())
            data = np.memmap(file, np.uint8, "r+", index.units_start(index.DEFAULT_SLOTS))
            units = data.reshape(-1, index.UNIT_BYTES)
            units[1 :: self.wrong_every, 2] ^= 0x5A
            data.flush()
        pagecache.drop(made.root)
        return made.root


FULL: Final = (
    Shape("one segment small bodies", GIB, GIB, 64),
    Shape("one queue", GIB, GIB, 64, 1, 1),
    Shape("small segments", GIB, 64 * MIB, 1024),
    Shape("more segments", GIB, 4 * MIB, 1024),
    Shape("a full index file", 6 * GIB, GIB, 64, works=("audit", "rebuild")),
    Shape("an index file with few wrong units", 6 * GIB, GIB, 64, works=("audit",), wrong_every=9_000_000),
    Shape("an index file with many wrong units", 6 * GIB, GIB, 64, works=("audit",), wrong_every=3),
    Shape("25000 queues", 192 * MIB, GIB, 64, 250, 100),
    Shape("100000 queues", 192 * MIB, GIB, 64, 1000, 100),
)
QUICK: Final = (
    Shape("one segment small bodies", 128 * MIB, GIB, 64),
    Shape("small segments", 64 * MIB, 4 * MIB, 1024),
    Shape("more segments", 64 * MIB, MIB, 1024),
    Shape("500 queues", 16 * MIB, GIB, 64, 50, 10),
    Shape("2000 queues", 16 * MIB, GIB, 64, 200, 10),
)


class Watch:
    """Looks at this process and those below it while it is entered; keeps the most that each kind took."""

    def __init__(self) -> None:
        self.rss = dict.fromkeys(KINDS, 0)
        self.anon = dict.fromkeys(KINDS, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Look once."""
        below: dict[int, list[int]] = {}
        for pid, parent in _processes():
            below.setdefault(parent, []).append(pid)
        self._note("driver", os.getpid())
        waiting = [os.getpid()]
        while waiting:
            for pid in below.get(waiting.pop(), []):
                waiting.append(pid)
                # A fork of the JVM has the names of its threads, until it becomes what it was forked for.
                if (program := _program(pid)).startswith("python"):
                    self._note("worker", pid)
                elif program == "java":
                    self._note("jvm", pid)

    def _note(self, kind: str, pid: int) -> None:
        said = _status(pid)
        self.rss[kind] = max(self.rss[kind], said.get("VmHWM", 0))
        self.anon[kind] = max(self.anon[kind], said.get("RssAnon", 0))


def _processes() -> Iterator[tuple[int, int]]:
    """Yield number and parent of each process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                rest = Path("/proc", entry, "stat").read_text(encoding="utf-8").rpartition(")")[2]
            except OSError:
                continue  # it has ended
            yield int(entry), int(rest.split()[1])


def _program(pid: int) -> str:
    """Return the name of the file that a process runs, empty when it has ended."""
    try:
        return Path("/proc", str(pid), "exe").readlink().name
    except OSError:
        return ""


def _status(pid: int) -> dict[str, int]:
    """Return the sizes, bytes, that the system tells of a process."""
    try:
        lines = Path("/proc", str(pid), "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: int(value.split()[0]) << 10 for name, _, value in (x.partition(":") for x in lines) if " kB" in value}


def run_one(work: str, root: Path, into: Path) -> Row:
    """Return the figures of one piece of work, in this process."""
    from jobs.common import build_session

    spark = build_session("bench memory", master="local[2]")
    with Watch() as watch:
        rows, code = _done(work, spark, str(root), into)
        watch.look()
    spark.stop()
    facts = {f"{kind}_{what}_bytes": getattr(watch, what)[kind] for kind in KINDS for what in ("rss", "anon")}
    return {"work": work, "rows": rows, "exit_code": code, **facts}


def _done(work: str, spark: Any, root: str, into: Path) -> tuple[int, int]:
    """Do the work; return how many rows it had to do with and the exit code."""
    from jobs import rebuild_queues
    from storeio import audit
    from udfs.checks import audit_stores
    from udfs.datasource import register
    from udfs.options import NAME

    if work == "audit":
        found = audit_stores(spark, [audit.prepare(root)])[0]
        if isinstance(found, Exception):
            raise found
        return found.log.records, found.exit_code
    if work == "rebuild":
        words = ["--store", root, "--into", str(into / "built"), "--tables", str(into / "tables"), "--quiet"]
        code = rebuild_queues.main([*words, "--json", str(into / "report.json"), "--master", "local[2]"])
        return json.loads((into / "report.json").read_text())["log"]["records"], code
    register(spark)
    frame = spark.read.format(NAME).options(path=root, what="units" if work == "units" else "records")
    frame = frame.option("body", str(work == "bodies").lower()).load()
    if work == "count":
        return frame.count(), 0
    frame.write.format("noop").mode("overwrite").save()  # every column of every row
    return frame.count(), 0


def run_apart(work: str, root: Path) -> Row:
    """Return the figures of one piece of work, from a process of its own; what it wrote is removed."""
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=root.parent) as into:
        command = [sys.executable, "-m", "bench.memory", "--one", work, str(root), into]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent)
    row: Row = json.loads(ran.stdout.splitlines()[-1])
    return row


def measured(shapes: Sequence[Shape], works: Sequence[str], directory: Path) -> Iterator[Row]:
    """Yield a row for each store and work, stores coming and going below ``directory``."""
    for shape in shapes:
        if not (wanted := [work for work in works if work in shape.works]):
            continue
        print(f"writing {shape.name} ...", file=sys.stderr)
        root = shape.make(directory)
        counts = {"segments": len(list((root / "commitlog").iterdir())), "queues": shape.topics * shape.queues}
        for work in wanted:
            row = {"store": shape.name, "day": time.strftime("%Y-%m-%d"), **counts, **run_apart(work, root)}
            print(json.dumps(row), file=sys.stderr)
            yield row
        shutil.rmtree(root)


def cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table."""
    names = ("worker_rss", "worker_anon", "driver_rss", "driver_anon", "jvm_rss")
    sizes = (f"{row[f'{name}_bytes'] / MIB:.0f}" for name in names)
    return (row["store"], row["work"], *sizes, str(row["rows"]), str(row["exit_code"]), row["day"])


def slopes(rows: Sequence[Row]) -> list[str]:
    """Return what one queue and one segment more cost the driver in each work, anonymous bytes of its Python."""
    lines = []
    for counted, other in (("queues", "segments"), ("segments", "queues")):
        for work in dict.fromkeys(row["work"] for row in rows):
            of = [r for r in rows if r["work"] == work and (counted[:-1] in r["store"] or counted in r["store"])]
            of = sorted((r for r in of if "one" not in r["store"]), key=lambda r: r[counted])
            if len(of) >= 2 and of[0][counted] < of[-1][counted] and of[0][other] == of[-1][other]:
                more = of[-1]["driver_anon_bytes"] - of[0]["driver_anon_bytes"]
                each = more / (of[-1][counted] - of[0][counted])
                lines.append(f"driver, {work}: {each:,.0f} bytes for each of the {counted}")
    return lines


def goals(rows: Sequence[Row]) -> list[str]:
    """Return which workers took more than they should."""
    over = [row for row in rows if row["worker_rss_bytes"] >= GOAL_WORKER_BYTES]
    lines = [f"over {GOAL_WORKER_BYTES // MIB} MiB: {row['store']}, {row['work']}" for row in over]
    return lines or [f"every worker stayed below {GOAL_WORKER_BYTES // MIB} MiB, mapped pages included"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table, the slopes and what becomes of the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="stores of 16 to 128 MiB")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--stores", nargs="+", metavar="NAME", help="only stores whose names have one of these words")
    parser.add_argument("--directory", type=Path, help="where the stores are written and removed again")
    parser.add_argument("--json", type=Path, help="file for the figures, - for standard output")
    parser.add_argument("--one", nargs=3, metavar=("WORK", "ROOT", "INTO"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(run_one(given.one[0], Path(given.one[1]), Path(given.one[2]))))
        return
    shapes = [s for s in (QUICK if given.quick else FULL) if not given.stores or any(w in s.name for w in given.stores)]
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
        rows = list(measured(shapes, given.work, Path(directory)))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}; local[2]; MiB at their peaks")
    print(table([HEADINGS, *map(cells, rows)]), *slopes(rows), *goals(rows), sep="\n")
    if given.json:
        text = json.dumps({"machine": machine, "rows": rows}, indent=1)
        print(text) if str(given.json) == "-" else given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

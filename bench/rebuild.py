"""Queues and index rebuilt from the log, against a real broker's own rebuild of it: ``python -m bench.rebuild``.

Writes a sound store of 2 GiB, or takes one that is there, and times in turns: this rebuild on each number of threads,
into a new directory that is flushed to the disk, each time in a new process; and a broker's start on a copy of the log
without queues and index, which is its ``load`` and what it takes from there until dispatch has caught up. The first
turn reads from the disk and is not counted. Figures are seconds within the process, and ratios of medians in one
run.

``bench.oracle`` says what it needs for that; without it only the rebuild is timed, and that is said.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import pagecache
from bench.cases import RSS_UNIT
from bench.oracle import (
    GIB,
    ORACLE,
    UNITS_PER_FILE,
    Figures,
    event_named,
    events_of,
    medians,
    options,
    oracle_given,
    store_for,
)  # fmt: skip
from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, CONSUMEQUEUE, INDEX
from storeio.rebuild.node import rebuild

GOAL: Final = 20


def rebuilt(root: Path, into: Path, jobs: int, segment_bytes: int) -> Figures:
    """Return the figures of one rebuild in this process."""
    given = {"mappedFileSizeCommitLog": str(segment_bytes), "mappedFileSizeConsumeQueue": str(20 * UNITS_PER_FILE)}
    started = time.perf_counter()
    result = rebuild(root, into, given=given, jobs=jobs)
    return {
        "seconds": time.perf_counter() - started,
        "records": result.records,
        "index_units": result.index_units,
        "queue_units": sum(queue.units for queue in result.queues),
        "exit_code": result.exit_code,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT,
    }


def rebuilt_apart(root: Path, into: Path, jobs: int, segment_bytes: int) -> Figures:
    """Return the figures of one rebuild in a new process; what it wrote is removed."""
    command = [sys.executable, "-m", "bench.rebuild", "--one", str(root), "--directory", str(into)]
    command += ["--threads", str(jobs), "--segment-bytes", str(segment_bytes)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    shutil.rmtree(into)
    figures: Figures = json.loads(done.stdout)
    return figures


def copy_of_log(root: Path, target: Path) -> Path:
    """Return a store with nothing but a copy of the log: a broker writes into its files."""
    shutil.copytree(root / COMMITLOG, target / COMMITLOG)
    return target


def rebuilt_by_broker(oracle: Path, root: Path, version: str, segment_bytes: int) -> Figures:
    """Return how long a real broker took from its start until queues and index were there again.

    Raises:
        RuntimeError: It did not start.
    """
    for name in (CONSUMEQUEUE, INDEX):
        shutil.rmtree(root / name, ignore_errors=True)
    for name in (ABORT, CHECKPOINT):
        (root / name).unlink(missing_ok=True)
    events = events_of(oracle, root, version, segment_bytes, start="true")
    load, started = event_named(events, "load"), event_named(events, "started")
    written = sum(p.stat().st_blocks for name in (CONSUMEQUEUE, INDEX) for p in (root / name).rglob("*")) * 512
    return {"seconds": (load["loadMs"] + started["ms"]) / 1000, "load_ms": load["loadMs"], "written_bytes": written}


def turns(root: Path, place: Path, given: argparse.Namespace, oracle: Path | None) -> Figures:
    """Return medians of all, timed in turns."""
    ours: dict[int, list[Figures]] = {threads: [] for threads in given.threads}
    theirs: list[Figures] = []
    copied = copy_of_log(root, place / "broker") if oracle is not None else None
    if copied is not None:
        pagecache.drop(copied)
    for _ in range(given.rounds + 1):
        for threads in given.threads:
            ours[threads].append(rebuilt_apart(root, place / "new", threads, given.segment_bytes))
        if oracle is not None and copied is not None:
            theirs.append(rebuilt_by_broker(oracle, copied, given.broker, given.segment_bytes))
    found: Figures = {
        "broker": given.broker,
        "log_bytes": sum(p.stat().st_size for p in (root / COMMITLOG).iterdir()),
        "rebuilt": {threads: medians(rounds[1:]) for threads, rounds in ours.items()},
        "by_broker": medians(theirs[1:]) if theirs else None,
    }
    if theirs:
        for figures in found["rebuilt"].values():
            figures["ratio"] = found["by_broker"]["seconds"] / figures["seconds"]
    return found


def told(found: Figures) -> str:
    """Return the lines for one store."""
    lines = []
    for threads, figures in found["rebuilt"].items():
        lines.append(
            f"rebuilt on {threads} thread(s) in {figures['seconds']:.3f} s, {figures['queue_units']:,} queue units and "
            f"{figures['index_units']:,} index units, peak {figures['peak_bytes'] / 2**20:.0f} MiB, rounds "
            f"{figures['all_seconds']}"
        )
        if "ratio" in figures:
            lines.append(f"  broker {found['broker']} takes {figures['ratio']:.1f} times as long; goal {GOAL}")
    theirs = found["by_broker"]
    if theirs is None:
        lines.append(f"no broker: {ORACLE} is not set, so there is no ratio")
    else:
        lines.append(f"broker {found['broker']}: {theirs['seconds']:.3f} s, rounds {theirs['all_seconds']}")
    return "\n".join(lines)


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = options("bench.rebuild", __doc__, 2 * GIB)
    parser.add_argument("--broker", default="5.3.3", help="version")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all and print the ratios."""
    given = asked(arguments)
    if given.one is not None:
        print(json.dumps(rebuilt(given.one, given.directory, given.threads[0], given.segment_bytes)))
        return
    oracle = oracle_given()
    with store_for(given) as (root, place):
        found = turns(root, place, given, oracle)
    print(told(found), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

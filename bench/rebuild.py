"""Queues and index rebuilt from the log, against a real broker's own rebuild of it: ``python -m bench.rebuild``.

Writes a sound store of 2 GiB, or takes one that is there, and times in turns: this rebuild on each number of cores,
into a new directory that is flushed to the disk, each time in a new process; and each broker's start on a copy of the
log without queues and index, which is its ``load`` and what it takes from there until dispatch has caught up. The first
turn reads from the disk and is not counted; before each run the log and free memory are touched. Figures are seconds
within the process, and ratios of medians in one run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench import brokers, pagecache
from bench.brokers import (
    GIB,
    UNITS_PER_FILE,
    Figures,
    came_up,
    in_turns,
    log_bytes,
    one_apart,
    options,
    sizes,
    store_for,
    told,
    write_json,
)  # fmt: skip
from bench.cases import peak_bytes
from bench.cores import on_cores
from storeio.paths import COMMITLOG, CONSUMEQUEUE, INDEX
from storeio.process import own_process
from storeio.rebuild.node import rebuild

GOAL: Final = 20


def rebuilt(root: Path, into: Path, cores: int, segment_bytes: int) -> Figures:
    """Return the figures of one rebuild in this process."""
    given = {"mappedFileSizeCommitLog": str(segment_bytes), "mappedFileSizeConsumeQueue": str(20 * UNITS_PER_FILE)}
    on_cores(cores)
    started = time.perf_counter()
    result = rebuild(root, into, given=given, jobs=cores)
    return {
        "seconds": time.perf_counter() - started,
        "records": result.records,
        "index_units": result.index_units,
        "queue_units": sum(queue.units for queue in result.queues),
        "exit_code": result.exit_code,
        "peak_bytes": peak_bytes(),
    }


def rebuilt_apart(root: Path, into: Path, cores: int, segment_bytes: int) -> Figures:
    """Return the figures of one rebuild in a new process; what it wrote is removed."""
    figures = one_apart("bench.rebuild", root, directory=into, cores=cores, segment_bytes=segment_bytes)
    shutil.rmtree(into)
    return figures


def copy_of_log(root: Path, target: Path) -> Path:
    """Return a store with nothing but a copy of the log: a broker writes into its files."""
    shutil.copytree(root / COMMITLOG, target / COMMITLOG)
    pagecache.drop(target)
    return target


def rebuilt_by_broker(root: Path, version: str, segment_bytes: int) -> Figures:
    """Return how long a real broker took from its start until queues and index were there again.

    Raises:
        RuntimeError: It did not start.
    """
    from broker.brokers import rebuild as let_broker_rebuild

    started = came_up(let_broker_rebuild(version, root, sizes(segment_bytes)))
    load_ms, caught_up_ms = started.load_ms or 0, started.caught_up_ms or 0
    written = sum(p.stat().st_blocks for name in (CONSUMEQUEUE, INDEX) for p in (root / name).rglob("*")) * 512
    return {"seconds": (load_ms + caught_up_ms) / 1000, "load_ms": load_ms, "written_bytes": written}


def turns(root: Path, place: Path, given: argparse.Namespace) -> Figures:
    """Return medians of all, timed in turns."""
    versions = [version for version in given.brokers if brokers.is_there(version)]
    copied = copy_of_log(root, place / "broker") if versions else root
    ours = {n: partial(rebuilt_apart, root, place / "new", n, given.segment_bytes) for n in given.cores}
    theirs = {version: partial(rebuilt_by_broker, copied, version, given.segment_bytes) for version in versions}
    return {"log_bytes": log_bytes(root), **in_turns(ours, theirs, given.rounds, (root, copied))}


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = options("bench.rebuild", __doc__, 2 * GIB)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all and print the ratios."""
    given = asked(arguments)
    if given.one is not None:
        own_process()
        print(json.dumps(rebuilt(given.one, given.directory, given.cores[0], given.segment_bytes)))
        return
    with store_for(given) as (root, place):
        found = turns(root, place, given)
    print(told(found, "rebuilt", f"{GOAL} on two cores"), flush=True)
    write_json(given.json, found)


if __name__ == "__main__":
    main()

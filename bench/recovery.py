"""A full audit, against a real broker's abnormal recovery of the same store: ``python -m bench.recovery``.

Writes a sound store of 2 GiB, or takes one that is there, and times in turns: ``storeio check`` on one core, each time
in a new process; and each broker's ``load`` of a copy as after a crash that left no checkpoint, when it walks the whole
log. Brokers up to 5.3.3 dispatch every record again; 5.5.1 dispatches only what queues and index lack, here nothing,
and takes half as long. That has one thread, and the compiler's and the collector's on top; all of them share one core
here, as those of the audit do. The audit does more: it compares every queue and index unit with the log and classifies
every byte.
The first turn reads from the disk and is not counted; before each run the store and free memory are touched.
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
from bench.cases import peak_bytes, sound
from bench.cores import children_on, on_cores
from storeio import check
from storeio.process import own_process

GOAL: Final = 10


def audited(root: Path, cores: int, segment_bytes: int) -> Figures:
    """Return the figures of one audit in this process."""
    given = {"mappedFileSizeCommitLog": str(segment_bytes), "mappedFileSizeConsumeQueue": str(20 * UNITS_PER_FILE)}
    on_cores(cores)
    started = time.perf_counter()
    result = sound(check(root, given=given, jobs=cores))
    return {
        "seconds": time.perf_counter() - started,
        "records": result.log.records,
        "log_end": result.log.max_physical_offset,
        "peak_bytes": peak_bytes(),
    }


def recovered(root: Path, version: str, segment_bytes: int) -> Figures:
    """Return how long a real broker's abnormal recovery took.

    Raises:
        RuntimeError: It did not recover.
    """
    from broker.brokers import recover

    with children_on(1):
        started = came_up(recover(version, root, sizes(segment_bytes)))
    assert started.loaded_range is not None  # it came up
    return {"seconds": (started.load_ms or 0) / 1000, "log_end": started.loaded_range[1]}


def turns(root: Path, place: Path, given: argparse.Namespace) -> Figures:
    """Return medians of all, timed in turns.

    Raises:
        RuntimeError: A broker and the audit differ about where the log ends: they did not do the same.
    """
    versions = [version for version in given.brokers if brokers.is_there(version)]
    if versions:
        shutil.copytree(root, place / "broker")
        pagecache.drop(place / "broker")
    more = {"segment_bytes": given.segment_bytes}
    ours = {n: partial(one_apart, "bench.recovery", root, cores=n, **more) for n in given.cores}
    theirs = {version: partial(recovered, place / "broker", version, **more) for version in versions}
    found = {"log_bytes": log_bytes(root), **in_turns(ours, theirs, given.rounds, (root, place / "broker"))}
    ends = {one["log_end"] for one in (*found["ours"].values(), *found["brokers"].values())}
    if len(ends) != 1:
        raise RuntimeError(f"brokers and audit differ about the log's end: {found}")
    return found


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = options("bench.recovery", __doc__, 2 * GIB)
    parser.add_argument("--cores", type=int, nargs="+", default=[1])
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all and print the ratios."""
    given = asked(arguments)
    if given.one is not None:
        own_process()
        print(json.dumps(audited(given.one, given.cores[0], given.segment_bytes)))
        return
    with store_for(given) as (root, place):
        found = turns(root, place, given)
    print(told(found, "audited", f"{GOAL} on one core"), flush=True)
    write_json(given.json, found)


if __name__ == "__main__":
    main()

"""A clean start simulated, against a real broker's ``load`` of the same store: ``python -m bench.simulate``.

Writes a sound store of 4 GiB in segments of 1 GiB, or takes one that is there, and times both in turns, each
time in a new process. The first turn reads from the disk and is not counted. The broker's figure is its own
of ``load``; ours is that of listing the store and simulating the start. What starting the process takes comes
on top of either and is told apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from bench import brokers, pagecache
from bench.brokers import (
    GIB,
    UNITS_PER_FILE,
    Figures,
    came_up,
    medians,
    one_apart,
    options,
    sizes,
    store_for,
    write_json,
)  # fmt: skip
from bench.cases import peak_bytes
from storeio.checks.ranges import merged
from storeio.format import index
from storeio.paths import COMMITLOG
from storeio.process import own_process
from storeio.scan import kept_open, list_store, read_range
from storeio.simulate.broker import Setup
from storeio.simulate.disk import Disk
from storeio.simulate.outcome import simulate_start
from storeio.simulate.rules import rules_of
from storeio.walk import DEFAULT_DELAYS_MS

GOAL: Final = 10
TIMES: Final = ("seconds", "process_seconds")


@kept_open()
def simulation(root: Path, version: str, segment_bytes: int) -> Figures:
    """Return the figures of one simulated start in this process."""
    ranges: dict[str, list[tuple[int, int]]] = {}

    def read(path: str, start: int, stop: int) -> npt.NDArray[np.uint8]:
        ranges.setdefault(path, []).append((start, stop))
        return read_range(str(root), path, start, stop)

    started = time.perf_counter()
    disk = Disk(list_store(root).files, read)
    sizes = segment_bytes, 20 * UNITS_PER_FILE, index.DEFAULT_SLOTS, index.DEFAULT_UNITS
    outcome, broker = simulate_start(disk, rules_of(version), Setup(*sizes, DEFAULT_DELAYS_MS), digests=False)
    seconds = time.perf_counter() - started
    found = {path: merged(parts) for path, parts in sorted(ranges.items())}
    segments = [path for path, parts in found.items() if path.startswith(COMMITLOG) and parts[-1][1] > 1 << 20]
    return {
        "seconds": seconds,
        "outcome": outcome.outcome,
        "log_end": broker.log.max_offset,
        "bytes_read": sum(stop - start for parts in found.values() for start, stop in parts),
        "segments_walked": segments,
        "peak_bytes": peak_bytes(),
    }


def simulated_apart(root: Path, version: str, segment_bytes: int) -> Figures:
    """Return the figures of one simulated start in a new process, and how long all of that took."""
    started = time.perf_counter()
    figures = one_apart("bench.simulate", root, brokers=version, segment_bytes=segment_bytes)
    return {**figures, "process_seconds": time.perf_counter() - started}


def loaded(root: Path, version: str, segment_bytes: int) -> Figures:
    """Return how long a real broker's ``load`` of the store took; a sound store stays as it is.

    Raises:
        RuntimeError: It did not load the store.
    """
    from broker.brokers import run
    from broker.jvm import SERVER

    began = time.perf_counter()
    given = {"consume": False, "stop": "loaded", "timeout": 600.0, "java_options": SERVER}
    started = came_up(run(version, root, sizes(segment_bytes), **given))
    assert started.loaded_range is not None  # it came up
    seconds = time.perf_counter() - began
    return {"seconds": (started.load_ms or 0) / 1000, "process_seconds": seconds, "log_end": started.loaded_range[1]}


def turns(root: Path, version: str, given: argparse.Namespace, *, broker: bool) -> Figures:
    """Return medians of both, timed in turns."""
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for _ in range(given.rounds + 1):
        if given.cold:
            pagecache.drop(root)
        ours.append(simulated_apart(root, version, given.segment_bytes))
        if broker:
            if given.cold:
                pagecache.drop(root)
            theirs.append(loaded(root, version, given.segment_bytes))
            if theirs[-1]["log_end"] != ours[-1]["log_end"]:
                raise RuntimeError(f"broker {version} and simulation differ: {theirs[-1]}, {ours[-1]}")
    found: Figures = {"version": version, "simulated": medians(ours[1:], TIMES), "load": None, "ratio": None}
    if theirs:
        found["load"] = medians(theirs[1:], TIMES)
        found["ratio"] = found["load"]["seconds"] / found["simulated"]["seconds"]
    return found


def told(found: Figures) -> str:
    """Return the lines for one version."""
    ours, theirs = found["simulated"], found["load"]
    lines = [
        f"{found['version']}: simulated in {ours['seconds']:.3f} s ({ours['process_seconds']:.2f} s with its process), "
        f"{ours['bytes_read'] / 2**20:.0f} MiB read, peak {ours['peak_bytes'] / 2**20:.0f} MiB, rounds "
        f"{ours['all_seconds']}",
        f"  walked {', '.join(ours['segments_walked'])}",
    ]
    if theirs is None:
        lines.append("  no broker, so there is no ratio")
    else:
        lines.append(
            f"  broker's load {theirs['seconds']:.3f} s ({theirs['process_seconds']:.2f} s with its process), rounds "
            f"{theirs['all_seconds']}: {found['ratio']:.1f} times as long; goal {GOAL}"
        )
    return "\n".join(lines)


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = options("bench.simulate", __doc__, 4 * GIB)
    parser.add_argument("--cold", action="store_true", help="have the store forgotten by the page cache every time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time both and print the ratio."""
    given = asked(arguments)
    if given.one is not None:
        own_process()
        print(json.dumps(simulation(given.one, given.brokers[0], given.segment_bytes)))
        return
    with store_for(given) as (root, _):
        found = []
        for version in given.brokers:
            found.append(turns(root, version, given, broker=brokers.is_there(version)))
            print(told(found[-1]), flush=True)
    write_json(given.json, found)


if __name__ == "__main__":
    main()

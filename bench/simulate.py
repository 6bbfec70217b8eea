"""A clean start simulated, against a real broker's ``load`` of the same store: ``python -m bench.simulate``.

Writes a sound store of 4 GiB in segments of 1 GiB, or takes one that is there, and times both in turns, each
time in a new process. The first turn reads from the disk and is not counted. The broker's figure is its own
of ``load``; ours is that of listing the store and simulating the start. What starting the process takes comes
on top of either and is told apart.

``bench.oracle`` says what it needs for that; without it only the simulation is timed, and that is said.
"""

from __future__ import annotations

import argparse
import json
import resource
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
from storeio.format import index
from storeio.paths import COMMITLOG
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
    started = time.perf_counter()
    disk = Disk(list_store(root).files, lambda path, start, stop: read_range(str(root), path, start, stop))
    sizes = segment_bytes, 20 * UNITS_PER_FILE, index.DEFAULT_SLOTS, index.DEFAULT_UNITS
    outcome, broker = simulate_start(disk, rules_of(version), Setup(*sizes, DEFAULT_DELAYS_MS), digests=False)
    seconds = time.perf_counter() - started
    ranges = disk.ranges_read()
    segments = [path for path, parts in ranges.items() if path.startswith(COMMITLOG) and parts[-1][1] > 1 << 20]
    return {
        "seconds": seconds,
        "outcome": outcome.outcome,
        "log_end": broker.log.max_offset,
        "bytes_read": sum(stop - start for parts in ranges.values() for start, stop in parts),
        "segments_walked": segments,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT,
    }


def simulated_apart(root: Path, version: str, segment_bytes: int) -> Figures:
    """Return the figures of one simulated start in a new process, and how long all of that took."""
    command = [sys.executable, "-m", "bench.simulate", "--one", str(root), "--brokers", version]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--segment-bytes", str(segment_bytes)], check=True, stdout=subprocess.PIPE, text=True
    )
    figures: Figures = json.loads(done.stdout)
    return {**figures, "process_seconds": time.perf_counter() - started}


def loaded(oracle: Path, root: Path, version: str, segment_bytes: int) -> Figures:
    """Return how long a real broker's ``load`` of the store took.

    Raises:
        RuntimeError: It did not load the store.
    """
    started = time.perf_counter()
    events = events_of(oracle, root, version, segment_bytes)
    load = event_named(events, "load")
    ends = [event["maxPhyOffset"] for event in events if event.get("event") == "state"]
    seconds = time.perf_counter() - started
    return {"seconds": load["loadMs"] / 1000, "process_seconds": seconds, "log_end": ends[0] if ends else None}


def turns(root: Path, version: str, given: argparse.Namespace, oracle: Path | None) -> Figures:
    """Return medians of both, timed in turns."""
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for _ in range(given.rounds + 1):
        if given.cold:
            pagecache.drop(root)
        ours.append(simulated_apart(root, version, given.segment_bytes))
        if oracle is not None:
            if given.cold:
                pagecache.drop(root)
            theirs.append(loaded(oracle, root, version, given.segment_bytes))
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
        lines.append(f"  no broker: {ORACLE} is not set, so there is no ratio")
    else:
        lines.append(
            f"  broker's load {theirs['seconds']:.3f} s ({theirs['process_seconds']:.2f} s with its process), rounds "
            f"{theirs['all_seconds']}: {found['ratio']:.1f} times as long; goal {GOAL}"
        )
    return "\n".join(lines)


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = options("bench.simulate", __doc__, 4 * GIB)
    parser.add_argument("--brokers", nargs="+", default=["5.5.1", "5.3.3", "4.9.8"], help="versions")
    parser.add_argument("--cold", action="store_true", help="have the store forgotten by the page cache every time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time both and print the ratio."""
    given = asked(arguments)
    if given.one is not None:
        print(json.dumps(simulation(given.one, given.brokers[0], given.segment_bytes)))
        return
    oracle = oracle_given()
    with store_for(given) as (root, _):
        found = []
        for version in given.brokers:
            found.append(turns(root, version, given, oracle))
            print(told(found[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

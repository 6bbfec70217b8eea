"""A clean start simulated, against a real broker's ``load`` of the same store: ``python -m bench.simulate``.

Writes a sound store of 4 GiB in segments of 1 GiB, or takes one that is there, and times both in turns, each
time in a new process. The first turn reads from the disk and is not counted. The broker's figure is its own
of ``load``; ours is that of listing the store and simulating the start. What starting the process takes comes
on top of either and is told apart.

STOREIO_ORACLE names the directory with the program ``oracle`` that loads a store with a real broker:
``oracle VERSION recover STORE clFile=... cqEntries=... indexSlots=... indexNum=...`` prints, as JSON, an event
``load`` with ``ok`` and ``loadMs``. Without it only the simulation is timed, and that is said.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import pagecache
from bench.cases import RSS_UNIT
from bench.generate import generate
from storeio.format import index
from storeio.paths import COMMITLOG
from storeio.scan import kept_open, list_store, read_range
from storeio.simulate.broker import Setup
from storeio.simulate.disk import Disk
from storeio.simulate.outcome import simulate_start
from storeio.simulate.rules import rules_of
from storeio.walk import DEFAULT_DELAYS_MS

Figures = dict[str, Any]

ORACLE: Final = "STOREIO_ORACLE"
GIB: Final = 1 << 30
GOAL: Final = 10
UNITS_PER_FILE: Final = 300_000
SERVER_COMPILER: Final = {"ORACLE_TIER": "4"}  # what a broker runs with


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
    settings = {
        "clFile": segment_bytes, "cqEntries": UNITS_PER_FILE, "indexSlots": index.DEFAULT_SLOTS,
        "indexNum": index.DEFAULT_UNITS,
    }  # fmt: skip
    command = [str(oracle / "oracle"), version, "recover", str(root), *(f"{k}={v}" for k, v in settings.items())]
    started = time.perf_counter()
    done = subprocess.run(
        command, env=SERVER_COMPILER | os.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    load = next((event for event in events if event.get("event") == "load"), None)
    if load is None or not load["ok"]:
        raise RuntimeError(f"broker {version} did not load {root}: exit code {done.returncode}, {done.stdout[-300:]}")
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
    found: Figures = {"version": version, "simulated": medians(ours[1:]), "load": None, "ratio": None}
    if theirs:
        found["load"] = medians(theirs[1:])
        found["ratio"] = found["load"]["seconds"] / found["simulated"]["seconds"]
    return found


def medians(rounds: Sequence[Figures]) -> Figures:
    """Return the median of the seconds, the highest peak, and the rest of the last round."""
    found = dict(rounds[-1])
    for name in ("seconds", "process_seconds"):
        found[name] = statistics.median(figures[name] for figures in rounds)
        found[f"all_{name}"] = [round(figures[name], 3) for figures in rounds]
    if "peak_bytes" in found:
        found["peak_bytes"] = max(figures["peak_bytes"] for figures in rounds)
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
    parser = argparse.ArgumentParser(prog="python -m bench.simulate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", nargs="+", default=["5.5.1", "5.3.3", "4.9.8"], help="versions")
    parser.add_argument("--total-bytes", type=int, default=4 * GIB, help="of the log (default: 4 GiB)")
    parser.add_argument("--segment-bytes", type=int, default=GIB)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="have the store forgotten by the page cache every time")
    parser.add_argument("--directory", type=Path, help="where the store is written and removed again")
    parser.add_argument("--store", type=Path, help="a store of such segments that is there; it is kept")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time both and print the ratio."""
    given = asked(arguments)
    if given.one is not None:
        print(json.dumps(simulation(given.one, given.brokers[0], given.segment_bytes)))
        return
    oracle = Path(os.environ[ORACLE]) if os.environ.get(ORACLE) else None
    if oracle is None:
        print(f"{ORACLE} is not set: no broker is timed", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
        root = given.store
        if root is None:
            sizes = {"total_bytes": given.total_bytes, "segment_bytes": given.segment_bytes}
            root = generate(Path(directory) / "store", body_bytes=given.body_bytes, **sizes).root
            pagecache.drop(root)
        found = []
        for version in given.brokers:
            found.append(turns(root, version, given, oracle))
            print(told(found[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

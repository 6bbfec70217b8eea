"""What benches against a real broker share: the program that starts one, its settings, and medians of turns.

STOREIO_ORACLE names the directory with the program ``oracle`` that starts a real broker's store:
``oracle VERSION recover STORE [start=true] clFile=... cqEntries=... indexSlots=... indexNum=...`` prints, as JSON,
events ``load`` with ``ok`` and ``loadMs``, ``state``, and ``started`` with ``ms``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench import pagecache
from bench.generate import generate
from storeio.format import index

Figures = dict[str, Any]

ORACLE: Final = "STOREIO_ORACLE"
GIB: Final = 1 << 30
UNITS_PER_FILE: Final = 300_000
SERVER_COMPILER: Final = {"ORACLE_TIER": "4"}  # what a broker runs with


def oracle_given() -> Path | None:
    """Return where the program lies, None without one, which is said."""
    if os.environ.get(ORACLE):
        return Path(os.environ[ORACLE])
    print(f"{ORACLE} is not set: no broker is timed", file=sys.stderr)
    return None


def events_of(oracle: Path, root: Path, version: str, segment_bytes: int, **more: str) -> list[Figures]:
    """Return what a real broker says of a store that it loads.

    Raises:
        RuntimeError: It did not load it.
    """
    settings = {
        "clFile": segment_bytes, "cqEntries": UNITS_PER_FILE, "indexSlots": index.DEFAULT_SLOTS,
        "indexNum": index.DEFAULT_UNITS, **more,
    }  # fmt: skip
    command = [str(oracle / "oracle"), version, "recover", str(root), *(f"{k}={v}" for k, v in settings.items())]
    done = subprocess.run(
        command, env=SERVER_COMPILER | os.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not any(event.get("event") == "load" and event["ok"] for event in events):
        raise RuntimeError(f"broker {version} did not load {root}: exit code {done.returncode}, {done.stdout[-300:]}")
    return events


def event_named(events: Sequence[Figures], name: str) -> Figures:
    """Return the first event of a name.

    Raises:
        RuntimeError: There is none.
    """
    found = next((event for event in events if event.get("event") == name), None)
    if found is None:
        raise RuntimeError(f"the broker said nothing of {name}")
    return found


def medians(rounds: Sequence[Figures], names: Sequence[str] = ("seconds",)) -> Figures:
    """Return the medians of some figures, the highest peak, and the rest of the last round."""
    found = dict(rounds[-1])
    for name in names:
        found[name] = statistics.median(figures[name] for figures in rounds)
        found[f"all_{name}"] = [round(figures[name], 3) for figures in rounds]
    if "peak_bytes" in found:
        found["peak_bytes"] = max(figures["peak_bytes"] for figures in rounds)
    return found


def options(program: str, doc: str | None, total_bytes: int) -> argparse.ArgumentParser:
    """Return the options that these benches have in common."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=(doc or "").splitlines()[0])
    size = f"of the log (default: {total_bytes // GIB} GiB)"
    parser.add_argument("--total-bytes", type=int, default=total_bytes, help=size)
    parser.add_argument("--segment-bytes", type=int, default=GIB)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where everything is written and removed again")
    parser.add_argument("--store", type=Path, help="a store of such segments that is there; it is kept")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser


@contextlib.contextmanager
def store_for(given: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Give the store to be timed, which is on the disk and not in memory, and a directory that is removed again."""
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
        root = given.store
        if root is None:
            sizes = {"total_bytes": given.total_bytes, "segment_bytes": given.segment_bytes}
            root = generate(Path(directory) / "store", body_bytes=given.body_bytes, **sizes).root
        pagecache.drop(root)
        yield root, Path(directory)

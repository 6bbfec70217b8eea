"""What benches against a real broker share: its starts, settings, the store to be timed, and medians of turns.

Brokers are those of ``tests/broker``: published artifacts, a JDK and Maven are needed (``docs/broker-tests.md``).
Where they are missing, only our side is timed, and that is said.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import pagecache
from bench.generate import generate
from storeio.format import index
from storeio.paths import COMMITLOG

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # as pytest and the harness's own program have it
from broker.brokers import VERSIONS, Started
from broker.builds import UnavailableError, classpath

Figures = dict[str, Any]

GIB: Final = 1 << 30
UNITS_PER_FILE: Final = 300_000


def sizes(segment_bytes: int) -> dict[str, int]:
    """Return the settings of a broker that fit the stores of ``bench.generate``."""
    return {
        "clFile": segment_bytes,
        "cqEntries": UNITS_PER_FILE,
        "indexSlots": index.DEFAULT_SLOTS,
        "indexNum": index.DEFAULT_UNITS,
    }


def is_there(version: str) -> bool:
    """Tell whether a broker can be started, after making it ready; why not is said."""
    try:
        classpath(version)
    except UnavailableError as error:
        print(f"broker {version} is not timed: {error}", file=sys.stderr)
        return False
    return True


def came_up(started: Started) -> Started:
    """Return a start that did what it should.

    Raises:
        RuntimeError: The broker refused, died or hung: its time says nothing.
    """
    if started.outcome != "starts" or started.load_ms is None:
        raise RuntimeError(f"broker {started.version} {started.outcome}: {started.reason}")
    return started


def medians(rounds: Sequence[Figures], names: Sequence[str] = ("seconds",)) -> Figures:
    """Return the medians of some figures, the highest peak, and the rest of the last round."""
    found = dict(rounds[-1])
    for name in names:
        found[name] = statistics.median(figures[name] for figures in rounds)
        found[f"all_{name}"] = [round(figures[name], 3) for figures in rounds]
    if "peak_bytes" in found:
        found["peak_bytes"] = max(figures["peak_bytes"] for figures in rounds)
    return found


def in_turns(
    ours: Mapping[int, Callable[[], Figures]],
    theirs: Mapping[str, Callable[[], Figures]],
    rounds: int,
    roots: tuple[Path, Path],
) -> Figures:
    """Return medians of what is run on each number of cores and by each broker, in turns, and their ratios.

    The first turn is not counted. Each run is to have a figure ``seconds``. ``roots`` are the stores that we and that
    brokers read: touched before each run, and free memory with them, so that neither pays for pages that lay idle
    while the other ran.
    """
    found: dict[Any, list[Figures]] = {name: [] for name in (*ours, *theirs)}
    for _ in range(rounds + 1):
        for name, run in (*ours.items(), *theirs.items()):
            pagecache.touch(roots[name in theirs])
            found[name].append(run())
    medians_of = {name: medians(figures[1:]) for name, figures in found.items()}
    for cores in ours:
        mine = medians_of[cores]
        mine["ratio"] = {version: medians_of[version]["seconds"] / mine["seconds"] for version in theirs}
    return {"ours": {n: medians_of[n] for n in ours}, "brokers": {v: medians_of[v] for v in theirs}}


def told(found: Figures, done: str, goal: str) -> str:
    """Return the lines for one store; ``done`` is the verb of what was timed."""
    lines = []
    for cores, figures in found["ours"].items():
        rate = found["log_bytes"] / figures["seconds"] / 1e9
        lines.append(
            f"{done} on {cores} core(s) in {figures['seconds']:.3f} s, {rate:.2f} GB/s of log, peak "
            f"{figures['peak_bytes'] / 2**20:.0f} MiB, rounds {figures['all_seconds']}"
        )
        for version, ratio in figures["ratio"].items():
            lines.append(f"  broker {version} takes {ratio:.1f} times as long; goal {goal}")
    for version, theirs in found["brokers"].items():
        lines.append(f"broker {version}: {theirs['seconds']:.3f} s, rounds {theirs['all_seconds']}")
    return "\n".join(lines)


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
    parser.add_argument("--brokers", nargs="*", default=list(VERSIONS), help="versions; may be none")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser


def one_apart(program: str, root: Path, **more: object) -> Figures:
    """Return the figures that a bench's ``--one`` prints, run in a new process; ``more`` are its options."""
    command = [sys.executable, "-m", program, "--one", str(root)]
    for name, value in more.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    figures: Figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return figures


def write_json(path: Path | None, found: object) -> None:
    """Write the figures, if they are wanted."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def log_bytes(root: Path) -> int:
    """Return the bytes of a store's segments."""
    return sum(path.stat().st_size for path in (root / COMMITLOG).iterdir())


@contextlib.contextmanager
def store_for(given: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Give the store to be timed, which is on the disk and not in memory, and a directory that is removed again."""
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
        root = given.store
        if root is None:
            lengths = {"total_bytes": given.total_bytes, "segment_bytes": given.segment_bytes}
            root = generate(Path(directory) / "store", body_bytes=given.body_bytes, **lengths).root
        pagecache.drop(root)
        yield root, Path(directory)

"""Everything that is measured, into ``bench/RESULTS.md`` and ``bench/results.json``: ``make bench``.

Two cores against one, cases against the sum of the same bytes and Spark against one node, both against real brokers
in the same run, curves over the size of the store, queues, bodies and cores, and memory. Takes an hour on an idle
machine and 20 GiB of disk; ``--scale 0.02`` shows the same quickly, without meaning. Nothing is judged: what a machine
gives depends on its load.
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
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import measure, pagecache
from bench import scaling as scaled_cases
from bench.brokers import GIB, Figures, write_json
from bench.cases import forget
from bench.generate import generate
from storeio import __version__, crc

HERE: Final = Path(__file__).parent
PARTS: Final = ("scaling", "cases", "brokers", "curves", "memory")
SCALING_SIZES: Final = (2 * GIB, 8 * GIB)  # the start of Spark's tasks counts in the first
SIZES: Final = (GIB // 2, GIB, 2 * GIB, 4 * GIB, 8 * GIB)
BODIES: Final = (50, 100, 1024, 8192, 65536)
QUEUES: Final = ((5, 2), (10, 10), (100, 10), (100, 100), (1000, 100))  # topics, queues of each
CURVE_BYTES: Final = GIB // 2
CURVE_CASES: Final = ("audit", "rebuild")
AGAINST: Final = ("recovery", "rebuild", "simulate")


@dataclass(frozen=True, slots=True)
class Point:
    """One store of a curve: what is varied, its value, and how the store is made."""

    curve: str
    value: int
    shape: dict[str, Any]


def scaled(log_bytes: int, scale: float) -> int:
    """Return the size of a smaller store: a power of two, as segments are."""
    return max(1 << (int(log_bytes * scale).bit_length() - 1), 4 << 20)


def points(scale: float) -> Iterator[Point]:
    """Yield the stores of all curves."""

    def shape(log_bytes: int, body: int = 1024, **more: int) -> dict[str, Any]:
        total = scaled(log_bytes, scale)
        return {"total_bytes": total, "body_bytes": body, "segment_bytes": min(total, GIB), **more}

    for size in SIZES:
        yield Point("log bytes", scaled(size, scale), shape(size))
    for body in BODIES:
        yield Point("body bytes", body, shape(CURVE_BYTES, body))
    for topics, each in QUEUES:
        topics = max(int(topics * scale), 1) if topics * each > 1000 else topics
        # Short files, as brokers with so many queues have them.
        yield Point("queues", topics * each, shape(CURVE_BYTES, topics=topics, queues=each, units_per_file=3000))


def curves(given: argparse.Namespace, place: Path) -> Iterator[Figures]:
    """Yield the figures of each case at each point, on each number of cores."""
    for point in points(given.scale):
        say(f"{point.curve} {point.value:,}")
        root = place / "store"
        generate(root, **point.shape)
        pagecache.drop(root)
        for case in CURVE_CASES:
            for cores in given.cores:
                figures = measure.run_case(case, root, cores, given.rounds)
                yield {"curve": point.curve, "value": point.value, "body_bytes": point.shape["body_bytes"], **figures}
        forget(root)


def cases(given: argparse.Namespace, place: Path) -> list[Figures]:
    """Return the figures of all cases at two body sizes."""
    bodies, log_bytes = (1024, 100), scaled(2 * GIB, given.scale)
    plan = measure.Plan(log_bytes, bodies, tuple(given.cores), given.rounds, (), measure.ALL_CASES)
    return list(measure.measured(plan, place))


def scaling(given: argparse.Namespace, place: Path) -> list[Figures]:
    """Return the figures of one core and more, run in turns."""
    root = place / "store"
    segment, found = scaled(GIB, given.scale), []
    for size in SCALING_SIZES:
        say(f"scaling, {size >> 30} GiB")
        generate(root, total_bytes=scaled(size, given.scale), body_bytes=1024, segment_bytes=segment)
        found += [scaled_cases.scaled(case, root, given.cores, given.rounds) for case in scaled_cases.ALL]
        shutil.rmtree(root)
    return found


def against_brokers(given: argparse.Namespace, place: Path) -> Figures:
    """Return the figures of what real brokers do, too, by bench."""
    found: Figures = {}
    root = place / "store"
    total = scaled(4 * GIB, given.scale)
    segment = total // 4
    generate(root, total_bytes=total, body_bytes=1024, segment_bytes=segment)
    for name in AGAINST:
        say(f"{name}, against brokers")
        path = place / f"{name}.json"
        command = [sys.executable, "-m", f"bench.{name}", "--store", str(root), "--segment-bytes", str(segment)]
        command += ["--rounds", str(given.rounds), "--directory", str(place), "--json", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HERE.parent)
        found[name] = json.loads(path.read_text())
    shutil.rmtree(root)
    return found


def memory(given: argparse.Namespace, place: Path) -> Any:
    """Return what ``bench.memory`` measured."""
    say("memory")
    path = place / "memory.json"
    command = [sys.executable, "-m", "bench.memory", "--directory", str(place), "--json", str(path)]
    command += ["--quick"] if given.scale < 1 else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HERE.parent)
    return json.loads(path.read_text())["rows"]


def say(text: str) -> None:
    """Tell what comes next."""
    print(text, file=sys.stderr, flush=True)


def machine() -> Figures:
    """Return what the figures depend on."""
    cpu = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line[:10] == "model name"]
        cpu = next(iter(names), cpu)
    return {
        "storeio": __version__,
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "crc_engine": crc.ENGINE,
        "date": time.strftime("%Y-%m-%d"),
    }


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.suite", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts; others stay as they were")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--directory", type=Path, help="where stores are written and removed again")
    parser.add_argument("--out", type=Path, default=HERE, help="where RESULTS.md and results.json go")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for and write the results."""
    from bench.results import as_markdown

    given = asked(arguments)
    given.out.mkdir(parents=True, exist_ok=True)  # before an hour of measuring, not behind it
    path = given.out / "results.json"
    found: Figures = json.loads(path.read_text()) if path.exists() else {}
    run: dict[str, Any] = {"scaling": scaling, "cases": cases, "brokers": against_brokers}
    run |= {"curves": curves, "memory": memory}
    for part in given.only:
        with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
            figures = run[part](given, Path(directory))
            about = {"machine": machine(), "rounds": given.rounds, "scale": given.scale}
            found[part] = {**about, "figures": list(figures) if isinstance(figures, Iterator) else figures}
        write_json(path, found)  # after each part: a bench that is stopped has not run in vain
    (given.out / "RESULTS.md").write_text(as_markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main()

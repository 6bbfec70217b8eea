"""Speed and memory on this machine, as ratios in one run: ``python -m bench --quick`` or ``--full``.

Stores are generated, forgotten by the page cache, measured case by case and removed. A case's first round
reads from the disk and is not counted, so the others find the pages that an audit leaves behind; but
"audit, small pages" finds those that a broker leaves. No figure is judged: what a machine gives depends on
its load. The goals stand below the table.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import pagecache
from bench.cases import CASES
from bench.generate import generate

Row = dict[str, Any]
CASE_OF: Final = {"audit, small pages": "audit"}  # cases that differ in what is done before them
ALL_CASES: Final = (*CASES, *CASE_OF)

GIB: Final = 1 << 30
GOALS_BYTES_PER_S: Final = {1024: 3e9, 100: 1e9}  # of the audit on one core, by body size
GOAL_TWO_CORES: Final = 1.8
GOAL_SPARK: Final = 1.3
SPARK: Final = "audit on Spark"
TWO_CORES: Final = ("audit", "rebuild", SPARK, "rebuild on Spark")  # that are to gain from the second
SMALL_PAGES: Final = "audit, small pages"
HEADINGS: Final = (
    "case", "body B", "cores", "engine", "log MiB", "GB/s", "against", "GB/s", "ratio", "CPU ns/B", "peak MiB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: cases on stores of ``log_bytes``, and the audit's memory on some other sizes."""

    log_bytes: int
    bodies: tuple[int, ...]
    jobs: tuple[int, ...]
    rounds: int
    memory_bytes: tuple[int, ...]
    cases: tuple[str, ...]


def run_case(case: str, root: Path, jobs: int, rounds: int) -> Row:
    """Return the figures of one case, measured by a process of its own."""
    command = [sys.executable, "-m", "bench.cases", case, str(root), "--jobs", str(jobs), "--rounds", str(rounds)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent)
    row: Row = json.loads(ran.stdout)
    return row


def measured(plan: Plan, directory: Path) -> Iterator[Row]:
    """Yield a row for every case, stores coming and going below ``directory``."""
    for body in plan.bodies:
        root = make_store(directory, plan.log_bytes, body)
        for case in plan.cases:
            if case == SMALL_PAGES:
                pagecache.read_in_small_pages(root)
            for jobs in plan.jobs:
                figures = run_case(CASE_OF.get(case, case), root, jobs, plan.rounds)
                yield {"body_bytes": body, **figures, "case": case}
            if case == SMALL_PAGES:
                pagecache.drop(root)
        shutil.rmtree(root)
    for size in plan.memory_bytes:
        root = make_store(directory, size, plan.bodies[0])
        yield {"body_bytes": plan.bodies[0], **run_case("audit", root, 1, 1)}
        shutil.rmtree(root)


def make_store(directory: Path, log_bytes: int, body_bytes: int) -> Path:
    """Return a fresh store, written to the disk and forgotten."""
    print(f"writing {log_bytes / GIB:.2f} GiB with bodies of {body_bytes} bytes ...", file=sys.stderr)
    root = directory / f"store-{body_bytes}-{log_bytes}"
    # Segments of the broker's size, but not one that is mostly empty: reading holes says nothing.
    made = generate(root, total_bytes=log_bytes, body_bytes=body_bytes, segment_bytes=min(log_bytes, GIB))
    pagecache.drop(made.root)
    return made.root


def cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table."""
    return (
        row["case"],
        str(row["body_bytes"]),
        str(row["jobs"]),
        row["engine"],
        f"{row['log_bytes'] / 2**20:.0f}",
        f"{row['bytes_per_s'] / 1e9:.2f}",
        row["baseline"],
        f"{row['baseline_bytes_per_s'] / 1e9:.2f}",
        f"{row['ratio_to_baseline']:.3f}",
        f"{row['cpu_s'] / row['log_bytes'] * 1e9:.3f}",
        f"{row['peak_bytes'] / 2**20:.0f}",
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in columns, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *others = widths
    return "\n".join(
        "  ".join((row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))))
        for row in rows
    )


def goals(rows: Sequence[Row]) -> list[str]:
    """Return a line for each goal and what was measured of it."""
    lines = []
    at = {(row["case"], row["body_bytes"], row["jobs"]): row for row in reversed(rows)}
    for body, goal in GOALS_BYTES_PER_S.items():
        if one := at.get(("audit", body, 1)):
            lines.append(f"audit, {body} B, one core: {one['bytes_per_s'] / 1e9:.2f} GB/s, goal {goal / 1e9:.0f}")
    for (case, body, jobs), two in at.items():
        one = at.get((case, body, 1))
        if case in TWO_CORES and jobs == 2 and one:
            gain = two["bytes_per_s"] / one["bytes_per_s"]
            possible = two["baseline_bytes_per_s"] / one["baseline_bytes_per_s"]
            lines.append(
                f"{case}, {body} B, two cores: {gain:.2f} times one, goal {GOAL_TWO_CORES} "
                f"({two['baseline']}: {possible:.2f})"
            )
    for row in rows:
        if row["case"] == SPARK:
            times = 1 / row["ratio_to_baseline"]
            of = f"{row['body_bytes']} B, local[{row['jobs']}]"
            lines.append(f"{SPARK}, {of}: {times:.2f} times the time of check, goal {GOAL_SPARK}")
    return lines


def planned(arguments: Sequence[str] | None) -> tuple[Plan, argparse.Namespace]:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="256 MiB a store; the default is 2 GiB")
    size.add_argument("--full", action="store_true", help="2 GiB a store, and the memory at 1 and 4 GiB")
    size.add_argument("--bytes", type=int, help="log bytes a store")
    parser.add_argument("--bodies", type=int, nargs="+", default=[1024, 100], help="body sizes (default: 1024 100)")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2], help="numbers of threads (default: 1 2)")
    parser.add_argument("--cases", nargs="+", choices=ALL_CASES, default=ALL_CASES, help="what is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where the stores are written and removed again")
    parser.add_argument("--json", type=Path, help="file for the figures, - for standard output")
    given = parser.parse_args(arguments)
    log_bytes = GIB // 4 if given.quick else given.bytes or 2 * GIB
    memory = (GIB, 4 * GIB) if given.full else ()
    return Plan(log_bytes, tuple(given.bodies), tuple(given.jobs), given.rounds, memory, tuple(given.cases)), given


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table and what becomes of the goals."""
    plan, given = planned(arguments)
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
        rows = list(measured(plan, Path(directory)))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}; medians of {plan.rounds} rounds, warm cache but for what is from disk")
    print(table([HEADINGS, *map(cells, rows)]), *goals(rows), sep="\n")
    if given.json:
        text = json.dumps({"machine": machine, "rounds": plan.rounds, "rows": rows}, indent=1)
        if str(given.json) == "-":
            print(text)
        else:
            given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

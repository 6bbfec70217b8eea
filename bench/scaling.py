"""Two cores against one: ``python -m bench.scaling``.

Each case has one process a number of cores, kept to those cores. They run in turns, one at a time, so that what the
machine's neighbours take is taken from both; a ratio is the median over pairs of runs that follow each other. Two
controls tell what the cores give at all: the sum of the same bytes, which shares nothing but memory, and the CRC of a
block that stays in each core's own cache, which shares nothing.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bench import pagecache
from bench.brokers import GIB, Figures, options, store_for, write_json
from bench.cases import CASES, Log, Pair, against_sum, mapped_afresh, on_threads, sum_of
from bench.cores import on_cores
from storeio import crc
from storeio.splits import Split

BLOCK_BYTES: Final = 128 << 10  # so long that threads do not wait for the interpreter's lock
READY: Final = "ready"
GOAL: Final = 1.8
HEADINGS: Final = ("case", "seconds, by cores", "times as fast", "goal")


def crc_of_block(log: Log, jobs: int) -> int:
    """Return nothing of use, after eight times the log's bytes went through the CRC, all of them one small block."""
    block = (np.arange(2 * BLOCK_BYTES) % 251).astype(np.uint8)

    def task(split: Split) -> int:
        found = 0
        for _ in range(8 * (split.stop - split.start) // BLOCK_BYTES):
            # From the middle: the engine reads some bytes before the first.
            found ^= int(crc.body_crc(crc.ADDRESS, crc.KIND, block, BLOCK_BYTES, 2 * BLOCK_BYTES))
        return found & 0xFF

    return on_threads(jobs, task, log.splits)


def control(run: Callable[[Log, int], int]) -> Callable[[Path, int], Pair]:
    """Return a case that is not ours."""

    def of(root: Path, jobs: int) -> Pair:
        log = mapped_afresh(root)
        return against_sum(log, jobs, lambda: run(log, jobs))

    return of


CONTROLS: Final = {"CRC of one block": control(crc_of_block), "sum": control(sum_of)}
OURS: Final = ("audit", "rebuild", "audit on Spark", "rebuild on Spark")
ALL: Final = (*CONTROLS, *OURS)


def serve(case: str, root: Path, cores: int) -> None:
    """Run a case each time a line comes in, and print how long it took."""
    on_cores(cores)  # before threads and Spark's processes start: they have the same cores
    pair = CONTROLS[case](root, cores) if case in CONTROLS else CASES[case](root, cores)
    run, before = pair.run, pair.before
    before()
    run()
    print(READY, flush=True)
    for _ in sys.stdin:
        before()
        started = time.perf_counter()
        run()
        print(time.perf_counter() - started, flush=True)
    before()


def scaled(case: str, root: Path, cores: Sequence[int], rounds: int) -> Figures:
    """Return how long a case took on each number of cores, and how many times as fast each is as the first.

    Raises:
        RuntimeError: A process ended.
    """
    command = [sys.executable, "-m", "bench.scaling", "--case", case, "--one", str(root), "--cores"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    runners: dict[int, subprocess.Popen[str]] = {}
    try:
        for count in cores:
            runners[count] = subprocess.Popen([*command, str(count)], text=True, bufsize=1, **pipes)  # type: ignore[call-overload]
            answer(runners[count])
        times: dict[int, list[float]] = {count: [] for count in cores}
        for _ in range(rounds):
            for count in cores:
                pagecache.touch(root)
                stdin = runners[count].stdin
                assert stdin is not None
                stdin.write("\n")
                stdin.flush()
                times[count].append(float(answer(runners[count])))
    finally:
        for runner in runners.values():
            runner.communicate()
    first = times[cores[0]]
    ratios = {n: statistics.median(a / b for a, b in zip(first, times[n], strict=True)) for n in cores[1:]}
    return {"case": case, "seconds": {n: statistics.median(times[n]) for n in cores}, "times": times, "ratio": ratios}


def answer(runner: subprocess.Popen[str]) -> str:
    """Return the next line of a process that is not for people.

    Raises:
        RuntimeError: It ended.
    """
    assert runner.stdout is not None
    for line in runner.stdout:
        if line.strip() == READY or line[:1].isdigit():
            return line.strip()
    raise RuntimeError(f"{runner.args!r} ended with {runner.wait()}")


def cells(found: Figures) -> tuple[str, ...]:
    """Return the cells of ``HEADINGS`` for one case."""
    seconds = ", ".join(f"{value:.3f}" for value in found["seconds"].values())
    ratios = ", ".join(f"{value:.2f}" for value in found["ratio"].values())
    return found["case"], seconds, ratios, "control" if found["case"] in CONTROLS else str(GOAL)


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = options("bench.scaling", __doc__, 2 * GIB)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--case", action="append", choices=ALL, help="one of them; may be repeated")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all and print the ratios."""
    given = asked(arguments)
    if given.one is not None:
        serve(given.case[0], given.one, given.cores[0])
        return
    with store_for(given) as (root, _):
        found = [scaled(case, root, given.cores, given.rounds) for case in given.case or ALL]
    for line in (HEADINGS, *map(cells, found)):
        print("  ".join(f"{cell:18}" for cell in line).rstrip(), flush=True)
    write_json(given.json, found)


if __name__ == "__main__":
    main()

"""Two cores against one: ``python -m bench.scaling``.

Each case has one process a number of cores, kept to those cores. They run in turns, one at a time, so that what the
machine's neighbours take is taken from both; a ratio is the median over pairs of runs that follow each other. Two
controls tell what the cores give at all: the sum of the same bytes, which shares nothing but memory, and the CRC of a
block that stays in each core's own cache, which shares nothing. The latter also runs between all rounds: what a virtual
machine calls two cores may be two threads of one at times, and rounds then say nothing of the program.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from bench import pagecache
from bench.brokers import GIB, Figures, options, store_for, write_json
from bench.cases import CASES, Log, Pair, against_sum, mapped_afresh, on_threads, sum_of
from bench.cores import on_cores
from storeio import crc
from storeio.compiled import compiled
from storeio.splits import Split

BLOCK_BYTES: Final = 128 << 10  # near to each core
Bytes = npt.NDArray[np.uint8]

READY: Final = "ready"
GOAL: Final = 1.8
ENOUGH: Final = 1.8  # of the control: less, and a neighbour has one of the cores, or both are halves of one
HEADINGS: Final = ("case", "log GiB", "seconds, by cores", "times as fast", "where cores were free", "rounds", "goal")


@compiled("int64(int64, int64, readonly(uint8[::1]), int64)")
def crc_again(address: int, kind: int, block: Bytes, times: int) -> int:
    """Return nothing of use, after the CRC of the second half of a block so many times."""
    found = np.int64(0)
    half = len(block) // 2  # the engine reads some bytes before the first
    for number in range(times):
        found ^= np.int64(crc.body_crc(address, kind, block, half + (number & 63), len(block)))
    return found


def crc_of_block(log: Log, jobs: int) -> int:
    """Return nothing of use, after eight times the log's bytes went through the CRC, all of them one small block.

    A compiled loop a split: calls of microseconds from several threads would wait for the interpreter's lock.
    """
    block = (np.arange(2 * BLOCK_BYTES) % 251).astype(np.uint8)

    def task(split: Split) -> int:
        times = 8 * (split.stop - split.start) // BLOCK_BYTES
        return int(crc_again(crc.ADDRESS, crc.KIND, block, times)) & 0xFF

    return on_threads(jobs, task, log.splits)


def control(run: Callable[[Log, int], int]) -> Callable[[Path, int], Pair]:
    """Return a case that is not ours."""

    def of(root: Path, jobs: int) -> Pair:
        log = mapped_afresh(root)
        return against_sum(log, jobs, lambda: run(log, jobs))

    return of


CACHED: Final = "CRC of one block"
CONTROLS: Final = {CACHED: control(crc_of_block), "sum": control(sum_of)}
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

    ``free`` is the same ratio over the rounds in which the machine gave two cores: the control that shares nothing ran
    ``ENOUGH`` times as fast on the last number of cores before the round and behind it. None where there was no such.

    Raises:
        RuntimeError: A process ended.
    """
    with contextlib.ExitStack() as stack:
        runners = {count: stack.enter_context(_Runner(case, root, count)) for count in cores}
        control = {count: stack.enter_context(_Runner(CACHED, root, count)) for count in (cores[0], cores[-1])}
        times: dict[int, list[float]] = {count: [] for count in cores}
        given = [_given(control)]
        for _ in range(rounds):
            for count, runner in runners.items():
                times[count].append(runner.seconds())
            given.append(_given(control))
    first = times[cores[0]]
    pairs = {n: [a / b for a, b in zip(first, times[n], strict=True)] for n in cores[1:]}
    free = [number for number in range(rounds) if min(given[number : number + 2]) >= ENOUGH]
    return {
        "case": case,
        "log_bytes": mapped_afresh(root).size(),
        "seconds": {n: statistics.median(times[n]) for n in cores},
        "times": times,
        "ratio": {n: statistics.median(found) for n, found in pairs.items()},
        "given": given,
        "free_rounds": len(free),
        "free": {n: statistics.median(found[i] for i in free) if free else None for n, found in pairs.items()},
    }


def _given(control: Mapping[int, _Runner]) -> float:
    """Return how many times as fast the control is on more cores, right now; 1 where no more are asked for."""
    times = [runner.seconds() for runner in control.values()]
    return times[0] / times[-1]


class _Runner:
    """A process that runs one case on so many cores, each time it is asked to; ends with its context."""

    def __init__(self, case: str, root: Path, cores: int) -> None:
        """Start it.

        Raises:
            RuntimeError: It ended.
        """
        command = [sys.executable, "-m", "bench.scaling", "--case", case, "--one", str(root), "--cores", str(cores)]
        self.root = root
        self.process = subprocess.Popen(command, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        answer(self.process)

    def seconds(self) -> float:
        """Return how long the case takes now."""
        pagecache.touch(self.root)
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(answer(self.process))

    def __enter__(self) -> _Runner:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.process.communicate()


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
    free = ", ".join("-" if value is None else f"{value:.2f}" for value in found["free"].values())
    rounds = f"{found['free_rounds']} of {len(found['given']) - 1}"
    size = f"{found['log_bytes'] / GIB:.1f}"
    return found["case"], size, seconds, ratios, free, rounds, "control" if found["case"] in CONTROLS else str(GOAL)


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

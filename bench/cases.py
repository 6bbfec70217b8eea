"""What is measured: one case a process, so that its peak memory is its own.

``python -m bench.cases walk ROOT --jobs 2`` prints the figures of one case as JSON. Every case is timed in
turns with the sum of the same bytes by numpy, which is as fast as this machine reads memory; so its ratio
to that holds on a busy machine, too.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.paths import COMMITLOG
from storeio.scan import list_store, read_range
from storeio.splits import Split, cut
from storeio.walk import walk_split

Bytes = npt.NDArray[np.uint8]
ReadSplit = Callable[[Split, int, int], Bytes]

RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of one case; rates in bytes of the log a second, ``sum_bytes_per_s`` by as many threads."""

    case: str
    jobs: int
    engine: str
    log_bytes: int
    records: int
    bytes_per_s: float
    sum_bytes_per_s: float
    ratio_to_sum: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Log:
    """The splits of a store's log and how their bytes are read."""

    splits: tuple[Split, ...]
    read: ReadSplit

    def size(self) -> int:
        """Return the bytes of all segments."""
        return sum(split.stop - split.start for split in self.splits)


def mapped_afresh(root: Path) -> Log:
    """Return the log as the audit reads it: every split in a mapping of its own, gone when it is done."""
    splits = tuple(split for segment in list_store(root).of_kind(COMMITLOG) for split in cut(segment))
    return Log(splits, lambda split, start, stop: read_range(str(root), split.path, start, stop))


def touched_before(root: Path) -> Log:
    """Return the log in mappings of whole segments whose pages have all been touched."""
    fresh = mapped_afresh(root)
    sizes = {split.path: split.file_size for split in fresh.splits}
    segments = {path: read_range(str(root), path, 0, size) for path, size in sizes.items()}
    log = Log(fresh.splits, lambda split, start, stop: segments[split.path][start:stop])
    sum_of(log, 1)
    return log


def on_threads(jobs: int, task: Callable[[Split], int], splits: Sequence[Split]) -> int:
    """Return the sum of what a task returns for each split, done by so many threads."""
    if jobs == 1:
        return sum(map(task, splits))
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return sum(pool.map(task, splits))


def sum_of(log: Log, jobs: int) -> int:
    """Return the sum of the log's bytes, eight at a time: the memory's own rate."""

    def task(split: Split) -> int:
        data = log.read(split, split.start, split.stop)
        return int(data[: len(data) // 8 * 8].view(np.uint64).sum() & np.uint64(0xFFFF))

    return on_threads(jobs, task, log.splits)


def walk_of(log: Log, jobs: int) -> int:
    """Return the records of a walk over all splits, each from a guess as on a cluster."""

    def task(split: Split) -> int:
        return walk_split(lambda start, stop: log.read(split, start, stop), split).count

    return on_threads(jobs, task, log.splits)


def audit_of(root: Path, jobs: int) -> int:
    """Return the records of a full audit: CRC, both directions of all queues, index, byte classes."""
    from storeio import check

    audit = check(root, jobs=jobs)
    assert audit.verdict == "sound", [finding.code for finding in audit.findings]
    return audit.log.records


CASES: Final[dict[str, Callable[[Path, int], tuple[Log, Callable[[], int]]]]] = {
    "walk": lambda root, jobs: (log := mapped_afresh(root), lambda: walk_of(log, jobs)),
    "walk touched": lambda root, jobs: (log := touched_before(root), lambda: walk_of(log, jobs)),
    "audit": lambda root, jobs: (mapped_afresh(root), lambda: audit_of(root, jobs)),
}


def measure(case: str, root: Path, jobs: int, rounds: int) -> Figures:
    """Return the figures of one case, after a first round that warms caches and compiles."""
    log, run = CASES[case](root, jobs)
    log_bytes = log.size()
    records = run()
    times: dict[str, list[float]] = {"sum": [], "case": [], "cpu": []}
    for _ in range(rounds):
        start = time.perf_counter()
        sum_of(log, jobs)
        between, cpu = time.perf_counter(), time.process_time()
        run()
        times["case"].append(time.perf_counter() - between)
        times["cpu"].append(time.process_time() - cpu)
        times["sum"].append(between - start)
    ratios = [a / b for a, b in zip(times["sum"], times["case"], strict=True)]
    return Figures(
        case,
        jobs,
        crc.ENGINE,
        log_bytes,
        records,
        log_bytes / statistics.median(times["case"]),
        log_bytes / statistics.median(times["sum"]),
        statistics.median(ratios),
        statistics.median(times["cpu"]),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of one case as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("root", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    given: dict[str, Any] = vars(parser.parse_args(arguments))
    print(json.dumps(asdict(measure(**given))))


if __name__ == "__main__":
    main()

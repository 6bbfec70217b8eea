"""What is measured: one case a process, so that its peak memory is its own.

``python -m bench.cases walk ROOT --jobs 2`` prints the figures of one case as JSON. Every case is timed in
turns with a baseline: the sum of the same bytes by numpy, which is as fast as this machine reads memory, or
for Spark the audit on one node. So its ratio to that holds on a busy machine, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import secrets
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from bench import pagecache
from bench.cores import on_cores
from storeio import crc
from storeio.paths import COMMITLOG
from storeio.results import Audit
from storeio.scan import list_store, read_range
from storeio.splits import Split, cut
from storeio.walk import walk_split

Bytes = npt.NDArray[np.uint8]
T = TypeVar("T")
ReadSplit = Callable[[Split, int, int], Bytes]

FEW_FILES: Final = 500  # that are removed at once


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of one case; rates in bytes of the log a second, the baseline's by as many threads."""

    case: str
    jobs: int
    engine: str
    log_bytes: int
    records: int
    bytes_per_s: float
    baseline: str
    baseline_bytes_per_s: float
    ratio_to_baseline: float
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


def peak_bytes() -> int:
    """Return the most memory that this process has had.

    ``ru_maxrss`` on Linux knows of the process that started it, too: it is inherited, and a bench that has touched a
    store's mappings has gigabytes.
    """
    with contextlib.suppress(OSError):  # no Linux
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def mapped_afresh(root: Path) -> Log:
    """Return the log with every split in a mapping of its own, gone when it is done, as audits do."""
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

    return sound(check(root, jobs=jobs)).log.records


def sound(audit: Audit | Exception) -> Audit:
    """Return the audit of a store that is sound; any other would be another amount of work."""
    if isinstance(audit, Exception):
        raise audit
    assert audit.verdict == "sound", [finding.code for finding in audit.findings]
    return audit


@dataclass(frozen=True, slots=True)
class Pair:
    """What is timed in turns: a case and its baseline; ``before`` is done before each of them."""

    log_bytes: int
    run: Callable[[], int]
    baseline: Callable[[], object]
    name: str = "sum"
    before: Callable[[], object] = lambda: None


def against_sum(log: Log, jobs: int, run: Callable[[], int], before: Callable[[], object] = lambda: None) -> Pair:
    """Return a case that is compared with the sum of the bytes."""
    return Pair(log.size(), run, lambda: sum_of(log, jobs), before=before)


def walk(root: Path, jobs: int) -> Pair:
    """Records, CRCs and keys of the log alone."""
    log = mapped_afresh(root)
    return against_sum(log, jobs, lambda: walk_of(log, jobs))


def walk_touched(root: Path, jobs: int) -> Pair:
    """The same in mappings that were there before."""
    log = touched_before(root)
    return against_sum(log, jobs, lambda: walk_of(log, jobs))


def audit(root: Path, jobs: int) -> Pair:
    """All that ``storeio check`` does."""
    return against_sum(mapped_afresh(root), jobs, lambda: audit_of(root, jobs))


def audit_from_disk(root: Path, jobs: int) -> Pair:
    """The same where nothing of the store is in the page cache."""
    return against_sum(mapped_afresh(root), jobs, lambda: audit_of(root, jobs), lambda: pagecache.drop(root))


def audit_on_spark(root: Path, jobs: int) -> Pair:
    """The same in a session of Spark with so many cores that has run an audit before."""
    from jobs.common import build_session
    from storeio.audit import prepare
    from udfs.checks import audit_stores

    spark = build_session("storeio bench", master=f"local[{jobs}]")

    def run() -> int:
        (found,) = audit_stores(spark, [prepare(str(root))])
        return sound(found).log.records

    return Pair(mapped_afresh(root).size(), run, lambda: audit_of(root, jobs), "check")


def rebuild(root: Path, jobs: int) -> Pair:
    """Queues and index from the log, flushed to the disk beside the store."""
    from storeio.rebuild.node import rebuild as rebuilt

    place = root.with_name(f"{root.name}-rebuilt")
    log = mapped_afresh(root)
    return against_sum(log, jobs, lambda: rebuilt(root, place, jobs=jobs).records, lambda: forget(place))


def rebuild_on_spark(root: Path, jobs: int) -> Pair:
    """The same in a session of Spark with so many cores that has run one before."""
    from jobs.common import build_session
    from storeio.audit import prepare
    from storeio.output.staging import Staging
    from storeio.rebuild.node import rebuild as rebuilt
    from storeio.rebuild.tally import Tally, wanted_of
    from storeio.rebuilt import PARTS
    from udfs.rebuild import Building, finish, rebuild_stores

    spark = build_session("storeio bench", master=f"local[{jobs}]")
    place = root.with_name(f"{root.name}-rebuilt")

    def run() -> int:
        plan = prepare(str(root))
        wanted = wanted_of(plan, None, PARTS)
        building = Building(plan, wanted, Tally(plan, wanted, frozenset(PARTS)), Staging(place))
        rebuild_stores(spark.sparkContext, [building])
        if building.error is not None:
            raise building.error
        return finish(building, jobs).records

    size = mapped_afresh(root).size()
    return Pair(size, run, lambda: rebuilt(root, place, jobs=jobs).records, "rebuild", lambda: forget(place))


def forget(place: Path) -> None:
    """Remove what the run before wrote; what has many files only gets another name.

    For five minutes ext4 gives no new file the number of a removed one: it goes round all of them, for each file anew,
    and the next run would measure that.
    """
    if sum(len(names) for _, _, names in os.walk(place)) > FEW_FILES:
        place.rename(place.with_name(f"{place.name}-{secrets.token_hex(4)}"))
    shutil.rmtree(place, ignore_errors=True)


CASES: Final[dict[str, Callable[[Path, int], Pair]]] = {
    "walk": walk,
    "walk touched": walk_touched,
    "audit": audit,
    "audit from disk": audit_from_disk,
    "audit on Spark": audit_on_spark,
    "rebuild": rebuild,
    "rebuild on Spark": rebuild_on_spark,
}


def timed(pair: Pair, run: Callable[[], T]) -> tuple[tuple[float, float], T]:
    """Return how long a run takes and how much of a CPU, and what it returns."""
    pair.before()
    start, cpu = time.perf_counter(), time.process_time()
    found = run()
    return (time.perf_counter() - start, time.process_time() - cpu), found


def measure(case: str, root: Path, jobs: int, rounds: int) -> Figures:
    """Return the figures of one case, after a first round that warms caches and compiles."""
    on_cores(jobs)  # before threads and Spark's processes start: they have the same cores
    pair = CASES[case](root, jobs)
    _, records = timed(pair, pair.run)
    timed(pair, pair.baseline)
    times = [(timed(pair, pair.baseline)[0], timed(pair, pair.run)[0]) for _ in range(rounds)]
    pair.before()
    return Figures(
        case,
        jobs,
        crc.ENGINE,
        pair.log_bytes,
        records,
        pair.log_bytes / statistics.median(run for _, (run, _) in times),
        pair.name,
        pair.log_bytes / statistics.median(base for (base, _), _ in times),
        statistics.median(base / run for (base, _), (run, _) in times),
        statistics.median(cpu for _, (_, cpu) in times),
        peak_bytes(),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of one case as JSON. Rebuilt directories of many files stay beside the store."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("root", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    given: dict[str, Any] = vars(parser.parse_args(arguments))
    print(json.dumps(asdict(measure(**given))))


if __name__ == "__main__":
    main()

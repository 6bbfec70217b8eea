"""How damage slows a salvage down: ``python -m bench.salvage``.

Makes a sound store and four damaged ones: with a share of the log's pages overwritten, with all of the log's second
half overwritten, and one segment of zeros or of random bytes alone. Times in turns, each in a new process on one core:
the scan, which finds every intact record; and, of stores with queues, all that comes before writing (audit, survey,
decision, report), which grows with what is lost. Pages are in memory; the first turn is not counted.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench import pagecache
from bench.brokers import GIB, Figures, one_apart, write_json
from bench.cores import on_cores
from bench.generate import generate
from storeio.audit import look_at_store
from storeio.codes import DOUBT_CODES
from storeio.paths import COMMITLOG, file_name
from storeio.salvage.decide import decide
from storeio.salvage.survey import survey
from storeio.salvage.telling import report
from storeio.scan import kept_open, list_store, read_range
from storeio.splits import Split, cut
from storeio.walk import walk_split
from storeio.window import Read

PAGE: Final = 4096
SCAN: Final = "scan"
DECIDE: Final = "decide"


def decided(root: Path, segment_bytes: int) -> Figures:
    """Return the figures of everything but writing, in this process."""
    on_cores(1)
    given = {"mappedFileSizeCommitLog": str(segment_bytes)}
    started = time.perf_counter()
    with kept_open():
        known = survey(look_at_store(root, given=given, jobs=1, kept=DOUBT_CODES))
        found = decide(known)
        report(known, found, [], known.plan.started_ms, "")
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "patches": len(found.patches), "lost": len(found.missing)}


def scanned(root: Path, segment_bytes: int) -> Figures:
    """Return the figures of one scan in this process."""
    del segment_bytes
    on_cores(1)
    listing = list_store(root)
    splits = [split for segment in listing.of_kind(COMMITLOG) for split in cut(segment)]
    walk_split(_reads(listing.root, splits[0]), splits[0], reuse=True)  # the kernels are loaded then
    started = time.perf_counter()
    records = sum(walk_split(_reads(listing.root, split), split, reuse=True).count for split in splits)
    return {"seconds": time.perf_counter() - started, "records": records}


def _reads(root: str, split: Split) -> Read:
    return lambda low, high: read_range(root, split.path, low, high)


def damaged_pages(root: Path, target: Path, share: float) -> None:
    """Copy a store, and overwrite a share of the pages of its log with random bytes."""
    shutil.copytree(root, target)
    chance = random.Random(1)
    for path in sorted((target / COMMITLOG).iterdir()):
        pages = path.stat().st_size // PAGE
        with path.open("r+b") as file:
            for page in sorted(chance.sample(range(pages), int(pages * share))):
                file.seek(page * PAGE)
                file.write(chance.randbytes(PAGE))


def lost_half(root: Path, target: Path) -> None:
    """Copy a store, and overwrite the second half of its log with random bytes."""
    shutil.copytree(root, target)
    chance = random.Random(3)
    paths = sorted((target / COMMITLOG).iterdir())
    start = sum(path.stat().st_size for path in paths) // 2
    for path in paths:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(min(start, size))
            for at in range(file.tell(), size, 1 << 20):
                file.write(chance.randbytes(min(1 << 20, size - at)))
        start = max(start - size, 0)


def one_segment(target: Path, segment_bytes: int, piece: bytes) -> None:
    """Make a store of one segment that repeats a piece."""
    (target / COMMITLOG).mkdir(parents=True)
    with (target / COMMITLOG / file_name(0)).open("wb") as file:
        for _ in range(segment_bytes // len(piece)):
            file.write(piece)


def measured(place: Path, given: argparse.Namespace) -> Figures:
    """Return medians of all, timed in turns."""
    segment = min(given.total_bytes, GIB)
    sound = place / "sound"
    generate(sound, total_bytes=given.total_bytes, body_bytes=given.body_bytes, segment_bytes=segment)
    damaged_pages(sound, place / "pages", given.share)
    lost_half(sound, place / "half")
    one_segment(place / "zeros", segment, bytes(1 << 20))
    one_segment(place / "random", segment, random.Random(2).randbytes(1 << 20))
    for name in ("sound", "pages", "half", "zeros", "random"):
        pagecache.drop(place / name)
    works = {
        f"{work} {name}": partial(one_apart, "bench.salvage", place / name, work=work, segment_bytes=segment)
        for work, names in ((SCAN, ("sound", "pages", "zeros", "random")), (DECIDE, ("sound", "pages", "half")))
        for name in names
    }
    rounds: dict[str, list[Figures]] = {name: [] for name in works}
    for _ in range(given.rounds + 1):
        for name, work in works.items():
            pagecache.touch(place / name.split()[1])
            rounds[name].append(work())
    found: Figures = {}
    for name, figures in rounds.items():
        seconds = statistics.median(one["seconds"] for one in figures[1:])
        size = segment if name.split()[1] in ("zeros", "random") else given.total_bytes
        all_seconds = [round(one["seconds"], 3) for one in figures[1:]]
        found[name] = {**figures[-1], "seconds": seconds, "all_seconds": all_seconds, "bytes_per_s": size / seconds}
    for what in (SCAN, DECIDE):
        found[f"ratio of {what}"] = found[f"{what} pages"]["bytes_per_s"] / found[f"{what} sound"]["bytes_per_s"]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all and print the rates."""
    parser = argparse.ArgumentParser(prog="python -m bench.salvage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--total-bytes", type=int, default=GIB)
    parser.add_argument("--segment-bytes", type=int, default=GIB, help=argparse.SUPPRESS)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--share", type=float, default=0.01, help="of pages that are overwritten")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where everything is written and removed again")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=(SCAN, DECIDE), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one is not None:
        print(json.dumps((scanned if given.work == SCAN else decided)(given.one, given.segment_bytes)))
        return
    with tempfile.TemporaryDirectory(prefix="storeio-bench-", dir=given.directory) as directory:
        found = measured(Path(directory), given)
    for name, row in found.items():
        if isinstance(row, float):
            goal = ", goal 0.5" if name.endswith(SCAN) else ""
            print(f"{name}, damaged pages against none: {row:.2f}{goal}")
        else:
            goal = ", goal 2" if name in ("scan zeros", "scan random") else ""
            lost = f", {row['lost']} messages lost" if row.get("lost") else ""
            print(
                f"{name:13} {row['bytes_per_s'] / 1e9:6.2f} GB/s on one core, rounds {row['all_seconds']}{lost}{goal}"
            )
    write_json(given.json, found)


if __name__ == "__main__":
    main()

"""``make demo``: the audit job over a damaged store, its report, its Delta tables, in under a minute.

The store was written by a real broker and lies in ``tests/golden``; so does the damage, with what a real
broker made of it. Everything is written into ``demo-out``, where it stays to be looked at.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from jobs import audit_store, tables
from jobs.common import build_session, run_job
from storeio.commands.console import terminal_width
from storeio.commands.outputs import put
from storeio.errors import StoreError
from storeio.report import TABLES
from storeio.report.tables import table
from storeio.results import EXIT_DAMAGED, EXIT_FAILED, EXIT_SOUND

TOP: Final = Path(__file__).resolve().parent.parent
GOLDEN: Final = TOP / "tests" / "golden"
OUT: Final = TOP / "demo-out"
VERSION: Final = "5.5.1"
CASE: Final = "22-clean"  # one segment in the middle of the log is deleted
RUN: Final = "demo"
SHOWN: Final = ("severity", "code", "path", "position", "length", "count")


class NoDemoError(StoreError, FileNotFoundError):
    """The demo's store is not there: this is no checkout."""


def main() -> int:
    """Return 0 if the job found the damage and wrote its tables."""
    if not GOLDEN.is_dir():
        raise NoDemoError(f"{GOLDEN}: not there; the demo runs from a checkout")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    store, case = damaged_store(OUT)
    title(f"A store that RocketMQ {VERSION} wrote, less one file")
    say(f"  {store.relative_to(TOP)}: {' '.join(map(str, case['edits'][0]))}")
    say(f"  What a real broker {VERSION} does with it: it {case['outcome']}, without a word.")
    target = (OUT / "tables").as_uri()
    title("The audit job's report")
    found = audit_store.main(["--store", str(store), "--tables", target, "--run-id", RUN])
    spark = build_session("storeio demo")
    show_tables(spark, target)
    title("Done")
    if found != EXIT_DAMAGED:
        say(f"  The audit ended with {found}; {EXIT_DAMAGED} was expected: something is wrong with this set-up.")
        return EXIT_FAILED
    say(f"  The audit ended with exit code {found}, damage found, as it should. All of it is in {OUT.name}/.")
    return EXIT_SOUND


def damaged_store(place: Path) -> tuple[Path, dict[str, Any]]:
    """Return a copy of the base store with one recorded damage, and the record."""
    with tarfile.open(GOLDEN / f"base-{VERSION}.tar.gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:
            archive.extractall(place)
    store = (place / f"base-{VERSION}").rename(place / "store")
    lines = lzma.decompress((GOLDEN / f"rows-{VERSION}.jsonl.xz").read_bytes()).decode().splitlines()
    case: dict[str, Any] = next(case for case in map(json.loads, lines) if case["id"] == CASE)
    for kind, path in case["edits"]:
        assert kind == "delete", kind  # all that this damage consists of
        (store / path).unlink()
    return store, case


def show_tables(spark: SparkSession, target: str) -> None:
    """Print how many rows each Delta table has, and the findings as read back from theirs."""
    title("The Delta tables, read back")
    counts = [(name, tables.finished(spark, target, name).count()) for name in TABLES]
    lines(table(("table", "rows"), counts, terminal_width()))
    title(f"select {', '.join(SHOWN)} from findings")
    rows = tables.finished(spark, target, "findings").select(*SHOWN).orderBy("severity", "path", "position").collect()
    lines(table(SHOWN, rows, terminal_width(), left=3))


def title(text: str) -> None:
    """Print a heading."""
    say(f"\n== {text} ==\n")


def lines(texts: list[str]) -> None:
    """Print some lines."""
    for text in texts:
        say(text)


def say(text: str) -> None:
    """Print a line."""
    put(sys.stdout, text)


if __name__ == "__main__":
    run_job(main)

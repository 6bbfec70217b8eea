"""Incremental audits without Spark: what the job does with ``StoreRun``, on one thread."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from storeio import audit, fingerprints
from storeio.incremental.store_run import StoreRun, Work, in_steps, look_at_file, look_at_split
from storeio.incremental.verdicts import PartKey, Verdict, latest
from storeio.report import audit_object
from storeio.results import Audit, Unfinished

SPLIT_BYTES = 8192
COARSE = 32768  # for brokers' stores, which have a megabyte
TIMES = ("started_ms", "seconds", "reading")
YOUNG_NS = 20_000_000


@pytest.fixture(autouse=True)
def short_youth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be trusted sooner: when an inode was changed no program can set back, so ``age`` has to wait."""
    monkeypatch.setattr(fingerprints, "YOUNG_NS", YOUNG_NS)


class Kept:
    """What runs have kept of one store, as the table does: rows, newest counts."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.runs = 0

    def verdicts(self) -> dict[PartKey, Verdict]:
        """Return the newest verdict on each part, after a way through JSON."""
        found = latest(json.loads(json.dumps(self.rows)))
        return next(iter(found.values()), {})

    def audit(
        self,
        root: Path,
        *,
        recheck: Fraction = Fraction(0),
        stop: Callable[[int], bool] = lambda looked: False,
        split_bytes: int = SPLIT_BYTES,
    ) -> Audit | Unfinished:
        """Return the incremental audit of a store; ``stop`` is asked with the number of parts before each."""
        plan = audit.prepare(str(root), split_bytes=split_bytes)
        self.runs += 1
        run = StoreRun(plan, self.verdicts(), recheck, f"run-{self.runs}")
        looked = 0
        self.ranks: list[int] = []

        def do(runs: Sequence[StoreRun], work: Sequence[Sequence[Work[Any]]], look: Any, take: Any) -> None:
            nonlocal looked
            for each in sorted((each for part in work for each in part), key=lambda each: each.rank):
                if stop(looked):
                    return
                verdict = take(runs[0], each.part, look(run.plan, each.part))
                self.rows += [asdict(verdict)] if verdict is not None else []
                self.ranks.append(each.rank)
                looked += 1

        in_steps(
            [run],
            lambda runs, work: do(runs, work, look_at_file, StoreRun.take_file),
            lambda runs, work: do(runs, work, look_at_split, StoreRun.take_split),
        )
        return run.result()


def full(root: Path, split_bytes: int = SPLIT_BYTES) -> dict[str, Any]:
    """Return what a full audit says, times aside."""
    return timeless(audit.check(root, jobs=1, split_bytes=split_bytes))


def timeless(result: Audit | Unfinished) -> dict[str, Any]:
    """Return the JSON of an audit without what differs from run to run."""
    return {name: value for name, value in audit_object(result).items() if name not in TIMES}


def age(root: Path, seconds: int = 3600) -> None:
    """Let all files of a store that were written a moment ago have been written long ago, each at its own time.

    Afterwards they are as old as it takes to be trusted, by the times of their inodes, too.
    """
    now_ns = time.time_ns()
    for number, path in enumerate(sorted(p for p in root.rglob("*") if p.is_file())):
        status = path.stat()
        if status.st_mtime_ns > now_ns - 60 * 10**9:
            then = status.st_mtime_ns - seconds * 10**9 - number
            os.utime(path, ns=(then, then))
    time.sleep(1.5 * fingerprints.YOUNG_NS / 10**9)

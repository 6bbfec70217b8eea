"""Runs of consecutive queue offsets of one queue over the whole log, and which of them are copies of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.ranges import merged, subtract
from storeio.kernels.group import RUN_ELSEWHERE, RUN_FIRST, RUN_RECORDS, RUN_STOP, RUN_STOP_AT

Numbers = npt.NDArray[np.int64]
Run = list[int]

MOST_COPIED: Final = 16  # records in a row that a write to the wrong place puts over others


def runs_of(tables: Iterable[Numbers]) -> list[Run]:
    """Return the runs of a queue, whose splits' are given in log order, with those joined that follow on."""
    return joined_runs(run for table in tables for run in table.T.tolist())


def joined_runs(runs: Iterable[Run]) -> list[Run]:
    """Return runs with those joined that follow on from one split to the next."""
    joined: list[Run] = []
    add_runs(joined, runs)
    return joined


def add_runs(known: list[Run], more: Iterable[Run]) -> None:
    """Append runs in log order, each joined with the one before it where it follows on."""
    for run in more:
        if known and known[-1][RUN_STOP] == run[RUN_FIRST]:
            known[-1][RUN_STOP] = run[RUN_STOP]
            known[-1][RUN_STOP_AT] = run[RUN_STOP_AT]
            known[-1][RUN_RECORDS] += run[RUN_RECORDS]
        else:
            known.append(list(run))


def copies_among(runs: Sequence[Run]) -> list[int]:
    """Return which joined runs are copies, in order: few records that say that they lie elsewhere, while others that do
    not have their numbers.

    So are records that a broker, a disk or a person wrote to the wrong place. Damage to the field alone leaves a record
    among those whose numbers are beside its own.
    """
    doubtful = [i for i, run in enumerate(runs) if run[RUN_ELSEWHERE] and run[RUN_RECORDS] <= MOST_COPIED]
    if not doubtful:
        return []
    others = merged((run[RUN_FIRST], run[RUN_STOP]) for run in runs if not run[RUN_ELSEWHERE])
    return [i for i in doubtful if not subtract((runs[i][RUN_FIRST], runs[i][RUN_STOP]), others)]


def own_runs_of(tables: Iterable[Numbers]) -> list[Run]:
    """Return the runs of a queue as ``runs_of``, but of none that are copies."""
    runs = runs_of(tables)
    copies = copies_among(runs)
    return without(runs, copies) if copies else runs


def without(runs: Sequence[Run], left_out: Sequence[int]) -> list[Run]:
    """Return joined runs without some of them, joined anew."""
    gone = set(left_out)
    return joined_runs(run for i, run in enumerate(runs) if i not in gone)

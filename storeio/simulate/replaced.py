"""Numbers that a queue gave out again, as the check tells them: what of its messages later ones have replaced.

An earlier broker has left such a message without a unit, so no start gives it up.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from storeio.checks.begun_again import BegunAgain, believed
from storeio.checks.numbering import number_queue
from storeio.checks.runs import Run, joined_runs
from storeio.checks.segments import LogView, Segment, view_log
from storeio.dispatch import Implied
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP
from storeio.paths import StoreFile
from storeio.simulate.broker import QueueKey
from storeio.splits import merge_spans
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Replaced:
    """What a walk over the log tells of queues that began again."""

    def __init__(self) -> None:
        """Begin before the walk."""
        self._spans: dict[str, list[Numbers]] = {}
        self._files: dict[str, StoreFile] = {}
        self._runs: dict[QueueKey, list[Run]] = {}  # joined as they come: mostly one a queue
        self._lacking: dict[QueueKey, set[int]] = {}  # physical offsets
        self._begun: dict[QueueKey, list[BegunAgain]] = {}
        self._is_known = False

    def log(self, file: StoreFile, walked: Walked) -> None:
        """Take note of a stretch of the log; all of them in order."""
        if self._is_known:
            return
        self._files[file.path] = file
        self._spans.setdefault(file.path, []).append(walked.spans)

    def queue(self, implied: Implied, lacks: Mask) -> None:
        """Take note of a queue's records in a stretch of the log, and of which no unit is there."""
        if self._is_known:
            return
        key = implied.topic, implied.queue_id
        runs = implied.runs()
        self.runs(key, runs.T.tolist())
        if lacks.any():
            alone = runs[RUN_START_AT, runs[RUN_RECORDS] == 1]
            physical = implied.physical()
            self._lacking.setdefault(key, set()).update(physical[lacks & np.isin(physical, alone)].tolist())

    def runs(self, key: QueueKey, runs: list[Run]) -> None:
        """Take note of the runs of a queue in a stretch of the log; where units are lacking, ``queue`` does more."""
        if not self._is_known:
            known = self._runs.setdefault(key, [])
            known[-1:] = joined_runs([*known[-1:], *runs])

    def begins_again(self, key: QueueKey) -> bool:
        """Tell whether the numbers of a queue are known to begin again."""
        return key in self._begun

    def begun_again(self, segment_bytes: int) -> bool:
        """Tell whether numbers of any queue begin again, once the whole log was walked."""
        self._is_known = True
        view: LogView | None = None
        for key, runs in self._runs.items():
            if all(later[RUN_FIRST] >= run[RUN_STOP] for run, later in pairwise(runs)):
                continue
            if view is None:
                spans = self._spans
                view = view_log(
                    [Segment(file, merge_spans(spans[p])) for p, file in self._files.items()], segment_bytes
                )
            begun = number_queue(*key, [np.array(runs).T], view).begun_again
            if begun := believed(begun, self._lacking.get(key, ())):
                self._begun[key] = begun
        return bool(self._begun)

    def of(self, implied: Implied) -> Mask:
        """Tell which records of a queue have numbers that later ones have."""
        begun = self._begun.get((implied.topic, implied.queue_id), [])
        if not begun:
            return np.zeros(len(implied.record), np.bool_)
        later = np.searchsorted([again.start_at for again in begun], implied.physical(), side="right")
        numbers = np.array([*(again.number for again in begun), np.iinfo(np.int64).max])
        return implied.queue_offset >= numbers[later]

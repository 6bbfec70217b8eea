"""Records in a row whose numbers are wrong, or which are of another queue than they say: an audit names the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from storeio.audit import AuditPlan, Concluded
from storeio.checks.numbering import number_queue
from storeio.checks.runs import runs_of
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import properties as p
from storeio.kernels import tables as w
from storeio.kernels.group import RUN_FIRST, RUN_RECORDS, RUN_START_AT, RUN_STOP_AT
from storeio.splits import Split, WalkState
from storeio.walk import walk_split

MOST_LOOKED_AT: Final = 64 << 20  # bytes of the log in which the records of one run are looked for
Queue = tuple[str, int]


def in_a_row(concluded: Concluded) -> Iterator[tuple[int, Finding]]:
    """Yield the place of each record of a run whose numbers fit nowhere, and what is said of it."""
    view = concluded.view
    for (topic, queue_id), tables in concluded.runs.items():
        runs = {run[RUN_START_AT]: run for run in runs_of(tables)}
        if len(runs) < 2 and (view.min_physical_offset or all(run[RUN_FIRST] == 0 for run in runs.values())):
            continue  # nothing says that it does not begin so
        for finding in number_queue(topic, queue_id, tables, view).findings:
            run = runs.get(finding.physical_offset or 0)
            if finding.code != "LOG_FIELD" or run is None:
                continue
            for k, place in enumerate(places_of(concluded.plan, (topic, queue_id), run)):
                number = finding.queue_offset + k if finding.queue_offset is not None else None
                position = finding.position - run[RUN_START_AT] + place
                yield place, replace(finding, position=position, queue_offset=number, physical_offset=place, count=1)


def places_of(plan: AuditPlan, queue: Queue, run: Sequence[int]) -> Iterator[int]:
    """Yield where the records of a run lie, of those far apart the first alone; what cannot be read holds none."""
    start, stop = run[RUN_START_AT], run[RUN_STOP_AT]
    if run[RUN_RECORDS] == 1 or stop - start > MOST_LOOKED_AT:
        yield start
        return
    files = {file.base_offset: file for file in plan.segments}
    size = plan.segment_bytes
    for base in range(start - start % size, stop, size):
        file = files.get(base)
        if file is None:
            continue
        low = max(start - base, 0)
        split = Split(file.path, base, min(file.size, size), low, min(stop - base, file.size, size))
        try:
            walked = walk_split(partial(plan.read, file.path), split, WalkState(low))
        except UnreadableError:
            continue
        own = [i for i, (topic, number) in enumerate(walked.queues) if (p.java_decode(topic), number) == queue]
        rows = np.flatnonzero(np.isin(walked.records[w.R_QUEUE], own))
        yield from (walked.records[w.R_POSITION, rows] + base).tolist()

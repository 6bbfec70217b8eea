"""The usual queues of a split: their units stand in one file, at their numbers, as the records imply.

That is how nearly all queues of nearly all stores are. Whatever is odd about one in any way is left to
``checks.queue_units``, which tells what it is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.audit.plan import AuditPlan
from storeio.dispatch import Grouped
from storeio.reading.pieces import of_one_run, pieces_of

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def usual_queues(plan: AuditPlan, grouped: Grouped) -> Mask:
    """Tell which of a split's queues have their units on disk, in one run, and could be read to see it."""
    usual = np.zeros(len(grouped.walked.queues), np.bool_)
    if grouped.single:
        numbers, pieces = pieces_of(grouped, _candidates(plan, grouped), plan.config.queue_file_bytes)
        usual[numbers] = plan.agreeing(pieces)
    return usual


def _candidates(plan: AuditPlan, grouped: Grouped) -> Numbers:
    """Return the numbers of the queues with one run of units, for which nothing but their file has a say."""
    facts, usual = plan.facts, of_one_run(grouped)
    if facts.odd or facts.batch_topics:
        names = grouped.names(np.arange(len(usual)))
        usual &= [name not in facts.odd and name[0] not in facts.batch_topics for name in names]
    return np.flatnonzero(usual)

"""The usual queues of a split: their units stand in one file, at their numbers, as the records imply.

That is how nearly all queues of nearly all stores are. Whatever is odd about one in any way is left to
``checks.queue_units``, which tells what it is.
"""

from __future__ import annotations

import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import many_files as m
from storeio.audit.plan import AuditPlan
from storeio.checks.queue_units import MAX_QUEUE_OFFSET
from storeio.dispatch import Grouped
from storeio.format import commitlog as log
from storeio.format.consumequeue import UNIT_BYTES
from storeio.kernels.group import G_QUEUE_OFFSET

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LIGHT: Final = log.LMQ_PREFIX.encode()


def usual_queues(plan: AuditPlan, grouped: Grouped) -> Mask:
    """Tell which of a split's queues have their units on disk, in one run, and could be read to see it."""
    usual = np.zeros(len(grouped.walked.queues), np.bool_)
    if grouped.single:
        numbers, pieces = _pieces(plan, grouped, _candidates(plan, grouped))
        usual[numbers] = plan.agreeing(pieces)
    return usual


def _candidates(plan: AuditPlan, grouped: Grouped) -> Numbers:
    """Return the numbers of the queues with one run of units, for which nothing but their file has a say."""
    one_run = grouped.present() & (np.diff(grouped.run_starts) == 1)
    queues, facts = grouped.walked.queues, plan.facts
    is_odd = [topic.startswith(LIGHT) for topic, _ in queues]
    if facts.odd or facts.batch_topics:
        names = grouped.names(np.arange(len(queues)))
        has_say = [name in facts.odd or name[0] in facts.batch_topics for name in names]
        is_odd = [*map(operator.or_, is_odd, has_say)]
    return np.flatnonzero(one_run & ~np.array(is_odd, np.bool_))


def _pieces(plan: AuditPlan, grouped: Grouped, numbers: Numbers) -> tuple[Numbers, m.Pieces]:
    """Return those of the queues whose units belong into one file, and where they belong."""
    file_bytes = plan.config.queue_file_bytes
    starts, counts = grouped.starts[numbers], np.diff(grouped.starts)[numbers]
    first = grouped.table[starts, G_QUEUE_OFFSET]
    position = np.clip(first, 0, MAX_QUEUE_OFFSET) * UNIT_BYTES
    base = position // file_bytes * file_bytes
    fits = (first >= 0) & (first <= MAX_QUEUE_OFFSET) & (position - base + counts * UNIT_BYTES <= file_bytes)
    queues = grouped.walked.queues
    topics = [queues[number][0] for number in numbers[fits].tolist()]
    lengths = np.array([len(topic) for topic in topics], np.int64)
    table = np.empty((m.PIECE_ROWS, len(topics)), np.int64)
    table[m.P_TOPIC_AT], table[m.P_TOPIC_BYTES] = np.cumsum(lengths) - lengths, lengths
    table[m.P_QUEUE_ID] = [queues[number][1] for number in numbers[fits].tolist()]
    table[m.P_BASE], table[m.P_START] = base[fits], (position - base)[fits]
    table[m.P_EXPECTED_AT], table[m.P_BYTES] = starts[fits] * UNIT_BYTES, counts[fits] * UNIT_BYTES
    names = np.frombuffer(b"".join(topics), np.uint8)
    return numbers[fits], m.Pieces(names, table, grouped.units.view(np.uint8))

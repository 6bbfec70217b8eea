"""Where the units of a split's queues belong into files, so that many small files are compared in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_units import MAX_QUEUE_OFFSET
from storeio.dispatch import Grouped
from storeio.format import commitlog as log
from storeio.format.consumequeue import UNIT_BYTES
from storeio.kernels.group import G_QUEUE_OFFSET
from storeio.reading import many_files as m

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Agreeing = Callable[[m.Pieces], Mask]
"""Tells which pieces of a store's files are as expected; False says nothing."""


LIGHT: Final = log.LMQ_PREFIX.encode()


def of_one_run(grouped: Grouped) -> Mask:
    """Tell which of a split's queues have units, in one run of numbers at which they stand. Shape ``(queues,)``."""
    light = np.array([topic.startswith(LIGHT) for topic, _ in grouped.walked.queues], np.bool_)
    return grouped.present() & (np.diff(grouped.run_starts) == 1) & ~light


def pieces_of(grouped: Grouped, numbers: Numbers, file_bytes: int) -> tuple[Numbers, m.Pieces]:
    """Return those of some queues of one run whose units belong into one file each, and where they belong."""
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

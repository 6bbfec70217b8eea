"""Compiled grouping: a split's records sorted by queue in one pass, with the units they imply.

Source: ``ConsumeQueue.putMessagePositionInfo`` for the unit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.format import consumequeue
from storeio.kernels import tables as w

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Rows of the grouped table, all int64.
(G_RECORD, G_QUEUE_OFFSET, G_PHYSICAL, G_SIZE, G_TAGS_CODE, G_STORE_MS, G_BATCH_SIZE) = range(7)
GROUP_ROWS = 7
UNIT_BYTES = consumequeue.UNIT_BYTES


@compiled("void(uint8[::1], int64, int64, int64)")
def put_number(data: Bytes, i: int, value: int, count: int) -> None:
    """Write the low ``count`` bytes of a number at ``i``, big-endian; the caller knows that they fit."""
    for k in range(count):
        data[i + k] = (value >> (8 * (count - 1 - k))) & 0xFF


@compiled("void(readonly(int64[:, :]), int64, int64[::1], int64[:, ::1], uint8[::1])", _nrt=True)
def group_by_queue(records: Numbers, base: int, starts: Numbers, grouped: Numbers, units: Bytes) -> None:
    """Fill ``grouped`` and ``units`` with the records that enter a queue, by queue and in log order.

    Args:
        records: The record table, shape ``(rows, n)``.
        base: Physical offset of the segment.
        starts: Zeros, one more than there are queues; afterwards queue q is columns
            ``[starts[q], starts[q + 1])``.
        grouped: Shape ``(GROUP_ROWS, n)``.
        units: ``n`` units of 20 bytes.
    """
    n = records.shape[1]
    for i in range(n):
        transaction = records[w.R_SYS_FLAG, i] & log.SYS_TRANSACTION
        if transaction == 0 or transaction == log.SYS_COMMIT:
            starts[records[w.R_QUEUE, i] + 1] += 1
    for q in range(len(starts) - 1):
        starts[q + 1] += starts[q]
    place = starts[:-1].copy()
    for i in range(n):
        transaction = records[w.R_SYS_FLAG, i] & log.SYS_TRANSACTION
        if transaction != 0 and transaction != log.SYS_COMMIT:
            continue
        queue = records[w.R_QUEUE, i]
        k = place[queue]
        place[queue] = k + 1
        physical = records[w.R_POSITION, i] + base
        grouped[G_RECORD, k] = i
        grouped[G_QUEUE_OFFSET, k] = records[w.R_BATCH_BASE, i]
        grouped[G_PHYSICAL, k] = physical
        grouped[G_SIZE, k] = records[w.R_SIZE, i]
        grouped[G_TAGS_CODE, k] = records[w.R_TAGS_CODE, i]
        grouped[G_STORE_MS, k] = records[w.R_STORE_MS, i]
        grouped[G_BATCH_SIZE, k] = records[w.R_BATCH_SIZE, i]
        put_number(units, k * UNIT_BYTES, physical, 8)
        put_number(units, k * UNIT_BYTES + 8, records[w.R_SIZE, i], 4)
        put_number(units, k * UNIT_BYTES + 12, records[w.R_TAGS_CODE, i], 8)

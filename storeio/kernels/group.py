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

# Columns of the grouped table, all int64; one record's lie side by side, since they are written in log order.
(G_RECORD, G_QUEUE_OFFSET) = range(2)
GROUP_COLUMNS = 2
UNIT_BYTES = consumequeue.UNIT_BYTES

# Rows of a run table: consecutive queue offsets of one queue, in log order. The last tells, by 0 or 1, whether the
# first record says that it lies elsewhere: it may be a copy of the one there.
(RUN_FIRST, RUN_STOP, RUN_START_AT, RUN_STOP_AT, RUN_RECORDS, RUN_ELSEWHERE) = range(6)
RUN_ROWS = 6

# Bits of what ``group_by_queue`` says.
SINGLE = 1
UNBROKEN = 2


@compiled("void(uint8[::1], int64, int64, int64, int64)", forceinline=True)
def put_unit(data: Bytes, at: int, physical: int, size: int, tags_code: int) -> None:
    """Write one unit at ``at``, big-endian; the caller knows that it fits."""
    i = np.uint64(at)  # an index without sign needs no test for one below zero
    for k in range(8):
        data[i + np.uint64(k)] = (physical >> (56 - 8 * k)) & 0xFF
    for k in range(4):
        data[i + np.uint64(8 + k)] = (size >> (24 - 8 * k)) & 0xFF
    for k in range(8):
        data[i + np.uint64(12 + k)] = (tags_code >> (56 - 8 * k)) & 0xFF


@compiled("int64(readonly(int64[:, :]), int64, int64[::1], int64[:, ::1], uint8[::1])", _nrt=True)
def group_by_queue(records: Numbers, base: int, starts: Numbers, grouped: Numbers, units: Bytes) -> int:
    """Fill ``grouped`` and ``units`` with the records that enter a queue, by queue and in log order.

    Returns what is true of all: SINGLE, that each is one message, and UNBROKEN, that each queue's offsets have no gap.

    Args:
        records: The record table, shape ``(rows, n)``.
        base: Physical offset of the segment.
        starts: Zeros, one more than there are queues; afterwards queue q is rows
            ``[starts[q], starts[q + 1])``.
        grouped: Shape ``(n, GROUP_COLUMNS)``.
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
    following = starts[:-1].copy()  # the offset behind each queue's last record
    several = np.int64(0)
    broken = np.int64(0)
    for i in range(n):
        transaction = records[w.R_SYS_FLAG, i] & log.SYS_TRANSACTION
        if transaction != 0 and transaction != log.SYS_COMMIT:
            continue
        queue = records[w.R_QUEUE, i]
        k = place[queue]
        place[queue] = k + 1
        physical = records[w.R_POSITION, i] + base
        number = records[w.R_BATCH_BASE, i]
        grouped[k, G_RECORD] = i
        grouped[k, G_QUEUE_OFFSET] = number
        several |= records[w.R_BATCH_SIZE, i] ^ 1
        if k != starts[queue]:
            broken |= number ^ following[queue]
        following[queue] = number + records[w.R_BATCH_SIZE, i]
        put_unit(units, k * UNIT_BYTES, physical, records[w.R_SIZE, i], records[w.R_TAGS_CODE, i])
    return np.int64((SINGLE if several == 0 else 0) | (UNBROKEN if broken == 0 else 0))


@compiled("int64(readonly(int64[:, :]), readonly(int64[:, ::1]), int64, int64)")
def run_stop(records: Numbers, grouped: Numbers, start: int, stop: int) -> int:
    """Return the first row of ``grouped`` behind ``start``, at most ``stop``, whose offset does not follow on."""
    k = start + 1
    while k < stop:
        size = records[w.R_BATCH_SIZE, grouped[k - 1, G_RECORD]]
        if grouped[k, G_QUEUE_OFFSET] != grouped[k - 1, G_QUEUE_OFFSET] + size:
            break
        k += 1
    return k


@compiled(
    "void(readonly(int64[:, :]), int64, readonly(int64[::1]), readonly(int64[:, ::1]), boolean, int64[::1],"
    " int64[:, ::1])"
)
def runs_by_queue(
    records: Numbers, base: int, starts: Numbers, grouped: Numbers, unbroken: bool, bounds: Numbers, runs: Numbers
) -> None:
    """Fill ``runs`` with each queue's runs of consecutive queue offsets, one queue behind the other.

    Args:
        records: The record table.
        base: Physical offset of the segment.
        starts: As ``group_by_queue`` left it.
        grouped: The same.
        unbroken: What that said: no queue has more than one run.
        bounds: Zeros, as many as ``starts``; afterwards queue q has the runs ``[bounds[q], bounds[q + 1])``.
        runs: Shape ``(RUN_ROWS, n)`` with room for a run a record.
    """
    n = np.int64(0)
    for q in range(len(starts) - 1):
        k = starts[q]
        while k < starts[q + 1]:
            stop = starts[q + 1] if unbroken else run_stop(records, grouped, k, starts[q + 1])
            first, last = grouped[k, G_RECORD], grouped[stop - 1, G_RECORD]
            runs[RUN_FIRST, n] = grouped[k, G_QUEUE_OFFSET]
            runs[RUN_STOP, n] = grouped[stop - 1, G_QUEUE_OFFSET] + records[w.R_BATCH_SIZE, last]
            runs[RUN_START_AT, n] = base + records[w.R_POSITION, first]
            runs[RUN_STOP_AT, n] = base + records[w.R_POSITION, last] + records[w.R_SIZE, last]
            runs[RUN_RECORDS, n] = stop - k
            runs[RUN_ELSEWHERE, n] = records[w.R_MARKS, first] & w.MARK_PHYSICAL
            n += 1
            k = stop
        bounds[q + 1] = n

"""Compiled passing of records that a broker accepts and that are not dispatched: nothing of them is kept.

Far less work than the walk: what is plainly an ordinary record is told by its lengths and its CRC, and only
where properties could matter the whole check is asked.

Source: ``CommitLog.checkMessageAndReturnSize``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import tags as t
from storeio.kernels.ahead import fetch_record
from storeio.kernels.chain import (
    BLOCKS,
    V_BASE,
    V_CRC_ADDRESS,
    V_CRC_KIND,
    V_FILE_SIZE,
    V_ORIGIN,
    V_STOP,
    check_whole,
)  # fmt: skip
from storeio.kernels.longcrc import FIRST
from storeio.kernels.raw import LANES, equal_mask
from storeio.kernels.records import SCHEDULE_BYTES
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Places in what ``pass_records`` asks of a record besides, and in what it tells.
(A_MOST_BYTES, A_LONG_TOPICS, A_BATCHES, A_SCRATCH_BYTES) = range(4)
(P_POSITION, P_WHY, P_LARGEST) = range(3)

BORN_V6_BYTES: Final = log.IPV6_HOST_BYTES - log.IPV4_HOST_BYTES


@compiled("boolean(readonly(uint8[::1]), int64, int64)", forceinline=True)
def may_name_numbers(data: Bytes, start: int, stop: int) -> bool:
    """Tell whether a property's name may begin with I, as those of inner batches do; blocks must fit ``data``."""
    if start < stop and data[start] == 73:
        return True
    i = start
    while i < stop:
        # The I stands behind the 0x02 that ends the property before; the byte behind a block is its neighbour's.
        if (equal_mask(data, i, 2) & equal_mask(data, i + 1, 73)) != 0:
            return True
        i += LANES
    return False


@compiled("int64(readonly(uint8[::1]), readonly(int64[::1]), int64)", forceinline=True)
def plain_size(data: Bytes, view: Numbers, position: int) -> int:
    """Return the size of the record if it is plainly an ordinary and intact one in its place, 0 if it may be none."""
    i = position - view[V_ORIGIN]
    if i + h.FIXED_BYTES > len(data):
        return np.int64(0)
    size = np.int64(int32_at(data, i))
    if size < log.MIN_RECORD_BYTES or size > len(data) - i - LANES - 1:
        return np.int64(0)
    if int32_at(data, i + log.MAGIC_AT) != log.MAGIC_V1:
        return np.int64(0)
    fetch_record(data, i, size)
    if int64_at(data, i + log.PHYSICAL_OFFSET_AT) != view[V_BASE] + position:
        return np.int64(0)
    flags = int32_at(data, i + log.SYS_FLAG_AT)
    at = i + log.BORN_HOST_AT + 2 * log.IPV4_HOST_BYTES + 24
    at += BORN_V6_BYTES if flags & log.SYS_BORN_V6 else 0
    at += BORN_V6_BYTES if flags & log.SYS_STORE_V6 else 0
    end = i + size
    body = np.int64(int32_at(data, at - 4))
    if body < 0 or body > end - at - 3:
        return np.int64(0)
    topic_at = at + body + 1
    topic = np.int64(data[topic_at - 1])
    if topic > 127 or topic > end - topic_at - 2:
        return np.int64(0)
    if topic == len(SCHEDULE_BYTES) and data[topic_at] == SCHEDULE_BYTES[0]:
        return np.int64(0)
    properties = topic_at + topic + 2
    if (np.int64(data[properties - 2]) << 8 | np.int64(data[properties - 1])) != end - properties:
        return np.int64(0)
    if end - properties > 0x7FFF or may_name_numbers(data, properties, end):
        return np.int64(0)
    if body > 0:
        found = crc.body_crc(view[V_CRC_ADDRESS], view[V_CRC_KIND], data, at, at + body)
        if (np.int64(found) & log.CRC_MASK) != int32_at(data, i + log.BODY_CRC_AT):
            return np.int64(0)
    return size


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64, readonly(int64[::1]), readonly(int64[::1]), int64[::1],"
    " int64[::1])",
    forceinline=True,
)
def odd_size(
    data: Bytes, view: Numbers, position: int, delays_ms: Numbers, asked: Numbers, head: Numbers, work: Numbers
) -> int:
    """Return the size of a record in its place that the version accepts, else why it is none, negated; NEED is -1."""
    if view[V_FILE_SIZE] - position < log.MIN_RECORD_BYTES:
        return np.int64(-1 - h.WHY_SHORT)
    why = check_whole(data, view, position, head, delays_ms, work)
    if why == h.NEED:
        return np.int64(-1)
    if why != h.OK or head[h.PHYSICAL_OFFSET] != view[V_BASE] + position:
        return np.int64(-1 - h.WHY_MAGIC)
    if head[h.MAGIC] == log.MAGIC_V2 and not asked[A_LONG_TOPICS]:
        return np.int64(-1 - h.WHY_MAGIC)
    if not asked[A_BATCHES] and work[2 * t.INNER_NUM + 1] > 0 and work[2 * t.INNER_BASE + 1] > 0:
        return np.int64(-1 - h.WHY_PROPERTY)
    return head[h.SIZE]


@compiled(
    "void(readonly(uint8[::1]), readonly(int64[::1]), int64, readonly(int64[::1]), readonly(int64[::1]), int64[::1])",
    _nrt=True,
)
def pass_records(
    data: Bytes, view: Numbers, position: int, delays_ms: Numbers, asked: Numbers, passed: Numbers
) -> None:  # fmt: skip
    """Pass the accepted records that start before the view's stop, one behind the other and in their places.

    Args:
        data: The window.
        view: As the walk has it.
        position: Where the first one starts.
        delays_ms: Delay of each level.
        asked: What the version asks besides: largest size, whether it knows the second magic and inner
            batches; and up to which size the largest record is told.
        passed: Afterwards the position behind the last one, OK or NEED or something else, the largest size.
    """
    head = np.zeros(h.HEAD_COLUMNS, dtype=np.int64)
    work = np.zeros(BLOCKS + FIRST, dtype=np.int64)
    passed[P_WHY] = h.OK
    while position < view[V_STOP]:
        size = plain_size(data, view, position)
        if size == 0:
            size = odd_size(data, view, position, delays_ms, asked, head, work)
        if size < 0 or size > asked[A_MOST_BYTES]:
            passed[P_WHY] = h.NEED if size == -1 else h.WHY_MAGIC
            break
        if size <= asked[A_SCRATCH_BYTES]:
            passed[P_LARGEST] = max(passed[P_LARGEST], size)
        position += size
    passed[P_POSITION] = position

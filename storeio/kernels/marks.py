"""Compiled marks of a record that a broker accepts: what is odd about its head and its properties, and what it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.kernels.text import int32_at, is_bad_text, java_number

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

USUAL_FLAGS = log.SYS_COMPRESSED | log.SYS_BORN_V6 | log.SYS_STORE_V6 | log.SYS_COMMIT  # nothing odd with any
REAL_TOPIC_BYTES = np.frombuffer(f"{p.REAL_TOPIC}{p.NAME_VALUE}".encode(), dtype=np.uint8)
PROPERTY_BYTE = ord(p.PROPERTY)


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def messages_in(data: Bytes, start: int, stop: int) -> int:
    """Return how many messages an inner batch's body ``[start, stop)`` holds, 0 where anything else stands in it.

    Source: ``MessageDecoder.countInnerMsgNum``, by which a broker writes INNER_NUM.
    """
    count = np.int64(0)
    while stop - start >= log.LEAST_INNER_BYTES:
        size = np.int64(int32_at(data, start))
        if size < log.LEAST_INNER_BYTES or size > stop - start:
            return np.int64(0)
        start += size
        count += 1
    return count if start == stop else np.int64(0)


@compiled("int64(readonly(uint8[::1]), int64, int64[::1], int64, int64)")
def marks_of_batch(data: Bytes, origin: int, head: Numbers, base: int, size: int) -> int:
    """Return the marks of an inner batch whose properties say ``size`` messages from number ``base`` on.

    Brokers write the first number twice. Source: ``QueueOffsetOperator`` as ``CommitLog.asyncPutMessages`` asks it.
    """
    marks = np.int64(0) if head[h.QUEUE_OFFSET] == base else np.int64(w.MARK_INNER_BASE)
    if head[h.SYS_FLAG] & log.SYS_COMPRESSED == 0 and head[h.BODY_BYTES] > 0:
        start = head[h.BODY_AT] - origin
        count = messages_in(data, start, start + head[h.BODY_BYTES])
        if count != 0 and count != size:
            marks |= w.MARK_INNER_NUM
    return marks


@compiled("boolean(readonly(uint8[::1]), int64, int64)")
def has_real_topic(data: Bytes, start: int, stop: int) -> bool:
    """Tell whether the properties in ``[start, stop)`` name the topic of a delayed message."""
    at = start
    while at + len(REAL_TOPIC_BYTES) < stop:
        k = 0
        while k < len(REAL_TOPIC_BYTES) and data[at + k] == REAL_TOPIC_BYTES[k]:
            k += 1
        if k == len(REAL_TOPIC_BYTES) and data[at + k] != PROPERTY_BYTE:  # without a value it is none
            return True
        while at < stop and data[at] != PROPERTY_BYTE:
            at += 1
        at += 1
    return False


@compiled("int64(readonly(uint8[::1]), int64, int64[::1], readonly(int64[::1]))")
def marks_of_level(data: Bytes, origin: int, head: Numbers, places: Numbers) -> int:
    """Return the marks of a delayed message. Those of clients' batches have neither a level nor another topic.

    Source: ``ScheduleMessageService.delayLevel2QueueId``.
    """
    stop = places[2 * t.DELAY + 1]
    if stop == 0:
        start = head[h.PROPERTIES_AT] - origin
        is_odd = has_real_topic(data, start, start + max(head[h.PROPERTIES_BYTES], 0))
        return np.int64(w.MARK_LEVEL if is_odd else 0)
    level, _ = java_number(data, places[2 * t.DELAY], stop, t.INT_LIMIT)
    return np.int64(w.MARK_SCHEDULED if level == head[h.QUEUE_ID] + 1 else w.MARK_SCHEDULED | w.MARK_LEVEL)


@compiled("int64(int64[::1], int64, int64)")
def odd_marks_of(head: Numbers, base: int, position: int) -> int:
    """Return the marks of a head in which something may be odd."""
    marks = np.int64(0)
    if head[h.PHYSICAL_OFFSET] != base + position:
        marks |= w.MARK_PHYSICAL
    if head[h.QUEUE_ID] < 0:
        marks |= w.MARK_QUEUE_ID
    if head[h.QUEUE_OFFSET] < 0:
        marks |= w.MARK_QUEUE_OFFSET
    flags = head[h.SYS_FLAG]
    unset = flags & ~np.int64(log.SYS_KNOWN) or flags & (log.SYS_COMPRESSED | log.SYS_NO_TYPE) == log.SYS_NO_TYPE
    if unset or (flags & log.SYS_UNNUMBERED and head[h.QUEUE_OFFSET] != 0):
        marks |= w.MARK_SYS_FLAG
    if (head[h.BORN_PORT] | head[h.STORE_PORT]) & ~np.int64(0xFFFF):
        marks |= w.MARK_HOST
    if head[h.BODY_BYTES] < 0 or head[h.PROPERTIES_BYTES] < 0:
        marks |= w.MARK_LENGTH
    if head[h.BODY_BYTES] <= 0 and head[h.BODY_CRC] != 0:
        marks |= w.MARK_CRC_OF_NOTHING
    if head[h.RECONSUME] < 0:
        marks |= w.MARK_RECONSUME
    elif head[h.RECONSUME] > w.MANY_RETRIES:
        marks |= w.MARK_MANY_RETRIES
    if head[h.PREPARED] < 0 or (head[h.PREPARED] > 0 and head[h.PREPARED] >= base + position):
        marks |= w.MARK_PREPARED
    if head[h.STORE_MS] <= 0:
        marks |= w.MARK_TIME
    elif head[h.BORN_MS] <= 0 or abs(head[h.STORE_MS] - head[h.BORN_MS]) > w.BORN_WRONG_MS:
        marks |= w.MARK_BORN
    elif not -w.BORN_LATE_MS <= head[h.STORE_MS] - head[h.BORN_MS] <= w.BORN_EARLY_MS:
        marks |= w.MARK_BORN_APART
    return marks


@compiled("int64(int64[::1], int64, int64)", forceinline=True)
def marks_of(head: Numbers, base: int, position: int) -> int:
    """Return the marks that the head alone gives."""
    before = head[h.STORE_MS] - head[h.BORN_MS]
    negative = head[h.QUEUE_ID] | head[h.QUEUE_OFFSET] | head[h.PROPERTIES_BYTES] | head[h.PREPARED]
    negative |= (head[h.STORE_MS] - 1) | (head[h.BORN_MS] - 1) | (head[h.BODY_BYTES] - 1)
    negative |= (before + w.BORN_LATE_MS) | (w.BORN_EARLY_MS - before)
    different = (head[h.PHYSICAL_OFFSET] ^ (base + position)) | head[h.PREPARED] | head[h.RECONSUME]
    different |= (head[h.SYS_FLAG] & ~np.int64(USUAL_FLAGS)) | ((head[h.BORN_PORT] | head[h.STORE_PORT]) >> 16)
    return np.int64(0) if negative >= 0 and different == 0 else odd_marks_of(head, base, position)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64, int64[::1], int64[::1])", forceinline=True)
def marks_of_properties(
    data: Bytes, origin: int, position: int, crc_address: int, crc_kind: int, head: Numbers, places: Numbers
) -> int:
    """Return the marks that the properties give, the property CRC checked where there is one."""
    marks = np.int64(0)
    if places[2 * t.MULTI_DISPATCH + 1] > 0 and places[2 * t.MULTI_QUEUE_OFFSET + 1] > 0:
        marks |= w.MARK_MULTI
    if places[2 * t.INNER_NUM + 1] > 0 and places[2 * t.INNER_BASE + 1] > 0:
        marks |= w.MARK_INNER_BATCH
    flags = head[h.SYS_FLAG] & (log.SYS_INNER_BATCH | log.SYS_NEED_UNWRAP)
    if (flags >= log.SYS_INNER_BATCH) != (marks & w.MARK_INNER_BATCH != 0) or flags == log.SYS_NEED_UNWRAP:
        marks |= w.MARK_SYS_FLAG
    if places[2 * t.ODD + 1] > 0:
        marks |= w.MARK_ODD_PROPERTY
    start = head[h.PROPERTIES_AT] - origin
    if places[t.UNUSUAL] and is_bad_text(data, start, start + max(head[h.PROPERTIES_BYTES], 0)):
        marks |= w.MARK_TEXT
    end = position + head[h.SIZE] - origin
    # Even where it is glued to another value, the last 20 bytes are the broker's property CRC.
    if head[h.PROPERTIES_BYTES] >= 20 and data[end - 20] == 95 and data[end - 12] == 1 and data[end - 1] == 2:
        if t.property_of(data, end - 20, end - 12) == t.PROPERTY_CRC:
            marks |= w.MARK_HAS_PROPERTY_CRC
            found = crc.body_crc(crc_address, crc_kind, data, position - origin, end - 20)
            if not t.same_property_crc(data, end - 11, end - 1, np.int64(found) & log.CRC_MASK):
                marks |= w.MARK_PROPERTY_CRC
    return marks

"""Compiled check of one record's head: where its parts lie, and why it is no valid record.

A *window* is a run of bytes of one segment: ``data[0]`` is position ``origin`` of the segment,
``file_size`` the segment's length. A check that would need bytes of the segment that are not in
the window answers ``NEED`` and nothing else, so that the caller can come again with more.

Source: ``CommitLog.checkMessageAndReturnSize``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels.longcrc import LONG_BODY, long_crc
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Places in the array that holds one record's head, all int64.
(
    SIZE, FORMULA, MAGIC, BODY_CRC, QUEUE_ID, FLAG, QUEUE_OFFSET, PHYSICAL_OFFSET, SYS_FLAG, BORN_MS, BORN_PORT,
    STORE_MS, STORE_PORT, RECONSUME, PREPARED, BODY_AT, BODY_BYTES, TOPIC_AT, TOPIC_BYTES, PROPERTIES_AT,
    PROPERTIES_BYTES, STORE_HOST, BORN_HOST,
) = range(23)  # fmt: skip
HEAD_COLUMNS: Final = 23

# Why a stretch of bytes is no valid record. OK and NEED are answers, not reasons.
NEED: Final = -1
OK: Final = 0
WHY_SHORT: Final = 1
WHY_MAGIC: Final = 2
WHY_SIZE: Final = 3
WHY_BODY_LENGTH: Final = 4
WHY_TOPIC_LENGTH: Final = 5
WHY_PROPERTIES_LENGTH: Final = 6
WHY_FORMULA: Final = 7
WHY_BODY_CRC: Final = 8
WHY_PROPERTY: Final = 9

MAX_RECORD_BYTES: Final = 2**29  # what a length may claim before it is taken for damage
KEY_MASK: Final = 2**57 - 1  # 31 times it still fits 64 bits
FIXED_BYTES: Final = 112  # up to and with the body length, both hosts IPv6


@compiled("boolean(readonly(uint8[::1]), int64, int64, int64, int64)", forceinline=True)
def lacks(data: Bytes, origin: int, file_size: int, position: int, count: int) -> bool:
    """Tell whether ``count`` bytes from ``position`` need more of the segment than the window holds."""
    stop = min(position + count, file_size)
    return stop > origin + len(data) or position < origin


@compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
def host_key(data: Bytes, start: int, stop: int) -> int:
    """Return a number that tells stored hosts apart: the bytes themselves for IPv4, a mix of them for IPv6."""
    value = int64_at(data, start)
    i = start + 8
    while i < stop:
        value = (value & KEY_MASK) * 31 + int32_at(data, i)
        i += 4
    return value


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64[::1])", forceinline=True)
def read_tail(data: Bytes, origin: int, file_size: int, position: int, head: Numbers) -> int:
    """Return OK with body, topic and properties placed in ``head``, else which length leads out."""
    body = max(head[BODY_BYTES], 0)
    wide = 2 if head[MAGIC] == log.MAGIC_V2 else 1
    at = head[BODY_AT] + body
    if body > MAX_RECORD_BYTES or at > file_size - wide:
        return np.int64(WHY_BODY_LENGTH)
    if lacks(data, origin, file_size, at, wide):
        return np.int64(NEED)
    i = np.uint64(at - origin)  # an index without sign needs no test for one counted from the end
    topic = np.int64(data[i])
    if wide == 2:
        topic = (topic << 8 | np.int64(data[i + np.uint64(1)])) ^ 0x8000
        topic -= 0x8000
    else:
        topic = (topic ^ 0x80) - 0x80
    head[TOPIC_AT] = at + wide
    head[TOPIC_BYTES] = topic
    at += wide + topic
    if topic < 0 or at > file_size - 2:
        return np.int64(WHY_TOPIC_LENGTH)
    if lacks(data, origin, file_size, at, 2):
        return np.int64(NEED)
    i = np.uint64(at - origin)
    head[PROPERTIES_BYTES] = ((np.int64(data[i]) << 8 | np.int64(data[i + np.uint64(1)])) ^ 0x8000) - 0x8000
    head[PROPERTIES_AT] = at + 2
    end = at + 2 + max(head[PROPERTIES_BYTES], 0)
    if end > file_size:
        return np.int64(WHY_PROPERTIES_LENGTH)
    head[FORMULA] = end - position
    return np.int64(OK)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64[::1])", forceinline=True)
def read_head(data: Bytes, origin: int, file_size: int, position: int, head: Numbers) -> int:
    """Return OK with all of ``head`` filled, else what stopped it; FORMULA is then -1.

    Lengths are bounded by the segment, not by TOTALSIZE, so that either of the two that
    disagree can be told from the other.
    """
    for k in range(HEAD_COLUMNS):
        head[k] = 0
    head[FORMULA] = -1
    left = file_size - position
    if left < log.MIN_RECORD_BYTES:
        return np.int64(WHY_SHORT)
    if lacks(data, origin, file_size, position, FIXED_BYTES):
        return np.int64(NEED)
    i = position - origin
    head[SIZE] = int32_at(data, i)
    head[MAGIC] = int32_at(data, i + log.MAGIC_AT)
    head[BODY_CRC] = int32_at(data, i + log.BODY_CRC_AT)
    head[QUEUE_ID] = int32_at(data, i + log.QUEUE_ID_AT)
    head[FLAG] = int32_at(data, i + log.FLAG_AT)
    head[QUEUE_OFFSET] = int64_at(data, i + log.QUEUE_OFFSET_AT)
    head[PHYSICAL_OFFSET] = int64_at(data, i + log.PHYSICAL_OFFSET_AT)
    head[SYS_FLAG] = int32_at(data, i + log.SYS_FLAG_AT)
    head[BORN_MS] = int64_at(data, i + log.BORN_TIMESTAMP_AT)
    born = log.IPV6_HOST_BYTES if head[SYS_FLAG] & log.SYS_BORN_V6 else log.IPV4_HOST_BYTES
    store = log.IPV6_HOST_BYTES if head[SYS_FLAG] & log.SYS_STORE_V6 else log.IPV4_HOST_BYTES
    if left < log.BORN_HOST_AT + born + store + 24:
        return np.int64(WHY_SHORT)
    i += log.BORN_HOST_AT + born
    head[BORN_PORT] = int32_at(data, i - 4)
    head[BORN_HOST] = host_key(data, i - born, i)
    head[STORE_MS] = int64_at(data, i)
    i += 8 + store
    head[STORE_PORT] = int32_at(data, i - 4)
    head[STORE_HOST] = host_key(data, i - store, i)
    head[RECONSUME] = int32_at(data, i)
    head[PREPARED] = int64_at(data, i + 4)
    head[BODY_BYTES] = int32_at(data, i + 12)
    head[BODY_AT] = i + 16 + origin
    return read_tail(data, origin, file_size, position, head)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64, int64, int64, int64[::1], int64[::1])", forceinline=True)
def check_record(
    data: Bytes, origin: int, file_size: int, position: int, crc_address: int, crc_kind: int, head: Numbers,
    blocks: Numbers,
) -> int:  # fmt: skip
    """Return OK for a record that a broker's recovery accepts, NEED, or why it is none; fills ``head``.

    The physical offset is not looked at, nor anything inside the properties. ``blocks`` is as in ``longcrc``.
    """
    why = read_head(data, origin, file_size, position, head)
    if why == NEED or why == WHY_SHORT:
        return why
    if head[MAGIC] != log.MAGIC_V1 and head[MAGIC] != log.MAGIC_V2:
        return np.int64(WHY_MAGIC)
    if head[SIZE] < log.MIN_RECORD_BYTES or head[SIZE] > file_size - position:
        return np.int64(WHY_SIZE)
    if why != OK:
        return why
    if head[FORMULA] != head[SIZE]:
        return np.int64(WHY_FORMULA)
    if lacks(data, origin, file_size, position, head[SIZE]):
        return np.int64(NEED)
    if head[BODY_BYTES] > 0:
        start = head[BODY_AT] - origin
        stop = start + head[BODY_BYTES]
        if stop - start < LONG_BODY:
            found = crc.body_crc(crc_address, crc_kind, data, start, stop)
        else:
            found = long_crc(crc_address, crc_kind, data, start, stop, blocks)
        if (np.int64(found) & log.CRC_MASK) != head[BODY_CRC]:
            return np.int64(WHY_BODY_CRC)
    return np.int64(OK)

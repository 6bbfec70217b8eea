"""Compiled writing of commitlog records, with the key hashes that an index needs.

The numbers of a record travel in the columns of one table, in the order below.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bench import stream
from storeio import crc
from storeio.compiled import compiled
from storeio.format import commitlog as log

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Texts = npt.NDArray[np.uint8]  # shape (n, 1 + longest): length, then the text; a text has at most 255 bytes

# Rows of the table of numbers. C_AT is the place in the buffer.
(C_AT, C_SIZE, C_QUEUE_ID, C_QUEUE_OFFSET, C_PHYSICAL, C_TOPIC, C_TAG, C_PRODUCER, C_STORE_MS, C_BORN_MS, C_BODY_AT,
 C_NUMBER, C_PROPERTIES) = range(13)  # fmt: skip
ROWS = 13

MAGIC_V1 = log.MAGIC_V1
CRC_MASK = log.CRC_MASK
FIXED = np.frombuffer(stream.FIXED_PROPERTIES, dtype=np.uint8)
UNIQUE_NAME = np.frombuffer(b"UNIQ_KEY\1", dtype=np.uint8)
TAGS_NAME = np.frombuffer(b"TAGS\1", dtype=np.uint8)
KEYS_NAME = np.frombuffer(b"KEYS\1", dtype=np.uint8)
KEY_PREFIX = np.frombuffer(stream.KEY_PREFIX, dtype=np.uint8)
HEX = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
PRODUCERS = np.stack([np.frombuffer(b"0A0001%02X1F9A6BDD09A4" % k, dtype=np.uint8) for k in range(stream.PRODUCERS)])
STORE_HOST = 0x0A000001  # 10.0.0.1
BORN_HOST = 0x0A000100  # 10.0.1.0 and up, one per producer
STORE_PORT = 10911
BORN_PORT = 40000
BODY_AT = 88  # in a record with IPv4 hosts


def texts(listed: tuple[bytes, ...]) -> Texts:
    """Return texts as one array for the kernels."""
    table = np.zeros((max(len(listed), 1), 1 + max(map(len, listed), default=0)), dtype=np.uint8)
    for row, text in zip(table, listed, strict=False):
        row[0] = len(text)
        row[1 : 1 + len(text)] = np.frombuffer(text, dtype=np.uint8)
    return table


@compiled("void(uint8[::1], int64, int64, int64)", forceinline=True)
def put_number(out: Bytes, at: int, value: int, count: int) -> None:
    """Write the low ``count`` bytes of a number, the highest of them first."""
    first = np.uint64(at)  # an index without a sign needs no check, so that the stores become one
    for k in range(count):
        out[first + np.uint64(k)] = (value >> (8 * (count - 1 - k))) & 0xFF


@compiled("int64(uint8[::1], int64, readonly(uint8[::1]))", forceinline=True)
def put_text(out: Bytes, at: int, text: Bytes) -> int:
    """Write a text; return the place behind it."""
    first = np.uint64(at)
    for k in range(np.uint64(len(text))):
        out[first + k] = text[k]
    return at + len(text)


@compiled("int64(uint8[::1], int64, int64, int64)", forceinline=True)
def put_hex(out: Bytes, at: int, value: int, count: int) -> int:
    """Write the low ``count`` hex digits of a number; return the place behind them."""
    for k in range(count):
        out[at + k] = HEX[(value >> (4 * (count - 1 - k))) & 15]
    return at + count


@compiled("int64(uint8[::1], int64, int64)", forceinline=True)
def put_decimal(out: Bytes, at: int, value: int) -> int:
    """Write a number that is not negative, without leading zeros; return the place behind it."""
    stop = at + 1
    rest = value // 10
    while rest > 0:
        stop += 1
        rest //= 10
    k = stop - 1
    while k >= at:
        out[k] = 48 + value % 10
        value //= 10
        k -= 1
    return stop


@compiled("int64(uint8[::1], int64, int64, int64)", forceinline=True)
def key_hash(data: Bytes, start: int, stop: int, seed: int) -> int:
    """Return the key hash of ASCII bytes that go on from the Java hash ``seed``."""
    value = seed
    for k in range(start, stop):
        value = (value * 31 + data[k]) & 0xFFFFFFFF
    signed = (value ^ 0x80000000) - 0x80000000
    return np.int64(0) if signed == -0x80000000 else abs(signed)


@compiled("void(uint8[::1], int64, readonly(int64[::1]))", forceinline=True)
def put_head(out: Bytes, at: int, row: Numbers) -> None:
    """Write a record up to and with its store host; the body CRC comes later."""
    put_number(out, at, row[C_SIZE], 4)
    put_number(out, at + 4, MAGIC_V1, 4)
    put_number(out, at + 12, row[C_QUEUE_ID], 4)
    put_number(out, at + 16, 0, 4)
    put_number(out, at + 20, row[C_QUEUE_OFFSET], 8)
    put_number(out, at + 28, row[C_PHYSICAL], 8)
    put_number(out, at + 36, 0, 4)
    put_number(out, at + 40, row[C_BORN_MS], 8)
    put_number(out, at + 48, BORN_HOST + row[C_PRODUCER], 4)
    put_number(out, at + 52, BORN_PORT + row[C_PRODUCER], 4)
    put_number(out, at + 56, row[C_STORE_MS], 8)
    put_number(out, at + 64, STORE_HOST, 4)
    put_number(out, at + 68, STORE_PORT, 4)


@compiled("void(uint8[::1], int64, readonly(uint8[::1]), int64, int64, int64, int64)", forceinline=True)
def put_body(out: Bytes, at: int, pool: Bytes, start: int, count: int, address: int, kind: int) -> None:
    """Write the body of the record at ``at`` and everything about it."""
    put_number(out, at + 72, 0, 8)
    put_number(out, at + 80, 0, 4)
    put_number(out, at + 84, count, 4)
    to, source = np.uint64(at + BODY_AT), np.uint64(start)
    for k in range(np.uint64(count)):
        out[to + k] = pool[source + k]
    found = np.int64(crc.body_crc(address, kind, pool, start, start + count))
    put_number(out, at + 8, found & CRC_MASK, 4)


@compiled(
    "int64(uint8[::1], int64, readonly(int64[::1]), readonly(int64[::1]), readonly(uint8[::1]), boolean, int64,"
    " int64[::1])",
    forceinline=True,
)
def put_properties(
    out: Bytes, at: int, row: Numbers, keys: Numbers, tag: Bytes, unique: bool, seed: int, hashes: Numbers
) -> int:
    """Write the properties, and the key hashes in the order of their index units; return the place behind."""
    n = 0
    if unique:
        start = put_text(out, at, UNIQUE_NAME)
        at = put_text(out, start, PRODUCERS[row[C_PRODUCER]])
        at = put_hex(out, at, row[C_BORN_MS], 8)
        at = put_hex(out, at, row[C_NUMBER], 4)
        hashes[n] = key_hash(out, start, at, seed)
        n += 1
        out[at] = 2
        at += 1
    at = put_text(out, at, FIXED)
    if len(tag) > 1:
        at = put_text(out, at, TAGS_NAME)
        at = put_text(out, at, tag[1 : 1 + np.int64(tag[0])])
        out[at] = 2
        at += 1
    if len(keys) > 0:
        at = put_text(out, at, KEYS_NAME)
        for key in keys:
            start = at
            at = put_decimal(out, put_text(out, at, KEY_PREFIX), key)
            hashes[n] = key_hash(out, start, at, seed)
            n += 1
            out[at] = 32
            at += 1
        out[at - 1] = 2
    return at


@compiled(
    "int64(uint8[::1], readonly(int64[:, ::1]), readonly(int64[:, ::1]), readonly(uint8[::1]), int64,"
    " readonly(uint8[:, ::1]), readonly(int64[::1]), readonly(uint8[:, ::1]), boolean, int64, int64, int64[:, ::1])"
)
def put_records(
    out: Bytes, rows: Numbers, keys: Numbers, pool: Bytes, body_bytes: int, topics: Texts, seeds: Numbers,
    tags: Texts, unique: bool, address: int, kind: int, hashes: Numbers,
) -> int:  # fmt: skip
    """Write records, and into ``hashes`` one row of key hashes each; return how many do not have their size.

    ``rows`` holds one row of numbers a record. ``out`` has room for all of them. ``seeds`` are the
    Java hashes of the topics with ``#``.
    """
    wrong = 0
    for n in range(len(rows)):
        row = rows[n]
        at = row[C_AT]
        topic = topics[row[C_TOPIC]]
        put_head(out, at, row)
        put_body(out, at, pool, row[C_BODY_AT], body_bytes, address, kind)
        end = at + BODY_AT + body_bytes
        out[end] = topic[0]
        end = put_text(out, end + 1, topic[1 : 1 + np.int64(topic[0])])
        put_number(out, end, row[C_PROPERTIES], 2)
        end = put_properties(out, end + 2, row, keys[n], tags[row[C_TAG]], unique, seeds[row[C_TOPIC]], hashes[n])
        wrong += end != at + row[C_SIZE]
    return wrong


@compiled("int64(int32[::1], readonly(int64[::1]), int64, int32[::1])")
def chain(slots: npt.NDArray[np.int32], hashes: Numbers, first: int, previous: npt.NDArray[np.int32]) -> int:
    """Enter index units ``first``, ``first + 1`` ... into the slots; return how many slots were empty.

    ``previous`` receives each unit's predecessor in its slot.
    """
    fresh = 0
    for k in range(len(hashes)):
        slot = hashes[k] % len(slots)
        previous[k] = slots[slot]
        fresh += slots[slot] == 0
        slots[slot] = first + k
    return fresh

"""Compiled reading of a record's properties: tags code, index keys, batch and dispatch marks.

Source: ``MessageDecoder.string2messageProperties``, ``CommitLog.checkMessageAndReturnSize``,
``IndexService.buildIndex``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.text import absolute_hash, as_int32, java_hash, java_number

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# Which properties are looked for; each has a start and a stop in the array of places.
TAGS: Final = 0
KEYS: Final = 1
UNIQUE_KEY: Final = 2
DELAY: Final = 3
INNER_NUM: Final = 4
INNER_BASE: Final = 5
MULTI_DISPATCH: Final = 6
MULTI_QUEUE_OFFSET: Final = 7
PROPERTY_CRC: Final = 8
ODD: Final = 9  # a piece that is no name and value: its start and stop
KNOWN: Final = 10
PLACES: Final = 2 * KNOWN

_NAMES = (
    b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"INNER_NUM", b"INNER_BASE", b"INNER_MULTI_DISPATCH",
    b"INNER_MULTI_QUEUE_OFFSET", b"__CRC32#",
)  # fmt: skip
NAME_BYTES = np.frombuffer(b"".join(_NAMES), dtype=np.uint8)
NAME_STARTS = np.cumsum([0] + [len(name) for name in _NAMES]).astype(np.int64)

SHORT_LIMIT: Final = 2**15 - 1
INT_LIMIT: Final = 2**31 - 1
LONG_LIMIT: Final = 2**63 - 1


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def property_of(data: Bytes, start: int, stop: int) -> int:
    """Return which known property the name ``[start, stop)`` is, -1 for none of them."""
    length = stop - start
    if length < 4 or length > 24:
        return np.int64(-1)
    first = data[start]
    for which in range(9):
        begin = NAME_STARTS[which]
        if NAME_STARTS[which + 1] - begin != length or NAME_BYTES[begin] != first:
            continue
        same = True
        for k in range(length):
            if data[start + k] != NAME_BYTES[begin + k]:
                same = False
                break
        if same:
            return np.int64(which)
    return np.int64(-1)


@compiled("void(readonly(uint8[::1]), int64, int64, int64[::1])")
def find_properties(data: Bytes, start: int, stop: int, places: Numbers) -> None:
    """Fill ``places`` with the value of each known property, 0 and 0 where it is absent.

    A later duplicate wins. A piece that Java's parser drops is remembered under ODD.
    """
    places[:] = 0
    piece = start
    split = np.int64(-1)
    i = start
    while piece < stop:
        if i < stop and data[i] != 2:
            if data[i] == 1 and split < 0:
                split = i
            i += 1
            continue
        if piece < split < i - 1:
            which = property_of(data, piece, split)
            if which >= 0:
                places[2 * which] = split + 1
                places[2 * which + 1] = i
        else:
            places[2 * ODD] = piece
            places[2 * ODD + 1] = i + 1
        i += 1
        piece = i
        split = np.int64(-1)


@compiled("UniTuple(int64, 2)(readonly(uint8[::1]), int64[::1], boolean, int64, readonly(int64[::1]))")
def tags_code_of(data: Bytes, places: Numbers, scheduled: bool, store_ms: int, delays_ms: Numbers) -> tuple[int, int]:
    """Return the tags code that the broker dispatches and 1, or 0 and 0 where its parser throws.

    ``delays_ms[k]`` is the delay of level k; a scheduled record's code is its deliver time.
    """
    if scheduled and places[2 * DELAY + 1] > 0:
        level, fine = java_number(data, places[2 * DELAY], places[2 * DELAY + 1], INT_LIMIT)
        if not fine:
            return np.int64(0), fine
        level = min(level, len(delays_ms) - 1)
        if level > 0:
            return store_ms + delays_ms[level], fine
    return as_int32(java_hash(data, places[2 * TAGS], places[2 * TAGS + 1], 0)), np.int64(1)


@compiled("int64(readonly(uint8[::1]), int64[::1], int64, int64, int64, int64[:, ::1])")
def add_keys(data: Bytes, places: Numbers, seed: int, record: int, n: int, keys: Numbers) -> int:
    """Return the number of index keys after this record's were added, -1 where ``keys`` has no room.

    ``seed`` is the Java hash of the topic and ``#``. Rows of ``keys``: key hash, record, kind
    (UNIQUE_KEY, KEYS or TAGS). The tag key comes last; only brokers from 5.4.0 on write it.
    """
    if places[2 * UNIQUE_KEY + 1] > 0:
        if n >= keys.shape[1]:
            return np.int64(-1)
        value = java_hash(data, places[2 * UNIQUE_KEY], places[2 * UNIQUE_KEY + 1], seed)
        keys[0, n], keys[1, n], keys[2, n] = absolute_hash(value), record, UNIQUE_KEY
        n += 1
    i = places[2 * KEYS]
    stop = places[2 * KEYS + 1]
    while i < stop:
        end = i
        while end < stop and data[end] != 32:
            end += 1
        if end > i:
            if n >= keys.shape[1]:
                return np.int64(-1)
            keys[0, n], keys[1, n], keys[2, n] = absolute_hash(java_hash(data, i, end, seed)), record, KEYS
            n += 1
        i = end + 1
    if places[2 * TAGS + 1] > 0:
        if n >= keys.shape[1]:
            return np.int64(-1)
        value = ((seed * 31 + 84) & 0xFFFFFFFF) * 31 + 35  # "T#" goes before the tag
        value = java_hash(data, places[2 * TAGS], places[2 * TAGS + 1], value)
        keys[0, n], keys[1, n], keys[2, n] = absolute_hash(value), record, TAGS
        n += 1
    return n


@compiled("boolean(readonly(uint8[::1]), int64, int64, int64)")
def same_property_crc(data: Bytes, start: int, stop: int, found: int) -> bool:
    """Tell whether the digits ``[start, stop)``, least significant first, say ``found``."""
    value = np.int64(0)
    i = stop - 1
    while i >= start:
        value = (value * 10 + (np.int64(data[i]) - 48)) & 0xFFFFFFFF
        i -= 1
    return value == found

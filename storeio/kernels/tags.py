"""Compiled reading of a record's properties: tags code, index keys, batch and dispatch marks.

Source: ``MessageDecoder.string2messageProperties``, ``CommitLog.checkMessageAndReturnSize``,
``IndexService.buildIndex``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.raw import (
    LANES,
    WIDE,
    equal_mask,
    int32_at,
    int64_at,
    ones,
    separator_mask,
    trailing_zeros,
    unusual_mask,
    without_lowest,
)
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
UNUSUAL: Final = 2 * KNOWN  # 1 where there are control characters or bytes that are not ASCII
SEPARATORS: Final = UNUSUAL + 1  # from here on where they stand, while they are looked for
MOST_SEPARATORS: Final = 64  # with more, properties are read byte by byte
AT_ONCE: Final = 6
PLACES: Final = SEPARATORS + MOST_SEPARATORS + WIDE + AT_ONCE + 1

_NAMES = (
    b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"INNER_NUM", b"INNER_BASE", b"INNER_MULTI_DISPATCH",
    b"INNER_MULTI_QUEUE_OFFSET", b"__CRC32#",
)  # fmt: skip
NAME_BYTES = np.frombuffer(b"".join(_NAMES), dtype=np.uint8)
NAME_STARTS = np.cumsum([0] + [len(name) for name in _NAMES]).astype(np.int64)

# First bytes of names as numbers.
TAGS_4, KEYS_4, DELAY_4, INNER_4 = (int.from_bytes(name[:4], "big") for name in (b"TAGS", b"KEYS", b"DELAY", b"INNER"))
UNIQUE_KEY_8, PROPERTY_CRC_8 = (int.from_bytes(name, "big") for name in (b"UNIQ_KEY", b"__CRC32#"))

SHORT_LIMIT: Final = 2**15 - 1
INT_LIMIT: Final = 2**31 - 1
LONG_LIMIT: Final = 2**63 - 1


@compiled("int64(readonly(uint8[::1]), int64, int64)")
def long_property_of(data: Bytes, start: int, stop: int) -> int:
    """Return which of the properties with longer names the name ``[start, stop)`` is, -1 for none of them."""
    for which in range(INNER_NUM, MULTI_QUEUE_OFFSET + 1):
        begin = NAME_STARTS[which]
        same = NAME_STARTS[which + 1] - begin == stop - start
        for k in range(stop - start if same else 0):
            same = same and data[start + k] == NAME_BYTES[begin + k]
        if same:
            return np.int64(which)
    return np.int64(-1)


@compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
def property_of(data: Bytes, start: int, stop: int) -> int:
    """Return which known property the name ``[start, stop)`` is, -1 for none of them."""
    length = stop - start
    if length < 4:
        return np.int64(-1)
    word = int32_at(data, start)
    if length == 4:
        return np.int64(TAGS if word == TAGS_4 else KEYS if word == KEYS_4 else -1)
    if length == 8:
        both = int64_at(data, start)
        return np.int64(UNIQUE_KEY if both == UNIQUE_KEY_8 else PROPERTY_CRC if both == PROPERTY_CRC_8 else -1)
    if length == 5 and word == DELAY_4 and data[stop - 1] == 89:
        return np.int64(DELAY)
    return long_property_of(data, start, stop) if word == INNER_4 else np.int64(-1)


@compiled("void(readonly(uint8[::1]), int64, int64, int64, int64[::1])", forceinline=True)
def take_piece(data: Bytes, piece: int, split: int, end: int, places: Numbers) -> None:
    """Enter the piece ``[piece, end)``, whose first 0x01 is at ``split``, into ``places``."""
    if piece < split < end - 1:
        which = property_of(data, piece, split)
        if which >= 0:
            places[2 * which] = split + 1
            places[2 * which + 1] = end
    else:
        places[2 * ODD] = piece
        places[2 * ODD + 1] = end + 1


@compiled("void(readonly(uint8[::1]), int64, int64, int64[::1])")
def find_any(data: Bytes, start: int, stop: int, places: Numbers) -> None:
    """Do what ``find_properties`` does, byte by byte."""
    for k in range(SEPARATORS):
        places[k] = 0
    piece = start
    split = np.int64(-1)  # the first 0x01 of the piece, -1 while there is none
    for i in range(start, stop):
        if data[i] == 2:
            take_piece(data, piece, split, i, places)
            piece, split = i + 1, np.int64(-1)
        elif data[i] == 1:
            split = i if split < 0 else split
        elif data[i] < 32 or data[i] > 127:
            places[UNUSUAL] = 1
    if piece < stop:
        take_piece(data, piece, split, stop, places)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64[::1])", forceinline=True)
def find_separators(data: Bytes, start: int, stop: int, places: Numbers) -> int:
    """Return how many separators were written behind ``SEPARATORS`` in ``places``, and ``stop`` behind them.

    -1 where they are more than there is room for. Enters UNUSUAL, too. Wide blocks up to the last must fit ``data``.
    """
    found = places[SEPARATORS:]
    n = np.uint64(0)
    unusual = np.int64(0)
    i = start
    while i < stop:
        if n > np.uint64(MOST_SEPARATORS):
            return np.int64(-1)
        bits = separator_mask(data, i, stop - i)
        unusual |= unusual_mask(data, i, stop - i) ^ bits  # separators are unusual, too
        after = n + np.uint64(ones(bits))
        # The first few without asking whether they are there: how many a block has, the CPU would seldom guess.
        for k in range(AT_ONCE):
            found[n + np.uint64(k)] = i + trailing_zeros(bits)
            bits = without_lowest(bits)
        n += np.uint64(AT_ONCE)
        while bits != 0:
            found[n] = i + trailing_zeros(bits)
            bits = without_lowest(bits)
            n += np.uint64(1)
        n = after
        i += WIDE
    found[n] = stop
    places[UNUSUAL] = unusual != 0
    return np.int64(n)


@compiled("boolean(readonly(uint8[::1]), int64, int64, int64[::1])", forceinline=True)
def find_usual(data: Bytes, start: int, stop: int, places: Numbers) -> bool:
    """Do what ``find_properties`` does where all pieces are a name and a value and blocks fit ``data``, else False."""
    if start < 0 or stop + WIDE > len(data):
        return False
    count = find_separators(data, start, stop, places)
    for k in range(UNUSUAL):
        places[k] = 0
    if count < 0:
        return False
    found = places[SEPARATORS:]
    piece = start
    one = np.uint64(1)
    k = np.uint64(0)  # an index without sign needs no test for one counted from the end
    while k < np.uint64(count):
        split, end = found[k], found[k + one]
        if data[np.uint64(split)] != 1 or (end < stop and data[np.uint64(end)] != 2):
            return False
        if split == piece or split >= end - 1:
            return False
        which = property_of(data, piece, split)
        if which >= 0:
            at = np.uint64(2 * which)
            places[at], places[at + one] = split + 1, end
        piece = end + 1
        k += np.uint64(2)
    return piece >= stop


@compiled("void(readonly(uint8[::1]), int64, int64, int64[::1])", forceinline=True)
def find_properties(data: Bytes, start: int, stop: int, places: Numbers) -> None:
    """Fill ``places`` with the value of each known property, 0 and 0 where it is absent.

    A later duplicate wins. A piece that Java's parser drops is remembered under ODD, and under
    UNUSUAL that there are bytes besides separators and printable ASCII.
    """
    if not find_usual(data, start, stop, places):
        find_any(data, start, stop, places)


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


@compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
def space_from(data: Bytes, i: int, stop: int) -> int:
    """Return the index of the first space in ``[i, stop)``, ``stop`` if there is none."""
    while i + LANES <= len(data) and i < stop:
        spaces = equal_mask(data, i, 32) & ((np.int64(1) << min(stop - i, np.int64(LANES))) - 1)
        if spaces != 0:
            return i + trailing_zeros(spaces)
        i += LANES
    while i < stop and data[i] != 32:
        i += 1
    return min(i, stop)


@compiled("int64(readonly(uint8[::1]), int64[::1], int64, int64, int64, int64[:, ::1])", forceinline=True)
def add_keys(data: Bytes, places: Numbers, seed: int, record: int, before: int, keys: Numbers) -> int:
    """Return the number of index keys after this record's were added, -1 where ``keys`` has no room.

    ``seed`` is the Java hash of the topic and ``#``. Rows of ``keys``: key hash, record, kind
    (UNIQUE_KEY, KEYS or TAGS). The tag key comes last; only brokers from 5.4.0 on write it.
    """
    one = np.uint64(1)
    n = np.uint64(before)  # an index without sign needs no test for one counted from the end
    room = np.uint64(keys.shape[1])
    if places[2 * UNIQUE_KEY + 1] > 0:
        if n >= room:
            return np.int64(-1)
        value = java_hash(data, places[2 * UNIQUE_KEY], places[2 * UNIQUE_KEY + 1], seed)
        keys[0, n], keys[1, n], keys[2, n] = absolute_hash(value), record, UNIQUE_KEY
        n += one
    i = places[2 * KEYS]
    stop = places[2 * KEYS + 1]
    while i < stop:
        end = space_from(data, i, stop)
        if end > i:
            if n >= room:
                return np.int64(-1)
            keys[0, n], keys[1, n], keys[2, n] = absolute_hash(java_hash(data, i, end, seed)), record, KEYS
            n += one
        i = end + 1
    if places[2 * TAGS + 1] > 0:
        if n >= room:
            return np.int64(-1)
        value = ((seed * 31 + 84) & 0xFFFFFFFF) * 31 + 35  # "T#" goes before the tag
        value = java_hash(data, places[2 * TAGS], places[2 * TAGS + 1], value)
        keys[0, n], keys[1, n], keys[2, n] = absolute_hash(value), record, TAGS
        n += one
    return np.int64(n)


@compiled("boolean(readonly(uint8[::1]), int64, int64, int64)")
def same_property_crc(data: Bytes, start: int, stop: int, found: int) -> bool:
    """Tell whether the digits ``[start, stop)``, least significant first, say ``found``."""
    value = np.int64(0)
    i = stop - 1
    while i >= start:
        value = (value * 10 + (np.int64(data[i]) - 48)) & 0xFFFFFFFF
        i -= 1
    return value == found

"""Compiled reading of a record's properties: tags code, index keys, batch and dispatch marks.

Source: ``MessageDecoder.string2messageProperties``, ``CommitLog.checkMessageAndReturnSize``,
``IndexService.buildIndex``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.raw import LANES, equal_mask, int32_at, int64_at, trailing_zeros, unusual_mask
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
PLACES: Final = UNUSUAL + 1

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


@compiled("int64(int64, int64, int64)", forceinline=True)
def cut_mask(bits: int, past: int, left: int) -> int:
    """Return a block's mask without the first ``past`` bits, and then without those from ``left`` on."""
    return (bits >> past) & ((np.int64(1) << min(left, np.int64(LANES))) - 1)


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
def find_in_short(data: Bytes, start: int, stop: int, places: Numbers) -> None:
    """Do what ``find_properties`` does, for data shorter than a block; ``places`` are empty."""
    piece = start
    split = np.int64(-1)
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


@compiled("void(readonly(uint8[::1]), int64, int64, int64[::1])")
def find_properties(data: Bytes, start: int, stop: int, places: Numbers) -> None:
    """Fill ``places`` with the value of each known property, 0 and 0 where it is absent.

    A later duplicate wins. A piece that Java's parser drops is remembered under ODD, and under
    UNUSUAL that there are bytes besides separators and printable ASCII.
    """
    for k in range(PLACES):
        places[k] = 0
    if len(data) < LANES:
        find_in_short(data, start, stop, places)
        return
    piece = start
    split = np.int64(-1)  # the first 0x01 of the piece, -1 while there is none
    unusual = np.int64(0)
    i = start
    while i < stop:
        at = min(i, len(data) - LANES)
        splits, ends, low = equal_mask(data, at, 1), equal_mask(data, at, 2), unusual_mask(data, at)
        if at < i or stop - i < LANES:
            splits = cut_mask(splits, i - at, stop - i)
            ends = cut_mask(ends, i - at, stop - i)
            low = cut_mask(low, i - at, stop - i)
        unusual |= low ^ (splits | ends)  # which are low, too
        while ends != 0:
            lowest = ends & -ends
            if split < 0 and splits & (lowest - 1) != 0:
                split = i + trailing_zeros(splits)
            end = i + trailing_zeros(ends)
            take_piece(data, piece, split, end, places)
            piece = end + 1
            split = np.int64(-1)
            splits &= -lowest
            ends ^= lowest
        if split < 0 and splits != 0:
            split = i + trailing_zeros(splits)
        i += LANES
    if piece < stop:
        take_piece(data, piece, split, stop, places)
    places[UNUSUAL] = unusual != 0


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
        spaces = cut_mask(equal_mask(data, i, 32), np.int64(0), stop - i)
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

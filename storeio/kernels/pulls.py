"""Compiled pulls of a consumer where every message is there and decodes.

Source: ``DefaultMessageStore.getMessage`` and ``isTheBatchFull``, ``MessageDecoder.decode``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels.text import int32_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MOST_MESSAGES: Final = 32
TRANSFERRED_BYTES: Final = 256 << 10

PORT_MOST: Final = 0xFFFF
V6_BYTES: Final = log.IPV6_HOST_BYTES - log.IPV4_HOST_BYTES


@compiled("boolean(readonly(uint8[::1]), int64, int64)")
def is_decodable(data: Bytes, i: int, end: int) -> bool:
    """Tell whether every client makes a message of ``[i, end)``; of the second magic and of odd heads it says no."""
    if i < 0 or end > len(data) or end - i < log.MIN_RECORD_BYTES:
        return False
    if int32_at(data, i + log.MAGIC_AT) != log.MAGIC_V1:
        return False
    flags = int32_at(data, i + log.SYS_FLAG_AT)
    born_end = i + log.BORN_HOST_AT + log.IPV4_HOST_BYTES + (V6_BYTES if flags & log.SYS_BORN_V6 else 0)
    store_end = born_end + 8 + log.IPV4_HOST_BYTES + (V6_BYTES if flags & log.SYS_STORE_V6 else 0)
    at = store_end + 12
    if at + 4 > end:
        return False
    born, store, body = int32_at(data, born_end - 4), int32_at(data, store_end - 4), np.int64(int32_at(data, at))
    at += 4 + body
    if born < 0 or born > PORT_MOST or store < 0 or store > PORT_MOST:
        return False
    if body < 0 or at >= end or data[at] > 127:
        return False
    at += 1 + np.int64(data[at])
    if at + 2 > end or data[at] > 127:
        return False
    return at + 2 + (np.int64(data[at]) << 8 | np.int64(data[at + 1])) <= end


@compiled("void(readonly(uint8[::1]), int64, int64[::1], int64[::1], boolean[::1])")
def find_decodable(data: Bytes, origin: int, positions: Numbers, sizes: Numbers, found: Mask) -> None:
    """Tell which records a client can read; byte ``origin`` of their file is the first of ``data``."""
    for k in range(len(positions)):
        i = positions[k] - origin
        found[k] = is_decodable(data, i, i + sizes[k])


@compiled("void(uint8[::1], int64[::1])")
def set_bits(bits: Bytes, numbers: Numbers) -> None:
    """Set these bits; there are as many."""
    for number in numbers:
        bits[number >> 3] |= np.uint8(1 << (number & 7))


@compiled("int64(int64[::1], uint8[::1], int64, boolean)")
def units_pulled(sizes: Numbers, bits: Bytes, first: int, is_end: bool) -> int:
    """Return how many units a consumer's next pulls take, one behind the other, as long as all are of good messages.

    Args:
        sizes: Of the units from where the next pull begins.
        bits: Which units of the file are of messages that are there and decode.
        first: The first unit's number in the file.
        is_end: Whether nothing follows; otherwise a pull that would come to more units is left.
    """
    passed = np.int64(0)
    while passed < len(sizes):
        taken, j = np.int64(0), passed
        while j < len(sizes) and j - passed < MOST_MESSAGES:
            if bits[(first + j) >> 3] >> ((first + j) & 7) & 1 == 0:
                return passed
            if taken != 0 and taken + sizes[j] > TRANSFERRED_BYTES:
                break
            taken += sizes[j]
            j += 1
        if j == len(sizes) and not is_end:
            return passed
        passed = j
    return passed

"""Searches among the units of a consume queue: the last ext address, the first unit that the log still holds.

Source: ``ConsumeQueue``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from storeio.format import queueext
from storeio.format.consumequeue import UNIT_BYTES, Units

OFFSET: Final = struct.Struct(">q")


def last_address(units: Units, before: int) -> int:
    """Return the last address of an ext unit among tags codes, ``before`` if there is none."""
    codes = units["tags_code"].astype(np.int64)
    found = np.flatnonzero(codes <= queueext.MAX_ADDRESS)
    return int(codes[found[-1]]) if len(found) else before


def bisected(data: memoryview, physical_min: int, *, intact: bool) -> int | None:
    """Return the position of the unit that becomes the queue's min, None where it stays.

    ``data`` begins at the min so far; ``intact`` tells whether that one may stay.
    """
    if len(data) < OFFSET.size or (intact and OFFSET.unpack_from(data)[0] >= physical_min):
        return None
    low, high = 0, len(data) - UNIT_BYTES
    while high - low > UNIT_BYTES:
        middle = (low + high) // 2 // UNIT_BYTES * UNIT_BYTES
        value = OFFSET.unpack_from(data, middle)[0]
        if value == physical_min:
            low = high = middle
        elif value > physical_min:
            high = middle
        else:
            low = middle
    for at in range(low, high + 1, UNIT_BYTES):
        if OFFSET.unpack_from(data, at)[0] >= physical_min:
            return at
    return None

"""Which single byte of a record was damaged, where a CRC over all of it decides.

A CRC is linear: what the change of one byte does to it depends on the change and on how many bytes follow, not on what
these are. So the effects of all 255 changes are known for one place, and for the one before it after one step.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format import commitlog as log

Effects = npt.NDArray[np.uint32]
"""What the changes 0 to 255 of one byte do to the CRC."""

_LAST: Final[Effects] = np.array([zlib.crc32(bytes((change,))) ^ zlib.crc32(b"\0") for change in range(256)], np.uint32)


def single_bytes(covered: bytes, difference: int, regions: Sequence[range]) -> Iterator[tuple[int, int]]:
    """Yield place and change of each single byte that would explain a wrong CRC.

    Args:
        covered: The bytes of which the CRC is.
        difference: Between the CRC that they have and the one that they should have, as brokers mask it; not 0.
        regions: Places at which a byte may be damaged.
    """
    for region in regions:
        effects = effects_before(len(covered) - region.stop)
        for place in reversed(region):
            for change in np.flatnonzero(effects & np.uint32(log.CRC_MASK) == difference).tolist():
                yield place, change
            effects = _LAST[effects & np.uint32(0xFF)] ^ effects >> np.uint32(8)


def effects_before(following: int) -> Effects:
    """Return the effects of changes of a byte behind which so many others follow."""
    behind = bytes(following)
    plain = zlib.crc32(behind, zlib.crc32(b"\0"))
    effects = np.zeros(256, np.uint32)
    for bit in range(8):
        low = 1 << bit
        effects[low : 2 * low] = effects[:low] ^ np.uint32(zlib.crc32(behind, zlib.crc32(bytes((low,)))) ^ plain)
    return effects

"""CRC of bodies that are long and many: where many heads claim the same bytes, these are read once, not once a head.

Bytes that only look like heads can claim any length, and a hostile log can have one every hundred bytes. Each is
judged by the CRC of what it claims. So the CRCs of the window's first bytes are kept, one a block: the CRC of any
stretch follows from those at its ends, since what stands in front of ``n`` bytes counts times x**(8n).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio import crc
from storeio.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

LONG_BODY: Final = 16 << 10  # bytes; shorter ones are never many times what there is
BLOCK_BITS: Final = 12
ENOUGH_BYTES: Final = 16 << 20  # in long bodies, besides twice the window: an honest log never comes to that
# Places in the array of what is known of a window: bytes of long bodies so far, blocks with a CRC kept, the first CRC.
(SPENT, KEPT, FIRST) = range(3)


@compiled("int64(int64, int64)")
def product(one: int, other: int) -> int:
    """Return the product of two polynomials modulo that of the CRC, as CRCs are: the lowest power in bit 31."""
    found = np.int64(0)
    for _ in range(32):
        if one & 0x80000000 != 0:
            found ^= other
        one = (one << 1) & 0xFFFFFFFF
        other = (other >> 1) ^ (crc.POLYNOMIAL if other & 1 else 0)
    return found


def powers_of_bytes() -> Numbers:
    """Return x**(8 * d * 16**k), shape ``(8, 16)``: what a digit ``d`` of a number of bytes counts."""
    table = np.empty((8, 16), np.int64)
    byte = 1 << 23  # x**8
    for row in table:
        row[0] = 1 << 31
        for d in range(1, 16):
            row[d] = product(int(row[d - 1]), byte)
        byte = product(int(row[15]), byte)
    return table


POWERS: Final = powers_of_bytes()


@compiled("int64(int64, int64)")
def moved(value: int, count: int) -> int:
    """Return what a CRC counts in front of ``count`` bytes, less than 2**32."""
    for k in range(8):
        digit = (count >> (4 * k)) & 15
        if digit:
            value = product(value, POWERS[k, digit])
    return value


@compiled("int64(int64)")
def places_for(count: int) -> int:
    """Return how long the array is for a window of ``count`` bytes."""
    return FIRST + (count >> BLOCK_BITS) + 1


@compiled("uint32(int64, int64, readonly(uint8[::1]), int64, int64, int64[::1])")
def crc_by_blocks(address: int, kind: int, data: Bytes, start: int, stop: int, blocks: Numbers) -> int:
    """CRC of ``data[start:stop]``, of blocks that are known already only once; ``blocks`` has room for all."""
    first = (start + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS
    last = stop >> BLOCK_BITS
    if first >= last:
        return crc.body_crc(address, kind, data, start, stop)
    while blocks[KEPT] < last:
        k = blocks[KEPT]
        own = crc.body_crc(address, kind, data, k << BLOCK_BITS, (k + 1) << BLOCK_BITS)
        blocks[FIRST + k + 1] = moved(blocks[FIRST + k], 1 << BLOCK_BITS) ^ np.int64(own)
        blocks[KEPT] = k + 1
    between = blocks[FIRST + last] ^ moved(blocks[FIRST + first], (last - first) << BLOCK_BITS)
    head = np.int64(crc.body_crc(address, kind, data, start, first << BLOCK_BITS))
    tail = np.int64(crc.body_crc(address, kind, data, last << BLOCK_BITS, stop))
    found = moved(moved(head, (last - first) << BLOCK_BITS) ^ between, stop - (last << BLOCK_BITS)) ^ tail
    return np.uint32(found)  # type: ignore[return-value, unused-ignore]


@compiled("uint32(int64, int64, readonly(uint8[::1]), int64, int64, int64[::1])")
def long_crc(address: int, kind: int, data: Bytes, start: int, stop: int, blocks: Numbers) -> int:
    """CRC of ``data[start:stop]``, a long body; ``blocks`` is kept for the window, with or without room for blocks."""
    blocks[SPENT] += stop - start
    if blocks[SPENT] <= 2 * len(data) + ENOUGH_BYTES or len(blocks) <= FIRST + (stop >> BLOCK_BITS):
        return crc.body_crc(address, kind, data, start, stop)
    return crc_by_blocks(address, kind, data, start, stop, blocks)

"""CRCs of long bodies that many heads claim: those of each body alone, whatever of the window is known already."""

from __future__ import annotations

import random
import zlib
from itertools import product

import numpy as np
import pytest

from storeio import crc
from storeio.kernels import longcrc

BLOCK = 1 << longcrc.BLOCK_BITS
DATA = np.random.default_rng(3).integers(0, 256, 50 * BLOCK + 77, dtype=np.uint8)
EDGES = sorted({at + d for at in (0, BLOCK, 2 * BLOCK, 31 * BLOCK, len(DATA) - 77) for d in (-1, 0, 1) if at + d >= 0})


def nothing_known() -> np.ndarray:
    return np.zeros(int(longcrc.places_for(len(DATA))), np.int64)


def by_blocks(start: int, stop: int, blocks: np.ndarray) -> int:
    return int(longcrc.crc_by_blocks(crc.ADDRESS, crc.KIND, DATA, start, stop, blocks))


@pytest.mark.parametrize("anew", [True, False])
def test_any_stretch(anew: bool) -> None:
    chance, blocks = random.Random(4), nothing_known()
    stretches = [(start, stop) for start, stop in product([*EDGES, len(DATA)], repeat=2) if start <= stop]
    stretches += [tuple(sorted(chance.choices(range(len(DATA) + 1), k=2))) for _ in range(300)]
    chance.shuffle(stretches)
    for start, stop in stretches:
        blocks = nothing_known() if anew else blocks
        assert by_blocks(start, stop, blocks) == zlib.crc32(DATA[start:stop].data), (start, stop)
    assert anew or blocks[longcrc.KEPT] == len(DATA) // BLOCK


@pytest.mark.parametrize("count", [0, 1, 15, 16, 4096, 2**29, 2**32 - 1])
def test_a_crc_in_front_of_zeros(count: int) -> None:
    """That of a message and that of zeros differ by what the message counts in front of them."""
    if count <= BLOCK:
        value = zlib.crc32(b"message" + bytes(count)) ^ zlib.crc32(bytes(count))
        assert int(longcrc.moved(zlib.crc32(b"message"), count)) == value
    half = count // 2
    assert int(longcrc.moved(longcrc.moved(77, half), count - half)) == int(longcrc.moved(77, count))


def test_blocks_are_used_where_bodies_are_many_times_the_window_and_there_is_room() -> None:
    blocks, narrow = nothing_known(), np.zeros(longcrc.FIRST, np.int64)
    bodies = (longcrc.ENOUGH_BYTES + 2 * len(DATA)) // len(DATA) + 3
    seen = []
    for _ in range(bodies):
        for kept in (blocks, narrow):
            found = int(longcrc.long_crc(crc.ADDRESS, crc.KIND, DATA, 5, len(DATA), kept))
            assert found == zlib.crc32(DATA[5:].data)
        seen.append(int(blocks[longcrc.KEPT]))
    assert seen[0] == 0
    assert seen[-1] == len(DATA) // BLOCK

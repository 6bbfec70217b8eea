"""Compiled count of values of which a column is expected to hold few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled

Numbers = npt.NDArray[np.int64]


SLOTS = 64
SPREAD = 0x9E3779B97F4A7C15 - 2**64  # its product's highest bits differ where any bits of a value do


@compiled("int64(readonly(int64[::1]), int64[::1], int64[::1], int64[::1])", _nrt=True)
def count_few(column: Numbers, values: Numbers, counts: Numbers, first: Numbers) -> int:
    """Return how many different values there are, -1 where ``values`` has no room for them.

    Fills ``values``, how often each occurs, and the row of its first occurrence; all three are as long.
    """
    latest = np.zeros(SLOTS, np.int64)  # the index of a value of that slot, the one seen last: where to look first
    n = np.int64(0)
    for row in range(len(column)):
        value = column[row]
        slot = np.uint64(value * SPREAD) >> np.uint64(58)
        k = latest[slot]
        if n == 0 or values[k] != value:
            k = np.int64(0)
            while k < n and values[k] != value:
                k += 1
            if k == n:
                if n == len(values):
                    return np.int64(-1)
                values[n], counts[n], first[n] = value, 0, row
                n += 1
            latest[slot] = k
        counts[k] += 1
    return n

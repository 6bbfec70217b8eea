"""Compiled count of values of which a column is expected to hold few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled

Numbers = npt.NDArray[np.int64]


@compiled("int64(readonly(int64[::1]), int64[::1], int64[::1], int64[::1])")
def count_few(column: Numbers, values: Numbers, counts: Numbers, first: Numbers) -> int:
    """Return how many different values there are, -1 where ``values`` has no room for them.

    Fills ``values``, how often each occurs, and the row of its first occurrence; all three are as long.
    """
    n = np.int64(0)
    k = np.int64(0)
    for row in range(len(column)):
        value = column[row]
        if n == 0 or values[k] != value:
            k = np.int64(0)
            while k < n and values[k] != value:
                k += 1
            if k == n:
                if n == len(values):
                    return np.int64(-1)
                values[n], counts[n], first[n] = value, 0, row
                n += 1
        counts[k] += 1
    return n

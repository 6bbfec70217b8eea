"""Compiled reading ahead of a walk: the CPU by itself does not look beyond a page, and waits at each record.

Without it a walk that leaves bodies unread takes twice the time, and one that checks them a sixth more.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.memory import fetch_bytes

Bytes = npt.NDArray[np.uint8]

LINE_BYTES: Final = 64
FETCHED_AHEAD: Final = 2048  # 1 to 8 KiB are equally fast
MOST_FETCHED: Final = 4096  # of a long record: within it the CPU looks ahead well enough


@compiled("void(readonly(uint8[::1]), int64, int64)", forceinline=True)
def fetch_record(data: Bytes, i: int, size: int) -> None:
    """Have what lies a little behind the record of ``size`` bytes at ``i`` brought into the cache.

    As many bytes as the record has, so that a walk fetches each line once; any ``size`` will do.
    """
    for k in range(min(max(size, 0), MOST_FETCHED) // LINE_BYTES + 1):
        fetch_bytes(data, i + FETCHED_AHEAD + k * LINE_BYTES)

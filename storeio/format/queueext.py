"""Queue ext units: variable-length companions of consume queue units, only with a setting.

A consume queue unit names one by an address in its ``tags_code``: file position plus
``Long.MIN_VALUE``. Tag hashes are never that small.

Source: ``org.apache.rocketmq.store.ConsumeQueueExt``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import LayoutError

HEAD: Final = np.dtype(
    [
        ("size", ">i2"),  # byte 0: 20 plus the bitmap, 1..32767; -1 closes a file
        ("tags_code", ">i8"),  # byte 2
        ("store_timestamp_ms", ">i8"),  # byte 10
        ("bitmap_length", ">i2"),  # byte 18, bytes
    ]
)
HEAD_BYTES: Final = HEAD.itemsize
END_MARK: Final = -1
END_SPARE_BYTES: Final = 4  # at least so many stay free at the end of each file
ADDRESS_BASE: Final = -(2**63)
MAX_ADDRESS: Final = -(2**31) - 1


def is_address(tags_code: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which tags codes of consume queue units are addresses of ext units."""
    return tags_code <= MAX_ADDRESS


def position_of(address: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the byte position in the queue's ext files that each address names."""
    return address.astype(np.int64) - ADDRESS_BASE


def decode_head(data: bytes | memoryview) -> npt.NDArray[np.void]:
    """View bytes as ext heads.

    Raises:
        LayoutError: The length is not a multiple of ``HEAD.itemsize``.
    """
    view = memoryview(data).toreadonly()
    if view.nbytes % HEAD.itemsize:
        raise LayoutError(f"{view.nbytes} bytes are not whole {HEAD.itemsize}-byte heads")
    return np.frombuffer(view, dtype=HEAD)

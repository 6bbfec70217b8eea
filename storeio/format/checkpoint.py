"""The broker's checkpoint: six numbers at the start of 4096 bytes.

Source: ``org.apache.rocketmq.store.StoreCheckpoint``; the last field since 5.5.0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storeio.errors import LayoutError

FILE_BYTES: Final = 4096
CHECKPOINT: Final = np.dtype(
    [
        ("physical_timestamp_ms", ">i8"),  # byte 0: store time of the last flushed record
        ("logic_timestamp_ms", ">i8"),  # byte 8: of the last record dispatched to a queue
        ("index_timestamp_ms", ">i8"),  # byte 16: end of the last index file that rolled
        ("master_flushed_offset", ">i8"),  # byte 24: since 5.0.0
        ("confirm_physical_offset", ">i8"),  # byte 32: since 5.1.1
        ("logic_physical_offset", ">i8"),  # byte 40: since 5.5.0
    ]
)
CHECKPOINT_BYTES: Final = CHECKPOINT.itemsize


def decode(data: bytes | memoryview) -> np.void:
    """Return the six fields; the rest of the file says nothing.

    Raises:
        LayoutError: Fewer bytes than the fields need.
    """
    if memoryview(data).nbytes < CHECKPOINT_BYTES:
        raise LayoutError(f"{memoryview(data).nbytes} bytes are less than a checkpoint")
    fields: np.void = np.frombuffer(data, dtype=CHECKPOINT, count=1)[0]
    return fields

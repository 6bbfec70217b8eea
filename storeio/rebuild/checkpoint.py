"""A checkpoint that says what is true of the log and of what was rebuilt from it.

Source: ``StoreCheckpoint``.
"""

from __future__ import annotations

import numpy as np

from storeio.format import checkpoint as layout


def checkpoint_bytes(
    last: tuple[int, int] | None, last_queued: tuple[int, int] | None, *, rolled_index_ms: int, flushed_offset: int = 0
) -> bytes:
    """Return the file's 4096 bytes.

    Args:
        last: Physical offset and store time of the last record.
        last_queued: The same of the last one that enters a queue.
        rolled_index_ms: End of the last index file that has a successor, 0 without.
        flushed_offset: ``masterFlushedOffset``, which no log tells.
    """
    fields = np.zeros((), layout.CHECKPOINT)
    offset, store_ms = last or (0, 0)
    queued_offset, queued_ms = last_queued or (0, 0)
    fields[()] = (store_ms, queued_ms, rolled_index_ms, flushed_offset, offset, queued_offset)
    return fields.tobytes().ljust(layout.FILE_BYTES, b"\0")

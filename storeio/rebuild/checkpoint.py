"""A checkpoint that says what is true of the log and of what was rebuilt from it.

Source: ``StoreCheckpoint``.
"""

from __future__ import annotations

import numpy as np

from storeio.format import checkpoint as layout


def index_ms(rolled_ms: int, last_ms: int, *, vouches: bool, aborted: bool) -> int:
    """Return which end of an index file a checkpoint has to name, Unix ms.

    After a crash a recovery deletes index files that end later, and fills new ones from its start file on only: where
    the index is as the log says it is told to keep all of it. Brokers name no file before it is full.

    Args:
        rolled_ms: End of the last index file that has a successor, 0 without.
        last_ms: End of the last one, 0 without.
        vouches: The index is as the log says.
        aborted: The next start is one after a crash.
    """
    return max(rolled_ms, last_ms) if vouches and aborted else rolled_ms


def checkpoint_bytes(
    last: tuple[int, int] | None, last_queued: tuple[int, int] | None, *, index_ms: int, flushed_offset: int = 0
) -> bytes:
    """Return the file's 4096 bytes.

    Args:
        last: Physical offset and store time of the last record.
        last_queued: The same of the last one that enters a queue.
        index_ms: As ``index_ms`` returns it.
        flushed_offset: ``masterFlushedOffset``, which no log tells.
    """
    fields = np.zeros((), layout.CHECKPOINT)
    offset, store_ms = last or (0, 0)
    queued_offset, queued_ms = last_queued or (0, 0)
    fields[()] = (store_ms, queued_ms, index_ms, flushed_offset, offset, queued_offset)
    return fields.tobytes().ljust(layout.FILE_BYTES, b"\0")

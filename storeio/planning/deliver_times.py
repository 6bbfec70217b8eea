"""Deliver times of delayed messages that the store's own units have, under other delay levels than are known now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from storeio.checks.deliver_times import is_deliver_time
from storeio.format import commitlog as log
from storeio.format.consumequeue import UNIT, UNIT_BYTES
from storeio.paths import CONSUMEQUEUE
from storeio.planning.target import Target


def keep_deliver_times(root: Path, rebuilt: Path, target: Target, delays_ms: Sequence[int]) -> None:
    """Put them into a rebuilt queue's files, which are changed: no repair has a message delivered at another time.

    Args:
        root: Of the store as it is planned so far.
        rebuilt: Directory of a rebuild of it.
        target: The queue; of others than those of delayed messages nothing is done.
        delays_ms: With which it was rebuilt.
    """
    if target.kind != CONSUMEQUEUE or target.topic != log.SCHEDULE_TOPIC:
        return
    level = min(target.queue_id + 1, len(delays_ms) - 1)  # brokers take a level above the highest for that
    for path in sorted((rebuilt / target.directory).glob("*")):
        own = root / target.directory / path.name
        count = min(own.stat().st_size, path.stat().st_size) // UNIT_BYTES if own.is_file() else 0
        if count:
            old, new = np.memmap(own, UNIT, "r", shape=(count,)), np.memmap(path, UNIT, "r+", shape=(count,))
            known = new["tags_code"].astype(np.int64)
            kept = is_deliver_time(old["tags_code"].astype(np.int64), known - delays_ms[level])
            kept &= (old["physical_offset"] == new["physical_offset"]) & (old["size"] == new["size"])
            new["tags_code"][kept] = old["tags_code"][kept]

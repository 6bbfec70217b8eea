"""How many cores a bench has: a thread that waits, or flushes, must not be helped by one that nobody counted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def on_cores(count: int) -> None:
    """Keep this process, threads that it has included, on so many cores; nothing changes where that cannot be told.

    Raises:
        ValueError: This machine does not have so many.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    there = sorted(os.sched_getaffinity(0))
    if count > len(there):
        raise ValueError(f"{count} cores are asked for, {len(there)} are there")
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), there[:count])


@contextlib.contextmanager
def children_on(count: int) -> Iterator[None]:
    """Have processes that are begun in the block on so many cores; nothing changes where that cannot be told."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    there = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(there)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, there)

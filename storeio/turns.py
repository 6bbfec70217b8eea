"""How many threads work, and that they take turns where all they do is to ask the system for a little, again and again.

With each call a thread lets go of the interpreter, and waits to have it back. Two that do so thousands of times
spend more time waking each other than working: together they take longer than one alone. What goes on beside them,
walking and large reads, is not held up.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from storeio.errors import UsageError

MANY: Final = 128  # calls; fewer are not worth waiting for

_turn: Final = threading.Lock()


def turn(calls: int) -> AbstractContextManager[Any]:
    """Return what a block with so many calls is run under: one thread at a time where they are many."""
    return _turn if calls >= MANY else nullcontext()


def thread_count(jobs: int | None) -> int:
    """Return how many threads are to work: as many as are asked for, else one a core.

    Raises:
        UsageError: Fewer than one.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} threads: at least one is needed")
    return jobs or os.cpu_count() or 1

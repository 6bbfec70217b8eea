"""What a process sets that is ours alone: the command line's, and a bench's that stands for it."""

from __future__ import annotations

import gc
import os
import signal
from typing import Final

COLLECTED_AFTER: Final = (20_000, 20, 10)  # objects, then collections
BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"


def own_process() -> None:
    """Have Python look for garbage less often, and SIGTERM stop the work; a library leaves it to its caller.

    To be called before numpy is imported.

    Importing numba makes half a million objects that stay; by default they are looked at in vain again and again,
    for a tenth of a short run.
    """
    gc.set_threshold(*COLLECTED_AFTER)
    # numpy's linear algebra, of which we have none, starts a thread a core that turns for a tenth of a second.
    os.environ.setdefault(BLAS_THREADS, "1")
    stop_when_asked()


def stop_when_asked() -> None:
    """Have SIGTERM, which service managers and ``timeout`` send, stop the work as Ctrl-C does: cleaned up, and said."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)

"""Memory of workers, which live for many tasks: what one task freed shall not stay with the process in the next."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from functools import cache


@contextlib.contextmanager
def freed_at_end() -> Iterator[None]:
    """Run the block of a task, then give freed memory back to the system, where the C library can do that."""
    try:
        yield
    finally:
        _trim()


def _trim() -> None:
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    """Return glibc's ``malloc_trim``, None with another C library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)

"""Holes of files: stretches that were never written, which are zeros and which their file system tells, if asked."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Final

BLOCK_BYTES: Final = 512  # in which a system counts what a file takes, whatever the file system's own are
TMPFS_MAGIC: Final = 0x01021994
STATFS_BYTES: Final = 256  # more than the system writes; it begins with the file system's number, a ``long``


def is_sparse(status: os.stat_result) -> bool:
    """Tell whether a file takes less than its length."""
    return status.st_blocks * BLOCK_BYTES < status.st_size


def lies_in_memory(handle: int) -> bool:
    """Tell whether an open file is one of a file system in memory, whose holes are filled where they are mapped."""
    return sys.platform.startswith("linux") and _number_of_file_system()(handle) == TMPFS_MAGIC


@functools.cache
def _number_of_file_system() -> Callable[[int], int]:
    function = ctypes.CDLL(None).fstatfs
    function.argtypes = [ctypes.c_int, ctypes.c_void_p]

    def number(handle: int) -> int:
        told = (ctypes.c_long * (STATFS_BYTES // ctypes.sizeof(ctypes.c_long)))()
        return told[0] if function(handle, told) == 0 else 0

    return number


def hole_bytes(handle: int, start: int, stop: int) -> int:
    """Return how many bytes of an open file from ``start`` on are a hole, which is zeros and need not be read.

    None behind the file's end, and none where the file system does not tell.
    """
    try:
        data = os.lseek(handle, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            return 0
        data = os.fstat(handle).st_size  # no data up to there
    except AttributeError:
        return 0  # a system that does not tell
    return max(min(data, stop) - start, 0)


def data_stretches(handle: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of an open file from ``start`` to ``stop`` that are no holes; all where that is not told.

    Behind the file's end everything counts as data: whoever reads it finds out that it is not there.
    """
    while start < stop:
        start += hole_bytes(handle, start, stop)
        try:
            end = os.lseek(handle, start, os.SEEK_HOLE)
        except (OSError, AttributeError):
            end = stop
        end = min(end, stop) if end > start else stop  # a hole where data was told a moment ago
        if start < end:
            yield start, end
        start = end

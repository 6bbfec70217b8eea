"""The page cache: what of a store lies in it before something is timed, in pages of which size; and free memory.

Whoever reads a file first decides on the size of its pages, and mapping many small ones costs a third
of an audit. An audit that finds a file on the disk has it read in huge pages where the file system can.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

THREADS: Final = 16
FREE_BYTES: Final = 2 << 30  # more than what is timed asks for


def files_of(root: Path) -> Iterator[Path]:
    """Yield a store's files that hold bytes."""
    return (path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size)


def drop(root: Path) -> None:
    """Have a store forgotten; what is still to be written to the disk is written first."""
    os.sync()
    for path in files_of(root):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def touch(root: Path) -> None:
    """Have all of a store in memory, as far as it fits, and nothing left to be written, right before a run is timed.

    What ran before leaves pages that the system writes in its own time, which would fall into the next run. And a
    host may take pages from a virtual machine that lie untouched for seconds, those that are free and even those in
    its page cache; to have them again takes up to two seconds a GiB, whoever needs them first.
    """
    os.sync()
    for path in files_of(root):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            pages = np.frombuffer(mapped, np.uint8)[:: mmap.PAGESIZE]
            pages.sum()
            del pages  # it keeps the mapping open
    _touch_free()


def _touch_free() -> None:
    """Have the memory that the next process is given be there; last of all, since the host soon takes it again."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    with mmap.mmap(-1, min(FREE_BYTES, max(free // 2, mmap.PAGESIZE))) as room:
        pages = np.frombuffer(room, np.uint8)[:: mmap.PAGESIZE]
        pages[:] = 1
        del pages


def read_in_small_pages(root: Path) -> None:
    """Have a store read in pages of the smallest size, as a broker leaves what it wrote through mappings."""
    drop(root)
    for path in files_of(root):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)  # nothing is read ahead
            with ThreadPoolExecutor(THREADS) as pool:
                pages = range(0, path.stat().st_size, mmap.PAGESIZE)
                # One byte each, many at a time, since the disk is asked for every page by itself.
                list(pool.map(lambda part, handle=handle: _touch(handle, part), _parts(pages)))
        finally:
            os.close(handle)


def _parts(pages: range) -> Iterator[range]:
    step = max(len(pages) // (8 * THREADS), 1)
    return (pages[i : i + step] for i in range(0, len(pages), step))


def _touch(handle: int, pages: range) -> None:
    for position in pages:
        os.pread(handle, 1, position)

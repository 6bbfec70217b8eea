"""Commits to Delta tables that others commit to at the same time: when and how often one is tried again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from delta.exceptions import DeltaConcurrentModificationException
from pyspark.errors import PySparkException

from storeio.commands.console import complain
from storeio.uris import is_remote, place_of, shown

R = TypeVar("R")

TRIES: Final = 8
LONGEST_WAIT: Final = 0.5  # before another attempt with Spark, seconds
POLL_SECONDS: Final = 0.1
QUIET_POLLS: Final = 50  # commits take less, rows of records may take hours

stopped: Final = threading.Event()
"""The job is being stopped, of which only its main thread is told."""


def pause(attempt: int, longest_seconds: float) -> None:
    """Wait before another attempt, the longer the more there were, so that not all come again at one time."""
    time.sleep(random.uniform(longest_seconds / 5, longest_seconds) * (attempt + 1))


def each_of(work: Callable[[str], None], names: Iterable[str]) -> None:
    """Do the work for every table; a commit mostly waits, so several at a time."""
    stopped.clear()
    with ThreadPoolExecutor(max_workers=8) as pool:
        try:
            list(pool.map(work, names))
        except KeyboardInterrupt:
            stopped.set()
            raise


@contextlib.contextmanager
def alone_at(path: str) -> Iterator[None]:
    """Keep others that ask for it from a table on a local disk meanwhile; not where its directory cannot be locked.

    Spark's writer looks whether the name of its commit is free, and then renames, which replaces a commit that got this
    name in between: the rows of that would be gone, with nobody told.

    Source: ``HDFSLogStore`` of Delta, ``RawLocalFileSystem.rename`` of Hadoop.
    """
    with contextlib.ExitStack() as held:
        if not is_remote(path):
            with contextlib.suppress(OSError):  # whoever writes there says what is wrong with it
                os.makedirs(place_of(path), exist_ok=True)
                handle = os.open(place_of(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                held.callback(os.close, handle)
                _lock(handle, path)
        yield


def _lock(handle: int, path: str) -> None:
    """Lock a directory; that this takes long is said.

    Raises:
        KeyboardInterrupt: The job was stopped meanwhile.
    """
    polls = 0
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        polls += 1
        if polls == QUIET_POLLS:
            complain(f"{shown(path)}: another run writes there; waiting for its end")
        if stopped.wait(POLL_SECONDS):
            raise KeyboardInterrupt


def retried(commit: Callable[[], R], path: str) -> R:
    """Return what the commit to a table returns, tried again where another run's commit came in between."""
    for attempt in range(TRIES):
        try:
            with alone_at(path):
                return commit()
        except (DeltaConcurrentModificationException, PySparkException) as error:
            if attempt == TRIES - 1 or not is_conflict(error):
                raise
            pause(attempt, LONGEST_WAIT)
    raise AssertionError("not reached")


def is_conflict(error: Exception) -> bool:
    """Tell whether another commit at the same time is to blame, e.g. one that made the table first."""
    if isinstance(error, DeltaConcurrentModificationException):
        return True
    return any(word in str(error) for word in ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"))

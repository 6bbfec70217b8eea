"""Commits to Delta tables that others commit to at the same time: when and how often one is tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from delta.exceptions import DeltaConcurrentModificationException
from pyspark.errors import PySparkException

R = TypeVar("R")

TRIES: Final = 8
LONGEST_WAIT: Final = 0.5  # before another attempt with Spark, seconds


def pause(attempt: int, longest_seconds: float) -> None:
    """Wait before another attempt, the longer the more there were, so that not all come again at one time."""
    time.sleep(random.uniform(longest_seconds / 5, longest_seconds) * (attempt + 1))


def retried(commit: Callable[[], R]) -> R:
    """Return what the commit returns, tried again where another run's commit came in between."""
    for attempt in range(TRIES):
        try:
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

"""Executors of a cluster come one by one after a session has begun; jobs are cut for those that are there."""

from __future__ import annotations

import time
from typing import Final

from pyspark import SparkContext

from storeio.commands.console import complain
from storeio.errors import StoreError

SETTLED_SECONDS: Final = 1.0  # without another one: these are all
MOST_SECONDS: Final = 30.0  # for the rest, once one is there
NOTICE_SECONDS: Final = 15.0  # without any, until somebody is told; a full cluster may be worth waiting for
LOOK_SECONDS: Final = 0.1


class ClusterError(StoreError, OSError):
    """There is no cluster to work on: its master is not reached, or it gave up the application."""


def executors_of(context: SparkContext) -> int | None:
    """Return how many executors there are, None if Spark has ended."""
    scala = context._jsc.sc() if context._jsc is not None else None
    if scala is None or scala.isStopped():
        return None
    return int(scala.getExecutorMemoryStatus().size()) - 1  # the driver is listed, too


def wait_for_executors(context: SparkContext) -> int:
    """Return how many executors there are, once one is there and no more come.

    Without this the first job of a session is cut for two cores, however large the cluster is; and where no worker has
    room nothing would ever be said.

    Raises:
        ClusterError: Spark has ended: the master is gone, or it ended the application.
    """
    begun = changed = time.monotonic()
    known, noticed = 0, False
    while True:
        count, now = executors_of(context), time.monotonic()
        if count is None:
            raise ClusterError(f"{context.master}: the cluster ended this application")
        if count != known:
            known, changed = count, now
        if known and (now - changed >= SETTLED_SECONDS or now - begun >= MOST_SECONDS):
            return known
        if not known and not noticed and now - begun >= NOTICE_SECONDS:
            complain(f"{context.master}: no executor yet; does a worker have memory and a core to spare?")
            noticed = True
        time.sleep(LOOK_SECONDS)

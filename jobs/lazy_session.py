"""The session of a job that starts where it is first needed: tables on a local disk mostly do without."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from jobs.common import build_session

Spark = SparkSession | Callable[[], SparkSession]
"""A session, or what starts the job's where it is needed."""


def session_later(app_name: str, *, master: str | None = None) -> Callable[[], SparkSession]:
    """Return what starts the session of this process where it is first called, and then returns it, in any thread.

    It raises what ``build_session`` does.
    """
    lock = threading.Lock()

    def session() -> SparkSession:
        with lock:
            return build_session(app_name, master=master)

    return session


def session_of(spark: Spark) -> SparkSession:
    """Return the session, started if it was not."""
    return spark if isinstance(spark, SparkSession) else spark()

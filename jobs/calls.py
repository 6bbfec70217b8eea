"""What jobs that have a report on each store have in common: one call, its reports, its tables and exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from jobs import tables
from jobs.lazy_session import Spark
from storeio.commands.console import coloured, explain
from storeio.commands.options import failure_of
from storeio.commands.outputs import Sink, put, say
from storeio.config import Given
from storeio.errors import StoreError
from storeio.report import to_json
from storeio.report.parsed import Failure
from storeio.results import EXIT_SOUND
from storeio.uris import shown


class Done(Protocol):
    """What has become of a store."""

    @property
    def exit_code(self) -> int:
        """Its bits of the call's exit code."""


D = TypeVar("D", bound=Done)


class StoreCall(Generic[D]):
    """One call of a job: what was asked for, where JSON lines go, and what has become of the stores."""

    def __init__(self, args: argparse.Namespace, given: Given, sink: Sink) -> None:
        """Begin with nothing done."""
        self.args, self.given, self.sink = args, given, sink
        self.done: list[D] = []
        self.failed: list[Failure] = []
        self.exit_code = EXIT_SOUND

    def fail(self, store: str, error: Exception) -> None:
        """Say why there is nothing of a store; the others go on."""
        code, told = failure_of(error, store)
        self.sink.put(to_json(told))
        self.failed.append(Failure(shown(store), shown(str(error) or type(error).__name__), code))
        self.exit_code |= code

    def as_object(self, result: D) -> dict[str, Any]:
        """Return a result as JSON has it."""
        raise NotImplementedError

    def as_sentence(self, result: D) -> str:
        """Return what a result comes to, in one line."""
        raise NotImplementedError

    def as_text(self, result: D) -> str:
        """Return a result for people."""
        raise NotImplementedError

    def report(self, result: D) -> None:
        """Tell what was made of a store, and keep it."""
        self.sink.put(to_json(self.as_object(result)))
        self.exit_code |= result.exit_code
        if self.args.json != "-" and self.args.quiet:
            self.exit_code |= say(self.as_sentence(result))
        elif self.args.json != "-":
            self.exit_code |= say(("\n" if self.done else "") + coloured(self.as_text(result).removesuffix("\n")))
        self.done.append(result)


def kept(
    spark: Spark,
    where: str,
    run_id: str,
    runs: str,
    frames: Callable[[], Mapping[str, DataFrame | pa.Table]],
    *,
    made: bool,
    quiet: bool,
) -> int:
    """Write a run's tables and return the bits of what went wrong; the reports stand, and so do theirs.

    A run that ``made`` nothing is not finished, so that the same call may work another time: of it nothing is written.
    """
    if not made:
        return EXIT_SOUND
    try:
        tables.write_run(spark, where, run_id, frames(), runs=runs)
    except StoreError as error:
        return explain(error)
    if not quiet:
        tell_run(run_id, where)
    return EXIT_SOUND


def tell_run(run_id: str, where: str) -> None:
    """Say where a run's rows are, by what id."""
    put(sys.stderr, f"run {run_id} is in {shown(where)}")

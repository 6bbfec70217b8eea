"""What the jobs that read stores share: their options, and what is refused before anything is read."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext

from jobs.common import job_parser
from storeio.commands.console import settings_of
from storeio.config import Given
from storeio.errors import UsageError
from storeio.incremental.choice import parse_seconds, parse_share
from storeio.output.targets import followed, is_inside, refuse_inside
from storeio.safe import printable
from storeio.uris import is_remote, parsed, place_of, shown

T = TypeVar("T")

MOST: Final = 2**31 - 1  # what Spark takes as an int, and as seconds or days still fits its longs as milliseconds
MOST_BYTES: Final = 2**63 - 1
LONGEST: Final = 40
RECHECK: Final = "1/30"  # so that a nightly audit has read every byte within a month


class JvmErrors(io.TextIOBase):
    """Standard error of the JVM that spark-submit started.

    spark-submit joins our two outputs into its standard output, where ``--json -`` must stand alone.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write through the gateway; what comes after its end is lost, as it would be without a reader."""
        with contextlib.suppress(Py4JError, OSError):
            self._stream.print(text)
        return len(text)


def separate_errors() -> None:
    """Give standard error back to a job that spark-submit runs; nothing elsewhere."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ or isinstance(sys.stderr, JvmErrors):
        return
    SparkContext._ensure_initialized()
    if SparkContext._jvm is not None:
        sys.stderr = JvmErrors(SparkContext._jvm.java.lang.System.err)


def store_parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all jobs and those of jobs that walk logs."""
    parser = job_parser(name, description)
    parser.add_argument("--jobs", metavar="N", type=positive, help="cores of this machine, where --master is not given")
    size = functools.partial(positive, most=MOST_BYTES)
    parser.add_argument("--split-bytes", metavar="N", type=size, help="bytes of the log that are walked at a time")
    return parser


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Add the options of incremental audits."""
    add = parser.add_argument
    add("--incremental", action="store_true", help="read only what is new or has changed, and a share of the rest")
    add("--recheck", metavar="SHARE", help=f"what of the rest is read again, for --incremental (default: {RECHECK})")
    add("--time-budget", metavar="TIME", help="begin no part after so long, as in 20m; for --incremental")


def schedule_of(args: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments with the share and the time as numbers.

    Raises:
        UsageError: They are none, or mean nothing without ``--incremental``.
    """
    for option, value in (("--recheck", args.recheck), ("--time-budget", args.time_budget)):
        if value is not None and not args.incremental:
            raise UsageError(f"{option} {value}: needs --incremental")
    args.recheck = _read("--recheck", parse_share, args.recheck or RECHECK)
    args.time_budget = _read("--time-budget", parse_seconds, args.time_budget) if args.time_budget else None
    return args


def _read(option: str, parse: Callable[[str], T], text: str) -> T:
    """Return an option's value; what is wrong with it names the option."""
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{option} {error}") from error


def positive(text: str, most: int = MOST) -> int:
    """Return a number above 0.

    Raises:
        ArgumentTypeError: It is none, or more than ``most``.
    """
    # Python reads no more than 4300 digits, and so many nobody means.
    number = int(text) if text.isdecimal() and len(text) <= LONGEST else 0
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(f"{text[:LONGEST]}: not a number from 1 to {most}")
    return number


def master_of(args: argparse.Namespace) -> str | None:
    """Return where to run, None for the session's default."""
    return args.master or (f"local[{args.jobs}]" if args.jobs else None)


def stores_of(args: argparse.Namespace, donors: Iterable[str] = ()) -> list[str]:
    """Return the roots of the stores, each once, however often and by whatever name it is given.

    Raises:
        UsageError: The tables or the report would lie inside a store or a donor, which are never written.
    """
    named: dict[object, str] = {}
    for store in map(place_of, args.stores):
        named.setdefault(_identity(store), store)
    stores = list(named.values())
    for store in (*stores, *map(place_of, donors)):
        for option, target in (("--tables", place_of(args.tables)), ("--json", args.json)):
            if target not in (None, "-") and is_inside(target, store):
                raise UsageError(
                    f"{option} {shown(target)}: lies inside the store {shown(store)}, which is never written"
                )
    refuse_inside("--tables", args.tables)
    return stores


def require_text(stores: Iterable[str], what: str) -> None:
    """Raise if a root is no text, which is all that Spark's readers can be given.

    Raises:
        UsageError: It is not.
    """
    for store in stores:
        try:
            store.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{printable(store)}: is no UTF-8 text; {what} cannot be read from there") from None


def _identity(store: str) -> object:
    if is_remote(store):
        uri = parsed(store)
        return uri.scheme, uri.host, uri.path
    return followed(store)


def given_of(args: argparse.Namespace, outputs: Mapping[str, str | Path | None] | None = None) -> Given:
    """Return the broker settings of ``--conf`` and ``--set``; no output, of which ``--json`` is one, replaces a file.

    Raises:
        UsageError: The file cannot be read, or an output would replace it or another; an unknown setting, a bad value.
    """
    told = {"--json": args.json, **(outputs or {})}
    return settings_of(args.conf, args.settings, told, quiet=args.quiet)


def source_options(args: argparse.Namespace, given: Given) -> dict[str, str]:
    """Return the options of the data source that say the same as the job's."""
    options = {"settings": "\n".join(f"{name}={value}" for name, value in given.items())}
    return options | ({"split_bytes": str(args.split_bytes)} if args.split_bytes else {})


def new_run_id() -> str:
    """Return an id that sorts by time and that no other run has."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"

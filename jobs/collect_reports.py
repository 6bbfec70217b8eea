"""``spark-submit jobs/collect_reports.py``: reports of ``storeio check --json``, into the tables of ``audit_store``.

For stores that no worker can read, such as those on the disks of brokers: each host checks its own, and the reports
become the rows that an audit by Spark would have written. All reports are read before anything is written. Spark
starts only for tables that are not plain local ones.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from jobs import history, tables
from jobs.audit_store import table_frames
from jobs.calls import tell_run
from jobs.common import JobParser, run_job
from jobs.lazy_session import session_later
from jobs.stores import new_run_id, separate_errors
from storeio.commands.console import complain, explain
from storeio.commands.outputs import say
from storeio.errors import StoreError, UnreadableError, UsageError
from storeio.output.targets import is_inside, refuse_inside
from storeio.report import table_rows, verdict_sentence
from storeio.report.parsed import Failure, from_json, refuse_misfits
from storeio.results import EXIT_SOUND, Audit
from storeio.uris import refuse_remote

DESCRIPTION: Final = "Collect reports of storeio check --json from many hosts into Delta tables."
MOST_BYTES: Final = 1 << 28  # of a line: a report of a million files, and no more of a file that is none


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    args = parser().parse_args(words)
    found = [one for path in args.reports for one in read_reports(path, by_file=args.name_by_file)]
    refuse_twice(found)
    for one in found:
        if is_inside(args.tables, one.store):
            raise UsageError(f"--tables {args.tables}: lies inside the store {one.store}, which is never written")
    refuse_inside("--tables", args.tables)
    run_id = args.run_id or new_run_id()
    audits = [one for one in found if isinstance(one, Audit)]
    spark = session_later("storeio collect", master=args.master)
    if args.run_id and audits:  # nobody else has one that was made here
        with contextlib.suppress(tables.TablesError):  # the reports count all the same; it is met again, and told
            tables.refuse_finished(spark, args.tables, run_id)
    code = told(found, quiet=args.quiet)
    if not audits:
        return code
    try:
        tables.write_run(spark, args.tables, run_id, table_frames(audits, run_id, shlex.join(words)))
        history.after_run(spark, args.tables, audits, run_id)
    except UsageError:
        raise
    except StoreError as error:
        return code | explain(error)  # the reports stand, and so do their bits
    if not args.quiet:
        tell_run(run_id, args.tables)
    return code


def read_reports(name: str, *, by_file: bool) -> Iterator[Audit | Failure]:
    """Yield the reports in a file, a line each; stores begin with the file's name where they are told apart by it.

    Raises:
        UsageError: It holds something else, or ends within a line.
        UnreadableError: It cannot be read.
    """
    path = Path(refuse_remote(name, "reports are read from local files"))
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(MOST_BYTES):
                number += 1
                if not line.endswith(b"\n"):
                    raise UsageError(f"{path} line {number}: cut off, or no report of storeio check")
                one = from_json(line.decode("ascii", "replace"), f"{path} line {number}")
                if by_file:
                    one = replace(one, store=f"{path.stem}:{one.store}")
                if isinstance(one, Audit):
                    refuse_misfits(table_rows(one, run_id=""), f"{path} line {number}")
                yield one
    except OSError as error:
        raise UnreadableError(f"--report {path}: {error.strerror or error}") from error
    if not number:
        raise UsageError(f"{path}: is empty")


def refuse_twice(found: Sequence[Audit | Failure]) -> None:
    """Raise where two reports are of stores of one name: nobody could tell their rows apart.

    Raises:
        UsageError: There are two.
    """
    for store, count in Counter(one.store for one in found).items():
        if count > 1:
            raise UsageError(f"{count} reports are of {store}: with --name-by-file the files' names tell hosts apart")


def told(found: Sequence[Audit | Failure], *, quiet: bool) -> int:
    """Return the exit code of all reports, after saying what each comes to."""
    code = EXIT_SOUND
    for one in found:
        code |= one.exit_code
        if isinstance(one, Failure):
            complain(one.error if one.store in one.error else f"{one.store}: {one.error}")
        elif not quiet:
            code |= say(verdict_sentence(one))
    return code


def parser() -> JobParser:
    """Return the job's options."""
    made = JobParser(prog="collect_reports", description=DESCRIPTION, allow_abbrev=False)
    add = made.add_argument
    add("--report", dest="reports", metavar="FILE", nargs="+", action="extend", required=True,
        help="what storeio check --json wrote")  # fmt: skip
    made.add_tables()
    add("--run-id", metavar="ID", help="name of this run in the tables (default: made from time and chance)")
    add("--name-by-file", action="store_true", help="name stores FILE:PATH, where hosts have them at the same path")
    add("--quiet", action="store_true", help="say only what went wrong")
    add("--master", metavar="URL", help="where to run, unless spark-submit says so (default: local[*])")
    return made


if __name__ == "__main__":
    separate_errors()
    run_job(main)

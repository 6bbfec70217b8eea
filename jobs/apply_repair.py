"""``spark-submit jobs/apply_repair.py PLAN [STORE]``: one saved plan, carried out by the driver.

The same code as ``storeio apply``: same report, JSON and exit codes. With ``--tables`` a row is kept for every action;
Spark starts only for tables that are not plain local ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from jobs import local_delta, tables
from jobs.calls import tell_run
from jobs.common import JobParser, run_job
from jobs.declared import ACTIONS
from jobs.lazy_session import session_later
from jobs.stores import new_run_id, separate_errors
from storeio.apply import store_of
from storeio.commands.apply import run_apply
from storeio.commands.console import explain
from storeio.errors import StoreError, UsageError
from storeio.output.targets import is_inside
from storeio.results import EXIT_SOUND
from storeio.uris import place_of

DESCRIPTION: Final = "Carry out a saved plan on one RocketMQ store."
_PLAIN: Final = (
    "kind", "path", "target", "position", "length", "old_sha256", "new_sha256", "risk", "reason",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    args = parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    plan, store = place_of(args.plan), place_of(args.root) if args.root else None
    run_id, started_ms = args.run_id or new_run_id(), time.time_ns() // 1_000_000
    keep = None
    if args.tables:
        named = store_of(plan, store)
        if is_inside(args.tables, named):
            raise UsageError(f"--tables {args.tables}: lies inside the store {named}")
        spark = session_later("storeio apply", master=args.master)
        # All of this before anything is written into the store, a start that fails included.
        tables.refuse_finished(spark, args.tables, run_id, ACTIONS)
        if not local_delta.takes(tables.rows_of(ACTIONS, []), tables.path_of(args.tables, ACTIONS)):
            spark()

        def keep(told: dict[str, Any]) -> int:
            rows = action_rows(run_id, started_ms, told)
            if not rows:
                return EXIT_SOUND
            try:
                frame = tables.tuples_of(ACTIONS, rows)
                tables.write_run(spark, args.tables, run_id, {ACTIONS: frame}, runs=ACTIONS)
            except StoreError as error:
                return explain(error)
            if not args.quiet:
                tell_run(run_id, args.tables)
            return EXIT_SOUND

    return run_apply(
        plan, store, resume=args.resume, allow_log=args.allow_log, json_to=args.json, quiet=args.quiet, keep=keep
    )


def action_rows(run_id: str, started_ms: int, told: dict[str, Any], outcome: str = "") -> list[tuple[Any, ...]]:
    """Return the table's rows of one plan's or apply's JSON object; none of one that failed.

    ``outcome`` is that of actions which have none of their own.
    """
    return [
        (run_id, told["store"], started_ms, told.get("name"), action.get("number", number),
         *(action[name] for name in _PLAIN), ",".join(action["codes"]), action["topic"], action["queue_id"],
         action.get("outcome", outcome))
        for number, action in enumerate(told.get("actions", ()))
    ]  # fmt: skip


def parser() -> JobParser:
    """Return the job's options."""
    made = JobParser(prog="apply_repair", description=DESCRIPTION, allow_abbrev=False)
    add = made.add_argument
    add("plan", metavar="PLAN", help="the plan's file, its bytes file beside it; with --resume the store will do")
    add("root", metavar="STORE", nargs="?", help="the store root, if not the one that the plan names")
    add("--resume", action="store_true", help="go on with what was begun")
    add("--allow-log", action="store_true", help="allow actions that change the commitlog")
    add("--json", metavar="FILE", help="write the report as JSON; - is standard output")
    add("--quiet", action="store_true", help="one line")
    made.add_tables("; without it, none are written", required=False)
    add("--run-id", metavar="ID", help="name of this run in the tables (default: made from time and chance)")
    add("--master", metavar="URL", help="where to run, unless spark-submit says so (default: local[*])")
    return made


if __name__ == "__main__":
    separate_errors()
    run_job(main)

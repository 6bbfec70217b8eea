"""``spark-submit jobs/plan_repair.py``: plans for many stores, or with ``--simulate`` what brokers would do with them.

The same as ``storeio plan`` and ``storeio simulate``: same plans, reports, JSON and exit codes, whose bits
add up. One task is one store, or one start of one broker version on it, on a worker that sees the store's files;
plans go to a directory that the workers share.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from jobs import tables
from jobs.apply_repair import action_rows
from jobs.calls import kept
from jobs.common import build_session, run_job
from jobs.declared import ACTIONS, SIMULATIONS
from jobs.stores import given_of, master_of, new_run_id, separate_errors, store_parser, stores_of
from storeio.commands.console import coloured, terminal_width
from storeio.commands.options import failure_of
from storeio.commands.outputs import Sink, json_sink, say
from storeio.commands.plan import selection
from storeio.commands.simulate import heap_bytes
from storeio.config import Given
from storeio.errors import StoreError, UsageError
from storeio.output.staging import explained
from storeio.output.targets import is_inside, refuse_inside
from storeio.plan.model import RISKS
from storeio.plan.rules import is_plain_name
from storeio.planning import Selection, plan_store
from storeio.planning.output import BYTES
from storeio.predict.start import simulate, versions_of
from storeio.report import to_json
from storeio.report.planning import plan_object, plan_sentence, render_plan
from storeio.report.simulation import render_simulation, simulation_object, warning_sentence
from storeio.simulate.rules import NEWEST, rules_of
from storeio.uris import name_of, refuse_remote, shown
from udfs.checks import WorkersError, workers_named

PARTS: Final = {"--into, the plan": "", "--into, the bytes": BYTES}  # what is kept of each plan
DESCRIPTION: Final = "Plan repairs of RocketMQ stores, or predict what brokers do with them at their next start."


@dataclass(frozen=True, slots=True)
class Start:
    """One start to predict."""

    store: str
    version: str
    given: Given
    whole_log: bool | None
    heap_bytes: int
    width: int = 0  # of the report; 0: one sentence


@dataclass(frozen=True, slots=True)
class Wish:
    """One plan to make."""

    store: str
    out: str
    broker: str | None
    given: Given
    select: Selection
    allow_log: bool
    width: int = 0  # of the report; 0: one sentence


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task found of a store, as JSON and in words, or the error."""

    store: str
    found: dict[str, Any] | None
    text: str = ""
    error: Exception | None = None
    broker: str | None = None


def across(error: Exception) -> Exception:
    """Return an error as the driver can be sent it: of a kind that nobody expected its name and words."""
    return error if isinstance(error, StoreError | OSError) else RuntimeError(f"{type(error).__name__}: {error}")


def predict(start: Start) -> Answer:
    """Return the prediction of one start; a store that cannot be read is an answer, too."""
    try:
        found = simulate(
            start.store, broker=start.version, given=start.given, whole_log=start.whole_log,
            heap_bytes=start.heap_bytes,
        )  # fmt: skip
    except Exception as error:
        return Answer(start.store, None, error=across(error), broker=start.version)
    text = render_simulation(found, width=start.width) if start.width else warning_sentence(found)
    return Answer(start.store, simulation_object(found), text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    args = parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    _refuse_misfits(args)
    return _simulate(args) if args.simulate else _plan(args)


def _refuse_misfits(args: argparse.Namespace) -> None:
    """Raise if an option has no effect on what is asked for.

    Raises:
        UsageError: It has none.
    """
    of_plans = ("into", "topic", "queue", "path", "code", "risk", "allow_log")
    of_starts = ("whole_log", "heap")
    for name in of_plans if args.simulate else of_starts:
        if getattr(args, name):
            words = "goes with plans, not with --simulate" if args.simulate else "goes with --simulate"
            raise UsageError(f"--{name.replace('_', '-')}: {words}")


def _simulate(args: argparse.Namespace) -> int:
    given, heap, stores = given_of(args), heap_bytes(args.heap), stores_of(args)
    versions = versions_of(args.broker or NEWEST)
    width = 0 if args.quiet or len(versions) > 1 else terminal_width()
    starts = [
        Start(store, version, given, True if args.whole_log else None, heap, width)
        for store in stores
        for version in versions
    ]
    spark = build_session("storeio simulate", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, SIMULATIONS)
    started_ms = time.time_ns() // 1_000_000
    with json_sink(args.json, stores, quiet=args.quiet) as sink:
        try:
            with workers_named("predictions"):
                answers = spark.sparkContext.parallelize(starts, len(starts)).map(predict).collect()
        except WorkersError as error:
            answers = [Answer(start.store, None, error=error, broker=start.version) for start in starts]
        objects = _all_told(answers, sink, by_json=args.json == "-")
    code = functools.reduce(lambda a, b: a | int(b["exit_code"]), objects, sink.code)
    made = any(answer.found is not None for answer in answers)

    def frames() -> dict[str, pa.Table]:
        return {SIMULATIONS: tables.tuples_of(SIMULATIONS, (_row(run_id, started_ms, found) for found in objects))}

    return code | kept(spark, args.tables, run_id, SIMULATIONS, frames, made=made, quiet=args.quiet)


def make(wish: Wish) -> Answer:
    """Return what was planned for one store; a store that cannot be read is an answer, too."""
    try:
        found = plan_store(
            wish.store, wish.out, broker=wish.broker, given=wish.given, select=wish.select, allow_log=wish.allow_log
        )
    except Exception as error:
        return Answer(wish.store, None, error=across(error))
    text = render_plan(found, wish.out, width=wish.width) if wish.width else plan_sentence(found)
    return Answer(wish.store, plan_object(found, wish.out), text)


def _plan(args: argparse.Namespace) -> int:
    if args.into is None:
        raise UsageError("--into is needed: the directory for the plans, or --simulate")
    rules_of(args.broker or NEWEST)
    stores, into = stores_of(args), refuse_remote(args.into, "--into of plans is a directory that the workers share")
    select = selection(args.topic or (), args.queue or (), args.path or (), args.code or (), args.risk or ())
    files = plan_files(stores, into)
    given = given_of(args, {f"{what} of {file}": f"{file}{end}" for file in files for what, end in PARTS.items()})
    width = 0 if args.quiet else terminal_width()
    wishes = [
        Wish(store, out, args.broker, given, select, args.allow_log, width)
        for store, out in zip(stores, files, strict=True)
    ]
    spark = build_session("storeio plan", master=master_of(args))
    run_id, started_ms = args.run_id or new_run_id(), time.time_ns() // 1_000_000
    tables.refuse_finished(spark, args.tables, run_id, ACTIONS)
    make_folder(into)
    with json_sink(args.json, stores, quiet=args.quiet) as sink:
        try:
            with workers_named("plans"):
                made = spark.sparkContext.parallelize(wishes, len(wishes)).map(make).collect()
        except WorkersError as error:
            made = [Answer(wish.store, None, error=error) for wish in wishes]
        objects = _all_told(made, sink, by_json=args.json == "-")
    code = functools.reduce(lambda a, b: a | int(b["exit_code"]), objects, sink.code)

    def frames() -> dict[str, pa.Table]:
        rows = [row for found in objects for row in action_rows(run_id, started_ms, found, "planned")]
        return {ACTIONS: tables.tuples_of(ACTIONS, rows)}

    has_rows = any(found.get("actions") for found in objects)
    return code | kept(spark, args.tables, run_id, ACTIONS, frames, made=has_rows, quiet=args.quiet)


def plan_files(stores: Sequence[str], into: str) -> list[str]:
    """Return a file for each store's plan, named after the store's directory.

    Raises:
        UsageError: Two stores have one name, or the directory lies in a store.
    """
    names = ["".join(c if is_plain_name(f"x{c}") else "_" for c in name_of(store)) or "store" for store in stores]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"--into {into}: two stores are named {twice[0]}, so that their plans would be one file")
    for store in stores:
        if is_inside(into, store):
            raise UsageError(f"--into {into}: lies inside the store {shown(store)}, which is never written")
    refuse_inside("--into", into)
    if os.path.exists(into) and not os.path.isdir(into):
        raise UsageError(f"--into {into}: is not a directory")
    return [f"{into}/{name}.plan.json" for name in names]


def make_folder(into: str) -> None:
    """Make the directory of the plans, if it is not there.

    Raises:
        WriteError: It cannot be made.
    """
    with explained(f"--into {into}"):
        os.makedirs(into, exist_ok=True)


def _all_told(answers: Sequence[Answer], sink: Sink, *, by_json: bool) -> list[dict[str, Any]]:
    """Return answers as objects, after they were printed, reports with an empty line between."""
    told: list[dict[str, Any]] = []
    for answer in answers:
        is_report = bool(told) and "\n" in answer.text
        told.append(_told(answer, sink, by_json=by_json, between="\n" if is_report else ""))
    return told


def _told(answer: Answer, sink: Sink, *, by_json: bool, between: str) -> dict[str, Any]:
    """Return an answer as an object, after it was printed."""
    found = answer.found
    if found is None:
        _, found = failure_of(answer.error or RuntimeError("no answer"), answer.store)
        found |= {"broker": answer.broker} if answer.broker is not None else {}
    elif not by_json:
        found = {**found, "exit_code": found["exit_code"] | say(between + coloured(answer.text.removesuffix("\n")))}
    sink.put(to_json(found))
    return found


def _row(run_id: str, started_ms: int, found: dict[str, Any]) -> tuple[Any, ...]:
    """Return the table's row of one answer."""
    state, got, loses = found.get("after_start"), found.get("consumers"), found.get("loses")
    return (
        run_id, found["store"], started_ms, found.get("line"), found["broker"], found.get("outcome"),
        found.get("reason", found.get("error")), found.get("phrase"), found.get("mode"), found.get("start_file"),
        state and state["max_physical_offset"],
        None if loses is None else sum(loss["messages"] for loss in loses),
        None if loses is None else sum(loss["bytes"] for loss in loses),
        None if found.get("reissues") is None else len(found["reissues"]),
        got and got["undecodable"], got and got["skipped"], got and len(got["stuck"]),
        None if found.get("deleted") is None else len(found["deleted"]), found["exit_code"], json.dumps(found),
    )  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("plan_repair", DESCRIPTION)
    made.add_argument("--into", metavar="DIR", help="where plans go, as NAME.plan.json and NAME.plan.json.bytes")
    made.add_argument("--topic", metavar="NAME", action="append", help="plan for queues of this topic only")
    made.add_argument("--queue", metavar="TOPIC/ID", action="append", help="plan for this queue only")
    made.add_argument("--path", metavar="PATTERN", action="append", help="plan for findings of such paths only")
    made.add_argument("--code", metavar="CODE", action="append", help="plan for findings of this code only")
    made.add_argument("--risk", choices=RISKS, action="append", help="plan actions of this risk only")
    made.add_argument("--allow-log", action="store_true", help="plan actions that touch the commitlog, too")
    made.add_argument("--simulate", action="store_true", help="predict the next start, plan nothing")
    made.add_argument(
        "--broker",
        metavar="VERSION",
        help=f"version that is to start ({NEWEST}); simulated: or all",
    )
    made.add_argument("--whole-log", action="store_true", help="read all of every log for what is given up")
    made.add_argument("--heap", metavar="SIZE", help="the brokers' -Xmx, as in 8g (default: 2g)")
    return made


if __name__ == "__main__":
    separate_errors()
    run_job(main)

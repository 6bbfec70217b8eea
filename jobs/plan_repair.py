"""``spark-submit jobs/plan_repair.py --simulate``: what brokers would do with many stores at their next start.

The same prediction as ``storeio simulate``: same JSON, sentences and exit codes, whose bits add up. One
task is one start of one broker version on one store, on a worker that sees the store's files.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs import tables
from jobs.common import build_session, run_job
from jobs.declared import SIMULATIONS
from jobs.stores import given_of, master_of, new_run_id, separate_errors, store_parser, stores_of
from storeio.config import Given
from storeio.console import explain, json_sink, put
from storeio.errors import StoreError, UsageError
from storeio.prediction import NEWEST, simulate, versions_of
from storeio.report import failure_object, to_json
from storeio.report.simulation import simulation_object, warning_sentence
from storeio.results import EXIT_SOUND
from storeio.simulate_command import heap_bytes
from udfs.checks import workers_named

DESCRIPTION: Final = "Predict what brokers do with RocketMQ stores at their next start."


@dataclass(frozen=True, slots=True)
class Start:
    """One start to predict."""

    store: str
    version: str
    given: Given
    whole_log: bool | None
    heap_bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The prediction as JSON and as a sentence, or the error."""

    start: Start
    found: dict[str, Any] | None
    sentence: str = ""
    error: Exception | None = None


def predict(start: Start) -> Answer:
    """Return the prediction of one start; a store that cannot be read is an answer, too."""
    try:
        found = simulate(
            start.store, broker=start.version, given=start.given, whole_log=start.whole_log,
            heap_bytes=start.heap_bytes,
        )  # fmt: skip
    except (StoreError, OSError) as error:
        return Answer(start, None, error=error)
    return Answer(start, simulation_object(found), warning_sentence(found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    args = parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    if not args.simulate:
        raise UsageError("--simulate is needed: plans of repairs do not exist yet")
    given, heap = given_of(args), heap_bytes(args.heap)
    starts = [
        Start(store, version, given, True if args.whole_log else None, heap)
        for store in stores_of(args)
        for version in versions_of(args.broker)
    ]
    spark = build_session("storeio simulate", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, SIMULATIONS)
    started_ms = time.time_ns() // 1_000_000
    with workers_named("predictions"):
        answers = spark.sparkContext.parallelize(starts, len(starts)).map(predict).collect()
    with json_sink(args.json, stores_of(args)) as sink:
        objects = [_told(answer, sink, quiet=args.quiet or args.json == "-") for answer in answers]
    code = functools.reduce(lambda a, b: a | int(b["exit_code"]), objects, EXIT_SOUND)
    try:
        frame = spark.createDataFrame(
            [_row(run_id, started_ms, found) for found in objects], tables.schema_of(SIMULATIONS)
        )
        tables.write_run(spark, args.tables, run_id, {SIMULATIONS: frame}, runs=SIMULATIONS)
    except StoreError as error:
        return code | explain(error)
    return code


def _told(answer: Answer, sink: Any, *, quiet: bool) -> dict[str, Any]:
    """Return an answer as an object, after it was printed."""
    found = answer.found
    if found is None:
        error = answer.error or RuntimeError("no answer")
        code = explain(error, answer.start.store)
        found = {**failure_object(answer.start.store, str(error), code), "broker": answer.start.version}
    elif not quiet:
        put(sys.stdout, answer.sentence)
    put(sink, to_json(found))
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
    made.add_argument("--simulate", action="store_true", help="predict the next start")
    made.add_argument("--broker", metavar="VERSION", default=NEWEST, help="version that is to start, or all")
    made.add_argument("--whole-log", action="store_true", help="read all of every log for what is given up")
    made.add_argument("--heap", metavar="SIZE", help="the brokers' -Xmx, as in 8g (default: 2g)")
    return made


if __name__ == "__main__":
    separate_errors()
    run_job(main)

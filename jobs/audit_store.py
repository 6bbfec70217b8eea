"""``spark-submit jobs/audit_store.py``: the audit of one or many stores, into Delta tables.

The same audit as ``storeio check``: same report, JSON and exit codes, whose bits add up over the stores.
The splits of all stores are one Spark job, so that many small stores keep a cluster as busy as one large.

With ``--incremental`` it takes over what earlier runs said of parts that have not changed: ``docs/schedule.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import history, tables, verdicts
from jobs.calls import StoreCall, tell_run
from jobs.common import build_session, run_job
from jobs.declared import RECORDS
from jobs.page import write_page
from jobs.stores import (
    add_schedule,
    given_of,
    master_of,
    new_run_id,
    require_text,
    schedule_of,
    separate_errors,
    source_options,
    store_parser,
    stores_of,
)
from storeio import audit
from storeio.commands.console import Meter, complain, explain, terminal_width
from storeio.commands.outputs import Sink, html_target, json_sink, put
from storeio.config import Given
from storeio.errors import StoreError
from storeio.incremental.store_run import StoreRun
from storeio.incremental.verdicts import PartKey, Verdict, store_name
from storeio.paths import COMMITLOG
from storeio.report import TABLES, audit_object, render, table_rows, verdict_sentence
from storeio.report.rows import Row
from storeio.results import Audit, Unfinished
from storeio.scan import may_be_of
from storeio.uris import shown
from udfs.checks import WorkersError, audit_stores
from udfs.datasource import read_records
from udfs.incremental import Outcome, Runner, audit_incrementally

DESCRIPTION: Final = "Audit RocketMQ stores with Spark: the report of storeio check, and Delta tables."

UNREADABLE: Final = "UNREADABLE"  # the finding's code

# The JVM of an incremental audit handles a few rows: its better compiler and collector cost more than they earn there.
SHORT_WORK: Final = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Call(StoreCall[Audit | Unfinished]):
    """One call of the job: what was asked for, where JSON lines go, and what has become of the stores."""

    def __init__(self, args: argparse.Namespace, given: Given, sink: Sink, page: Path | None) -> None:
        """Begin with nothing done."""
        super().__init__(args, given, sink)
        self.page = page
        self.roots: dict[str, str] = {}  # by the store's name in reports
        self.began_ms = time.time_ns() // 1_000_000

    def as_object(self, result: Audit | Unfinished) -> dict[str, Any]:
        """Return an audit as JSON has it."""
        return audit_object(result)

    def as_sentence(self, result: Audit | Unfinished) -> str:
        """Return the verdict in one line."""
        return verdict_sentence(result)

    def as_text(self, result: Audit | Unfinished) -> str:
        """Return an audit for people."""
        return render(result, width=terminal_width(), show_all=self.args.all)

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Say what went wrong with the tables in the block, and go on without."""
        try:
            yield
        except tables.TablesError as error:
            self.exit_code |= explain(error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    args = schedule_of(parser().parse_args(words))
    stores = stores_of(args)
    if args.records:
        require_text(stores, "the table of records")
    page = html_target(args.html, stores)
    given = given_of(args, {"--html": page})
    with json_sink(args.json, stores, quiet=args.quiet) as sink:
        call = Call(args, given, sink, page)
        plans = prepared(call, stores)
        if plans:
            run(call, plans, arguments=shown(shlex.join(words)))
    return call.exit_code | sink.code


def run(call: Call, plans: Sequence[audit.AuditPlan], arguments: str) -> None:
    """Audit the stores that could be listed: reports first, then the tables."""
    args = call.args
    extra = SHORT_WORK if args.incremental and not args.records else None
    spark = build_session("storeio audit", master=master_of(args), extra=extra)
    run_id = args.run_id or new_run_id()
    if args.run_id:  # nobody else has one that was made here
        tables.refuse_finished(spark, args.tables, run_id)
    pending = audited(call, spark, plans, run_id)
    if not call.done:
        return
    try:
        # A run whose id was given may have to be cleaned up after, in each table.
        there = [] if args.run_id else [name for name in TABLES if tables.exists(spark, args.tables, name)]
        with ThreadPoolExecutor(1) as pool:  # a commit mostly waits
            kept = pool.submit(verdicts.keep, spark, args.tables, pending)
            frames = table_frames(call.done, run_id, arguments, there)
            if args.records and (records := record_frame(spark, call, run_id)) is not None:
                frames[RECORDS] = records
            tables.write_run(spark, args.tables, run_id, frames, is_new=not args.run_id)
            kept.result()
        history.after_run(spark, args.tables, call.done, run_id)
        if call.page is not None:
            notes = write_page(spark, args.tables, call.page, [*call.done, *call.failed], call.given)
            for note in () if args.quiet else notes:
                put(sys.stderr, note)
    except StoreError as error:
        call.exit_code |= explain(error)  # the reports stand, and so do their bits
        return
    if not args.quiet:
        tell_run(run_id, args.tables)


def audited(call: Call, spark: SparkSession, plans: Sequence[audit.AuditPlan], run_id: str) -> list[Verdict]:
    """Audit the stores and report on each; return the verdicts that are still to be kept."""
    now_ms = time.time_ns() // 1_000_000
    plans = [replace(plan, started_ms=now_ms) for plan in plans]  # what a session costs is no part of the audit
    results, pending = looked_at(call, spark, plans, run_id)
    again: dict[int, audit.AuditPlan] = {}
    for i, (plan, found) in enumerate(zip(plans, results, strict=True)):
        if isinstance(found, Audit) and audit.has_lost_files(plan, found):
            with contextlib.suppress(StoreError, OSError):  # what was found stands
                again[i] = audit.prepare(plan.root, given=call.given, split_bytes=call.args.split_bytes)
    if again:
        later, more = looked_at(call, spark, [*again.values()], run_id)
        results = [dict(zip(again, later, strict=True)).get(i, found) for i, found in enumerate(results)]
        pending += more
    for plan, result in zip(plans, results, strict=True):
        if isinstance(result, Exception):
            call.fail(plan.root, result)
        else:
            call.report(result)
    return pending


def looked_at(
    call: Call, spark: SparkSession, plans: Sequence[audit.AuditPlan], run_id: str
) -> tuple[list[Outcome], list[Verdict]]:
    """Return the audits of the stores, and verdicts still to be kept."""
    meter = Meter()
    title = plans[0].root if len(plans) == 1 else f"{len(plans)} stores"
    try:
        with meter.bar(title, shown=not call.args.quiet):
            if call.args.incremental:
                return audited_incrementally(call, spark, plans, run_id, meter)
            return [*audit_stores(spark, plans, meter.update)], []
    except WorkersError as error:
        return [error] * len(plans), []


def audited_incrementally(
    call: Call, spark: SparkSession, plans: Sequence[audit.AuditPlan], run_id: str, meter: Meter
) -> tuple[list[Outcome], list[Verdict]]:
    """Return the audits of the stores, known parts taken over from earlier runs, and verdicts still to be kept.

    What earlier runs have kept is not needed, only faster: where it cannot be read, all is looked at.
    """
    args = call.args
    known: dict[str, dict[PartKey, Verdict]] = {}
    with call.going_on():
        known = verdicts.kept(spark, args.tables, [plan.root for plan in plans])
    runs = [StoreRun(plan, known.get(store_name(plan.root), {}), args.recheck, run_id) for plan in plans]
    deadline_ms = None if args.time_budget is None else call.began_ms + int(1000 * args.time_budget)

    def keep(made: list[Verdict]) -> None:
        with call.going_on():
            verdicts.keep(spark, args.tables, made)

    runner = Runner(spark, deadline_ms, keep, meter.update)
    return audit_incrementally(runs, runner), runner.pending


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("audit_store", DESCRIPTION)
    made.add_argument("--records", action="store_true", help="also the table records, one row a message")
    made.add_argument("--html", metavar="FILE", help="also write the report as a page, one file, with its history")
    made.add_argument("--all", action="store_true", help="print every finding, queue and index file")
    add_schedule(made)
    return made


def prepared(call: Call, stores: Sequence[str]) -> list[audit.AuditPlan]:
    """Return the plans of the stores that can be listed."""
    plans = []
    for store in stores:
        try:
            plans.append(audit.prepare(store, given=call.given, split_bytes=call.args.split_bytes))
            call.roots[shown(plans[-1].root)] = plans[-1].root
        except (StoreError, OSError) as error:
            call.fail(store, error)
    return plans


def table_frames(
    audits: Sequence[Audit | Unfinished],
    run_id: str,
    arguments: str,
    there: Sequence[str] = (),
) -> dict[str, DataFrame | pa.Table]:
    """Return the rows of the run by table; of tables that are ``there`` no frame without rows."""
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    for one in audits:
        for name, part in table_rows(one, run_id=run_id, arguments=arguments).items():
            rows[name] += part
    return {name: tables.rows_of(name, part) for name, part in rows.items() if part or name not in there}


def record_frame(spark: SparkSession, call: Call, run_id: str) -> DataFrame | None:
    """Return the records of all stores as rows of the table ``records``; those of a store are all there, or none."""
    options = source_options(call.args, call.given)
    parts = []
    for one in call.done:
        if any(found.code == UNREADABLE and may_be_of(found.path, (COMMITLOG,)) for found in one.findings):
            complain(f"{one.store}: its records are in no table, since some of its log could not be read")
            continue
        rows = read_records(spark, call.roots[one.store], **options)
        parts.append(rows.withColumns({"run_id": F.lit(run_id), "store": F.lit(one.store)}))
    return tables.in_contract(functools.reduce(DataFrame.unionByName, parts), RECORDS) if parts else None


if __name__ == "__main__":
    separate_errors()
    run_job(main)

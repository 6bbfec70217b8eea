"""``spark-submit jobs/rebuild_queues.py``: queues, index and checkpoint from the logs of stores.

The same rebuild as ``storeio rebuild``: same bytes, report, JSON and exit codes, whose bits add up over the stores.
Every worker must see the stores and the directory under the same paths, or open their URIs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from jobs import tables
from jobs.calls import StoreCall, kept
from jobs.common import build_session, run_job
from jobs.declared import REBUILDS, REBUILT_QUEUES
from jobs.stores import given_of, master_of, new_run_id, separate_errors, store_parser, stores_of
from storeio import audit
from storeio.commands.console import Meter, terminal_width
from storeio.commands.options import refuse_json_inside
from storeio.commands.outputs import Sink, json_sink
from storeio.commands.rebuild import names_of, parts_of
from storeio.config import Given
from storeio.errors import StoreError, UsageError
from storeio.output.publishing import begin, target_of
from storeio.output.targets import is_inside
from storeio.paths import COMMITLOG
from storeio.rebuild.tally import Names, Tally, wanted_of
from storeio.rebuilt import PARTS, Rebuilt
from storeio.report import to_json
from storeio.report.rebuilding import rebuilt_object, rebuilt_sentence, render_rebuilt
from storeio.scan import require_listed
from storeio.uris import below, is_remote, parsed, place_of, shown
from udfs.checks import WorkersError
from udfs.rebuild import Building, finish, rebuild_stores

DESCRIPTION: Final = "Rebuild queues, index and checkpoint of RocketMQ stores from their logs, with Spark."


class Call(StoreCall[Rebuilt]):
    """One call of the job: what was asked for, and what has become of the stores."""

    def as_object(self, result: Rebuilt) -> dict[str, Any]:
        """Return a result as JSON has it."""
        return rebuilt_object(result)

    def as_sentence(self, result: Rebuilt) -> str:
        """Return what a rebuild comes to."""
        return rebuilt_sentence(result)

    def as_text(self, result: Rebuilt) -> str:
        """Return a rebuild for people."""
        return render_rebuilt(result, width=terminal_width())

    def __init__(self, args: argparse.Namespace, given: Given, sink: Sink) -> None:
        """Begin with nothing done."""
        super().__init__(args, given, sink)
        self.names: Names | None = names_of(args.topics, args.queues)
        self.parts = frozenset(parts_of(args.only, self.names))


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    args = parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    stores = stores_of(args)
    into = place_of(args.into)
    refuse_json_inside(args.json, into)
    targets = targets_of(stores, into if is_remote(into) else Path(into))
    for store in stores:
        for target in targets.values():
            target_of(target, store)
    if is_inside(args.tables, into):
        raise UsageError(f"--tables {shown(args.tables)}: lies inside {shown(into)}")
    given = given_of(args)
    with json_sink(args.json, stores, quiet=args.quiet) as sink:
        call = Call(args, given, sink)
        run(call, targets)
    return call.exit_code | sink.code


def targets_of(stores: Sequence[str], into: Path | str) -> dict[str, Path | str]:
    """Return where each store's files go: of one store into the place itself, of several below it by name.

    Names that are not different take the names of the directories above in front.
    """
    if len(stores) == 1:
        return {stores[0]: into}
    parts = {store: words_of(store) for store in stores}
    for length in range(1, max(map(len, parts.values())) + 1):
        names = {store: "-".join(words[-length:]) for store, words in parts.items()}
        if max(Counter(names.values()).values()) == 1:
            return {s: into / name if isinstance(into, Path) else below(into, name) for s, name in names.items()}
    raise UsageError("--store: two of them have one name, so that what is built would be one directory")


def words_of(store: str) -> tuple[str, ...]:
    """Return the names in a store's path, from the top down; those of a bucket or machine included."""
    if is_remote(store):
        uri = parsed(store)
        return (uri.host, *uri.path.split("/")[1:])
    return Path(os.path.abspath(store)).parts[1:]


def run(call: Call, targets: dict[str, Path | str]) -> None:
    """Rebuild the stores that can be listed: reports first, then the tables."""
    args = call.args
    spark = build_session("storeio rebuild", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, REBUILDS)
    with contextlib.ExitStack() as cleaning:
        builds = [build for store in targets if (build := begun(call, store, targets[store], cleaning)) is not None]
        meter = Meter()
        try:
            title = builds[0].plan.root if len(builds) == 1 else f"{len(builds)} stores"
            with meter.bar(title, shown=not args.quiet):
                rebuild_stores(spark.sparkContext, builds, meter.update)
        except WorkersError as error:
            for build in builds:
                build.fail(error)
        for build in builds:
            ended(call, build)

    def frames() -> dict[str, pa.Table]:
        return {
            REBUILT_QUEUES: tables.tuples_of(REBUILT_QUEUES, _queue_rows(run_id, call.done)),
            REBUILDS: tables.tuples_of(REBUILDS, _rows(run_id, call)),
        }

    call.exit_code |= kept(spark, args.tables, run_id, REBUILDS, frames, made=bool(call.done), quiet=args.quiet)


def begun(call: Call, store: str, target: Path | str, cleaning: contextlib.ExitStack) -> Building | None:
    """Return a rebuild that can begin, None where the store cannot be listed."""
    try:
        plan = audit.prepare(store, given=call.given, split_bytes=call.args.split_bytes)
        require_listed(plan.listing, (COMMITLOG,))
        wanted = wanted_of(plan, call.names, call.parts, call.args.broker)
        staging = begin(target)
    except (StoreError, OSError) as error:
        call.fail(store, error)
        return None
    cleaning.callback(staging.abandon)  # of what is finished nothing is left to be removed
    return Building(plan, wanted, Tally(plan, wanted, call.parts), staging)


def ended(call: Call, build: Building) -> None:
    """Give a store's directory its name and report, or say why not."""
    try:
        if build.error is not None:
            raise build.error
        call.report(finish(build, call.args.jobs or os.cpu_count() or 1))
    except Exception as error:  # as in ``rebuild_stores``: one store's trouble keeps no other from its report
        call.fail(build.plan.root, error)


def _rows(run_id: str, call: Call) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for one in call.done:
        rows.append(
            (
                run_id, one.store, one.started_ms, one.seconds, one.into, one.records, len(one.queues),
                sum(1 for queue in one.queues if not queue.usual), one.index_files, one.index_units, len(one.files),
                one.written_bytes, one.exit_code, None, to_json(rebuilt_object(one)),
            )
        )  # fmt: skip
    for each in call.failed:
        rows.append((run_id, each.store, *[None] * 10, each.exit_code, each.error, None))
    return rows


def _queue_rows(run_id: str, built: Sequence[Rebuilt]) -> list[tuple[object, ...]]:
    return [
        (
            run_id, one.store, row["topic"], row["queue_id"], row["kind"], row["min_queue_offset"],
            row["max_queue_offset"], row["units"], len(row["gaps"]), sum(stop - first for first, stop in row["gaps"]),
            row["kept"], row["filled"], row["replaced"], row["moved"],
        )
        for one in built
        for row in rebuilt_object(one)["queues"]
    ]  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("rebuild_queues", DESCRIPTION)
    add = made.add_argument
    add(
        "--into",
        metavar="DIR",
        required=True,
        help="directory or URI to write, new or empty; of several stores one below it each",
    )
    add(
        "--topic",
        dest="topics",
        metavar="NAME",
        action="append",
        default=[],
        help="only the queues of this topic; repeat",
    )
    add("--queue", dest="queues", metavar="TOPIC/ID", action="append", default=[], help="only this queue; repeat")
    add("--broker", metavar="VERSION", help="index tags as this version does, where the store does not tell")
    add("--only", metavar="PART", action="append", default=[], choices=PARTS, help=f"one of {', '.join(PARTS)}; repeat")
    return made


if __name__ == "__main__":
    separate_errors()
    run_job(main)

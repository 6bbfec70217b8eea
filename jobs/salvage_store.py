"""``spark-submit jobs/salvage_store.py``: every message that can be saved of damaged stores, into new stores.

The stores and their donors are audited by the workers, which is where the time goes; what follows is decided and
written by the driver, which must see the stores, with the same code, report, JSON and exit codes as
``storeio salvage``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jobs import tables
from jobs.calls import StoreCall, kept
from jobs.common import build_session, run_job
from jobs.declared import SALVAGE_LOST, SALVAGED_MESSAGES, SALVAGES
from jobs.rebuild_queues import targets_of
from jobs.stores import given_of, master_of, new_run_id, require_text, separate_errors, store_parser, stores_of
from storeio import audit
from storeio.audit import Concluded
from storeio.codes import DOUBT_CODES
from storeio.commands.console import terminal_width
from storeio.commands.options import refuse_json_inside
from storeio.commands.outputs import json_sink
from storeio.commands.salvage import choice_of
from storeio.config import Given
from storeio.errors import UsageError
from storeio.output.publishing import target_of
from storeio.output.targets import is_inside, refuse_itself
from storeio.replay import Provenance
from storeio.report import to_json
from storeio.report.salvaging import render_salvaged, salvaged_object, salvaged_sentence
from storeio.salvage.node import saved, told_by
from storeio.salvaged import LOSSES, TOMBSTONES, Salvaged
from storeio.simulate.rules import NEWEST, rules_of
from storeio.uris import is_remote, place_of, shown
from udfs.checks import conclude_stores
from udfs.replay import salvaged_messages

DESCRIPTION: Final = "Save every message that can be saved of damaged RocketMQ stores, audited with Spark."
Settings = Mapping[str, str] | None


class Call(StoreCall[Salvaged]):
    """One call of the job: what was asked for, and what has become of the stores."""

    def as_object(self, result: Salvaged) -> dict[str, Any]:
        """Return a result as JSON has it."""
        return salvaged_object(result)

    def as_sentence(self, result: Salvaged) -> str:
        """Return what a salvage comes to."""
        return salvaged_sentence(result)

    def as_text(self, result: Salvaged) -> str:
        """Return a salvage for people."""
        return render_salvaged(result, width=terminal_width())


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    args = parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    stores = stores_of(args, args.donors)
    if args.messages:
        require_text([*stores, args.into], "the table of messages")
    rules_of(args.broker or NEWEST)
    args.choice = choice_of(
        args.topics, args.queues, deleted=args.deleted, offsets=args.offsets, since=args.since, until=args.until
    )
    into = place_of(args.into)
    refuse_json_inside(args.json, into)
    targets = targets_of(stores, into if is_remote(into) else Path(into))
    places = {store: target_of(targets[store], store) for store in stores}
    for donor in args.donors:
        target_of(into, donor)
        for store in stores:
            refuse_itself("--donor", donor, store)
    if is_inside(args.tables, into):
        raise UsageError(f"--tables {shown(args.tables)}: lies inside {shown(into)}")
    if args.donors and len(stores) > 1:
        raise UsageError("--donor: is a copy of one log; name one --store")
    given = given_of(args)
    with json_sink(args.json, [*stores, *args.donors], quiet=args.quiet) as sink:
        call = Call(args, given, sink)
        run(call, places)
    return call.exit_code | sink.code


def run(call: Call, places: Mapping[str, Path | str]) -> None:
    """Salvage the stores one by one: reports first, then the tables."""
    args = call.args
    spark = build_session("storeio salvage", master=master_of(args))
    run_id = args.run_id or new_run_id()
    tables.refuse_finished(spark, args.tables, run_id, SALVAGES)
    for store, place in places.items():
        try:
            call.report(salvaged(spark, call, store, place))
        except Exception as error:  # one store's trouble keeps no other from its report
            call.fail(store, error)

    def frames() -> dict[str, DataFrame | pa.Table]:
        found = {SALVAGED_MESSAGES: _messages(spark, run_id, call, places)} if args.messages else {}
        return found | {
            SALVAGE_LOST: tables.tuples_of(SALVAGE_LOST, _lost_rows(run_id, call.done)),
            SALVAGES: tables.tuples_of(SALVAGES, _rows(run_id, call)),
        }

    call.exit_code |= kept(spark, args.tables, run_id, SALVAGES, frames, made=bool(call.done), quiet=args.quiet)


def salvaged(spark: SparkSession, call: Call, store: str, place: Path | str) -> Salvaged:
    """Return what was saved of one store, which the workers have audited with its donors."""
    args = call.args

    def looked(roots: Sequence[str], given: Settings) -> list[Concluded]:
        plans = [audit.prepare(root, given=given, split_bytes=args.split_bytes, kept=DOUBT_CODES) for root in roots]
        found = conclude_stores(spark, plans)
        for one in found:
            if isinstance(one, Exception):
                raise one
        return [one for one in found if isinstance(one, Concluded)]

    def look(root: str | PathLike[str], given: Settings) -> Concluded:
        return audit.look_at_store(root, given=given, jobs=args.jobs, split_bytes=args.split_bytes, kept=DOUBT_CODES)

    (first,) = looked([store], call.given)
    settings = Given(call.given).over(told_by(first.audit.settings))
    others = looked([place_of(donor) for donor in args.donors], settings)
    return saved(
        first, others, place, settings, look, broker=args.broker, losses=args.losses, choice=args.choice,
        jobs=args.jobs,
    )  # fmt: skip


def _messages(spark: SparkSession, run_id: str, call: Call, places: Mapping[str, Path | str]) -> DataFrame:
    """Return the rows of the messages of what was salvaged."""
    where = {shown(store): place for store, place in places.items()}
    made = [(Provenance.of(one), where[one.store]) for one in call.done]
    return salvaged_messages(spark, run_id, made, tables.schema_of(SALVAGED_MESSAGES))


def _rows(run_id: str, call: Call) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [
        (
            run_id, one.store, one.started_ms, one.seconds, one.into, one.records, one.saved, one.restored_count,
            len(one.dropped), one.lost_count, one.tombstones, one.fillers, one.exit_code, None,
            to_json(salvaged_object(one)),
        )
        for one in call.done
    ]  # fmt: skip
    rows += [(run_id, each.store, *[None] * 10, each.exit_code, each.error, None) for each in call.failed]
    return rows


def _lost_rows(run_id: str, made: Sequence[Salvaged]) -> list[tuple[object, ...]]:
    return [
        (
            run_id, one.store, part.topic, part.queue_id, part.first_queue_offset, part.stop_queue_offset,
            part.physical_start, part.physical_stop, part.bytes, part.evidence, int(part.tombstone),
            part.first_store_timestamp_ms, part.last_store_timestamp_ms,
        )
        for one in made
        for part in one.lost
    ]  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the job's options."""
    made = store_parser("salvage_store", DESCRIPTION)
    add = made.add_argument
    into = "directory or URI to write, new or empty; of several stores one below it each"
    add("--into", metavar="DIR", required=True, help=into)
    add(
        "--donor", dest="donors", metavar="STORE", action="append", default=[], help="another copy of one store; repeat"
    )
    add("--lost", dest="losses", choices=LOSSES, default=TOMBSTONES, help="what takes the numbers of lost messages")
    add("--topic", dest="topics", metavar="NAME", action="append", default=[], help="only this topic; repeat")
    add("--queue", dest="queues", metavar="TOPIC/ID", action="append", default=[], help="only this queue; repeat")
    add("--deleted", action="store_true", help="only topics that were deleted and are still in the log")
    add("--queue-offset", dest="offsets", metavar="N[..M]", help="only messages at these queue offsets")
    add("--since", metavar="TIME", help="only messages stored at this time or later")
    add("--until", metavar="TIME", help="only messages stored at this time or earlier")
    add("--messages", action="store_true", help="also write the messages, bodies included, into salvaged_messages")
    add("--broker", metavar="VERSION", help=f"whose own recovery the result is compared with; {NEWEST} if not given")
    return made


if __name__ == "__main__":
    separate_errors()
    run_job(main)

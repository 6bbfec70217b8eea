"""``storeio salvage``: the command, a thin layer over ``storeio.salvage``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from storeio.config import given_settings
from storeio.console import Meter, coloured, complain, explain, json_sink, put, read_conf, terminal_width
from storeio.prediction import NEWEST
from storeio.rebuild_command import refuse_json_inside
from storeio.report import failure_object, to_json
from storeio.report.salvaging import render_salvaged, salvaged_object, salvaged_sentence
from storeio.results import EXIT_CANCELLED
from storeio.salvage.decide import LOSSES, TOMBSTONES
from storeio.salvage.node import salvage as save
from storeio.salvaged import Salvaged
from storeio.uris import shown


def show(result: Salvaged, *, quiet: bool) -> None:
    """Print a salvage's report, or only its sentence."""
    text = salvaged_sentence(result) if quiet else coloured(render_salvaged(result, width=terminal_width()))
    put(sys.stdout, text.removesuffix("\n"))


@click.command(name="salvage")
@click.argument("store", metavar="STORE")
@click.option("--into", metavar="DIR", required=True, help="Directory or URI to write; it must be new or empty.")
@click.option("--donor", "donors", metavar="STORE", multiple=True,
              help="Another copy of the same log, such as a slave's; may be repeated, the best one first.")  # fmt: skip
@click.option("--broker", metavar="VERSION", default=NEWEST, show_default=True,
              help="Whose own recovery the result is compared with.")  # fmt: skip
@click.option("--lost", "losses", type=click.Choice(LOSSES), default=TOMBSTONES, show_default=True,
              help="What takes the queue offsets of lost messages: records without content, or nothing.")  # fmt: skip
@click.option("--json", "json_to", metavar="FILE", help="Write the result as JSON; - is standard output, alone there.")
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Threads; as many as cores if not given.")
@click.option("--quiet", is_flag=True, help="One line, no progress.")
@click.option("--conf", metavar="FILE", help="The broker's broker.conf; what it does not say is told from the files.")
@click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="A broker setting; may be repeated.")
@click.option("--split-bytes", metavar="N", type=click.IntRange(min=1), help="Bytes of the log a task reads.")
def salvage(
    store: str, into: str, donors: Sequence[str], broker: str, losses: str, json_to: str | None, jobs: int | None,
    quiet: bool, conf: str | None, sets: Sequence[str], split_bytes: int | None,
) -> int:  # fmt: skip
    """Save every intact message of a damaged store into DIR, a store that brokers start on. Only reads the store."""
    given = given_settings(read_conf(conf), conf or "broker.conf", sets)
    refuse_json_inside(json_to, into)
    meter = Meter()
    with json_sink(json_to, [store, *donors]) as sink:
        try:
            with meter.bar(store, shown=not quiet):
                result = save(
                    store, into, given=given, donors=donors, broker=broker, losses=losses, jobs=jobs,
                    split_bytes=split_bytes, progress=meter.update,
                )  # fmt: skip
        except KeyboardInterrupt:
            text = f"cancelled {meter.text()}; nothing was left in {shown(into)}"
            complain(f"{store}: {text}")
            put(sink, to_json(failure_object(store, text, EXIT_CANCELLED)))
            return EXIT_CANCELLED
        except Exception as error:
            code = explain(error, store)
            put(sink, to_json(failure_object(store, str(error) or type(error).__name__, code)))
            return code
        put(sink, to_json(salvaged_object(result)))
    if json_to != "-":
        show(result, quiet=quiet)
    return result.exit_code

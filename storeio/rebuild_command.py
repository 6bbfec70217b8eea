"""``storeio rebuild``: the command, a thin layer over ``storeio.rebuild``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from storeio.config import given_settings
from storeio.console import (
    Meter,
    coloured,
    complain,
    explain,
    is_inside,
    json_sink,
    put,
    queue_named,
    read_conf,
    terminal_width,
)  # fmt: skip
from storeio.errors import UsageError
from storeio.rebuild.node import rebuild as build
from storeio.rebuild.tally import PARTS, QUEUES, Names
from storeio.rebuilt import Rebuilt
from storeio.report import failure_object, to_json
from storeio.report.rebuilding import rebuilt_object, rebuilt_sentence, render_rebuilt
from storeio.results import EXIT_CANCELLED
from storeio.uris import shown


def names_of(topics: Iterable[str], queues: Iterable[str]) -> Names | None:
    """Return the queues that ``--topic`` and ``--queue`` name, None for all.

    Raises:
        UsageError: A queue is not written as TOPIC/ID.
    """
    names: set[tuple[str, int | None]] = {(topic, None) for topic in topics}
    names.update(queue_named(text) for text in queues)
    return frozenset(names) or None


def parts_of(only: Sequence[str], names: Names | None) -> tuple[str, ...]:
    """Return what is to be built: what ``--only`` says, of single queues nothing else, or all.

    Raises:
        UsageError: Queues are named, but none is to be built.
    """
    if names and only and QUEUES not in only:
        raise UsageError(f"--topic and --queue: go with --only {QUEUES}")
    return tuple(only) or ((QUEUES,) if names else PARTS)


def show(result: Rebuilt, *, quiet: bool) -> None:
    """Print a rebuild's report, or only its sentence."""
    text = rebuilt_sentence(result) if quiet else coloured(render_rebuilt(result, width=terminal_width()))
    put(sys.stdout, text.removesuffix("\n"))


def refuse_json_inside(json_to: str | None, into: str) -> None:
    """Raise if the report would lie in the directory that is to be made.

    Raises:
        UsageError: It would.
    """
    if json_to not in (None, "-") and is_inside(json_to, into):
        raise UsageError(f"--json {json_to}: lies inside {shown(into)}, which must be new or empty")


@click.command(name="rebuild")
@click.argument("store", metavar="STORE")
@click.option("--into", metavar="DIR", required=True, help="Directory or URI to write; it must be new or empty.")
@click.option(
    "--topic", "topics", metavar="NAME", multiple=True, help="Only the queues of this topic; may be repeated."
)
@click.option("--queue", "queues", metavar="TOPIC/ID", multiple=True, help="Only this queue; may be repeated.")
@click.option("--only", metavar="PART", multiple=True, type=click.Choice(PARTS),
              help=f"Build only one of {', '.join(PARTS)}; may be repeated.")  # fmt: skip
@click.option("--json", "json_to", metavar="FILE", help="Write the result as JSON; - is standard output, alone there.")
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Threads; as many as cores if not given.")
@click.option("--quiet", is_flag=True, help="One line, no progress.")
@click.option("--conf", metavar="FILE", help="The broker's broker.conf; what it does not say is told from the files.")
@click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="A broker setting; may be repeated.")
@click.option("--split-bytes", metavar="N", type=click.IntRange(min=1), help="Bytes of the log a task reads.")
def rebuild(
    store: str, into: str, topics: Sequence[str], queues: Sequence[str], only: Sequence[str], json_to: str | None,
    jobs: int | None, quiet: bool, conf: str | None, sets: Sequence[str], split_bytes: int | None,
) -> int:  # fmt: skip
    """Build queues, index and checkpoint anew from the commitlog, into DIR. Writes nothing into the store."""
    given = given_settings(read_conf(conf), conf or "broker.conf", sets)
    names = names_of(topics, queues)
    parts = parts_of(only, names)
    refuse_json_inside(json_to, into)
    meter = Meter()
    with json_sink(json_to, [store]) as sink:
        try:
            with meter.bar(store, shown=not quiet):
                result = build(
                    store, into, given=given, queues=names, parts=parts, jobs=jobs, split_bytes=split_bytes,
                    progress=meter.update,
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
        put(sink, to_json(rebuilt_object(result)))
    if json_to != "-":
        show(result, quiet=quiet)
    return result.exit_code

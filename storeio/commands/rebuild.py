"""``storeio rebuild``: the command, a thin layer over ``storeio.rebuild``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from storeio.commands.console import Meter, coloured, queue_named, settings_of, terminal_width
from storeio.commands.options import (
    PATH,
    Task,
    attempt,
    into_option,
    queue_option,
    reading_options,
    refuse_json_inside,
    topic_option,
)
from storeio.commands.outputs import json_sink, say
from storeio.errors import UsageError
from storeio.process import undivided
from storeio.rebuilt import PARTS, QUEUES
from storeio.report import to_json
from storeio.report.rebuilding import rebuilt_object, rebuilt_sentence, render_rebuilt
from storeio.uris import shown

if TYPE_CHECKING:
    from storeio.rebuild.tally import Names


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


@click.command(name="rebuild", cls=Task)
@click.argument("store", metavar="STORE", type=PATH)
@into_option
@topic_option
@queue_option
@click.option("--only", metavar="PART", multiple=True, type=click.Choice(PARTS),
              help=f"Build only one of {', '.join(PARTS)}; may be repeated.")  # fmt: skip
@click.option("--broker", metavar="VERSION", help="Index tags as this version does, where the store does not tell.")
@reading_options
def rebuild(
    store: str, into: str, topics: Sequence[str], queues: Sequence[str], only: Sequence[str], broker: str | None,
    json_to: str | None,
    jobs: int | None, quiet: bool, conf: str | None, sets: Sequence[str], split_bytes: int | None,
) -> int:  # fmt: skip
    """Build queues, index and checkpoint anew from the commitlog, into DIR. Writes nothing into the store."""
    given = settings_of(conf, sets, {"--json": json_to}, quiet=quiet)
    names = names_of(topics, queues)
    parts = parts_of(only, names)
    refuse_json_inside(json_to, into)
    meter = Meter()
    with undivided():
        from storeio.rebuild.node import rebuild as build  # numba takes half a second to import

    with json_sink(json_to, [store], quiet=quiet) as sink:
        left = f"nothing was left in {shown(into)}"
        with attempt(store, sink, meter, bar=not quiet, left=left) as tried:
            result = build(
                store, into, given=given, queues=names, parts=parts, broker=broker, jobs=jobs, split_bytes=split_bytes,
                progress=meter.update,
            )  # fmt: skip
        if tried.code is not None:
            return tried.code
        sink.put(to_json(rebuilt_object(result)))
    code = result.exit_code | sink.code
    if json_to == "-":
        return code
    text = rebuilt_sentence(result) if quiet else coloured(render_rebuilt(result, width=terminal_width()))
    return code | say(text.removesuffix("\n"))

"""``storeio salvage``: the command, a thin layer over ``storeio.salvage``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from storeio.commands.console import Meter, coloured, settings_of, terminal_width
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
from storeio.commands.rebuild import names_of
from storeio.errors import StoreError, UsageError
from storeio.output.targets import file_target
from storeio.process import undivided
from storeio.report import to_json
from storeio.report.salvaging import render_salvaged, salvaged_object, salvaged_sentence
from storeio.safe import parse_range, parse_time
from storeio.salvaged import LOSSES, TOMBSTONES, Salvaged, Written
from storeio.simulate.rules import NEWEST
from storeio.uris import shown

# Each function imports what it needs of the engine: numba takes half a second.
if TYPE_CHECKING:
    from storeio.salvage.chosen import Choice


def choice_of(
    topics: Sequence[str], queues: Sequence[str], *, deleted: bool, offsets: str | None, since: str | None,
    until: str | None,
) -> Choice:  # fmt: skip
    """Return which messages are wanted.

    Raises:
        UsageError: A queue, range or time that is written in another form, or a range that is empty.
    """
    names = names_of(topics, queues)
    bounds = None if offsets is None else _offsets(offsets)
    times = [None if text is None else _time(name, text) for name, text in (("since", since), ("until", until))]
    if bounds is not None and names is None:
        raise UsageError("--queue-offset: goes with --topic or --queue")
    if times[0] is not None and times[1] is not None and times[0] > times[1]:
        raise UsageError("--since and --until: the time range ends before it starts")
    from storeio.salvage.chosen import Choice

    return Choice(names, deleted, times[0], times[1], bounds)


def _offsets(text: str) -> tuple[int, int]:
    try:
        first, last = parse_range(text)
    except ValueError as error:
        raise UsageError(f"--queue-offset: {error}") from None
    if first < 0:
        raise UsageError(f"--queue-offset {text}: queue offsets begin at 0")
    if first > last:
        raise UsageError(f"--queue-offset {text}: the range ends before it starts")
    return first, last


def _time(name: str, text: str) -> int:
    try:
        return parse_time(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--{name} {error}") from error


def messages_writer(place: str | None, into: str, stores: Sequence[str]) -> Callable[[Salvaged], None]:
    """Return what writes a salvage's messages where they are wanted.

    Raises:
        UsageError: Into a store, or in a form that cannot be written.
    """
    if place is None:
        return lambda result: None
    from storeio.output.partials import left_beside
    from storeio.replay import checked_file

    local = file_target("--messages", place, (into, *stores))
    write = checked_file(place)

    def told(result: Salvaged) -> None:
        try:
            result.notes.extend(left_beside(local))
            result.messages = Written(str(local), write(result, into, local))
        except StoreError as error:  # the new store stands, and its report is wanted all the more
            result.problems.append(f"--messages: {error}")

    return told


@click.command(name="salvage", cls=Task)
@click.argument("store", metavar="STORE", type=PATH)
@into_option
@click.option("--donor", "donors", metavar="STORE", type=PATH, multiple=True,
              help="Another copy of the same log, such as a slave's; may be repeated, the best one first.")  # fmt: skip
@click.option("--broker", metavar="VERSION",
              help=f"Whose own recovery the result is compared with; {NEWEST} if not given.")  # fmt: skip
@click.option("--lost", "losses", type=click.Choice(LOSSES), default=TOMBSTONES, show_default=True,
              help="What takes the queue offsets of lost messages: records without content, or nothing.")  # fmt: skip
@topic_option
@queue_option
@click.option("--deleted", is_flag=True, help="Only topics that were deleted and are still in the log.")
@click.option("--queue-offset", "offsets", metavar="N[..M]", help="Only messages at these queue offsets.")
@click.option("--since", metavar="TIME", help="Only messages stored at this time or later.")
@click.option("--until", metavar="TIME", help="Only messages stored at this time or earlier.")
@click.option(
    "--messages",
    metavar="FILE",
    type=PATH,
    help="Also write the messages, for a producer: FILE.jsonl or FILE.parquet.",
)
@reading_options
def salvage(
    store: str, into: str, donors: Sequence[str], broker: str | None, losses: str, topics: Sequence[str],
    queues: Sequence[str], deleted: bool, offsets: str | None, since: str | None, until: str | None,
    messages: str | None, json_to: str | None, jobs: int | None, quiet: bool, conf: str | None, sets: Sequence[str],
    split_bytes: int | None,
) -> int:  # fmt: skip
    """Save every intact message of a damaged store into DIR, a store that brokers start on. Only reads the store."""
    choice = choice_of(topics, queues, deleted=deleted, offsets=offsets, since=since, until=until)
    write = messages_writer(messages, into, [store, *donors])
    given = settings_of(conf, sets, {"--json": json_to, "--messages": messages}, quiet=quiet)
    refuse_json_inside(json_to, into)
    with undivided():
        from storeio.salvage.node import salvage as save

    meter = Meter()
    with json_sink(json_to, [store, *donors], quiet=quiet) as sink:
        left = f"nothing was left in {shown(into)}"
        with attempt(store, sink, meter, bar=not quiet, left=left) as tried:
            result = save(
                store, into, given=given, donors=donors, broker=broker, losses=losses, choice=choice, jobs=jobs,
                split_bytes=split_bytes, progress=meter.update,
            )  # fmt: skip
        if tried.code is not None:
            return tried.code
        with attempt(store, sink, left=f"{shown(into)} is whole, its messages were not written") as tried:
            write(result)
        if tried.code is not None:
            return tried.code
        sink.put(to_json(salvaged_object(result)))
    code = result.exit_code | sink.code
    if json_to == "-":
        return code
    text = salvaged_sentence(result) if quiet else coloured(render_salvaged(result, width=terminal_width()))
    return code | say(text.removesuffix("\n"))

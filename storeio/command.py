"""What the commands have in common: their options, and how they end where the work could not be done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import click

from storeio.console import Meter, complain, explain, is_inside, put
from storeio.errors import UsageError
from storeio.report import failure_object, to_json
from storeio.results import EXIT_CANCELLED
from storeio.uris import shown

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json", "json_to", metavar="FILE", help="Write the result as JSON; - is standard output, alone there."
)
jobs_option = click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), help="Threads; as many as cores if not given."
)
quiet_option = click.option("--quiet", is_flag=True, help="One line, no progress.")
conf_option = click.option(
    "--conf", metavar="FILE", help="The broker's broker.conf; what it does not say is told from the files."
)
set_option = click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="A broker setting; repeat.")
split_option = click.option(
    "--split-bytes", metavar="N", type=click.IntRange(min=1), help="Bytes of the log a task reads."
)


def reading_options(command: F) -> F:
    """Give a command the options of those that read a whole store."""
    for option in (split_option, set_option, conf_option, quiet_option, jobs_option, json_option):
        command = option(command)
    return command


into_option = click.option(
    "--into", metavar="DIR", required=True, help="Directory or URI to write; it must be new or empty."
)
topic_option = click.option(
    "--topic", "topics", metavar="NAME", multiple=True, help="Only the queues of this topic; repeat."
)
queue_option = click.option("--queue", "queues", metavar="TOPIC/ID", multiple=True, help="Only this queue; repeat.")


def refuse_json_inside(json_to: str | None, into: str) -> None:
    """Raise if the report would lie in the directory that is to be made.

    Raises:
        UsageError: It would.
    """
    if json_to not in (None, "-") and is_inside(json_to, into):
        raise UsageError(f"--json {json_to}: lies inside {shown(into)}, which must be new or empty")


def failure_of(error: Exception, store: str) -> tuple[int, dict[str, Any]]:
    """Say in one line what went wrong with a store; return the exit code for it, and the JSON object."""
    code = explain(error, store)
    return code, failure_object(store, str(error) or type(error).__name__, code)


@dataclass(slots=True)
class Attempt:
    """Work that may fail: the exit code of its early end, None as long as there was none."""

    code: int | None = None


@contextlib.contextmanager
def attempt(
    store: str, sink: IO[str] | None, meter: Meter | None = None, *, bar: bool = False, left: str = ""
) -> Iterator[Attempt]:
    """Run the block; whatever ends it early is said in one line and as JSON, and is over then.

    Args:
        store: What the work is about.
        sink: Where JSON goes.
        meter: How far the work is.
        bar: Whether that is shown.
        left: What a cancelled one leaves, as the end of a sentence.
    """
    tried, known = Attempt(), meter or Meter()
    try:
        with known.bar(store, shown=bar):
            yield tried
    except KeyboardInterrupt:
        text = f"cancelled {known.text()}" if meter is not None else "cancelled"
        text += f"; {left}" if left else ""
        complain(f"{store}: {text}")
        put(sink, to_json(failure_object(store, text, EXIT_CANCELLED)))
        tried.code = EXIT_CANCELLED
    except Exception as error:
        tried.code, told = failure_of(error, store)
        put(sink, to_json(told))

"""What the commands have in common: their options, and how they end where the work could not be done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import click

from storeio.commands.console import Meter, complain, explain
from storeio.commands.examples import EXAMPLES
from storeio.commands.outputs import Sink
from storeio.errors import UsageError
from storeio.output.targets import is_inside
from storeio.report import failure_object, to_json
from storeio.results import EXIT_CANCELLED
from storeio.uris import shown

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
PATH: Final = click.Path(readable=False)  # what cannot be read is told of by whoever reads it, beside other stores
F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json",
    "json_to",
    metavar="FILE",
    type=PATH,
    help="Write the result as JSON; - is standard output, alone there.",
)
jobs_option = click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), help="Threads; as many as cores if not given."
)
one_thread_option = click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), expose_value=False,
    help="Accepted for all verbs; one thread is used.",
)  # fmt: skip
quiet_option = click.option("--quiet", is_flag=True, help="One line, no progress.")
conf_option = click.option(
    "--conf",
    metavar="FILE",
    type=PATH,
    help="The broker's broker.conf; what it does not say is told from the files.",
)
set_option = click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="A broker setting; repeat.")
split_option = click.option(
    "--split-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    help="Bytes of the log a task reads; 64 MiB or less if not given.",
)


html_option = click.option(
    "--html", "html_to", metavar="FILE", type=PATH, help="Also write the report as a page, one file."
)


class Task(click.Command):
    """A command whose help begins with what it is for and how people call it; the parser's view comes after that."""

    may_be_empty: ClassVar[frozenset[str]] = frozenset()  # parameters

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the arguments.

        Raises:
            BadParameter: One is an empty text, as of a shell's variable that is not set; as a path it would be the
                current directory.
        """
        left = super().parse_args(ctx, args)
        for parameter in self.params if not ctx.resilient_parsing else ():
            value = ctx.params.get(parameter.name or "")
            if parameter.name not in self.may_be_empty and (value == "" or (isinstance(value, tuple) and "" in value)):
                raise click.BadParameter("is empty; is a variable not set?", ctx, parameter)
        return left

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it does, examples, what may be given."""
        self.format_help_text(ctx, formatter)
        indent = " " * 2
        formatter.write_paragraph()
        formatter.write_heading("Examples")
        for command, purpose in EXAMPLES[self.name or ""]:
            formatter.write(f"{indent}# {purpose}\n{indent}{command}\n")
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)


def reading_options(command: F) -> F:
    """Give a command the options of those that read a whole store."""
    for option in (split_option, set_option, conf_option, quiet_option, jobs_option, json_option):
        command = option(command)
    return command


def planned_options(command: F) -> F:
    """Give a command the options of those that go by a plan, which needs neither threads nor settings."""
    said = "Accepted for all verbs; the plan has the settings."
    conf = click.option("--conf", metavar="FILE", type=PATH, help=said)
    one = click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help=said)
    for option in (one, conf, quiet_option, one_thread_option, json_option):
        command = option(command)
    return command


into_option = click.option(
    "--into",
    metavar="DIR",
    type=PATH,
    required=True,
    help="Directory or URI to write; it must be new or empty.",
)
topic_option = click.option(
    "--topic", "topics", metavar="NAME", multiple=True, help="Only the queues of this topic; repeat."
)
queue_option = click.option("--queue", "queues", metavar="TOPIC/ID", multiple=True, help="Only this queue; repeat.")


def refuse_json_inside(json_to: str | None, into: str, why: str = "which must be new or empty") -> None:
    """Raise if the report would lie in a directory: one that is to be made, if nothing else is said.

    Raises:
        UsageError: It would.
    """
    if json_to not in (None, "-") and is_inside(json_to, into):
        raise UsageError(f"--json {json_to}: lies inside {shown(into)}, {why}")


def failure_of(error: Exception, store: str) -> tuple[int, dict[str, Any]]:
    """Say in one line what went wrong with a store; return the exit code for it, and the JSON object."""
    code = explain(error, store)
    return code, failure_object(store, str(error) or type(error).__name__, code)


@dataclass(slots=True)
class Attempt:
    """Work that may fail: the exit code of its early end, None as long as there was none."""

    code: int | None = None
    why: str = ""


@contextlib.contextmanager
def attempt(
    store: str, sink: Sink, meter: Meter | None = None, *, bar: bool = False, left: str = "",
    more: Mapping[str, Any] = NOTHING,
) -> Iterator[Attempt]:  # fmt: skip
    """Run the block; whatever ends it early is said in one line and as JSON, and is over then.

    Args:
        store: What the work is about.
        sink: Where JSON goes.
        meter: How far the work is.
        bar: Whether that is shown.
        left: What a cancelled one leaves, as the end of a sentence.
        more: What JSON says of the work besides.
    """
    tried, known = Attempt(), meter or Meter()
    try:
        with known.bar(store, shown=bar):
            yield tried
    except KeyboardInterrupt:
        text = f"cancelled {known.text()}" if meter is not None else "cancelled"
        text += f"; {left}" if left else ""
        complain(f"{store}: {text}")
        sink.put(to_json({**failure_object(store, text, EXIT_CANCELLED), **more}))
        tried.code, tried.why = EXIT_CANCELLED, text
    except Exception as error:
        tried.code, told = failure_of(error, store)
        tried.why = told["error"]
        sink.put(to_json({**told, **more}))

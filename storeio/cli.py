"""The command line: parse arguments, call the verb, print its report, end with fsck's exit codes.

The engine is imported when a verb runs, so that ``--help`` and a misspelt option answer at once.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

from storeio import __version__
from storeio.command import attempt, reading_options
from storeio.config import Given, given_settings
from storeio.console import (
    Meter,
    coloured,
    complain,
    drop_output,
    explain,
    json_sink,
    put,
    read_conf,
    terminal_width,
)
from storeio.report import audit_object, render, to_json, verdict_sentence
from storeio.results import EXIT_CANCELLED, EXIT_FAILED, EXIT_SOUND, EXIT_USAGE, Audit

if TYPE_CHECKING:
    from storeio.audit import Progress

LATER = {
    "apply": "storeio.apply.command",
    "diff": "storeio.diff_command",
    "inspect": "storeio.inspect.command",
    "plan": "storeio.plan_command",
    "rebuild": "storeio.rebuild_command",
    "salvage": "storeio.salvage_command",
    "simulate": "storeio.simulate_command",
    "undo": "storeio.apply.command",
}


def run_audit(
    root: str,
    *,
    given: Mapping[str, str],
    jobs: int | None,
    split_bytes: int | None,
    progress: Callable[[Progress], None] | None,
) -> Audit:
    """Return the audit of one store; tests put another function in its place."""
    from storeio import audit  # numba takes half a second to import

    return audit.check(root, given=given, jobs=jobs, split_bytes=split_bytes, progress=progress)


def print_versions(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from storeio import crc

    click.echo(f"storeio {__version__}")
    click.echo(f"python {platform.python_version()}")
    for name in ("numpy", "numba", "isal"):
        try:
            click.echo(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            click.echo(f"{name} not installed")
    click.echo(f"crc engine {crc.ENGINE}")
    context.exit(EXIT_SOUND)


class Verbs(click.Group):
    """The verbs; those in ``LATER`` are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return sorted({*super().list_commands(ctx), *LATER})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, None if there is none of this name."""
        if cmd_name in LATER:
            command: click.Command = getattr(importlib.import_module(LATER[cmd_name]), cmd_name)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_versions,
              help="Show the versions of all parts that may matter.")  # fmt: skip
def cli() -> None:
    """Check, explain, rebuild and repair the store directories of Apache RocketMQ brokers.

    \b
    Exit codes add up as bits:
      0 sound   1 repaired   4 damage found   8 could not do the work   16 wrong use   32 cancelled
    """


@dataclass(frozen=True, slots=True)
class Options:
    """What ``check`` was asked for, less the stores."""

    json_to: str | None
    jobs: int | None
    quiet: bool
    given: Given
    split_bytes: int | None
    no_progress: bool
    show_all: bool


@cli.command()
@click.argument("stores", metavar="STORE...", nargs=-1, required=True)
@reading_options
@click.option("--no-progress", is_flag=True, help="No progress bar, on a terminal either.")
@click.option("--all", "show_all", is_flag=True, help="Print every finding, queue and index file.")
def check(stores: Sequence[str], conf: str | None, sets: Sequence[str], **rest: Any) -> int:
    """Audit stores: layout, commitlog, queues both ways, index, checkpoint. Writes nothing into them."""
    options = Options(given=given_settings(read_conf(conf), conf or "broker.conf", sets), **rest)
    code = EXIT_SOUND
    with json_sink(options.json_to, stores) as sink:
        for store in stores:
            code |= check_one(store, options, sink)
            if code & EXIT_CANCELLED:
                break
    return code


def check_one(store: str, options: Options, sink: IO[str] | None) -> int:
    """Return the exit code of one store, its report printed."""
    meter = Meter()
    with attempt(store, sink, meter, bar=not (options.quiet or options.no_progress)) as tried:
        audit = run_audit(
            store,
            given=options.given,
            jobs=options.jobs,
            split_bytes=options.split_bytes,
            progress=meter.update,
        )
    if tried.code is not None:
        return tried.code
    put(sink, to_json(audit_object(audit)))
    if options.json_to != "-":
        if options.quiet:
            put(sys.stdout, verdict_sentence(audit))
        else:
            text = render(audit, width=terminal_width(), show_all=options.show_all)
            put(sys.stdout, coloured(text).removesuffix("\n"))
    return audit.exit_code


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with the exit code of the contract."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a topic may not fit the terminal's encoding
    code = run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call; whatever goes wrong is said in one line on standard error."""
    try:
        code = cli.main(args=arguments, prog_name="storeio", standalone_mode=False)
    except click.FileError as error:
        complain(error.format_message())
        return EXIT_FAILED
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        complain("cancelled")
        return EXIT_CANCELLED
    except BrokenPipeError:
        drop_output()
        return EXIT_SOUND  # who reads has seen enough, as in `storeio inspect ... | head`
    except Exception as error:
        return explain(error)
    return code if isinstance(code, int) else EXIT_SOUND

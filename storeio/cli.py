"""The command line: parse arguments, call the verb, print its report, end with fsck's exit codes.

The engine is imported when a verb runs, so that ``--help`` and a misspelt option answer at once.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.metadata
import io
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

import click
from click.shell_completion import get_completion_class

from storeio import __version__
from storeio.commands.console import complain, drop_output, errors_shown, explain
from storeio.commands.examples import TASKS
from storeio.commands.options import Task
from storeio.commands.outputs import lost_output
from storeio.process import end_undisturbed, own_process
from storeio.results import EXIT_CANCELLED, EXIT_FAILED, EXIT_SOUND, EXIT_USAGE
from storeio.safe import printable

PARTS: Final = (
    "numpy", "numba", "isal", "click", "rich", "jinja2",
    "pyarrow", "pyspark", "delta-spark", "deltalake", "lz4", "zstandard",
)  # fmt: skip
SHELLS: Final = ("bash", "zsh", "fish")
COMPLETE: Final = "_STOREIO_COMPLETE"  # the variable by which click is asked for completions

COMMANDS: Final = ("apply", "check", "diff", "inspect", "plan", "rebuild", "salvage", "simulate", "undo")
ELSEWHERE: Final = {"undo": "apply"}  # verbs that do not lie in the module of their name


def print_versions(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the versions of all parts and end the call, if that is wanted."""
    if not wanted or context.resilient_parsing:
        return
    from storeio import crc

    click.echo(f"storeio {__version__}")
    click.echo(f"python {platform.python_version()}")
    for name in PARTS:
        try:
            click.echo(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            click.echo(f"{name} not installed")
    click.echo(java_line())
    click.echo(f"crc engine {crc.ENGINE}")
    context.exit(EXIT_SOUND)


def java_line() -> str:
    """Return which Java the Spark side would start, in a line."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin" if home else None)
    if path is None:
        return "java not installed"
    try:
        ran = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"java does not run: {printable(str(error))}"
    found = re.search(r'version "([^"]*)"', ran.stderr + ran.stdout)
    return f"java {printable(found[1]) if found else 'of unknown version'} ({printable(path)})"


@contextlib.contextmanager
def enough_read() -> Iterator[None]:
    """Let a block write to a reader that goes when it has seen enough, as in `storeio inspect ... | head`.

    Raises:
        Exit: It went. click would end the process with 1, which says that something was repaired.
    """
    try:
        yield
    except BrokenPipeError:
        drop_output(sys.stdout)
        raise click.exceptions.Exit(EXIT_SOUND) from None


class Verbs(click.Group):
    """The verbs, each imported when it is asked for."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        """Return the call as click parsed it; help and versions are shown on the way."""
        with enough_read():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb that is called, and return its exit code. click would write an empty line for an interrupt."""
        try:
            with enough_read():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("cancelled")
            raise click.exceptions.Exit(EXIT_CANCELLED) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, None if there is none of this name."""
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"storeio.commands.{ELSEWHERE.get(cmd_name, cmd_name)}")
            command: click.Command = getattr(module, cmd_name)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that is called.

        Raises:
            UsageError: There is none of this name; says which may be meant.
        """
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"no verb {printable(args[0][:40])!r}: {meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by what people come for; none is imported for that."""
        for heading, verbs in TASKS:
            with formatter.section(heading):
                formatter.write_dl(verbs)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_versions,
              help="Show the versions of all parts that may matter.")  # fmt: skip
def cli() -> None:
    """Find out what is wrong with the store of an Apache RocketMQ broker, and repair it.

    \b
    A broker does not start, or consumers miss messages? Begin with
      storeio check /data/rocketmq/store
    Every report ends with the next command; VERB --help shows calls of a verb.

    \b
    Exit codes add up as bits:
      0 sound               1 repaired     4 damage found
      8 could not be done   16 wrong use   32 cancelled
    """


@cli.command(cls=Task)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print what makes a shell complete verbs, options and file names."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell}: click completes {', '.join(SHELLS)}")
    click.echo(kind(cli, {}, "storeio", COMPLETE).source())
    return EXIT_SOUND


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with the exit code of the contract."""
    own_process()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a topic may not fit the terminal's encoding
    code = run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output(sys.stdout)
    except OSError as error:
        code |= explain(lost_output(error))
    end_undisturbed()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one call; whatever goes wrong is said in one line on standard error."""
    try:
        code = cli.main(args=arguments, prog_name="storeio", standalone_mode=False)
    except click.FileError as error:
        complain(error.format_message())
        return EXIT_FAILED
    except click.ClickException as error:
        with errors_shown():
            error.show()
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        complain("cancelled")
        return EXIT_CANCELLED
    except Exception as error:
        return explain(error)
    return code if isinstance(code, int) else EXIT_SOUND

"""What the command line needs of a terminal: progress, colour, width, errors as one line each; and its settings."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from storeio.config import Given, given_settings
from storeio.errors import AuditError, NotAStoreError, StoreError, UnreadableError, UsageError
from storeio.output.targets import refuse_inside, refuse_same
from storeio.paths import parse_number
from storeio.report.tables import bytes_text, clipped
from storeio.results import EXIT_FAILED, EXIT_USAGE
from storeio.safe import printable
from storeio.uris import name_of, shown

if TYPE_CHECKING:
    from storeio.audit import Progress

DEBUG: Final = "STOREIO_DEBUG"
MOST_CONF_BYTES: Final = 1 << 20  # hundreds of names are a hundredth of that; /dev/zero has no end
LEAST_WIDTH, MOST_WIDTH = 60, 160
TITLE_WIDTH = 20  # of a store in front of its bar
_RED: Final = (
    "DAMAGED", "ERRORS", "COULD NOT READ", "LOSES", "DELETES", "HARMS", "NO START", "DO NOT START", "NO PLAN",
    "STOPPED",
)  # fmt: skip
_YELLOW: Final = (
    "INCOMPLETE", "WARNINGS", "DOUBTFUL", "UNSURE", "CHOOSE", "HELPS", "DIFFERENT", "PREFIX", "NOT LOOKED AT", "LEFT",
    "SAVED WITH LOSSES",
)  # fmt: skip
_GREEN: Final = (
    "SOUND", "REBUILT", "SAFE", "CURES", "NOTHING TO DO", "APPLIED", "UNDONE", "EQUAL", "KEEPS", "SAVED",
)  # fmt: skip
_COLOURS: Final = dict.fromkeys(_RED, 31) | dict.fromkeys(_YELLOW, 33) | dict.fromkeys(_GREEN, 32)
_COLOURED: Final = re.compile(rf"^({'|'.join(sorted(_COLOURS, key=len, reverse=True))})\b", re.MULTILINE)


def is_fancy(stream: IO[str]) -> bool:
    """Tell whether colour and moving bars may go to a stream."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def coloured(text: str) -> str:
    """Return a report with its headings coloured if standard output is a terminal that wants it.

    Damaged names cannot imitate a heading: they never begin a line.
    """
    if not is_fancy(sys.stdout):
        return text
    return _COLOURED.sub(lambda m: f"\x1b[1;{_COLOURS[m[1]]}m{m[1]}\x1b[0m", text)


def terminal_width() -> int:
    """Return the columns to write in: the terminal's or ``COLUMNS``, 80 where there is neither."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, LEAST_WIDTH), MOST_WIDTH)


def settings_of(
    conf: str | None, sets: Iterable[str], outputs: Mapping[str, str | Path | None], *, quiet: bool = False
) -> Given:
    """Return the broker settings of ``--conf`` and ``--set``, of which no output, by its option, takes the place.

    Nor does one lie in a store, or in a table.

    What of them has no effect, neither here nor on brokers, is said on standard error, unless quiet.

    Raises:
        UsageError: The file cannot be read, or is an output, too; two outputs are one file, or one lies there; an
            unknown setting, or a bad value.
    """
    for option, target in outputs.items():
        if target not in (None, "-"):
            refuse_inside(option, target)
    refuse_same({"--conf": conf, **outputs})
    given = given_settings(_read_conf(conf), conf or "broker.conf", sets)
    for note in () if quiet else given.notes:
        complain(note)
    return given


def _read_conf(path: str | None) -> str | None:
    """Return the text of a broker.conf, bytes read as Java reads them; None where none is given.

    Raises:
        UsageError: It cannot be read.
    """
    if path is None:
        return None
    try:
        with open(path, encoding="latin-1", newline="") as file:
            text = file.read(MOST_CONF_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--conf {path}: {error.strerror or error}") from error
    if len(text) > MOST_CONF_BYTES:
        raise UsageError(f"--conf {path}: is no broker.conf: longer than {bytes_text(MOST_CONF_BYTES)}")
    return text


def queue_named(text: str) -> tuple[str, int]:
    """Return topic and queue id written as ``TOPIC/ID``.

    Raises:
        UsageError: Another form.
    """
    topic, _, number = text.rpartition("/")
    queue_id = parse_number(number)
    if not topic or queue_id is None or queue_id < 0:
        raise UsageError(f"--queue {text}: TOPIC/ID is needed, as in orders/3")
    return topic, queue_id


def drop_output(stream: IO[str]) -> None:
    """Let what is still written to a standard stream go nowhere, so that the interpreter's last flush cannot fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def errors_shown() -> Iterator[None]:
    """Let a block write to standard error; that nobody can be told there changes no exit code."""
    try:
        yield
    except OSError:
        drop_output(sys.stderr)


def complain(text: str) -> None:
    """Write one line to standard error."""
    with errors_shown():
        print(f"storeio: {printable(shown(text))}", file=sys.stderr, flush=True)


def _names_it(error: Exception) -> bool:
    """Tell whether what was asked for wrongly begins its text itself, an option or another path than the store's, or
    another store that cannot be read does, a donor or the second of two: files of a store have relative paths."""
    if isinstance(error, UnreadableError):
        return error.names_store
    return isinstance(error, UsageError | NotAStoreError) and re.match(r"\S+: ", str(error)) is not None


def _is_short_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))


def explain(error: Exception, store: str | None = None) -> int:
    """Say in one line what went wrong, and return the exit code for it."""
    about = f"{shown(store)}: " if store and shown(store) not in str(error) and not _names_it(error) else ""
    if os.environ.get(DEBUG):
        sys.stderr.write(printable(shown("".join(traceback.format_exception(error))), keep="\n"))
    if isinstance(error, UsageError | NotAStoreError):
        complain(f"{about}{error}")
        return EXIT_USAGE
    if isinstance(error, StoreError | OSError) and not isinstance(error, AuditError):
        complain(f"{about}{error}")
        return EXIT_FAILED
    if _is_short_of_memory(error):
        complain(f"{about}there is not enough memory for it, or for a thread more: see --jobs and --split-bytes")
        return EXIT_FAILED
    kind = "the audit contradicts itself" if isinstance(error, AuditError) else f"unexpected {type(error).__name__}"
    complain(f"{about}{kind}: {error}; its result is void ({DEBUG}=1 shows where it happened)")
    return EXIT_FAILED


class Meter:
    """How far a verb is: remembered for who cancels it, shown as a bar on a terminal."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self.last: Progress | None = None
        self._show: Callable[[Progress], None] | None = None

    def update(self, progress: Progress) -> None:
        """Take news; may come from any thread."""
        self.last = progress
        if self._show is not None:
            self._show(progress)

    def text(self) -> str:
        """Return how far it came, as the end of a sentence."""
        if self.last is None:
            return "before anything was read"
        done, total = bytes_text(self.last.done_bytes), bytes_text(self.last.total_bytes)
        return f"after {done} of {total} ({self.last.phase}); nothing is known of the rest"

    @contextlib.contextmanager
    def bar(self, title: str, *, shown: bool) -> Iterator[None]:
        """Show bytes, rate and time left on standard error while the block runs, if it is a terminal."""
        if not (shown and is_fancy(sys.stderr)):
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.progress import TransferSpeedColumn as Rate

        columns = (BarColumn(), DownloadColumn(), Rate(), TimeRemainingColumn(), TextColumn("{task.fields[phase]}"))
        with Progress(
            TextColumn("{task.description}", markup=False), *columns, console=Console(stderr=True), transient=True
        ) as bar:
            name = clipped(printable(name_of(title)), TITLE_WIDTH)
            task = bar.add_task(name, total=None, phase="")
            self._show = lambda p: bar.update(task, completed=p.done_bytes, total=p.total_bytes, phase=p.phase)
            try:
                yield
            finally:
                self._show = None

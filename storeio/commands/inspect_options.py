"""The options of ``storeio inspect``, parsed into one value and checked against each other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from storeio.commands.options import PATH, Task, one_thread_option
from storeio.errors import UsageError
from storeio.inspect.views import MOST_BYTES
from storeio.paths import MAX_LONG
from storeio.safe import parse_range, parse_time, printable

SHOWN_BYTES: Final = 4096  # of a body or a plain dump, unless told otherwise


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for; ``mode`` is files, records, units, index or hex."""

    store: str
    mode: str
    at: int | None
    around: int
    message_id: str | None
    unique_key: str | None
    key: str | None
    tag: str | None
    topic: str | None
    queue: int | None
    queue_offset: tuple[int, int] | None
    since: int | None
    until: int | None
    hex: int | None
    file: str | None
    body: str
    most: int
    limit: int | None
    scan: bool
    stale: bool
    json: str | None
    quiet: bool
    conf: str | None
    sets: tuple[str, ...]

    @property
    def wants_block(self) -> bool:
        """Whether records are shown in full: one was asked for, or bodies are."""
        one = self.message_id is not None or self.unique_key is not None or (self.at is not None and not self.around)
        return one or self.body != "none"


class InspectCommand(Task):
    """A command of which some options may be given without a word."""

    may_be_empty = frozenset({"key", "tag"})  # messages may have such


def number(value: str) -> int:
    """Return a whole number, decimal, also as names of files have it with zeros in front, or 0x hexadecimal."""
    try:
        if "_" in value:
            raise ValueError
        found = int(value, 16 if value.lower().lstrip("+-").startswith("0x") else 10)
        if abs(found) > MAX_LONG:
            raise ValueError
        return found
    except ValueError:
        raise click.BadParameter(f"{printable(value[:40])} is no whole number") from None


def offset_range(value: str) -> tuple[int, int]:
    """Return the first and the last of ``N``, ``N..M`` or ``N..``, both inclusive."""
    try:
        return parse_range(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def time_ms(value: str) -> int:
    """Return a time as Unix milliseconds."""
    try:
        return parse_time(value)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(printable(str(error))) from None


_OPTIONS: Final = (
    click.argument("store", metavar="STORE", type=PATH, required=False),
    click.option("--records", is_flag=True, help="Show records; implied by what selects them."),
    click.option("--at", type=number, metavar="OFFSET", help="The record at or around a physical offset."),
    click.option("--around", type=click.IntRange(0, MAX_LONG), metavar="N", help="With --at: N neighbours, too."),
    click.option("--message-id", metavar="ID", help="The record that a broker's message id names."),
    click.option("--unique-key", metavar="ID", help="Records with this client message id."),
    click.option("--key", metavar="KEY", help="Records with this key."),
    click.option("--tag", metavar="TAG", help="Records with this tag."),
    click.option("--topic", metavar="TOPIC", help="Records or units of this topic."),
    click.option("--queue", type=number, metavar="N", help="Of this queue id."),
    click.option("--queue-offset", type=offset_range, metavar="N[..M]", help="At these queue offsets."),
    click.option("--since", type=time_ms, metavar="TIME", help="Stored at this time or later."),
    click.option("--until", type=time_ms, metavar="TIME", help="Stored at this time or earlier."),
    click.option("--units", is_flag=True, help="Show units of queues and the records they point at."),
    click.option("--index", is_flag=True, help="Show index entries."),
    click.option("--hex", type=number, metavar="POSITION", help="Show bytes with their meaning."),
    click.option("--file", metavar="PATH", help="With --hex: the file, relative to the store; else the commitlog."),
    click.option("--body", type=click.Choice(["text", "hex", "none"]), default="none", help="Show bodies."),
    click.option("--bytes", "most", type=click.IntRange(0, MOST_BYTES), metavar="N",
                 help=f"Of a body, or of each field of a hex view, at most so many bytes; {SHOWN_BYTES} if not given."),
    click.option("--limit", type=click.IntRange(0, MAX_LONG), metavar="N", help="Stop after N."),
    click.option("--scan", is_flag=True, help="Take no short cut by queue, index or a start in the middle."),
    click.option("--stale", is_flag=True, help="Also records that were left behind a cut or moved."),
    click.option("--json", is_flag=False, flag_value="-", metavar="[FILE]", help="JSON lines; - is standard output."),
    one_thread_option,
    click.option("--quiet", is_flag=True, help="No notes on standard error."),
    click.option("--conf", metavar="FILE", type=PATH, help="The broker's configuration file."),
    click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="One broker setting."),
)  # fmt: skip


def asked_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with all options, called with one ``Asked``."""

    @functools.wraps(command)
    def parsed(**options: Any) -> None:
        command(_asked(**options))

    for option in reversed(_OPTIONS):
        parsed = option(parsed)
    return parsed


def _asked(*, records: bool, units: bool, index: bool, store: str | None, **rest: Any) -> Asked:
    """Return the options as one value.

    Raises:
        UsageError: Options that do not go together, or no store.
    """
    if store is None and rest["json"] is not None and Path(rest["json"]).is_dir():
        store, rest["json"] = rest["json"], "-"  # --json STORE: its value is optional, and this was none
    if store is None:
        raise UsageError("which store? give its directory")
    modes = {"units": units, "index": index, "hex": rest["hex"] is not None, "records": records}
    chosen = [name for name, is_chosen in modes.items() if is_chosen]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} are two questions; ask one at a time")
    given = {name for name in _SELECTORS if rest[name] not in (None, "none") and rest[name] is not False}
    mode = chosen[0] if chosen else "records" if given - {"file", "most"} else "files"
    for name in sorted(given):
        if mode not in _SELECTORS[name]:
            option = _OPTION_OF.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{option} goes with {' or '.join(f'--{one}' for one in _SELECTORS[name])}")
    if rest["most"] is not None and mode == "records" and rest["body"] == "none":
        raise UsageError("--bytes goes with --body or --hex")
    rest |= {"around": rest["around"] or 0, "most": SHOWN_BYTES if rest["most"] is None else rest["most"]}
    return Asked(store=store, mode=mode, **rest)


_RECORDS: Final = ("records",)
_SELECTORS: Final = {
    "at": ("records", "index"), "around": _RECORDS, "message_id": _RECORDS, "unique_key": ("records", "index"),
    "key": ("records", "index"), "tag": ("records", "index"), "topic": ("records", "units", "index"),
    "queue": ("records", "units"), "queue_offset": ("records", "units"), "since": _RECORDS, "until": _RECORDS,
    "scan": _RECORDS, "stale": _RECORDS, "file": ("hex",), "body": _RECORDS, "most": ("records", "hex"),
}  # fmt: skip
_OPTION_OF: Final = {"most": "--bytes"}

"""``storeio check``: the command, a thin layer over the audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storeio.commands.console import Meter, coloured, complain, explain, settings_of, terminal_width
from storeio.commands.options import PATH, Task, attempt, html_option, reading_options
from storeio.commands.outputs import Sink, html_target, json_sink, say
from storeio.config import Given
from storeio.errors import UsageError, WriteError
from storeio.process import undivided
from storeio.report import audit_object, render, to_json, verdict_sentence
from storeio.report.parsed import Failure
from storeio.results import EXIT_CANCELLED, EXIT_SOUND, Audit, AuditCancelled, Unfinished

if TYPE_CHECKING:
    from storeio.audit import Progress
    from storeio.history import Tables
    from storeio.report.page import StorePage


def run_audit(
    root: str,
    *,
    given: Mapping[str, str],
    jobs: int | None,
    split_bytes: int | None,
    progress: Callable[[Progress], None] | None,
) -> Audit | Unfinished:
    """Return the audit of one store, what is known of it if it was cancelled; tests put another in its place."""
    with undivided():
        from storeio import audit  # numba takes half a second to import

    try:
        return audit.check(root, given=given, jobs=jobs, split_bytes=split_bytes, progress=progress)
    except AuditCancelled as cancelled:
        return cancelled.known


@dataclass(slots=True)
class Call:
    """What was asked for, and what goes into the page."""

    json_to: str | None
    jobs: int | None
    quiet: bool
    given: Given
    split_bytes: int | None
    no_progress: bool
    show_all: bool
    page: Path | None
    history: Tables | None
    pages: list[StorePage] = field(default_factory=list)


@click.command(name="check", cls=Task)
@click.argument("stores", metavar="STORE...", type=PATH, nargs=-1, required=True)
@html_option
@click.option("--history", metavar="TABLES", type=PATH,
              help="With --html: tables of earlier audits, for its history.")  # fmt: skip
@click.option("--all", "show_all", is_flag=True, help="Print every finding, queue and index file.")
@click.option("--no-progress", is_flag=True, help="No progress bar, on a terminal either.")
@reading_options
def check(
    stores: Sequence[str], conf: str | None, sets: Sequence[str], html_to: str | None, history: str | None, **rest: Any
) -> int:
    """Find what is wrong with stores: log, queues both ways, index, checkpoint. Every byte is read, none written."""
    if history is not None and html_to is None:
        raise UsageError("--history goes with --html: it is shown on the page")
    page = html_target(html_to, stores)
    outputs: dict[str, str | Path | None] = {"--json": rest["json_to"], "--html": page}
    given = settings_of(conf, sets, outputs, quiet=rest["quiet"])
    call = Call(given=given, page=page, history=tables_of(history), **rest)
    code = EXIT_SOUND
    with json_sink(call.json_to, stores, quiet=call.quiet) as sink:
        for store in stores:
            code |= check_one(store, call, sink)
            if code & EXIT_CANCELLED:
                break
    code |= sink.code
    if call.page is not None and call.pages:
        code |= write_page(call.page, call.pages, quiet=call.quiet)
    return code


def tables_of(where: str | None) -> Tables | None:
    """Return the tables of earlier audits, if there is to be any of them."""
    if where is None:
        return None
    from storeio.history import Tables  # what it shows comes with the kernels

    return Tables(where)


def check_one(store: str, call: Call, sink: Sink) -> int:
    """Return the exit code of one store, its report printed."""
    meter = Meter()
    with attempt(store, sink, meter, bar=not (call.quiet or call.no_progress)) as tried:
        audit = run_audit(store, given=call.given, jobs=call.jobs, split_bytes=call.split_bytes, progress=meter.update)
    if tried.code is not None:
        # What was cancelled while the engine was imported left it in pieces, and a page of that alone shows nothing.
        if call.page is not None and (call.pages or tried.code != EXIT_CANCELLED):
            call.pages.append(page_of(Failure(store, tried.why, tried.code), call))
        return tried.code
    code = audit.exit_code
    try:
        with undivided():
            sink.put(to_json(audit_object(audit)))
        code |= show(audit, call)
        if call.page is not None:
            call.pages.append(page_of(audit, call))
    except KeyboardInterrupt:  # what is known is in the outputs all the same
        complain(f"{store}: cancelled behind its audit" + (", its page has no predicted starts" if call.page else ""))
        if call.page is not None:
            call.pages.append(page_of(audit, call, predicted=False))
        code |= EXIT_CANCELLED
    return code


def show(audit: Audit | Unfinished, call: Call) -> int:
    """Print the report of one store, if it is wanted; return the exit code of that."""
    if call.json_to == "-":
        return EXIT_SOUND
    text = render(audit, width=terminal_width(), show_all=call.show_all) if not call.quiet else None
    return say(verdict_sentence(audit) if text is None else coloured(text.removesuffix("\n")))


def page_of(audit: Audit | Unfinished | Failure, call: Call, *, predicted: bool = True) -> StorePage:
    """Return what the page shows of a store, the starts of brokers predicted unless that was cancelled."""
    from storeio.predict.start import next_starts
    from storeio.report.page import StorePage, start_of

    starts = next_starts(audit.store, call.given) if isinstance(audit, Audit) and predicted else ()
    past = call.history.past_of(audit.store) if call.history is not None else None
    return StorePage(audit, [*starmap(start_of, starts)], past)


def write_page(place: Path, pages: Sequence[StorePage], *, quiet: bool) -> int:
    """Write the page, whole or not at all; return the exit code of that."""
    from storeio.output.partials import left_beside
    from storeio.output.whole_file import whole_file
    from storeio.report.page import render_page

    notes = left_beside(place)
    try:
        with whole_file(place) as partial:
            partial.write_text(render_page(pages), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        return explain(WriteError(f"--html {place}: could not be written: {error.strerror or error}"))
    for told in () if quiet else (f"the page is in {place}", *notes):
        complain(told)
    return EXIT_SOUND

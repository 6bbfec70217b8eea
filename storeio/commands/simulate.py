"""``storeio simulate``: the command, a thin layer over ``storeio.predict.start``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from storeio.commands.console import Meter, coloured, complain, settings_of, terminal_width
from storeio.commands.options import PATH, Task, attempt, conf_option, one_thread_option, refuse_json_inside, set_option
from storeio.commands.outputs import Sink, json_sink, say
from storeio.config import Given
from storeio.errors import UsageError
from storeio.process import undivided
from storeio.report import to_json
from storeio.results import EXIT_CANCELLED, EXIT_SOUND
from storeio.simulate.rules import ALL, DEFAULT_HEAP_BYTES, NEWEST

# Each function imports what it needs of the engine: numba takes half a second.
if TYPE_CHECKING:
    from storeio.simulate.predicted import Prediction

HEAP_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def heap_bytes(text: str | None) -> int:
    """Return a heap size written as for Java's -Xmx.

    Raises:
        UsageError: Another form.
    """
    if text is None:
        return DEFAULT_HEAP_BYTES
    match = re.fullmatch(r"(\d{1,12})([kKmMgG]?)", text.strip())
    if match is None:
        raise UsageError(f"--heap {text}: a number with k, m or g is needed, as in 8g")
    return int(match[1]) * HEAP_UNITS[match[2].lower()]


@click.command(name="simulate", cls=Task)
@click.argument("stores", metavar="STORE...", type=PATH, nargs=-1, required=True)
@click.option("--broker", default=NEWEST, show_default=True, metavar="VERSION",
              help="Version that is to start, or all: one of each line, side by side.")  # fmt: skip
@click.option(
    "--json",
    "json_to",
    metavar="FILE",
    type=PATH,
    help="JSON, one object a start; - is standard output, alone there.",
)
@click.option(
    "--into",
    metavar="DIR",
    type=PATH,
    help="Write the store as it would be after the start; DIR is new or empty.",
)
@click.option("--whole-log/--no-whole-log", default=None,
              help="Read the whole log for what is given up, or never; else where it is small or cut.")  # fmt: skip
@click.option("--heap", metavar="SIZE", help="The broker's -Xmx, as in 8g (2g); 4.x may run out of it.")
@click.option("--retention", is_flag=True, help="Forecast what the running broker's own cleaning deletes, and when.")
@click.option("--quiet", is_flag=True, help="One line a start.")
@one_thread_option  # as in the broker
@conf_option
@set_option
def simulate(
    stores: Sequence[str], broker: str, json_to: str | None, into: str | None, whole_log: bool | None,
    heap: str | None, retention: bool, quiet: bool, conf: str | None, sets: Sequence[str],
) -> int:  # fmt: skip
    """Predict what a broker does at its next start: what it keeps, cuts, deletes, shifts and loses.

    The store is only read.
    """
    given = settings_of(conf, sets, {"--json": json_to}, quiet=quiet)
    from storeio.predict.start import versions_of

    versions, room = versions_of(broker), heap_bytes(heap)
    if into is not None and (len(stores) > 1 or len(versions) > 1):
        raise UsageError("--into: one store and one version at a time")
    if into is not None:
        refuse_json_inside(json_to, into)
    if retention and (into is not None or whole_log is not None):
        raise UsageError("--retention: goes with neither --into nor --whole-log or --no-whole-log")
    code = EXIT_SOUND
    with json_sink(json_to, stores, quiet=quiet) as sink:
        for store in stores:
            found: list[Prediction] = []
            for version in versions:
                if retention:
                    code |= _retention(store, version, given, room, sink, quiet=quiet, prints=json_to != "-")
                else:
                    code |= _one(store, version, given, whole_log, room, sink, found, into, bar=not quiet)
                if code & EXIT_CANCELLED:
                    break
            if found and json_to != "-":
                code |= _show(found, len(versions) > 1 or broker == ALL, quiet)
            if code & EXIT_CANCELLED:
                break
    return code | sink.code


def _one(
    store: str, version: str, given: Given, whole_log: bool | None, room: int, sink: Sink,
    found: list[Prediction], into: str | None, *, bar: bool,
) -> int:  # fmt: skip
    """Return the exit code of one start, added to ``found`` if it could be predicted and written, where it is to be."""
    with undivided():
        from storeio.predict.into import place_for, write_into
        from storeio.predict.start import simulate as predict
        from storeio.report.simulation import simulation_object

    meter = Meter()
    with attempt(store, sink, meter, bar=bar, more={"broker": version}) as tried:
        if into is not None:
            place_for(into, store)  # before all the work
        prediction = predict(
            store, broker=version, given=given, whole_log=whole_log, heap_bytes=room,
            digests=sink.stream is not None, progress=meter.update,
        )  # fmt: skip
        if into is not None:
            notes = write_into(prediction, into)
            for note in notes if bar else ():
                complain(note)
    if tried.code is not None:
        return tried.code
    sink.put(to_json(simulation_object(prediction)))
    found.append(prediction)
    return prediction.exit_code


def _retention(store: str, version: str, given: Given, room: int, sink: Sink, *, quiet: bool, prints: bool) -> int:
    """Return the exit code of one forecast, which was printed."""
    from storeio.predict.retention import forecast_retention
    from storeio.report.retention import render_retention, retention_object, retention_sentence

    with attempt(store, sink, more={"broker": version}) as tried:
        found = forecast_retention(store, broker=version, given=given, heap_bytes=room)
    if tried.code is not None:
        return tried.code
    sink.put(to_json(retention_object(found)))
    code = found.exit_code
    if prints:
        text = retention_sentence(found) if quiet else render_retention(found, width=terminal_width())
        code |= say(coloured(text.removesuffix("\n")))
    return code


def _show(found: Sequence[Prediction], side_by_side: bool, quiet: bool) -> int:
    """Print predictions of one store; return the exit code of that."""
    from storeio.report.broker_lines import render_lines
    from storeio.report.simulation import render_simulation, warning_sentence

    if quiet:
        return say("\n".join(map(warning_sentence, found)))
    width = terminal_width()
    text = render_lines(found, width=width) if side_by_side else render_simulation(found[0], width=width)
    return say(coloured(text.removesuffix("\n")))

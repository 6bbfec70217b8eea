"""``storeio diff``: the command, a thin layer over ``storeio.compare``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from storeio.compare.node import diff as compare
from storeio.config import given_settings
from storeio.console import Meter, coloured, complain, explain, json_sink, put, read_conf, terminal_width
from storeio.report import failure_object, to_json
from storeio.report.comparing import difference_object, difference_sentence, render_difference
from storeio.results import EXIT_CANCELLED


@click.command(name="diff")
@click.argument("one", metavar="STORE")
@click.argument("other", metavar="STORE")
@click.option("--json", "json_to", metavar="FILE", help="Write the result as JSON; - is standard output, alone there.")
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Threads; as many as cores if not given.")
@click.option("--quiet", is_flag=True, help="One line, no progress.")
@click.option("--conf", metavar="FILE", help="The brokers' broker.conf; what it does not say is told from the files.")
@click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="A broker setting; may be repeated.")
def diff(
    one: str, other: str, json_to: str | None, jobs: int | None, quiet: bool, conf: str | None, sets: Sequence[str]
) -> int:
    """Compare the logs of two stores, such as a master and its slave. Writes nothing into either."""
    given = given_settings(read_conf(conf), conf or "broker.conf", sets)
    meter = Meter()
    with json_sink(json_to, [one, other]) as sink:
        try:
            with meter.bar(one, shown=not quiet):
                result = compare(one, other, given=given, jobs=jobs, progress=meter.update)
        except KeyboardInterrupt:
            text = f"cancelled {meter.text()}"
            complain(f"{one}: {text}")
            put(sink, to_json(failure_object(one, text, EXIT_CANCELLED)))
            return EXIT_CANCELLED
        except Exception as error:
            code = explain(error, one)
            put(sink, to_json(failure_object(one, str(error) or type(error).__name__, code)))
            return code
        put(sink, to_json(difference_object(result)))
    if json_to != "-":
        text = difference_sentence(result) if quiet else coloured(render_difference(result, width=terminal_width()))
        put(sys.stdout, text.removesuffix("\n"))
    return result.exit_code

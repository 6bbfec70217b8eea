"""``storeio diff``: the command, a thin layer over ``storeio.compare``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from storeio.commands.console import Meter, coloured, settings_of, terminal_width
from storeio.commands.options import (
    PATH,
    Task,
    attempt,
    conf_option,
    jobs_option,
    json_option,
    quiet_option,
    set_option,
)
from storeio.commands.outputs import json_sink, say
from storeio.process import undivided
from storeio.report import to_json
from storeio.report.comparing import difference_object, difference_sentence, render_difference


@click.command(name="diff", cls=Task)
@click.argument("one", metavar="STORE", type=PATH)
@click.argument("other", metavar="STORE", type=PATH)
@json_option
@jobs_option
@quiet_option
@conf_option
@set_option
def diff(
    one: str, other: str, json_to: str | None, jobs: int | None, quiet: bool, conf: str | None, sets: Sequence[str]
) -> int:
    """Compare the logs of two stores, such as a master and its slave. Writes nothing into either."""
    with undivided():
        from storeio.compare.node import diff as compare  # numba takes half a second to import

    given = settings_of(conf, sets, {"--json": json_to}, quiet=quiet)
    meter = Meter()
    with json_sink(json_to, [one, other], quiet=quiet) as sink:
        with attempt(one, sink, meter, bar=not quiet) as tried:
            result = compare(one, other, given=given, jobs=jobs, progress=meter.update)
        if tried.code is not None:
            return tried.code
        sink.put(to_json(difference_object(result)))
    code = result.exit_code | sink.code
    if json_to != "-":
        text = difference_sentence(result) if quiet else coloured(render_difference(result, width=terminal_width()))
        code |= say(text.removesuffix("\n"))
    return code

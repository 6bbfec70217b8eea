"""``storeio plan``: the command, a thin layer over ``storeio.planning``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from storeio.commands.console import Meter, coloured, queue_named, settings_of, terminal_width
from storeio.commands.options import (
    PATH,
    Task,
    attempt,
    conf_option,
    jobs_option,
    json_option,
    queue_option,
    quiet_option,
    set_option,
    topic_option,
)
from storeio.commands.outputs import json_sink, say
from storeio.errors import UsageError
from storeio.findings import CODES
from storeio.plan import model
from storeio.plan.results import GOALS, REPAIR
from storeio.process import undivided
from storeio.report import to_json
from storeio.simulate.rules import NEWEST, rules_of
from storeio.uris import place_of

# Each function imports what it needs of the engine: numba takes half a second.
if TYPE_CHECKING:
    from storeio.planning import Selection


def selection(
    topics: Sequence[str], queues: Sequence[str], paths: Sequence[str], codes: Sequence[str], risks: Sequence[str]
) -> Selection:
    """Return which actions are wanted.

    Raises:
        UsageError: A code that does not exist, or a queue that is not written as TOPIC/ID.
    """
    for code in codes:
        if code not in CODES:
            raise UsageError(f"--code {code}: no such finding; docs/findings.md lists them")
    from storeio.planning import Selection

    named = (*((topic, None) for topic in topics), *map(queue_named, queues))
    return Selection(named, tuple(paths), tuple(codes), tuple(risks))


@click.command(name="plan", cls=Task)
@click.argument("store", metavar="STORE", type=PATH)
@click.option(
    "--out", metavar="FILE", type=PATH, help="Keep the plan here, and the bytes that it writes in FILE.bytes."
)
@click.option("--broker", metavar="VERSION", help=f"Version that is to start; {NEWEST} if not given.")
@topic_option
@queue_option
@click.option("--path", "paths", metavar="PATTERN", multiple=True, help="Only findings of such paths; may be repeated.")
@click.option("--code", "codes", metavar="CODE", multiple=True, help="Only findings of this code; may be repeated.")
@click.option("--risk", "risks", type=click.Choice(model.RISKS), multiple=True, help="Only actions of this risk.")
@click.option("--allow-log", is_flag=True, help="Plan actions that touch the commitlog, too.")
@click.option("--goal", type=click.Choice(GOALS), default=REPAIR, show_default=True,
              help="Also make a damaged log whole; needs --allow-log.")  # fmt: skip
@click.option("--donor", "donors", metavar="STORE", type=PATH, multiple=True,
              help="With --goal salvage: another copy of the same log; may be repeated.")  # fmt: skip
@json_option
@jobs_option
@quiet_option
@conf_option
@set_option
def plan(
    store: str, out: str | None, broker: str | None, topics: Sequence[str], queues: Sequence[str], paths: Sequence[str],
    codes: Sequence[str], risks: Sequence[str], allow_log: bool, goal: str, donors: Sequence[str],
    json_to: str | None, jobs: int | None, quiet: bool, conf: str | None, sets: Sequence[str],
) -> int:  # fmt: skip
    """Turn what an audit finds into ordered actions, each provable and reversible. Writes nothing into the store."""
    rules_of(broker or NEWEST)
    select = selection(topics, queues, paths, codes, risks)
    with undivided():
        from storeio.planning import plan_store
        from storeio.planning.output import output_at
        from storeio.report.planning import plan_object, plan_sentence, render_plan

    outputs: dict[str, str | Path | None] = {"--json": json_to}
    if out is not None:
        output = output_at(out, *map(place_of, (store, *donors)))
        out = os.fspath(output.plan)
        outputs |= {"--out": output.plan, "the bytes of --out": output.bytes}
    given = settings_of(conf, sets, outputs, quiet=quiet)
    with json_sink(json_to, [store, *donors], quiet=quiet) as sink:
        meter = Meter()
        with attempt(store, sink, meter, bar=not quiet) as tried:
            found = plan_store(
                store, out, broker=broker, given=given, select=select, allow_log=allow_log, goal=goal, donors=donors,
                jobs=jobs, progress=meter.update,
            )  # fmt: skip
        if tried.code is not None:
            return tried.code
        sink.put(to_json(plan_object(found, out or "")))
        code = found.exit_code
        if json_to != "-":
            width = terminal_width()
            text = plan_sentence(found) if quiet else coloured(render_plan(found, out or "", width=width))
            code |= say(text.removesuffix("\n"))
    return code | sink.code

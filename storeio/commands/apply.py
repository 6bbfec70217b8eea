"""``storeio apply`` and ``storeio undo``: the commands, a thin layer over ``apply_plan`` and ``undo``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from storeio.commands.console import Meter, coloured, complain, explain, settings_of, terminal_width
from storeio.commands.options import PATH, Task, failure_of, planned_options, refuse_json_inside
from storeio.commands.outputs import json_sink, say
from storeio.errors import StoreError
from storeio.output.targets import refuse_same
from storeio.plan.outcome import Applied, Undone
from storeio.report import failure_object, to_json
from storeio.report.applied import (
    applied_object,
    applied_sentence,
    render_applied,
    render_undone,
    undone_object,
    undone_sentence,
)
from storeio.results import EXIT_CANCELLED, EXIT_SOUND, Tell

Found = TypeVar("Found", Applied, Undone)


@click.command(name="apply", cls=Task)
@click.argument("plan", metavar="PLAN", type=PATH)
@click.argument("store", metavar="[STORE]", type=PATH, required=False)
@click.option("--resume", is_flag=True, help="Go on with what was begun; PLAN may be the store then.")
@click.option("--allow-log", is_flag=True, help="Allow actions that change the commitlog.")
@planned_options
def apply(
    plan: str, store: str | None, resume: bool, allow_log: bool, json_to: str | None, quiet: bool,
    conf: str | None, sets: Sequence[str],
) -> int:  # fmt: skip
    """Carry out a saved plan. Every byte that is replaced is kept beside the store; `undo` brings it back."""
    settings_of(conf, sets, {"--json": json_to}, quiet=quiet)
    return run_apply(plan, store, resume=resume, allow_log=allow_log, json_to=json_to, quiet=quiet)


def run_apply(
    plan: str,
    store: str | None,
    *,
    resume: bool,
    allow_log: bool,
    json_to: str | None,
    quiet: bool,
    keep: Callable[[dict[str, Any]], int] | None = None,
) -> int:
    """Return the exit code of one apply, its report printed; ``keep`` takes the same object and adds its bits."""
    from storeio.apply.engine import apply_plan, store_of

    for read in (plan, f"{plan}.bytes"):
        refuse_same({"PLAN and what is beside it": read, "--json": json_to})
    try:
        named = store_of(plan, store)
    except StoreError as error:  # no plan, and so no store that JSON could lie in
        with json_sink(json_to, [], quiet=quiet) as sink:
            code, told = failure_of(error, plan)
            sink.put(to_json({**told, "store": store, "plan": plan}))
        return code | sink.code
    return _run(
        lambda tell: apply_plan(plan, store, resume=resume, allow_log=allow_log, progress=tell),
        named,
        json_to,
        quiet,
        applied_object,
        applied_sentence if quiet else lambda found: render_applied(found, width=terminal_width()),
        keep,
    )


@click.command(name="undo", cls=Task)
@click.argument("store", metavar="STORE", type=PATH)
@click.option("--name", metavar="ID", help="The apply to take back, as it was reported; the newest if not given.")
@planned_options
def undo(store: str, name: str | None, json_to: str | None, quiet: bool, conf: str | None, sets: Sequence[str]) -> int:
    """Take an apply back, complete or not, to the exact old bytes."""
    settings_of(conf, sets, {"--json": json_to}, quiet=quiet)
    from storeio.apply.undoing import undo as take_back

    return _run(
        lambda tell: take_back(store, name=name, progress=tell),
        store,
        json_to,
        quiet,
        undone_object,
        undone_sentence if quiet else lambda found: render_undone(found, width=terminal_width()),
    )


def _run(
    work: Callable[[Tell], Found],
    store: str,
    json_to: str | None,
    quiet: bool,
    as_object: Callable[[Found], dict[str, Any]],
    as_text: Callable[[Found], str],
    keep: Callable[[dict[str, Any]], int] | None = None,
) -> int:
    """Return the exit code of the work, told as JSON and as text; what was done counts also if that cannot be told."""
    from storeio.apply import home

    refuse_json_inside(json_to, home.beside(store), "where what applies replaced is kept")
    code, found, told = EXIT_SOUND, None, None
    try:
        with json_sink(json_to, [store], quiet=quiet) as sink:
            meter = Meter()
            try:
                with meter.bar(store, shown=not quiet):
                    found = work(meter.update)
            except KeyboardInterrupt:
                complain(f"{store}: cancelled; nothing was changed")
                code, told = EXIT_CANCELLED, failure_object(store, "cancelled; nothing was changed", EXIT_CANCELLED)
            except Exception as error:
                code, told = failure_of(error, store)
            else:
                code, told = found.exit_code, as_object(found)
            sink.put(to_json(told))
        code |= sink.code
        if found is not None and json_to != "-":
            code |= say(coloured(as_text(found).removesuffix("\n")))
    except OSError as error:
        code |= explain(error)
    return code | keep(told) if keep is not None and told is not None else code

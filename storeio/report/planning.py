"""A plan as text for a person, and as an object; the plan file itself is of ``storeio.plan``."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from storeio.findings import INFO
from storeio.paths import COMMITLOG
from storeio.plan import Action, model
from storeio.plan.results import SALVAGE, Planned
from storeio.plan.rules import is_of_log
from storeio.report.assumed import assumed_sizes
from storeio.report.next_step import (
    SIMULATE_SOUND,
    Step,
    needs_salvage,
    next_lines,
    plan_word,
    root_word,
    salvage_step,
)
from storeio.report.simulation import ending, nothing_up
from storeio.report.tables import ROWS, counted, paragraph, table
from storeio.results import EXIT_SOUND
from storeio.safe import printable
from storeio.simulate.ends import STARTS
from storeio.simulate.rules import NEWEST, broker_text, rules_of

LEFT: Final = 10
VERBS: Final = {
    model.WRITE: "replace",
    model.CREATE: "create",
    model.RESIZE: "resize",
    model.MOVE: "move aside",
    model.RENAME: "rename",
}


def plan_object(found: Planned, path: str) -> dict[str, Any]:
    """Return what was planned as plain objects; ``plan`` is where the plan lies, empty if it was not kept."""
    return {
        "tool": "storeio",
        "version": found.plan.version,
        "store": found.plan.store,
        "plan": path,
        "broker": found.plan.broker,
        "actions": [model.as_object(action) for action in found.plan.actions],
        "before": dict(found.plan.before),
        "after": dict(found.plan.after),
        "cures": found.cures,
        "not_simulated": list(found.predicted_after.not_simulated),
        "unread": list(found.predicted_after.unread),
        "left": list(found.plan.left),
        "notes": [*_assumed(found), *found.notes],
        "bytes_length": found.plan.bytes_length,
        "exit_code": found.exit_code,
        "seconds": round(found.seconds, 6),
    }


def plan_sentence(found: Planned) -> str:
    """Return what the plan comes to, in one sentence that begins with a word in capitals."""
    plan, store = found.plan, printable(found.plan.store)
    if not plan.actions:
        if found.cures:
            start = f"{broker_text(plan.broker)} starts on it and gives {_gives(found)}"
            return f"NOTHING TO DO: {store} is sound, and {start}."
        what = "none of the actions that are asked for" if found.chosen else "no action is known that"
        return f"NO PLAN: {what} cures {store}; {counted(len(plan.left), 'thing')} left."
    files = len({action.path for action in plan.actions})
    what = f"{counted(len(plan.actions), 'action')} on {counted(files, 'file')} of {store}"
    if found.cures:
        start = f"{broker_text(plan.broker)} starts and gives {_gives(found)}"
        return f"CURES: {what}; afterwards it is sound, and {start}{_for_good(found.lost)}."
    left = counted(len(plan.left), "thing")
    return f"HELPS: {what}; {left} left that no action here cures{_for_good(found.lost)}."


def _gives(found: Planned) -> str:
    """Return what the start gives up, and how sure that is, as the end of a sentence."""
    as_far = ", as far as this can be simulated" if found.predicted_after.not_simulated else ""
    return f"{nothing_up(found.predicted_after)}{as_far}"


def _for_good(lost: int) -> str:
    """Return what no plan brings back, as the end of a sentence."""
    if not lost:
        return ""
    return f"; {counted(lost, 'message')} {'is' if lost == 1 else 'are'} lost for good"


def render_plan(found: Planned, path: str, *, width: int = 80) -> str:
    """Return the report of a plan; every line ends."""
    lines = paragraph("", plan_sentence(found), width, "")
    lines += _actions(found, width)
    for note in [*_assumed(found), *map(printable, found.notes)]:
        lines += ["", *paragraph("Note: ", note, width, "")]
    lines += _starts(found, width)
    if found.plan.left:
        lines += ["", "LEFT"]
        for text in found.plan.left[:LEFT]:
            lines += paragraph("- ", printable(text), width, "  ")
        if len(found.plan.left) > LEFT:
            lines.append(f"  ... and {len(found.plan.left) - LEFT} more; --json FILE has all")
    lines += next_lines(_steps(found, path), width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _actions(found: Planned, width: int) -> list[str]:
    """Return the table of what is done, one row a file and kind."""
    groups = [
        (key, list(part))
        for key, part in groupby(found.plan.actions, lambda action: (action.path, action.kind, action.risk))
    ]
    if not groups:
        return []
    rows = [_row(path, kind, risk, part) for (path, kind, risk), part in groups[:ROWS]]
    lines = ["", "ACTIONS", *table(["file (zeros left out)", "what", "risk", "why", "bytes"], rows, width, left=4)]
    if len(groups) > ROWS:
        lines.append(f"    ... and {len(groups) - ROWS} more rows; the plan has all")
    return lines


def _row(path: str, kind: str, risk: str, part: list[Action]) -> list[object]:
    ranges = f" {counted(len(part), 'range')}" if kind == model.WRITE else ""
    why = ", ".join(part[0].codes) or part[0].reason
    return [_short(path), f"{VERBS[kind]}{ranges}", risk, why, f"{sum(action.length for action in part):,}"]


def _assumed(found: Planned) -> list[str]:
    """Return what was taken for granted of files that are made anew."""
    made = {action.path.split("/")[0] for action in found.plan.actions if action.kind in (model.CREATE, model.RESIZE)}
    return assumed_sizes(found.before.settings, made, "plan")


def _short(path: str) -> str:
    """Return a path whose last part has no zeros in front: names of 20 digits leave no room for what differs."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.lstrip('0') or '0'}" if name.isdecimal() else path


def _starts(found: Planned, width: int) -> list[str]:
    """Return what the broker would do before and afterwards."""
    lines = ["", f"WHAT BROKER {printable(found.plan.broker)} DOES"]
    for when, start, audit in (
        ("now", found.predicted_before, found.before),
        ("then", found.predicted_after, found.after),
    ):
        does = f"{start.outcome.outcome} {ending(start) if start.outcome.outcome == STARTS else start.outcome.reason}"
        serious = sum(f.severity in ("error", "warning") for f in audit.findings)
        text = f"{does.strip()}; the audit has {counted(serious, 'finding')}."
        lines += paragraph(f"- {when}: ", printable(text), width, "  ")
    for what in found.predicted_after.not_simulated[:LEFT]:
        lines += paragraph("- not simulated: ", printable(what), width, "  ")
    for what in found.predicted_after.unread[:LEFT]:
        lines += paragraph("- could not be read, zeros are taken for it: ", printable(what), width, "  ")
    return lines


def _steps(found: Planned, path: str) -> list[Step]:
    store, out = root_word(found.plan.store), plan_word(found.plan.store)
    if not found.plan.actions and found.exit_code == EXIT_SOUND:
        return [Step(f"storeio simulate {store} --broker all", SIMULATE_SOUND)]
    rest = _other_plans(found) if not found.cures else []
    if not found.plan.actions:
        return [*rest, Step(f"storeio check {store} --all", "every finding")]
    if not path:
        same = f"storeio plan {store}{_options(found)} --out {out}"
        return [Step(same, "keeps the plan, so that it can be applied"), *rest]
    log = " --allow-log" if any(map(is_of_log, found.plan.actions)) else ""
    apply = Step(f"storeio apply {root_word(path)} {store}{log}", "does it; no broker may run on the store")
    return [*rest, apply]


def _options(found: Planned) -> str:
    """Return the options that a plan was made with, for the next one."""
    broker = f" --broker {found.plan.broker}" if found.plan.broker != rules_of(NEWEST).version else ""
    log = " --allow-log" if found.allow_log else ""
    return f"{broker}{log}{f' --goal {SALVAGE}' if found.goal == SALVAGE else ''}"


def _other_plans(found: Planned) -> list[Step]:
    """Return what may cure the rest: actions on the log, or making it whole, there or in a new store.

    Where there is no log nothing does.
    """
    store, out = root_word(found.plan.store), plan_word(found.plan.store)
    plan = f"storeio plan {store} --broker {found.plan.broker} --allow-log"
    if any(f.code == "LOG_MISSING" for f in found.after.findings):
        return []
    if not any(f.path.startswith(COMMITLOG) and f.severity != INFO for f in found.after.findings):
        return []
    if not found.allow_log and not needs_salvage(found.after.findings):
        return [Step(f"{plan} --out {out}", "may repair the log itself, too")]
    steps = [salvage_step(found.plan.store)]
    if found.goal != SALVAGE:
        steps.append(Step(f"{plan} --goal salvage --out {out}", "the same in place"))
    return steps

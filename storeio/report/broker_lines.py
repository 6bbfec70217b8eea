"""What starts of all broker lines on one store come to, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from storeio.report.next_step import Step, next_lines, root_word
from storeio.report.tables import paragraph, table
from storeio.safe import printable
from storeio.simulate.ends import STARTS
from storeio.simulate.predicted import Prediction
from storeio.simulate.rules import LINES


def render_lines(predictions: Sequence[Prediction], *, width: int = 80) -> str:
    """Return the lines side by side for one store, and which of them harm least."""
    rows = []
    for found in predictions:
        lost = "-" if found.given_up is None else f"{found.given_up.messages:,}"
        twice = "-" if found.given_up is None else str(len(found.given_up.reissues))
        keys = f"{found.keys_lost:,}"
        bad = "-" if (got := found.consumers) is None else f"{got.undecodable + got.missed + got.unreached:,}"
        end = found.outcome.after_start.max_physical_offset if found.outcome.after_start else "-"
        rows.append([found.line, found.outcome.outcome, lost, keys, twice, bad, len(found.emptied), end])
    head = ["line", "outcome", "given up", "keys", "reissued", "undelivered", "deleted", "log end"]
    lines = paragraph("", _advice(predictions), width, "")
    lines += ["", *table(head, rows, width, left=2), ""]
    text = (
        "given up and undelivered: messages; keys: entries of deleted index files that are not made again; reissued: "
    )
    text += "queues that hand out numbers again; deleted: files with data."
    lines += paragraph("", text, width, "  ")
    worst = max(reversed(predictions), key=_harm)  # of those alike the newest
    store, version = root_word(worst.store), worst.outcome.broker
    if worst.harms:
        alike = len({_harm(found) for found in predictions}) == 1
        purpose = "what one of them does, in full" if alike else "the worst of them, in full"
        steps = [Step(f"storeio simulate {store} --broker {version}", purpose)]
        steps.append(Step(f"storeio check {store}", "what is wrong, and what helps"))
    else:
        steps = [Step(f"storeio check {store}", "reads every byte; brokers read the end of the log only")]
    lines += next_lines(steps, width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _harm(found: Prediction) -> tuple[int, ...]:
    """Return what tells harmful starts apart: the larger the worse, what weighs more comes first."""
    lost = found.given_up.messages if found.given_up else 0
    twice = len(found.given_up.reissues) if found.given_up else 0
    got, outcome = found.consumers, found.outcome
    bad = got.undecodable + got.missed + len(got.stuck) if got else 0
    takes_none = bool(outcome.outcome == STARTS and outcome.reason)
    stopped = found.stopped is not None
    return outcome.outcome != STARTS, takes_none, lost, len(found.emptied), bad, twice, stopped, found.harms


def _advice(predictions: Sequence[Prediction]) -> str:
    safe = [found.line for found in predictions if not found.harms]
    store = printable(predictions[0].store)
    if any(found.unread for found in predictions):
        return f"UNSURE: some of {store} could not be read; the lines below take zeros for it."
    if safe and any(found.not_simulated for found in predictions):
        return f"UNSURE: {', '.join(safe)} start on {store} without harm, as far as this can be simulated."
    if len(safe) == len(predictions) == len(LINES):
        return f"SAFE: every broker line starts on {store} and gives {_nothing_up(predictions)}."
    if len(safe) == len(predictions):
        up = _nothing_up(predictions)
        return f"SAFE: {', '.join(safe)} start on {store} and give {up}; the others could not be predicted."
    if safe:
        return f"CHOOSE: only {', '.join(safe)} can be started on {store} without harm."
    harms = [_harm(found) for found in predictions]
    best = [found for found, harm in zip(predictions, harms, strict=True) if harm == min(harms)]
    if best[0].outcome.outcome != STARTS:
        rest = "none starts"
    elif len(best) == len(predictions):
        rest = "none does less than the others"
    else:
        rest = f"{', '.join(found.line for found in best)} {'does' if len(best) == 1 else 'do'} the least"
    return f"DO NOT START: every broker line harms {store}; {rest}."


def _nothing_up(predictions: Sequence[Prediction]) -> str:
    """Return what starts that are safe give up, as the end of a sentence: no message, and at most keys."""
    losing = [found.line for found in predictions if found.keys_lost]
    if not losing:
        return "nothing up"
    return f"no message up; {', '.join(losing)} {'loses' if len(losing) == 1 else 'lose'} keys of the index"

"""A predicted start as the JSON of the contract and as a colleague's warning: the worst first, then the evidence."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from storeio import __version__
from storeio.report.assumed import assumed_by_start
from storeio.report.next_step import PLAN, Step, next_lines, plan_word, root_word
from storeio.report.stopped import stopped_sentences
from storeio.report.tables import ROWS, bytes_text, counted, paragraph, table
from storeio.safe import printable
from storeio.simulate.ends import CRASHES, HANGS, REFUSES, STARTS
from storeio.simulate.losses import Loss
from storeio.simulate.outcome import as_recorded
from storeio.simulate.predicted import Prediction
from storeio.simulate.rules import broker_text

NOT_GOT: Final = "but clients will not get what they should"
ENDS: Final = {REFUSES: "refuses to start", CRASHES: "dies at start", HANGS: "hangs at start, for ever"}


def simulation_object(found: Prediction) -> dict[str, Any]:
    """Return one prediction as plain objects; its states have the shape of a recorded start."""
    outcome, once = found.outcome, found.once_mended
    return {
        "tool": "storeio",
        "version": __version__,
        "store": found.store,
        "broker": outcome.broker,
        "line": found.line,
        **_start_object(found),
        "running_end": found.running_end,
        "after_load": outcome.after_load and as_recorded(outcome.after_load),
        "after_start": outcome.after_start and as_recorded(outcome.after_start),
        "leaves": [asdict(each) for each in outcome.leaves],
        "once_mended": once and _start_object(once),
        "not_simulated": list(found.not_simulated),
        "unread": list(found.unread),
        "notes": assumed_by_start(found),
        "settings": {s.name: {"value": s.value, "source": s.source} for s in found.settings},
        "exit_code": found.exit_code,
        "seconds": round(found.seconds, 6),
    }


def _start_object(found: Prediction) -> dict[str, Any]:
    """Return how a start ends, and what it takes from clients; null where that was not looked at."""
    outcome = found.outcome
    result: dict[str, Any] = {
        "outcome": outcome.outcome,
        "reason": outcome.reason,
        "phrase": outcome.phrase,
        "mode": outcome.mode,
        "start_file": outcome.start_file.rpartition("/")[2],
        "deleted": list(outcome.deleted),
        **dict.fromkeys(("consumers", "loses", "reissues", "shifted", "stopped")),
        "keys_lost": found.keys_lost,
    }
    if found.stopped is not None:
        result["stopped"] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(found.stopped).items()
        }
    if found.consumers is not None:
        got = found.consumers
        stuck = [{"topic": topic, "queue_id": queue_id, "queue_offset": at} for topic, queue_id, at in got.stuck]
        counts = {name: getattr(got, name) for name in ("messages", "undecodable", "skipped", "missed", "unreached")}
        result["consumers"] = {**counts, "stuck": stuck}
    if found.given_up is not None:
        result["loses"] = [asdict(loss) for loss in found.given_up.losses]
        result["reissues"] = [asdict(reissue) for reissue in found.given_up.reissues]
        result["shifted"] = [
            {"topic": topic, "queue_id": queue_id, "units": count}
            for (topic, queue_id), count in sorted(found.given_up.shifted.items())
        ]
    return result


def warning_sentence(found: Prediction) -> str:
    """Return what the start comes to, in one sentence that begins with one word in capitals."""
    outcome, store = found.outcome, printable(found.store)
    broker = broker_text(outcome.broker)
    if found.unread:
        then = f"; if it cannot read that either, it {_deletes(found)}" if found.emptied else ""
        return f"UNSURE: what {broker} does on {store} is not known: some of it could not be read{then}."
    if outcome.outcome != STARTS:
        return f"NO START: {broker} {ENDS[outcome.outcome]} on {store}: {printable(outcome.reason)}."
    lost = found.given_up.messages if found.given_up else 0
    if lost:
        size = bytes_text(sum(loss.bytes for loss in found.given_up.losses)) if found.given_up else ""
        return f"LOSES: {broker} starts on {store} and gives up {counted(lost, 'intact message')}, {size}."
    if found.emptied:
        return f"DELETES: {broker} starts on {store} and {_deletes(found)}."
    if found.harms:
        return f"HARMS: {broker} starts on {store}, {NOT_GOT}."
    if found.not_simulated:
        return f"UNSURE: {broker} starts on {store} and gives nothing up, as far as this can be simulated."
    read = "" if found.given_up is not None else " in what it reads; --whole-log compares all"
    return f"SAFE: {broker} starts on {store} and gives {nothing_up(found)}{read}."


def ending(found: Prediction) -> str:
    """Return what comes of a start that ends well or not, as the end of a sentence: messages first, then files."""
    lost = found.given_up.messages if found.given_up else 0
    if lost:
        return f"and gives up {counted(lost, 'intact message')}"
    if found.emptied:
        return f"and {_deletes(found)}"
    if found.harms:
        return NOT_GOT
    return f"and gives {nothing_up(found)}"


def _deletes(found: Prediction) -> str:
    files = "1 file that holds" if len(found.emptied) == 1 else f"{len(found.emptied)} files that hold"
    return f"deletes {files} data"


def nothing_up(found: Prediction) -> str:
    """Return what a start gives up that gives up no message, as the end of a sentence."""
    return f"no message up, but {counted(found.keys_lost, 'key')} of the index" if found.keys_lost else "nothing up"


def render_simulation(found: Prediction, *, width: int = 80) -> str:
    """Return the report of one prediction; every line ends."""
    outcome = found.outcome
    lines = paragraph("", warning_sentence(found), width, "")
    if outcome.phrase:
        lines += paragraph("It logs: ", f'"{printable(outcome.phrase)}"', width, "  ")
    if found.not_simulated:
        lines += ["", "NOT SIMULATED (the broker may do otherwise)"]
        for what in found.not_simulated[:ROWS]:
            lines += paragraph("- ", printable(what), width, "  ")
    if found.unread:
        lines += ["", "COULD NOT BE READ (all that follows takes zeros for it, directories for empty)"]
        for what in found.unread[:ROWS]:
            lines += paragraph("- ", printable(what), width, "  ")
        lines += [f"  ... and {len(found.unread) - ROWS} more"] if len(found.unread) > ROWS else []
    for note in assumed_by_start(found):
        lines += ["", *paragraph("Note: ", note, width, "")]
    lines += _losses(found, width)
    lines += _numbers(found, width)
    lines += _files(found, width)
    lines += _leaves(found, width)
    lines += _once_mended(found, width)
    lines += _what(found, width)
    lines += next_lines(_steps(found), width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _losses(found: Prediction, width: int) -> list[str]:
    if found.given_up is None or not found.given_up.losses:
        return []
    losses = sorted(found.given_up.losses, key=lambda loss: -loss.messages)
    rows = [_loss_row(loss) for loss in losses[:ROWS]]
    head = ["queue", "what the broker does", "messages", "bytes", "from", "to"]
    lines = ["", "GIVEN UP (intact on the disk, queue offsets from and to)", *table(head, rows, width, left=2)]
    if len(losses) > ROWS:
        rest = sum(loss.messages for loss in losses[ROWS:])
        lines.append(f"    ... and {counted(rest, 'message')} more; --json FILE has all")
    return lines


def _loss_row(loss: Loss) -> list[object]:
    what = f"{loss.action} {loss.path.rpartition('/')[2].lstrip('0') or '0'}" if loss.path else loss.action
    queue = f"{loss.topic}/{loss.queue_id}"
    return [queue, what, loss.messages, loss.bytes, loss.first_queue_offset, loss.last_queue_offset]


def _numbers(found: Prediction, width: int) -> list[str]:
    if found.given_up is None:
        return []
    lines: list[str] = []
    if found.given_up.reissues:
        rows = [[f"{r.topic}/{r.queue_id}", r.first, r.stop - 1] for r in found.given_up.reissues[:ROWS]]
        lines += ["", "ISSUED TWICE (queue offsets that messages bear already)"]
        lines += table(["queue", "from", "to"], rows, width)
    if found.given_up.shifted:
        rows = [[f"{topic}/{number}", count] for (topic, number), count in sorted(found.given_up.shifted.items())]
        lines += ["", "SHIFTED (units that stand at another number than their message's)"]
        lines += table(["queue", "units"], rows[:ROWS], width)
    return lines


def _files(found: Prediction, width: int) -> list[str]:
    gone = sorted(found.outcome.deleted)
    if not gone:
        return []
    lines = ["", f"DELETED ({counted(len(gone), 'file')}, {len(found.emptied)} of them with data in log or queues)"]
    for path in gone[:ROWS]:
        lines += paragraph("- ", printable(path), width, "  ")
    return lines + ([f"  ... and {len(gone) - ROWS} more"] if len(gone) > ROWS else [])


def _leaves(found: Prediction, width: int) -> list[str]:
    """Return what a refused start does to other files; reason enough not to try it."""
    if not found.outcome.leaves:
        return []
    lines = ["", "EVEN THE REFUSED START DOES HARM (save these files before anyone tries)"]
    for each in found.outcome.leaves:
        text = f"{printable(each.path)} is {each.happens}: {each.consequence} ({each.evidence})."
        lines += paragraph("- ", text, width, "  ")
    return lines


def _once_mended(found: Prediction, width: int) -> list[str]:
    """Return what the next start does, once what refuses this one is mended by hand."""
    if found.once_mended is None:
        return []
    lines = ["", "ONCE THAT IS MENDED (all else as it is now)"]
    return lines + paragraph("- ", warning_sentence(found.once_mended), width, "  ") + _losses(found.once_mended, width)


def _what(found: Prediction, width: int) -> list[str]:
    outcome = found.outcome
    lines: list[str] = []
    if found.running_end is not None:
        text = f"a broker runs on it: this is what follows if it is killed now, with its log at {found.running_end}."
        lines += paragraph("- ", text, width, "  ")
    if outcome.start_file:
        why = "a clean stop" if outcome.mode == "normal" else "a crash: the abort file is there"
        text = f"recovers as after {why}, reading the log from {printable(outcome.start_file)} on."
        lines += paragraph("- ", text, width, "  ")
    if outcome.outcome == STARTS and outcome.reason:
        lines += paragraph("- ", f"{printable(outcome.reason)}.", width, "  ")
    state = outcome.after_start
    if state is not None:
        text = f"has the log from {state.min_physical_offset} to {state.max_physical_offset}"
        text = text if state.min_physical_offset >= 0 else "has an empty log"
        lines += paragraph("- ", f"{text} and {counted(len(state.queues), 'queue')} then.", width, "  ")
    if found.consumers is not None:
        got = found.consumers
        count = got.messages - got.unreached
        text = f"delivers {counted(count, 'message')} to a consumer that reads all queues from their start"
        odd = [f"{got.undecodable:,} cannot be decoded"] if got.undecodable else []
        odd += [f"{got.unreached:,} lie behind an offset at which it stays"] if got.unreached else []
        odd += [f"{got.missed:,} that are there are skipped in silence"] if got.missed else []
        gone = got.skipped - got.missed
        odd += [f"{counted(gone, 'unit')} {'points' if gone == 1 else 'point'} at nothing"] if gone else []
        lines += paragraph("- ", "; ".join([text, *odd]) + ".", width, "  ")
        for topic, queue_id, at in got.stuck[:ROWS]:
            text = f"holds consumers of {printable(topic)}/{queue_id} at queue offset {at}: pulls end with an error, "
            text += "or lead there again."
            lines += paragraph("- ", text, width, "  ")
    if found.keys_lost:
        text = f"deletes index files and does not put {counted(found.keys_lost, 'key')} of them into the index again:"
        text += " the messages are there, queries by these keys do not find them."
        lines += paragraph("- ", text, width, "  ")
    for text in stopped_sentences(found.stopped) if found.stopped is not None else ():
        lines += paragraph("- ", text, width, "  ")
    return ["", "WHAT IT DOES", *lines] if lines else []


def _steps(found: Prediction) -> list[Step]:
    store = root_word(found.store)
    check = Step(f"storeio check {store}", "reads every byte; brokers read the end of the log only")
    plan = f"storeio plan {store} --broker {found.outcome.broker} --out {plan_word(found.store)}"
    if not found.harms:
        keeps = found.keys_lost and found.running_end is None
        return [check, Step(plan, "tells the broker to keep its index")] if keeps else [check]
    return [
        Step(f"storeio simulate {store} --broker all", "whether another broker line does less harm"),
        replace(check, purpose="what is wrong, and what helps"),
        Step(plan, PLAN),
    ]

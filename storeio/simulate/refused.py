"""What a refused start leaves behind in ``config/`` and the store's root: its shutdown persists what it never loaded.

Files of log, queues and index that a start deletes before it gives up are the outcome's ``deleted``.

Source: ``BrokerController.shutdown``, ``DefaultMessageStore.shutdown``, ``ConfigManager.persist``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from storeio.paths import ABORT
from storeio.simulate import metadata as m
from storeio.simulate import rules as r
from storeio.simulate import tables as t
from storeio.simulate.ends import CONFIG_STAGE, DELAY_STAGE, START_STAGE, TIMER_STAGE, WHEEL_STAGE
from storeio.simulate.rules import Rules

RECORDED: Final = "recorded"
DEDUCED: Final = "deduced"
RUN: Final = ("5.3.3", "5.5.1")  # versions whose refusals were run

EMPTIED: Final = "emptied"
ZEROED: Final = "zeroed"
DELETED: Final = "deleted"

COPY: Final = "the content is in {}.bak until the next persist: a second refused start, or seconds after a good one"
DELAYS: Final = "all messages of delay levels that are still in the schedule queues are delivered again"
TIMERS: Final = "all timer messages of about the last seven days are delivered again; there is no copy of the file"
CLEAN: Final = "the next start takes the crash before for a clean stop and recovers as after one"
LOST: Final = {
    t.TOPICS: "settings of topics are lost",
    t.QUEUE_MAPPING: "the mapping of static topics is lost",
    t.CONSUMER_OFFSETS: "progress of all consumer groups is lost",
    t.GROUPS: "settings of all consumer groups are lost",
    t.FILTERS: "filters of consumers are lost",
    t.ORDER_INFO: "what orderly consumers have in hand is lost",
}


@dataclass(frozen=True, slots=True)
class Leftover:
    """One file that a refused start changes for the worse.

    ``evidence`` is ``recorded`` where the broker was run, ``deduced`` where its source says so.
    """

    path: str
    happens: str
    evidence: str
    consequence: str


Has = Callable[[str], bool]
"""Tells whether the store has a file."""


def leftovers(
    rules: Rules,
    stage: str,
    has: Has,
    *,
    failed: str = "",
    timer_wheel: bool = True,
    log_accepted: bool = True,
) -> list[Leftover]:
    """Return what a refused start changes in files that are there.

    Args:
        rules: The broker's version.
        stage: Where it refused, as ``ends`` names the stages.
        has: Which files the store has. One that is missing loses nothing.
        failed: The table that could not be read, if that is the stage.
        timer_wheel: Whether timerWheelEnable is set.
        log_accepted: Whether the broker holds a part of the log when it gives up; not if the first entry of
            ``commitlog/`` is in the way, or if it gives up before it lists that directory.
    """
    if stage == START_STAGE:  # no shutdown follows an exception of start
        return []
    if stage == CONFIG_STAGE:
        return list(_of_tables(rules, has, failed))
    return list(_of_store(rules, stage, has, timer_wheel, log_accepted))


def _of_tables(rules: Rules, has: Has, failed: str) -> Iterator[Leftover]:
    """Yield the tables that had not been loaded when one of them could not be read."""
    order = m.load_order(rules)
    unloaded = order[order.index(failed) :] if failed in order else order
    for path in unloaded:
        written = {
            r.TWO_TABLES: (t.CONSUMER_OFFSETS, t.FILTERS),
            r.UNTIL_TIMERS: (t.FILTERS,),
            r.TO_THE_END: order,
        }[rules.refused_shutdown]
        if path in written and _table_exists(has, path):
            yield _emptied(path, _evidence(rules), LOST[path])
    if rules.refused_shutdown == r.TO_THE_END and _table_exists(has, t.DELAY_OFFSETS):
        yield _emptied(t.DELAY_OFFSETS, DEDUCED, DELAYS)


def _of_store(rules: Rules, stage: str, has: Has, timer_wheel: bool, log_accepted: bool) -> Iterator[Leftover]:
    """Yield what goes when the store or the timers refuse; all tables are loaded by then."""
    evidence = DEDUCED if stage == DELAY_STAGE else _evidence(rules)
    to_the_end = rules.refused_shutdown == r.TO_THE_END
    # The timers' shutdown throws before the delays' progress is written, unless there are none, or they have loaded.
    unloaded = timer_wheel and stage not in (WHEEL_STAGE, TIMER_STAGE)
    throws = rules.refused_shutdown == r.UNTIL_TIMERS and unloaded
    if rules.refused_shutdown != r.TWO_TABLES and not throws and _table_exists(has, t.DELAY_OFFSETS):
        yield _emptied(t.DELAY_OFFSETS, evidence, DELAYS)
    if to_the_end and unloaded and has(m.TIMER_CHECK):
        yield Leftover(m.TIMER_CHECK, ZEROED, evidence, TIMERS)
    if to_the_end and (stage == WHEEL_STAGE or not log_accepted) and has(ABORT):
        yield Leftover(ABORT, DELETED, evidence, CLEAN)


def _table_exists(has: Has, path: str) -> bool:
    return has(path) or has(m.backup(path))


def _emptied(path: str, evidence: str, loss: str) -> Leftover:
    return Leftover(path, EMPTIED, evidence, f"{loss}; {COPY.format(path)}")


def _evidence(rules: Rules) -> str:
    return RECORDED if rules.version in RUN else DEDUCED

"""A start from end to end, and what it comes to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from storeio.paths import ABORT, BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, INDEX, QUEUE_EXT
from storeio.simulate.broker import Broker, Setup
from storeio.simulate.disk import Disk
from storeio.simulate.ends import LOAD_STAGE, RECOVERY_STAGE, REFUSES, START_STAGE, STARTS, EndError
from storeio.simulate.metadata import (
    Switches,
    refuse_for_delays,
    refuse_for_tables,
    refuse_for_timers,
    refuse_for_wheel,
)
from storeio.simulate.recover import recover
from storeio.simulate.refused import Leftover, leftovers
from storeio.simulate.reput import start
from storeio.simulate.rules import Rules

STOPS: Final = "after half a minute it puts nothing into any queue, and takes no messages, until it is started anew"
MOST_DIGESTED: Final = 1 << 30  # bytes of a file; no broker makes a larger one, a sparse one may claim any length
STATED: Final = (COMMITLOG, CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT)


@dataclass(frozen=True, slots=True)
class State:
    """The store at one moment: offsets, queues as (min, max, end in the log), files with digests."""

    min_physical_offset: int
    max_physical_offset: int
    queues: dict[str, tuple[int, int, int]]
    files: dict[str, tuple[int, str]]
    index: list[tuple[int, str]]
    abort: bool


@dataclass(slots=True)
class Outcome:
    """What a broker would make of a store.

    ``reason`` says why it does not start, or why it starts and its queues get nothing.
    ``doubts`` says what decides whether it starts and is not known, in words; the rest is as if it did.
    ``leaves`` is what a refused start changes besides log, queues and index; ``stage`` where it ended.
    """

    broker: str
    mode: str
    outcome: str = STARTS
    reason: str = ""
    phrase: str = ""
    start_file: str = ""
    after_load: State | None = None
    after_start: State | None = None
    deleted: list[str] = field(default_factory=list)
    stage: str = ""
    leaves: list[Leftover] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def simulate_start(
    disk: Disk, rules: Rules, setup: Setup, *, digests: bool = True, switches: Switches | None = None
) -> tuple[Outcome, Broker]:
    """Return the outcome of one start and the broker after it; ``disk`` has its changes afterwards.

    Without ``digests`` files are only read as far as the broker reads them. ``switches`` are a broker's
    defaults if they are not given.
    """
    switches = switches or Switches()
    broker = Broker(disk, rules, setup)
    outcome = Outcome(rules.version, "normal" if broker.clean else "abnormal")
    stage = LOAD_STAGE
    try:
        if switches.follows:
            outcome.doubts += refuse_for_tables(disk, rules)
            refuse_for_wheel(disk, rules, switches)
        broker.load_files()
        stage = RECOVERY_STAGE
        recover(broker)
        broker.refuse_for_index()
        if switches.follows:
            outcome.doubts += refuse_for_timers(disk, rules, switches)
            outcome.doubts += refuse_for_delays(disk, rules)
        outcome.after_load = state_of(broker, abort=not broker.clean, digests=digests)
        stage = START_STAGE
        start(broker)
        if broker.queues_stopped:
            outcome.reason, outcome.phrase = f"{broker.queues_stopped}; {STOPS}", "[BUG]consume queue can not write"
        outcome.after_start = state_of(broker, abort=True, digests=digests)
    except EndError as end:
        outcome.outcome, outcome.reason, outcome.phrase = end.outcome, end.reason, end.phrase
        outcome.stage = end.stage or stage
        if outcome.outcome == REFUSES:
            outcome.leaves = leftovers(
                rules, outcome.stage, disk.exists,
                failed=end.path, timer_wheel=switches.timer_wheel, log_accepted=broker.log.max_offset > 0,
            )  # fmt: skip
    outcome.start_file = broker.start_file
    outcome.deleted = list(disk.deleted)
    return outcome, broker


def state_of(broker: Broker, *, abort: bool, digests: bool = True) -> State:
    """Return the state of a broker's store; digests are empty if they are not wanted, or a file claims too much."""
    queues = {
        f"{topic}/{number}": (queue.min_offset, queue.max_offset, queue.max_physical)
        for (topic, number), queue in sorted(broker.queues.items())
    }
    disk = broker.disk

    def facts(path: str) -> tuple[int, str]:
        size = disk.size(path)
        return size, disk.digest(path) if digests and size <= MOST_DIGESTED else ""

    return State(
        broker.log.min_offset,
        broker.log.max_offset,
        queues,
        {path: facts(path) for path in disk.below(STATED)},
        sorted(facts(path) for path in disk.below((INDEX,))),
        abort or disk.exists(ABORT),
    )


def without_digests(outcome: Outcome, paths: Collection[str]) -> None:
    """Take the digests of some files out of an outcome, and those of all index files if one of them is among these."""
    for state in (outcome.after_load, outcome.after_start):
        if state is not None:
            state.files.update({path: (state.files[path][0], "") for path in paths if path in state.files})
            if any(path.startswith(f"{INDEX}/") for path in paths):
                state.index[:] = sorted((size, "") for size, _ in state.index)


def as_recorded(state: State) -> dict[str, Any]:
    """Return a state in the shape of the recorded ones."""
    return {
        "min_physical_offset": state.min_physical_offset,
        "max_physical_offset": state.max_physical_offset,
        "queues": {name: list(values) for name, values in state.queues.items()},
        "files": {path: [size, digest[:16]] for path, (size, digest) in state.files.items()},
        "index": sorted([size, digest[:16]] for size, digest in state.index),
        "abort": state.abort,
    }

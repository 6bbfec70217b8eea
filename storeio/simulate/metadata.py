"""What ``config/`` and the timers' files make of a start: tables in load order, and when one of them refuses it.

Source: ``BrokerController.initializeMetadata``, ``ConfigManager.load``, ``MixAll.file2String``, ``TimerWheel``,
``TimerMessageStore.load``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from storeio.paths import PIPE, TOPIC_DATABASES
from storeio.simulate.disk import Disk
from storeio.simulate.ends import (
    CONFIG_STAGE,
    DELAY_STAGE,
    TIMER_STAGE,
    WHEEL_STAGE,
    CrashesError,
    HangsError,
    RefusesError,
)
from storeio.simulate.mapped import LENGTH, MappedQueue
from storeio.simulate.rules import Rules
from storeio.simulate.tables import (
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    FILTERS,
    GROUPS,
    MOST_BYTES,
    ORDER_INFO,
    QUEUE_MAPPING,
    READS,
    REFUSES,
    TIMER_METRICS,
    TOPICS,
    UNSURE,
    Verdict,
    read_table,
)

LIGHT_OFFSETS: Final = "config/lmqConsumerOffset.json"
TIMER_CHECK: Final = "config/timercheck"
TIMER_WHEEL: Final = "timerwheel"
TIMER_LOG: Final = "timerlog"
TIMER_LOG_SETTING: Final = "mappedFileSizeTimerLog"
REFUSING: Final = (CONFIG_STAGE, WHEEL_STAGE, TIMER_STAGE, DELAY_STAGE)
TIMER_LOG_BYTES: Final = 100 << 20  # the default of mappedFileSizeTimerLog
WHEEL_BYTES: Final = 2 * 7 * 86400 * 32  # two spans of seven days, a slot of 32 bytes a second

LOST: Final = "the broker cannot read it and begins with an empty table; what clients then miss is not followed"

LOAD_ORDER: Final = (TOPICS, QUEUE_MAPPING, CONSUMER_OFFSETS, GROUPS, FILTERS, ORDER_INFO)
LOAD_ORDER_4: Final = (TOPICS, CONSUMER_OFFSETS, GROUPS, FILTERS)
DATABASES: Final = tuple(path.rpartition("/")[0] for path in TOPIC_DATABASES)  # these then hold the tables instead


@dataclass(frozen=True, slots=True)
class Switches:
    """What matters here: ``timer_wheel`` is timerWheelEnable; without ``follows`` nothing here refuses a start.

    ``timer_log_bytes`` is the length of a timer log file, None where nothing tells.
    """

    timer_wheel: bool = True
    follows: bool = True
    timer_log_bytes: int | None = TIMER_LOG_BYTES


def load_order(rules: Rules) -> tuple[str, ...]:
    """Return the tables that a version loads before the store, in order."""
    return LOAD_ORDER if rules.loads_mappings else LOAD_ORDER_4


def backup(path: str) -> str:
    """Return the path of a table's earlier content."""
    return f"{path}.bak"


def refuse_for_tables(disk: Disk, rules: Rules) -> list[str]:
    """Do what loading the tables does to a start; return what is not known of it, as if these tables were read.

    Raises:
        RefusesError: A table and its earlier content cannot be read.
        HangsError: One that is to be read is a pipe.
    """
    if any(disk.exists(path) for path in DATABASES):
        return []
    doubts = (_load(disk, rules, path, CONFIG_STAGE) for path in load_order(rules))
    return [doubt for doubt in doubts if doubt]


def refuse_for_wheel(disk: Disk, rules: Rules, switches: Switches) -> None:
    """Do what opening the timers' checkpoint and wheel does to a start, which is before the store loads.

    Raises:
        RefusesError: One is no file, or the wheel has another length than that; an empty one is made longer.
    """
    if not (rules.has_timers and switches.timer_wheel):
        return
    for path in (TIMER_CHECK, TIMER_WHEEL):
        if odd := "below what is no directory" if disk.is_file(path.rpartition("/")[0]) else disk.no_file(path):
            raise RefusesError(f"{path} is {odd}", path=path, stage=WHEEL_STAGE)
    size = disk.size(TIMER_WHEEL)
    if size not in (0, WHEEL_BYTES):
        reason = f"{TIMER_WHEEL} is {size} bytes long, expected {WHEEL_BYTES}"
        raise RefusesError(reason, path=TIMER_WHEEL, stage=WHEEL_STAGE)


def refuse_for_timers(disk: Disk, rules: Rules, switches: Switches) -> list[str]:
    """Do what loading the timer log and its metrics does to a start, after the store has recovered; return what is
    not known of it.

    Raises:
        RefusesError: A file has another length than a timer log's, or the metrics cannot be read.
        CrashesError: A file's name is no number.
    """
    if not (rules.has_timers and switches.timer_wheel):
        return []
    length = switches.timer_log_bytes
    doubts = [] if length is not None else [f"{TIMER_LOG}: whether its files are as long as {TIMER_LOG_SETTING} says"]
    try:
        if length is not None:
            MappedQueue(disk, TIMER_LOG, length).load(rules)
    except RefusesError as error:  # nothing catches what the name makes Java throw
        kind = RefusesError if error.phrase == LENGTH else CrashesError
        raise kind(error.reason, error.phrase, error.path, TIMER_STAGE) from None
    doubt = _load(disk, rules, TIMER_METRICS, TIMER_STAGE)
    return [*doubts, doubt] if doubt else doubts


def refuse_for_delays(disk: Disk, rules: Rules) -> list[str]:
    """Do what loading the progress of the delay levels does to a start, after the store has recovered; return what
    is not known of it.

    Raises:
        RefusesError: The table and its earlier content cannot be read.
    """
    doubt = _load(disk, rules, DELAY_OFFSETS, DELAY_STAGE)
    return [doubt] if doubt else []


def _load(disk: Disk, rules: Rules, path: str, stage: str) -> str:
    """Return what is not known, empty where the table or, without one that is read, its earlier content is."""
    said = disk.is_file(path) and java_int_of(disk.size(path)) != 0
    table = _verdict(disk, rules, path, path, stage)
    if said and table.verdict == READS:
        return ""
    copy = _verdict(disk, rules, path, backup(path), stage)  # of a table that is empty or not there it is loaded, too
    if copy.verdict == READS:
        is_lost = said and table.verdict == REFUSES and not disk.size(backup(path))
        return f"{path}: {LOST}: {table.why}" if is_lost else ""
    if copy.verdict == REFUSES and (table.verdict == REFUSES or not said):
        others = f" and {path}" if said else ""
        raise RefusesError(f"{backup(path)}{others} cannot be read: {copy.why}", path=path, stage=stage)
    name, doubt = (path, table) if said and table.verdict != REFUSES else (backup(path), copy)
    return f"{name}: whether this broker's parser reads it, and so whether it starts: {doubt.why}"


def _verdict(disk: Disk, rules: Rules, table: str, path: str, stage: str) -> Verdict:
    """Return whether a table, or its earlier content, is read from a file; so it is where there is none: then defaults
    do.

    Raises:
        HangsError: It is a pipe: to open one waits for somebody who writes into it.
    """
    if disk.no_file(path) == PIPE:
        raise HangsError(f"{path} is {PIPE}, and the broker waits for somebody to write into it", stage=stage)
    if not disk.size(path) or disk.files[path].is_dir:
        return Verdict(READS)
    if (length := java_int_of(disk.size(path))) < 0:
        return Verdict(REFUSES, f"its length is {length} to the broker")
    if length > MOST_BYTES:
        return Verdict(UNSURE, f"it has more than {MOST_BYTES >> 20} MiB, and is not looked at")
    return read_table(table, table_bytes(disk, path), rules.parsers)


def java_int_of(size: int) -> int:
    """Return a file's length as the broker takes it: in 32 bits."""
    return (size + (1 << 31)) % (1 << 32) - (1 << 31)


def table_bytes(disk: Disk, path: str) -> memoryview:
    """Return what a broker reads of a table; of a very large one the first part."""
    return disk.read(path, 0, min(max(java_int_of(disk.size(path)), 0), MOST_BYTES)).data

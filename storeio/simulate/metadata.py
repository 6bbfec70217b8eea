"""What ``config/`` and the timer wheel make of a start: tables in load order, and when one of them refuses it.

Source: ``BrokerController.initializeMetadata``, ``ConfigManager.load``, ``MixAll.file2String``, ``TimerWheel``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from storeio.paths import PIPE
from storeio.simulate.disk import Disk
from storeio.simulate.ends import CONFIG_STAGE, DELAY_STAGE, WHEEL_STAGE, HangsError, RefusesError
from storeio.simulate.rules import Rules
from storeio.simulate.tables import (
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    FILTERS,
    GROUPS,
    ORDER_INFO,
    QUEUE_MAPPING,
    READS,
    REFUSES,
    TOPICS,
    Verdict,
    read_table,
)

LIGHT_OFFSETS: Final = "config/lmqConsumerOffset.json"
TIMER_CHECK: Final = "config/timercheck"
TIMER_WHEEL: Final = "timerwheel"
REFUSING: Final = (CONFIG_STAGE, WHEEL_STAGE, DELAY_STAGE)
WHEEL_BYTES: Final = 2 * 7 * 86400 * 32  # two spans of seven days, a slot of 32 bytes a second

MOST_BYTES: Final = 64 << 20  # a larger file is no table

LOAD_ORDER: Final = (TOPICS, QUEUE_MAPPING, CONSUMER_OFFSETS, GROUPS, FILTERS, ORDER_INFO)
LOAD_ORDER_4: Final = (TOPICS, CONSUMER_OFFSETS, GROUPS, FILTERS)
DATABASES: Final = ("config/rdb", "config/topics", "config/metadata")  # these then hold the tables instead


@dataclass(frozen=True, slots=True)
class Switches:
    """What matters here: ``timer_wheel`` is timerWheelEnable; without ``follows`` nothing here refuses a start."""

    timer_wheel: bool = True
    follows: bool = True


def load_order(rules: Rules) -> tuple[str, ...]:
    """Return the tables that a version loads before the store, in order."""
    return LOAD_ORDER if rules.has_timers else LOAD_ORDER_4


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
    """Do what opening the timer wheel does to a start, which is before the store loads.

    Raises:
        RefusesError: The file has another length than a wheel; an empty one is made longer.
    """
    size = disk.size(TIMER_WHEEL)
    if rules.has_timers and switches.timer_wheel and size not in (0, WHEEL_BYTES):
        reason = f"{TIMER_WHEEL} is {size} bytes long, expected {WHEEL_BYTES}"
        raise RefusesError(reason, path=TIMER_WHEEL, stage=WHEEL_STAGE)


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
    table = _verdict(disk, rules, path, path)
    if said and table.verdict == READS:
        return ""
    copy = _verdict(disk, rules, path, backup(path))  # of a table that is empty or not there it is loaded, too
    if copy.verdict == READS:
        return ""
    if copy.verdict == REFUSES and (table.verdict == REFUSES or not said):
        others = f" and {path}" if said else ""
        raise RefusesError(f"{backup(path)}{others} cannot be read: {copy.why}", path=path, stage=stage)
    name, doubt = (path, table) if said and table.verdict != REFUSES else (backup(path), copy)
    return f"{name}: whether this broker's parser reads it, and so whether it starts: {doubt.why}"


def _verdict(disk: Disk, rules: Rules, table: str, path: str) -> Verdict:
    """Return whether a table, or its earlier content, is read from a file; so it is where there is none: then defaults
    do.

    Raises:
        HangsError: It is a pipe: to open one waits for somebody who writes into it.
    """
    if disk.no_file(path) == PIPE:
        raise HangsError(f"{path} is {PIPE}, and the broker waits for somebody to write into it", stage=CONFIG_STAGE)
    if not disk.size(path) or disk.files[path].is_dir:
        return Verdict(READS)
    if (length := java_int_of(disk.size(path))) < 0:
        return Verdict(REFUSES, f"its length is {length} to the broker")
    return read_table(table, table_bytes(disk, path), rules.parsers)


def java_int_of(size: int) -> int:
    """Return a file's length as the broker takes it: in 32 bits."""
    return (size + (1 << 31)) % (1 << 32) - (1 << 31)


def table_bytes(disk: Disk, path: str) -> memoryview:
    """Return what a broker reads of a table; of one that no broker wrote, as it is too large, the first part."""
    return disk.read(path, 0, min(max(java_int_of(disk.size(path)), 0), MOST_BYTES)).data

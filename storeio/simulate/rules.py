"""What differs between broker lines at start: one table, a row a rule, a column a line.

A rule's entries name the first version that has a value; it holds until the next entry. So a new
release is an entry where it differs, and nothing where it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from storeio.errors import UsageError

Version = tuple[int, int, int]

ALL: Final = "all"  # in place of a version: one of each line
NEWEST: Final = "5.5.1"
DEFAULT_HEAP_BYTES: Final = 2 << 30

# The lines that start differently, each with the release that stands for it.
LINES: Final = {
    "4.9.x": "4.9.8",
    "5.0.0-5.3.1": "5.1.4",
    "5.3.2-5.3.3": "5.3.3",
    "5.3.4": "5.3.4",
    "5.4.0": "5.4.0",
    "5.5.0": "5.5.0",
    "5.5.1": "5.5.1",
}
OLDEST: Final = (4, 9, 0)

# How the file is chosen in which the scan of the log begins.
LAST_THREE: Final = "the last but two"
MAX_QUEUE: Final = "the one that holds the queues' end"
FIRST_RECORD: Final = "the last whose first record is whole and known to the queues"
STORE_TIME: Final = "the last whose first record is older than the checkpoint"
CHECKED_TIME: Final = "the last whose first record is whole and older than the checkpoint"
QUEUED_OFFSET: Final = "the last whose first record is whole and not behind the checkpoint's queued offset"

# How far the shutdown after a refused start gets.
TWO_TABLES: Final = "consumer offsets and filters are written as loaded so far"
UNTIL_TIMERS: Final = "until the timers' shutdown throws"
TO_THE_END: Final = "all that was never loaded is written empty"

# What reads the tables of ``config/``.
FASTJSON: Final = "fastjson"
FASTJSON2: Final = "fastjson2"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one version. Source: the broker's class is named at each."""

    version: str
    skips_directories: bool  # MappedFileQueue.doLoad: a directory between segments is no obstacle
    drops_empty_last: bool  # MappedFileQueue.doLoad: an empty last file is deleted
    long_topics: bool  # MessageVersion: the second magic
    size_within_file: bool  # checkMessageAndReturnSize: a size beyond the file fails before anything is allocated
    no_negative_size: bool  # checkMessageAndReturnSize: fails before the magic is looked at
    clean_start: str  # CommitLog.recoverNormally
    abort_start: str  # CommitLog.recoverAbnormally
    dispatches_when_clean: bool  # CommitLog.recoverNormally
    most_recovered: int  # commitLogRecoverMaxNum; 0 for no limit
    end_after_dispatch: bool  # the queues' end is taken again before they are cut
    reput_from_queues: bool  # DefaultMessageStore.start: the queues' end, and start waits for dispatch
    min_by_scan: bool  # ConsumeQueue.correctMinOffset: the first unit from the front; later by search
    reads_empty_last: bool  # ConsumeQueue.correctMinOffset: throws at a last file without units
    min_of_empty: bool  # ConsumeQueue.correctMinOffset: a queue without files gets min 0, max -1
    index_load_counts: bool  # IndexService.load: false refuses
    tag_keys: bool  # IndexService.buildIndex: a key for the tags
    late_delays: bool  # DefaultMessageStore.load: delay levels are not known in recovery
    checked_magic: bool  # MessageDecoder.decode
    iterates_units: bool  # DefaultMessageStore.getMessage: by an iterator up to the queue's end, whole batches as one
    batch_queues: bool
    filters_less: bool  # getMessage: an answer ends at 16,000 bytes of units, not behind them
    light_queues: bool  # CommitLogDispatcherBuildConsumeQueue, ConsumeQueue: messages list queues of their own
    passes_slashes: bool  # ConsumeQueue: light queues whose name holds a slash are passed over
    picks_dispatched: bool  # ConsumeQueue, later MultiDispatchUtils: some topics have no light queues
    full_disk_deletes: bool  # isSpaceToDelete: a nearly full disk is reason enough; before, it only ignores age
    deletion_set: bool  # MessageStoreConfig: files per run and the disk's two upper ratios are settings, these clamped
    refused_shutdown: str  # BrokerController.shutdown, DefaultMessageStore.shutdown
    has_timers: bool  # TimerMessageStore
    loads_mappings: bool  # BrokerController.initialize: static topics, the order of messages; another order of tables
    parsers: tuple[str, ...]  # RemotingSerializable.fromJson; of 5.3.4 it is not known
    writes_abort: bool  # DefaultMessageStore.createTempFile: reads and writes it; before, it is only made

    @property
    def name(self) -> str:
        """Return the line."""
        return line_of(parse_version(self.version))


RULES: Final[dict[str, Sequence[tuple[str, Any]]]] = {
    "skips_directories": (("4.9.0", False), ("5.1.0", True)),
    "drops_empty_last": (("4.9.0", False), ("5.1.3", True)),
    "long_topics": (("4.9.0", False), ("5.1.0", True)),
    "size_within_file": (("4.9.0", False), ("5.3.2", True)),
    "no_negative_size": (("4.9.0", False), ("5.5.1", True)),
    "clean_start": (("4.9.0", LAST_THREE), ("5.3.2", MAX_QUEUE), ("5.3.4", FIRST_RECORD)),
    "abort_start": (("4.9.0", STORE_TIME), ("5.3.4", CHECKED_TIME), ("5.5.0", QUEUED_OFFSET)),
    "dispatches_when_clean": (("4.9.0", False), ("5.3.2", True)),
    "most_recovered": (("4.9.0", 0), ("5.4.0", 10)),
    "end_after_dispatch": (("4.9.0", False), ("5.3.4", True)),
    "reput_from_queues": (("4.9.0", True), ("5.0.0", False)),
    "min_by_scan": (("4.9.0", True), ("5.0.0", False)),
    "reads_empty_last": (("4.9.0", True), ("5.5.0", False)),
    "min_of_empty": (("4.9.0", False), ("5.5.1", True)),
    "index_load_counts": (("4.9.0", False), ("5.1.0", True)),
    "tag_keys": (("4.9.0", False), ("5.4.0", True)),
    "late_delays": (("4.9.0", False), ("4.9.2", True), ("5.0.0", False)),
    "checked_magic": (("4.9.0", False), ("5.0.0", True)),
    "iterates_units": (("4.9.0", False), ("5.0.0", True)),
    "batch_queues": (("4.9.0", False), ("5.0.0", True)),
    "filters_less": (("4.9.0", False), ("5.3.3", True)),
    "light_queues": (("4.9.0", False), ("4.9.3", True)),
    "passes_slashes": (("4.9.0", False), ("5.1.3", True)),
    "picks_dispatched": (("4.9.0", False), ("5.1.3", True)),
    "full_disk_deletes": (("4.9.0", False), ("5.0.0", True)),
    "deletion_set": (("4.9.0", False), ("5.0.0", True)),
    "refused_shutdown": (("4.9.0", TWO_TABLES), ("5.0.0", UNTIL_TIMERS), ("5.3.4", TO_THE_END)),
    "has_timers": (("4.9.0", False), ("5.0.0", True)),
    "loads_mappings": (("4.9.0", False), ("5.0.0", True)),
    "parsers": (("4.9.0", (FASTJSON,)), ("5.3.4", (FASTJSON, FASTJSON2)), ("5.4.0", (FASTJSON2,))),
    "writes_abort": (("4.9.0", False), ("5.0.0", True)),
}


def parse_version(text: str) -> Version:
    """Return a version's numbers.

    Raises:
        UsageError: Not of the form ``5.3.3``, or older than what is known.
    """
    parts = text.strip().split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"broker version {text[:40]!r}: three numbers such as 5.3.3 are needed")
    major, minor, patch = (int(part) for part in parts)
    if (major, minor, patch) < OLDEST:
        raise UsageError(f"broker version {text}: nothing is known of versions before 4.9.0")
    return major, minor, patch


def rules_of(text: str) -> Rules:
    """Return the rules of a version; those of the newest known one for what came later.

    Raises:
        UsageError: No version, or one that is too old.
    """
    version = parse_version(text)
    values = {name: [v for since, v in row if parse_version(since) <= version][-1] for name, row in RULES.items()}
    return Rules(version=".".join(map(str, version)), **values)


def broker_text(version: str) -> str:
    """Return a broker's version in words; of one that is newer than all that is known, by whose rules it is simulated.

    Raises:
        UsageError: No version, or one that is too old.
    """
    is_known = parse_version(version) <= parse_version(NEWEST)
    return f"broker {version}" if is_known else f"broker {version} (not known yet, by the rules of {NEWEST})"


def checked_heap(heap_bytes: int) -> int:
    """Return the bytes of a broker's heap.

    Raises:
        UsageError: No heap has so many, or so few.
    """
    if not 1 <= heap_bytes < 1 << 63:
        raise UsageError(f"a heap of {heap_bytes} bytes: from 1 to 2**63 - 1 are possible")
    return heap_bytes


def line_of(version: Version) -> str:
    """Return the name of the line that a version belongs to."""
    found = "4.9.x"
    for name in LINES:
        if parse_version(name.split("-")[0].replace("x", "0")) <= version:
            found = name
    return found


assert {field.name for field in fields(Rules)} == {"version", *RULES}

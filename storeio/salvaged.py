"""What a salvage came to, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from storeio.rebuilt import QueueBuilt
from storeio.results import EXIT_DAMAGED, EXIT_FAILED, EXIT_SOUND, Setting

UNREAD = "could not be read: "
"""What a problem begins with that names bytes which may be there all the same."""
TOMBSTONES: Final = "tombstones"
GAPS: Final = "gaps"
LOSSES: Final = (TOMBSTONES, GAPS)


@dataclass(frozen=True, slots=True)
class LostMessages:
    """Messages ``[first, stop)`` of a queue that no byte of the store can supply.

    ``bytes`` is how much they took, None where no queue unit tells; the physical range bounds where they lay.
    ``tombstone`` says that records of their numbers were written. ``key_hashes`` are those of index units that point at
    them, at most 16; the store times bound theirs.
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    stop_queue_offset: int
    physical_start: int
    physical_stop: int
    bytes: int | None
    evidence: str
    tombstone: bool
    key_hashes: tuple[int, ...] = ()
    first_store_timestamp_ms: int | None = None
    last_store_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredRecord:
    """A damaged field of a record, which was given its bytes back; of several there is one each."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    field: str
    old: str
    new: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DroppedRecord:
    """A record that was not taken for a message, and why."""

    physical_offset: int
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of a file, of this store or another copy of its log, that were put where their records say they belong."""

    source: str
    position: int
    length: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class TopicHeld:
    """A topic of the log. ``deleted`` tells whether the broker has no such topic any more, None where nothing says."""

    topic: str
    messages: int
    deleted: bool | None


@dataclass(frozen=True, slots=True)
class Written:
    """A file of messages, and how many are in it."""

    path: str
    count: int


@dataclass(slots=True)
class Salvaged:
    """One salvage. ``records`` are those that were intact or restored; ``saved`` are the intact messages, each of a
    batch counted, that the next start of ``broker`` would have given up, all records if it refuses. ``unnamed`` are
    messages that are lost besides ``lost``, at least: units point at them, and nothing tells their queues. ``left_out``
    are those that were not ``chosen``, a sentence that is empty where all are. ``problems`` are sentences on what could
    not be done, ``notes`` on where it was written."""

    store: str
    version: str
    into: str
    crc_engine: str
    started_ms: int
    seconds: float
    settings: tuple[Setting, ...]
    min_physical_offset: int
    max_physical_offset: int
    records: int
    broker: str = ""
    saved: int | None = None
    tombstones: int = 0
    fillers: int = 0
    chosen: str = ""
    left_out: int = 0
    topics: list[TopicHeld] = field(default_factory=list)
    restored: list[RestoredRecord] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    dropped: list[DroppedRecord] = field(default_factory=list)
    lost: list[LostMessages] = field(default_factory=list)
    unnamed: int = 0
    queues: list[QueueBuilt] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    written_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    messages: Written | None = None
    tool: str = "storeio"

    @property
    def lost_count(self) -> int:
        """How many messages are lost."""
        return sum(part.stop_queue_offset - part.first_queue_offset for part in self.lost)

    @property
    def restored_count(self) -> int:
        """How many records had damaged fields that were given their bytes back."""
        return len({field.physical_offset for field in self.restored})

    @property
    def lossy(self) -> bool:
        """Whether the result is not all that the store held."""
        return bool(self.lost or self.dropped or self.unnamed)

    @property
    def verdict(self) -> str:
        """``lossy``, ``part`` where only chosen messages were taken, else ``whole``."""
        return "lossy" if self.lossy else "part" if self.chosen else "whole"

    @property
    def exit_code(self) -> int:
        """0 if nothing is lost, 4 if messages are, and 8 where something could not be done."""
        return (EXIT_DAMAGED if self.lossy else EXIT_SOUND) | (EXIT_FAILED if self.problems else 0)

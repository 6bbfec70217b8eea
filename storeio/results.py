"""What an audit says, as plain data: the one source of text, JSON, tables and HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from storeio.findings import ERROR, WARNING, Finding

BYTE_CLASSES: Final = ("record", "blank", "zero", "stale", "torn", "garbage", "missing")

EXIT_SOUND: Final = 0
EXIT_REPAIRED: Final = 1
EXIT_DAMAGED: Final = 4
EXIT_FAILED: Final = 8
EXIT_USAGE: Final = 16
EXIT_CANCELLED: Final = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a verb is: bytes done and in all, and what it does now."""

    done_bytes: int
    total_bytes: int
    phase: str


Tell = Callable[[Progress], None]
"""Is told how far a verb is, maybe from several threads."""


DEFAULT: Final = "default"  # how the source of a setting begins that nobody gave and no file tells
INDEX_SHAPE: Final = ("maxHashSlotNum", "maxIndexNum")


@dataclass(frozen=True, slots=True)
class Setting:
    """A broker setting as used, and where its value comes from: a file, the command line, or inferred.

    ``by_lengths`` says that nothing but the lengths of files tells it, which they may have got by being cut off.
    """

    name: str
    value: str
    source: str
    by_lengths: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nobody gave it and no file tells it: the brokers' default was taken."""
        return self.source.startswith(DEFAULT)


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file: its bytes per class add up to its size, with ``missing`` on top where it is too short.

    ``path`` is relative to the store root. A file that should be there has size 0.
    """

    path: str
    kind: str
    size: int
    classes: dict[str, int]
    topic: str | None = None
    queue_id: int | None = None


@dataclass(frozen=True, slots=True)
class LogResult:
    """The commitlog: ``max_physical_offset`` is the end of the last valid record."""

    min_physical_offset: int
    max_physical_offset: int
    records: int
    segments: int
    first_store_timestamp_ms: int | None = None
    last_store_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueueResult:
    """One queue; offsets in units, ``max`` exclusive, ``lost`` as half-open ranges of queue offsets."""

    topic: str
    queue_id: int
    kind: str
    min_queue_offset: int
    max_queue_offset: int
    units: int
    in_log: int
    lost: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class IndexResult:
    """One index file; ``entries`` are its units."""

    path: str
    entries: int
    begin_physical_offset: int
    end_physical_offset: int


@dataclass(frozen=True, slots=True)
class LostRange:
    """Messages that no intact record holds: queue offsets ``[first, stop)`` of one queue.

    ``physical_start`` and ``physical_stop`` bound where they lay.
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    stop_queue_offset: int
    physical_start: int
    physical_stop: int
    evidence: str


def messages_in(lost: Iterable[LostRange]) -> int:
    """Return how many messages ranges are."""
    return sum(part.stop_queue_offset - part.first_queue_offset for part in lost)


@dataclass(frozen=True, slots=True)
class Band:
    """Bytes ``[start, stop)`` of a commitlog file that are of one class; ``missing`` ones lie behind its end."""

    path: str
    start: int
    stop: int
    byte_class: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What an incremental audit read, and what it took over; parts are splits of the log, and files looked at whole.

    ``due_bytes`` would have been looked at again by rotation, had there been time: what was said of them is older
    than it should be. ``left`` are parts of which nothing is known, as path, start and stop.
    """

    bytes_read: int
    parts: int
    parts_known: int
    parts_rechecked: int
    due_bytes: int = 0
    left: tuple[tuple[str, int, int], ...] = ()

    @property
    def left_bytes(self) -> int:
        """Bytes of which nothing is known."""
        return sum(stop - start for _, start, stop in self.left)


@dataclass(slots=True)
class Audit:
    """The result of a check of one store. ``checks`` counts what every check looked at, zero included."""

    store: str
    version: str
    crc_engine: str
    started_ms: int
    seconds: float
    settings: list[Setting]
    files: list[FileResult]
    log: LogResult
    queues: list[QueueResult]
    index: list[IndexResult]
    checks: dict[str, int]
    findings: list[Finding]
    lost: list[LostRange] = field(default_factory=list)
    misplaced: list[LostRange] = field(default_factory=list)  # messages that records elsewhere in the log hold
    unread: list[LostRange] = field(default_factory=list)  # messages that what could not be read may hold
    failed: list[str] = field(default_factory=list)
    tool: str = "storeio"
    reading: Reading | None = None  # None: every byte was read
    bands: list[Band] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """``sound`` or ``damaged``."""
        return "damaged" if any(f.severity in (ERROR, WARNING) for f in self.findings) else "sound"

    @property
    def exit_code(self) -> int:
        """The bits that the command line and the jobs end with."""
        code = EXIT_DAMAGED if self.verdict == "damaged" else EXIT_SOUND
        return code | (EXIT_FAILED if self.failed else 0)

    def bytes_by_kind(self) -> dict[str, dict[str, int]]:
        """Return bytes per class for each file kind, and ``total`` for each."""
        kinds: dict[str, dict[str, int]] = {}
        for file in self.files:
            row = kinds.setdefault(file.kind, dict.fromkeys((*BYTE_CLASSES, "total"), 0))
            for name, count in file.classes.items():
                row[name] += count
                row["total"] += count
        return kinds


@dataclass(slots=True)
class Unfinished:
    """An audit that ran out of time or was cancelled: findings of the parts that it knows, no verdict on the whole.

    Whether a queue has all its units, where the log ends and what is lost follows only from all parts.
    """

    store: str
    version: str
    crc_engine: str
    started_ms: int
    seconds: float
    settings: list[Setting]
    findings: list[Finding]
    reading: Reading
    failed: list[str] = field(default_factory=list)
    tool: str = "storeio"
    cancelled: bool = False

    @property
    def verdict(self) -> str:
        """``incomplete``, or ``damaged`` if the known parts are; never ``sound``."""
        return "damaged" if any(f.severity in (ERROR, WARNING) for f in self.findings) else "incomplete"

    @property
    def exit_code(self) -> int:
        """32 if it was cancelled, else 8, since the work was not done; and 4 if damage was found."""
        why = EXIT_CANCELLED if self.cancelled else EXIT_FAILED
        return why | (EXIT_DAMAGED if self.verdict == "damaged" else EXIT_SOUND)


class AuditCancelled(KeyboardInterrupt):
    """Somebody cancelled an audit; ``known`` is as much of it as was done."""

    def __init__(self, known: Unfinished) -> None:
        super().__init__("the audit was cancelled")
        self.known = known

"""What a rebuild made, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from storeio.findings import Finding
from storeio.results import EXIT_DAMAGED, EXIT_FAILED, EXIT_SOUND, Setting

QUEUES: Final = "queues"
INDEXES: Final = "index"
CHECKPOINTS: Final = "checkpoint"
PARTS: Final = (QUEUES, INDEXES, CHECKPOINTS)


@dataclass(frozen=True, slots=True)
class QueueBuilt:
    """One queue. Numbers are units; of a batch queue, units in the order of the log.

    ``gaps`` are numbers that no record of the log has; of their units ``kept`` are the store's own, which
    point into the hole, and ``filled`` repeat the one before. ``replaced`` units belonged to records whose
    number was given out again, ``moved`` to records whose number contradicts its neighbours.

    Of a queue that ``is_dead`` the log has no message any more: of its last file, which ends at ``stop``, ``kept``
    units are the store's own, and ``filled`` repeat one, or are made up.
    """

    kind: str
    topic: str
    queue_id: int
    first: int
    stop: int
    units: int
    gaps: tuple[tuple[int, int], ...] = ()
    kept: int = 0
    filled: int = 0
    replaced: int = 0
    moved: int = 0

    @property
    def usual(self) -> bool:
        """Whether numbers follow on from each other."""
        return not (self.gaps or self.replaced or self.moved or (self.is_dead and self.filled))

    @property
    def is_dead(self) -> bool:
        """Whether retention has deleted all of its messages."""
        return not self.units and self.kept + self.filled > 0


@dataclass(slots=True)
class Rebuilt:
    """One rebuild. ``log`` are errors and warnings of the commitlog itself, ``left_out`` units by queue
    whose name may not become a path; ``notes`` are sentences on what was decided, ``partly`` what was asked
    for, empty for everything; ``failed`` what of the store's own files could not be read."""

    store: str
    version: str
    into: str
    crc_engine: str
    started_ms: int
    seconds: float
    settings: tuple[Setting, ...]
    records: int
    min_physical_offset: int
    max_physical_offset: int
    queues: list[QueueBuilt] = field(default_factory=list)
    index_files: int = 0
    index_units: int = 0
    files: list[str] = field(default_factory=list)
    written_bytes: int = 0
    log: list[Finding] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """4 where the log is damaged, or a queue's numbers are not those that its records say; 8 is added where not all
        of what was decided by the store's own files could be."""
        odd = self.log or self.left_out or not all(queue.usual for queue in self.queues)
        return (EXIT_DAMAGED if odd else EXIT_SOUND) | (EXIT_FAILED if self.failed else 0)

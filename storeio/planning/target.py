"""One queue that is to be as a rebuild says, and what of it goes or stays as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storeio.format import consumequeue
from storeio.paths import QUEUE_EXT, queue_directory
from storeio.planning.draft import Draft, Why
from storeio.planning.limits import RefusedError
from storeio.rebuilt import QueueBuilt, Rebuilt

NOWHERE: Final = 2**63 - 1  # behind all bytes of a queue
OF_EXT: Final = frozenset(("EXT_CHAIN", "EXT_LENGTH", "MISALIGNED_NAME"))


@dataclass(frozen=True, slots=True)
class Built:
    """What a rebuild of a store, as it is planned so far, has put into a place.

    ``untold`` are the physical offsets, ascending, of damaged records of which nothing tells what they were.
    """

    place: Path
    rebuilt: Rebuilt
    untold: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """One queue that is to be as it was rebuilt. ``built`` is None where the log has no record of it.

    What lies below its first number stays as it is with ``keeps_front``, what lies behind its last with ``keeps_tail``:
    units that point into damage of the log, of which no rebuild knows.
    """

    kind: str
    topic: str
    queue_id: int
    built: QueueBuilt | None
    file_bytes: int
    why: Why
    keeps_front: bool = False
    keeps_tail: bool = False

    @property
    def first_byte(self) -> int:
        """Where the queue's first unit stands, of one without a message that of its last file."""
        if self.built is None:
            return NOWHERE
        held = self.built.kept + self.built.filled if self.built.is_dead else 0
        return (self.built.first - held) * consumequeue.UNIT_BYTES

    @property
    def stop_byte(self) -> int:
        """Behind the last byte that may change."""
        return self.built.stop * consumequeue.UNIT_BYTES if self.built and self.keeps_tail else NOWHERE

    @property
    def directory(self) -> str:
        """The queue's directory."""
        return queue_directory(self.kind, self.topic, self.queue_id)


def has_ext(rebuilt: Path, target: Target) -> bool:
    """Tell whether a queue's ext files are to be planned, too: a rebuild has some, or the store's are damaged.

    Those of messages that retention has deleted no rebuild has; where they are sound, they stay.
    """
    directory = rebuilt / queue_directory(QUEUE_EXT, target.topic, target.queue_id)
    return directory.is_dir() or not OF_EXT.isdisjoint(target.why.codes)


def moved_whole(draft: Draft, target: Target) -> bool:
    """Move a batch queue's directory, and tell whether that could be done: without a file it still claims its topic.

    5.x brokers refuse to start with it, if the topic is none of batch queues.
    """
    try:
        draft.move(target.directory, target.why)
    except RefusedError:  # an earlier action has moved something of it
        return False
    return True

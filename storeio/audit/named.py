"""Topics and queues that somebody names: what a store has nowhere is a slip of the pen, and no empty answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from storeio.errors import UsageError
from storeio.results import Audit
from storeio.safe import printable

Name = tuple[str, int | None]
"""Topic and queue id, without an id the topic as a whole."""


def require_known(names: Collection[Name], found: Audit) -> None:
    """Raise if a store of which all could be read has a named topic or queue neither in its log nor as a directory.

    Raises:
        UsageError: So it is.
    """
    if not found.failed:
        there: set[Name] = {(queue.topic, queue.queue_id) for queue in found.queues}
        require_among(names, there | {(f.topic, f.queue_id) for f in found.findings if f.topic is not None})


def require_among(names: Iterable[Name], there: Collection[Name]) -> None:
    """Raise if one of the names is neither a queue that is there nor the topic of one.

    Raises:
        UsageError: So it is.
    """
    topics = {topic for topic, _ in there}
    for topic, queue_id in names:
        if topic not in topics if queue_id is None else (topic, queue_id) not in there:
            name = printable(topic if queue_id is None else f"{topic}/{queue_id}")
            raise UsageError(f"--{'topic' if queue_id is None else 'queue'} {name}: the store has no such thing")

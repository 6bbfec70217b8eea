"""The topics of a log, and which of them the broker has no more.

Source: ``TopicConfigManager``, ``DefaultMessageStore.cleanUnusedTopic``, ``deleteTopics``.
"""

from __future__ import annotations

from typing import Final

from storeio.audit import AuditPlan
from storeio.format import commitlog as log
from storeio.paths import QUEUE_KINDS
from storeio.results import Audit
from storeio.salvage.fillers import FILLER_TOPIC
from storeio.salvaged import TopicHeld
from storeio.simulate.disk import Disk
from storeio.simulate.topics import declared_topics

SYSTEM: Final = ("RMQ_SYS_", "rmq_sys_", log.SCHEDULE_TOPIC, log.LMQ_PREFIX)


def topics_of(plan: AuditPlan, audit: Audit) -> list[TopicHeld]:
    """Return the topics with messages in the log, sorted.

    A topic was deleted if ``config/topics.json`` does not name it; without that table, if it has no queue directory
    while others have, unless queues are in a database. Topics of the broker itself are never deleted.
    """
    held: dict[str, int] = {}
    for queue in audit.queues:
        if queue.in_log:
            held[queue.topic] = held.get(queue.topic, 0) + queue.in_log
    declared = declared_topics(Disk(plan.listing.files, plan.read))
    placed = {f.topic for f in plan.listing.files if f.kind in QUEUE_KINDS and f.queue_id is not None}
    known = declared if declared is not None else set() if plan.facts.elsewhere else placed
    held.pop(FILLER_TOPIC.decode(), None)
    return [
        TopicHeld(topic, count, None if not known else topic not in known and not topic.startswith(SYSTEM))
        for topic, count in sorted(held.items())
    ]

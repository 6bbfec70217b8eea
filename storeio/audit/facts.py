"""What is to be known of all queues at once: told by their files, and by records where no file is left to tell.

Source: ``QueueTypeUtils``, ``ConsumeQueueStore.getOrCreateConsumeQueue``, ``MultiDispatchUtils``.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from storeio.audit.peek import record_at
from storeio.audit.plan import AuditPlan, QueueFacts
from storeio.checks.layout import queues_elsewhere
from storeio.checks.queue_files import Queue
from storeio.dispatch import Grouped
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties
from storeio.kernels import tables as w
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT, TOPIC_DATABASES, StoreFile, file_name
from storeio.results import QueueResult
from storeio.simulate.disk import Disk
from storeio.simulate.queue_types import has_no_ordinary, moved_topics, noisy_topics
from storeio.simulate.topics import TOPICS, declared_topics

ORDINARY: Final = "its units are of ordinary queues"
NO_ORDINARY: Final = "the topic has batch queues, and no unit of an ordinary queue is in it"
NOISE: Final = "no unit of the topic's batch queues is in it, and its ordinary ones are where they belong"
EMPTY: Final = "no file is in it, and no table or record gives the topic batch queues"
SAYS: Final = {True: "BatchCQ", False: "SimpleCQ, as of any topic without another type"}


@dataclass(frozen=True, slots=True)
class Told:
    """What records say of their queues: which topics, sorted, have inner batches, and whether any lists light queues.

    Brokers take inner batches for batch queues only, and give numbers of light queues only where these are on.
    """

    batch_topics: tuple[str, ...] = ()
    light: bool = False


def told_by(grouped: Grouped) -> Told:
    """Return what a split's records say of their queues."""
    records = grouped.walked.records
    marks = records[w.R_MARKS]
    all_marks = int(np.bitwise_or.reduceat(marks, [0])[0]) if len(marks) else 0
    light = bool(all_marks & w.MARK_MULTI)
    if not all_marks & w.MARK_INNER_BATCH:
        return Told((), light)
    is_batch = (marks & w.MARK_INNER_BATCH != 0) & (records[w.R_SYS_FLAG] & log.SYS_INNER_BATCH != 0)
    names = grouped.names(np.unique(records[w.R_QUEUE, is_batch]))
    return Told(tuple(sorted({topic for topic, _ in names})), light)


def all_told(parts: Iterable[Told]) -> Told:
    """Return what all splits' records say."""
    parts = list(parts)
    topics = {topic for part in parts for topic in part.batch_topics}
    return Told(tuple(sorted(topics)), any(part.light for part in parts))


def only_told(plan: AuditPlan, told: Told) -> Told:
    """Return what records tell of which neither files nor settings of a store, as they were listed, say anything."""
    queues = [file for file in plan.listing.files if file.kind in (CONSUMEQUEUE, BATCHQUEUE)]
    usual = [file for file in queues if file.kind == CONSUMEQUEUE and file.queue_id is not None and not file.is_dir]
    has_units = any(file.base_offset is not None for file in usual)
    light = told.light and plan.config.multi_dispatch is None and not has_units
    if not told.batch_topics:
        return Told((), light)
    try:
        is_declared = declared_batches(plan) is not None
    except UnreadableError:
        is_declared = True  # by a table that says we do not know what
    typed = {file.topic or "" for file in queues}
    filled = {file.topic or "" for file in usual}.intersection(told.batch_topics)
    typed -= (filled - _with_ordinary(plan, filled)) - {file.topic for file in queues if file.kind == BATCHQUEUE}
    topics = () if is_declared else tuple(topic for topic in told.batch_topics if topic not in typed)
    return Told(topics, light)


def declared_batches(plan: AuditPlan) -> frozenset[str] | None:
    """Return the topics that ``topics.json`` gives batch queues; None without such a table.

    Raises:
        UnreadableError: It is there and cannot be read.
    """
    table = _declared(plan)
    return None if table is None else frozenset(topic for topic, is_batch in table.items() if is_batch)


def _declared(plan: AuditPlan) -> dict[str, bool] | None:
    files = [file for path in (*TOPICS, *TOPIC_DATABASES) if (file := plan.listing.get(path)) is not None]
    return declared_topics(Disk(files, plan.read)) if files else None


def type_findings(plan: AuditPlan) -> list[Finding]:
    """Return a finding for each topic directory that is not for the type that ``topics.json`` or its files tell."""
    try:
        table = _declared(plan)
    except UnreadableError:
        return []  # which is told as such
    elsewhere = _elsewhere(plan, table or {})
    found = [
        Finding("QUEUE_ELSEWHERE", f"{kind}/{topic}", topic=topic, detail=detail)
        for (kind, topic), detail in sorted(elsewhere.items())
    ]
    if table is None:
        return found  # the store was copied without its configuration, or a broker makes a new one
    entries = [file for file in plan.listing.files if file.topic and file.queue_id is not None]
    types = {(file.kind, file.topic or "") for file in entries if file.kind in (CONSUMEQUEUE, BATCHQUEUE)}
    return found + [
        Finding("QUEUE_TYPE", f"{kind}/{topic}", topic=topic, detail=f"the table says {SAYS[table.get(topic, False)]}")
        for kind, topic in sorted(types)
        if table.get(topic, False) != (kind == BATCHQUEUE) and (kind, topic) not in elsewhere
    ]


def _elsewhere(plan: AuditPlan, table: Mapping[str, bool]) -> dict[tuple[str, str], str]:
    """Return the topics' directories that hold nothing of their topic's type, with what they hold in words."""
    moved, noisy = _ordinary_topics(plan)
    batch = {topic for topic, is_batch in table.items() if is_batch}
    found = {(BATCHQUEUE, topic): NOISE for topic in noisy - batch}
    found |= {(BATCHQUEUE, topic): ORDINARY for topic in moved - batch}
    there = {file.topic or "" for file in plan.listing.of_kind(CONSUMEQUEUE) if file.topic in plan.facts.batch_topics}
    return found | {(CONSUMEQUEUE, topic): NO_ORDINARY for topic in there - _with_ordinary(plan, there)}


def unfounded(plan: AuditPlan, queues: Iterable[QueueResult]) -> list[Finding]:
    """Return a finding for each topic whose empty directory is all that tells of batch queues, if no table could.

    ``queues`` are those of which there is a file or a record. A broker takes such a topic for one of ordinary queues.
    """
    entries = [file for file in plan.listing.files if file.kind == BATCHQUEUE and file.queue_id is not None]
    try:
        if not entries or _declared(plan) is not None:
            return []
    except UnreadableError:
        return []  # which is told as such
    founded = {file.topic for file in entries if not file.is_dir}
    founded |= {queue.topic for queue in queues if queue.kind == "bcq"}
    topics = {file.topic for file in entries if file.topic} - founded
    return [Finding("QUEUE_TYPE", f"{BATCHQUEUE}/{topic}", topic=topic, detail=EMPTY) for topic in sorted(topics)]


def _ordinary_topics(plan: AuditPlan) -> tuple[frozenset[str], frozenset[str]]:
    """Return the topics whose directories of batch queues hold ordinary ones, and those beside which such lie."""
    disk = _queues_of(plan, {file.topic or "" for file in plan.listing.of_kind(BATCHQUEUE)})
    try:
        return moved_topics(disk), noisy_topics(disk, partial(_topic_at, plan))
    except UnreadableError:
        return frozenset(), frozenset()  # which is told as such


def _topic_at(plan: AuditPlan, physical: int) -> str | None:
    record = record_at(plan, physical)
    return None if record is None else properties.java_decode(record.topic)


def _queues_of(plan: AuditPlan, topics: Container[str]) -> Disk:
    """Return the queue files of some topics."""
    files = (file for file in plan.listing.files if file.kind in (CONSUMEQUEUE, BATCHQUEUE))
    return Disk([file for file in files if file.topic in topics], plan.read)


def listed_batches(plan: AuditPlan, declared: frozenset[str] | None) -> frozenset[str]:
    """Return the topics that have batch queues, as directories tell and ``topics.json``, which gives ``declared``.

    That table's word, and that of an empty directory, counts where no ordinary queue's file says otherwise; and where a
    topic has files of both kinds, with which no broker starts. A directory of batch queues says nothing if it holds an
    ordinary queue's files, or noise.
    """
    queues = [file for file in plan.listing.files if file.kind in (CONSUMEQUEUE, BATCHQUEUE) and file.topic]
    batch = [file for file in queues if file.kind == BATCHQUEUE]
    moved, noisy = _ordinary_topics(plan) if batch else (frozenset[str](), frozenset[str]())
    others_are = moved | (noisy - (declared or frozenset()))
    placed = {file.topic or "" for file in batch if not file.is_dir} - others_are
    likely = ({file.topic or "" for file in batch} - others_are).union(declared or ())
    others = {file.topic or "" for file in queues if file.kind == CONSUMEQUEUE and not file.is_dir} if likely else set()
    denied = placed & others - declared if declared is not None else frozenset()
    return frozenset((placed - denied) | (likely - _with_ordinary(plan, likely & others)))


def _with_ordinary(plan: AuditPlan, topics: Collection[str]) -> set[str]:
    """Return those of some topics with consume queue files that have an ordinary queue's units, or all if unread."""
    if not topics:
        return set()
    disk = _queues_of(plan, topics)
    try:
        return {topic for topic in topics if not has_no_ordinary(disk, topic)}
    except UnreadableError:
        return set(topics)


def has_light_queues(plan: AuditPlan) -> bool:
    """Tell whether a light queue lies in the store, or its directory."""
    return any((f.topic or "").startswith(log.LMQ_PREFIX) for f in plan.listing.files if f.kind == CONSUMEQUEUE)


def file_facts(
    plan: AuditPlan, queues: Iterable[Queue], unknown: Iterable[StoreFile], declared: frozenset[str] | None
) -> QueueFacts:
    """Return what the files tell; ``unknown`` ones could not be read, ``declared`` as for ``listed_batches``."""
    odd = {(file.topic, file.queue_id) for file in unknown if file.topic is not None and file.queue_id is not None}
    for queue in queues:
        if queue.kind == QUEUE_EXT or (queue.kind != BATCHQUEUE and not _has_usual_files(queue)):
            odd.add((queue.topic, queue.queue_id))
    elsewhere = queues_elsewhere(plan.listing.files, in_database=plan.config.in_database)
    return QueueFacts(listed_batches(plan, declared), has_light_queues(plan), frozenset(odd), elsewhere)


def _has_usual_files(queue: Queue) -> bool:
    """Tell whether each file has the name of its number, and none begins where another should go on."""
    directory = queue.directory
    return all(
        file.base % queue.file_bytes == 0 and file.path == f"{directory}/{file_name(file.base)}" for file in queue.files
    )


def known_with(plan: AuditPlan, batch_topics: frozenset[str], light: bool, told: Told) -> tuple[frozenset[str], bool]:
    """Return the topics with batch queues, and whether there are light ones, with what only records tell."""
    if batch_topics.issuperset(told.batch_topics) and (light or not told.light):
        return batch_topics, light
    answer = only_told(plan, told)
    return batch_topics.union(answer.batch_topics), light or answer.light


def with_told(plan: AuditPlan, told: Told) -> AuditPlan:
    """Return the plan with what records tell of queues of which nothing is left; the same plan if that is not new."""
    batch_topics, light = known_with(plan, plan.facts.batch_topics, plan.facts.light, told)
    facts = replace(plan.facts, batch_topics=batch_topics, light=light)
    return plan if facts == plan.facts else replace(plan, facts=facts)

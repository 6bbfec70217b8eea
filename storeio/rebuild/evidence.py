"""What a store's own files tell a rebuild that its log does not: which settings its brokers ran with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan
from storeio.audit.facts import declared_batches, has_light_queues, listed_batches
from storeio.audit.peek import record_at
from storeio.errors import UnreadableError
from storeio.format import checkpoint, consumequeue, index, properties, queueext
from storeio.paths import CHECKPOINT, CONSUMEQUEUE, INDEX, QUEUE_EXT, StoreFile
from storeio.rebuild.light import Standings, light_starts
from storeio.scan import go_without
from storeio.simulate.rules import rules_of

Numbers = npt.NDArray[np.int64]

CHUNK_UNITS = 1 << 16  # that are looked through at once for the last one
NEIGHBOURS = 64  # index units around one that are looked through for the same record's
UNITS_ASKED = 256  # of a queue's file, about ext units
TRIES = 16  # records without tags that are passed before nothing is told
Units = list[tuple[int, int]]
"""Physical offset and key hash of index units."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Topics with batch queues, whether there are light queues and ext files, where tags and light queues begin."""

    batch_topics: frozenset[str]
    light: bool
    ext: bool
    tags_from: int | None
    light_starts: dict[str, Standings]


def evidence_of(plan: AuditPlan, broker: str | None = None) -> Evidence:
    """Return what is given, or else what the store's own files tell, or else what brokers of a version do.

    Raises:
        UnreadableError: ``topics.json`` cannot be read.
        UsageError: No such version.
    """
    has_tag_keys = broker is not None and rules_of(broker).tag_keys
    given = {setting.name: setting.value == "true" for setting in plan.config.settings}
    light = plan.facts.light or has_light_queues(plan)
    ext = given.get("enableConsumeQueueExt")
    return Evidence(
        plan.facts.batch_topics | listed_batches(plan, declared_batches(plan)),
        light if plan.config.multi_dispatch is None else plan.config.multi_dispatch,
        has_ext_units(plan) if ext is None else ext,
        tags_from(plan, otherwise=has_tag_keys),
        light_starts(plan),
    )


def has_ext_units(plan: AuditPlan) -> bool:
    """Tell whether queues have ext units: one of their ext files begins with one, or one of their units names one.

    Files of other queues that came there do neither. What cannot be read is taken for one that does.
    """
    files = [f for f in plan.listing.files if f.kind == QUEUE_EXT and not f.is_dir]
    queues = {(f.topic, f.queue_id) for f in files}
    named = [f for f in plan.listing.of_kind(CONSUMEQUEUE) if (f.topic, f.queue_id) in queues]
    try:
        return any(_begins_with_unit(plan, file) for file in files) or any(_names_unit(plan, file) for file in named)
    except UnreadableError as error:
        go_without(plan.root, error)
        return True


def _begins_with_unit(plan: AuditPlan, file: StoreFile) -> bool:
    if file.size < queueext.HEAD_BYTES:
        return False
    head = queueext.decode_head(plan.read(file.path, 0, queueext.HEAD_BYTES).data)[0]
    return bool(head["bitmap_length"] >= 0 and head["size"] == queueext.HEAD_BYTES + int(head["bitmap_length"]))


def _names_unit(plan: AuditPlan, file: StoreFile) -> bool:
    """Tell whether one of the first units of a queue's file has the address of an ext unit."""
    stop = min(file.size // consumequeue.UNIT_BYTES, UNITS_ASKED) * consumequeue.UNIT_BYTES
    units = consumequeue.decode(plan.read(file.path, 0, stop).data if stop else b"")
    return bool(queueext.is_address(units["tags_code"].astype(np.int64)).any())


def tags_from(plan: AuditPlan, *, otherwise: bool = False) -> int | None:
    """Return the physical offset from which on the store's brokers indexed tags, as those since 5.4.0 do.

    The store's own index tells; without one, the checkpoint's field that brokers write since 5.5.0; ``otherwise``
    where neither does. None for never.
    """
    told: bool | None = None
    found = None
    for path, count, slots in reversed(list(_index_files(plan))):
        low, high = 1, count  # tags are indexed from some unit on; look for the first one
        while low < high:
            middle = (low + high) // 2
            answer = _is_tagged(plan, path, slots, middle, count)
            told = answer if answer is not None else told
            if answer is None or answer:
                high = middle
            else:
                low = middle + 1
        if low < count and (answer := _is_tagged(plan, path, slots, low, count)):
            told, found = True, _first_offset(plan, path, slots, low, count)
            if low > 1:
                break
        elif told is False:
            break
    else:  # no unit without tags; what the log has before the first unit may have been in an index that is gone
        found = 0 if told else found
    if told is None:
        return 0 if _is_since_5_5(plan) or otherwise else None
    return found


def _index_files(plan: AuditPlan) -> Iterator[tuple[str, int, int]]:
    """Yield path, units plus one, and slots of the store's index files that can be read."""
    if plan.index_shape is None:
        return
    slots, units = plan.index_shape
    for file in plan.listing.of_kind(INDEX):
        if file.size != index.file_length(slots, units):
            continue
        try:
            header = index.decode_header(plan.read(file.path, 0, index.HEADER_BYTES).tobytes())
            count = _count(plan, file.path, slots, units, int(header["unit_count"]))
        except UnreadableError as error:
            go_without(plan.root, error)
            continue
        yield file.path, count, slots


def _count(plan: AuditPlan, path: str, slots: int, units: int, said: int) -> int:
    """Return how many units a file holds, plus one: what its header says, or where the last one stands."""

    def used(first: int, stop: int) -> Numbers:
        return np.flatnonzero(_read(plan, path, slots, first, stop))

    if 1 < said < units and len(used(said - 1, said)) and not len(used(said, said + 1)):
        return said
    for stop in range(units, 1, -CHUNK_UNITS):
        first = max(stop - CHUNK_UNITS, 1)
        if len(found := used(first, stop)):
            return first + int(found[-1]) // index.UNIT_BYTES + 1
    return 1


def _read(plan: AuditPlan, path: str, slots: int, first: int, stop: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of units of an index file."""
    start = index.units_start(slots)
    return plan.read(path, start + first * index.UNIT_BYTES, start + stop * index.UNIT_BYTES)


def _offsets(plan: AuditPlan, path: str, slots: int, first: int, stop: int) -> Units:
    """Return units of an index file."""
    units = index.decode_units(_read(plan, path, slots, first, stop).tobytes())
    return list(zip(units["physical_offset"].tolist(), units["key_hash"].tolist(), strict=True))


def _first_offset(plan: AuditPlan, path: str, slots: int, unit: int, count: int) -> int:
    """Return the physical offset of the first record to which a unit points from a given one on."""
    offsets = (offset for offset, _ in _offsets(plan, path, slots, unit, min(unit + NEIGHBOURS, count)))
    return next((offset for offset in offsets if record_at(plan, offset)), 0)


def _is_tagged(plan: AuditPlan, path: str, slots: int, unit: int, count: int) -> bool | None:
    """Tell whether the tags of a record around a unit are indexed; None where no record there tells.

    One record without its tags between two that have theirs is damage.
    """
    low, high = max(unit - NEIGHBOURS, 1), min(unit + NEIGHBOURS, count)
    try:
        units = _offsets(plan, path, slots, low, high)
    except UnreadableError as error:
        go_without(plan.root, error)
        return None
    before, after = units[: unit - low], units[unit - low :]
    told = _answers(plan, units, after)
    at, found = next(told, (0, None))
    if found is False and next(told, (0, None))[1]:
        return next((answer for other, answer in _answers(plan, units, before[::-1]) if other != at), found)
    return found


def _answers(plan: AuditPlan, units: Units, tried: Units) -> Iterator[tuple[int, bool]]:
    """Yield offsets of records to which some of the index units point, and whether their tags are indexed.

    A record tells that has another key there. Its tags come last: those of the last one may be in the next file.
    """
    records = (record_at(plan, offset) for offset in dict.fromkeys(offset for offset, _ in tried))
    for record in islice(filter(None, records), TRIES):
        offset, topic = record.physical_offset, properties.java_decode(record.topic)
        held = properties.parse(record.properties)
        keys = filter(None, [held.get(properties.UNIQUE_KEY), *held.get(properties.KEYS, "").split(" ")])
        tags = held.get(properties.TAGS)
        if tags and (offset, properties.key_hash(f"{topic}#T#{tags}")) in units:
            yield offset, True
        elif (
            tags
            and units[-1][0] != offset
            and any((offset, properties.key_hash(f"{topic}#{k}")) in units for k in keys)
        ):
            yield offset, False


def _is_since_5_5(plan: AuditPlan) -> bool:
    entry = plan.listing.get(CHECKPOINT)
    if entry is None or entry.is_dir or entry.size < checkpoint.CHECKPOINT_BYTES:
        return False
    try:
        fields = checkpoint.decode(plan.read(CHECKPOINT, 0, checkpoint.CHECKPOINT_BYTES).tobytes())
    except UnreadableError as error:
        go_without(plan.root, error)
        return False
    return int(fields["logic_physical_offset"]) > 0

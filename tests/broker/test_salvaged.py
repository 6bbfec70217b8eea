"""Damaged stores after a salvage: real brokers start on them, deliver exactly what is left, and go on numbering."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import golden_data
import pytest
import salvages
from golden_data import sizes_of
from sampled import sampled

from broker.brokers import VERSIONS, Key, Queue
from broker.whole import (
    Record,
    assert_new_messages,
    broker_accepts,
    keys_of,
    light_queues,
    messages_of,
    records_of,
)  # fmt: skip
from storeio.format import properties as p
from storeio.salvage.node import salvage

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

SYSTEM: Final = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS", "%LMQ%", "storeio_", "rmq_sys")


def expected(name: str, damage: salvages.Damage, into: Path) -> tuple[list[Record], list[Key]]:
    """Return the records that have to be left, tombstones included, and the keys that have to lead nowhere."""
    saved = salvages.records_of(into, damage.segment_bytes)
    before = records_of(golden_data.dump(name), golden_data.options(name))
    kept, gone = [], []
    for record in before:
        now, then = saved.get(record["physical_offset"]), damage.originals[record["physical_offset"]]
        if now is not None and now.raw == then.raw:
            kept.append(record)
        elif now is None or not salvages.only_unprotected(now, then):
            gone.append(record)  # of others nothing is said of their keys, which may be what is damaged
    known = {record["physical_offset"] for record in kept}
    light = str(golden_data.options(name).get("set.enableMultiDispatch")).lower() == "true"
    new = [_new(at, record, damage, light=light) for at, record in saved.items() if at not in known]
    return sorted([*kept, *new], key=lambda record: record["physical_offset"]), [*keys_of(gone)]


def _new(at: int, record: salvages.Original, damage: salvages.Damage, *, light: bool) -> Record:
    """Return a tombstone, or a message of which only fields that nothing repeats differ; that one has its keys.

    A tombstone takes the lost message's place in light queues, too.
    """
    head, before = record.head, damage.originals.get(at)
    pairs = head.pairs if before is not None and salvages.only_unprotected(record, before) else {}
    names, offsets = (head.pairs.get(key) for key in (p.MULTI_DISPATCH, p.MULTI_QUEUE_OFFSET))
    return Record(
        topic=record.name[0], queue_id=head.queue_id, queue_offset=head.queue_offset, physical_offset=at,
        sys_flag=head.sys_flag, keys=pairs.get("KEYS"), unique_key=pairs.get("UNIQ_KEY"), size=head.size,
        body_crc=head.body_crc, body_bytes=head.body_length,  # a tombstone of a batch holds no messages for clients
        tags=pairs.get("TAGS", ""),
        light_queues=light_queues(names, offsets, head.queue_id) if light and names and offsets else (),
    )  # fmt: skip


def assert_accepted(version: str, name: str, seed: int, place: Path) -> None:
    """Salvage a damaged store, and start the broker of its line on it, after a clean stop and after a crash."""
    damage = salvages.damaged(name, seed, place / "store")
    options: dict[str, Any] = golden_data.options(name)
    result = salvage(damage.root, place / "new", given=sizes_of(options), jobs=1)
    records, nowhere = expected(name, damage, place / "new")
    keys = keys_of(records, tags=version == "5.5.1")
    keys = {**{key: () for key in nowhere if key not in keys}, **keys}
    starts = broker_accepts(
        place / "new", version, options, messages_of(records), keys, log_end=result.max_physical_offset,
        put=put_to(records),
    )  # fmt: skip
    for started in starts.values():
        assert_new_messages(started, put_to(records))


def put_to(records: Sequence[Record]) -> list[Queue]:
    """Return the ordinary queues: each gets a new message."""
    queues = {(record["topic"], record["queue_id"]) for record in records if record["sys_flag"] & 0xC in (0, 8)}
    plain = {queue for queue in queues if not queue[0].startswith((*SYSTEM, "bcq_")) and len(queue[0]) < 100}
    return sorted(plain)


@pytest.mark.parametrize(
    ("version", "kind", "seed"),
    sampled(itertools.product(VERSIONS, ("base", "rich"), range(28)), [("4.9.8", "rich", 0), ("5.5.1", "base", 0)]),
)
def test_the_broker_goes_on(version: str, kind: str, seed: int, tmp_path: Path) -> None:
    assert_accepted(version, f"{kind}-{version}", seed, tmp_path)

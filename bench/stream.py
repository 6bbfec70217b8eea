"""What producers send and when: the messages of a generated store, as whole arrays.

A batch is a stretch of messages in arrival order. Nothing here knows where a message will lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.format import commitlog as log

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

START_MS: Final = 1_700_000_000_000
MESSAGES_PER_MS: Final = 6.0  # mean; a busy broker stores several in one millisecond
BORN_BEFORE_MS: Final = 12  # a message is at most so much older than its store time
POOL_BYTES: Final = 8 << 20  # bodies are stretches of this many random bytes, hardly any two alike
KEY_RANGE: Final = 10**9
TAG_NAMES: Final = (b"created", b"paid", b"TagA", b"shipped", b"TagB", b"cancelled", b"r")
TOPIC_NAMES: Final = (b"OrderEvents", b"PaymentEvents", b"stock", b"ShipmentTracking", b"AuditLog", b"user_profile")

UNIQUE_KEY_CHARS: Final = 32
PRODUCERS: Final = 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the messages are like; texts as UTF-8."""

    topics: tuple[bytes, ...]
    queues: int
    body_bytes: int
    tags: tuple[bytes, ...]  # empty: messages have no tag
    keys: int
    unique_keys: bool
    seed: int

    def properties_bytes(self) -> int:
        """Return the bytes of a message's properties that do not depend on its tag and keys."""
        count = len(FIXED_PROPERTIES)
        if self.unique_keys:
            count += len(b"UNIQ_KEY\1\2") + UNIQUE_KEY_CHARS
        if self.tags:
            count += len(b"TAGS\1\2")
        if self.keys:
            count += len(b"KEYS\1\2") + self.keys * (len(KEY_PREFIX) + 1) - 1
        return count


FIXED_PROPERTIES: Final = b"CLUSTER\1DefaultCluster\2TRACE_ON\1true\2"
KEY_PREFIX: Final = b"id-"


@dataclass(slots=True)
class Batch:
    """Messages in arrival order; every array but ``keys`` has shape ``(n,)``, ``keys`` is ``(n, keys)``."""

    number: Numbers  # of the message in the whole store
    topic: Numbers
    queue_id: Numbers
    tag: Numbers
    producer: Numbers
    store_ms: Numbers
    born_ms: Numbers
    body_at: Numbers  # in the pool
    keys: Numbers  # printed behind KEY_PREFIX
    properties_bytes: Numbers
    size: Numbers

    def __len__(self) -> int:
        """Number of messages."""
        return len(self.size)

    def part(self, start: int, stop: int) -> Batch:
        """Return messages ``[start, stop)`` of the batch, as views."""
        return Batch(*(getattr(self, field.name)[start:stop] for field in fields(self)))


def topic_names(count: int) -> tuple[bytes, ...]:
    """Return ``count`` different topic names of different lengths."""
    return tuple(
        name if k < len(TOPIC_NAMES) else name + b"-%d" % (k // len(TOPIC_NAMES))
        for k in range(count)
        for name in [TOPIC_NAMES[k % len(TOPIC_NAMES)]]
    )


def body_pool(seed: int, body_bytes: int) -> Bytes:
    """Return the random bytes that bodies are cut from."""
    return np.random.default_rng(seed).integers(0, 256, POOL_BYTES + body_bytes, dtype=np.uint8)


def digits(values: Numbers) -> Numbers:
    """Return how many decimal digits each value has; all are at least 0."""
    return np.searchsorted(10 ** np.arange(1, 18, dtype=np.int64), values, side="right") + 1


def batches(traffic: Traffic, rows: int) -> Iterator[Batch]:
    """Yield batches of ``rows`` messages without end; the same traffic gives the same messages."""
    random = np.random.default_rng([traffic.seed, 1])
    topic_bytes = np.array([len(name) for name in traffic.topics], dtype=np.int64)
    tag_bytes = np.array([len(name) for name in traffic.tags] or [0], dtype=np.int64)
    number = 0
    now_ms = START_MS
    while True:
        # Powers, so that some topics and tags are much busier than others.
        topic = (random.random(rows) ** 2 * len(traffic.topics)).astype(np.int64)
        tag = (random.random(rows) ** 3 * len(tag_bytes)).astype(np.int64)
        keys = random.integers(0, KEY_RANGE, (rows, traffic.keys)) // 10 ** random.integers(0, 4, (rows, traffic.keys))
        store_ms = now_ms + np.cumsum(random.random(rows) * MESSAGES_PER_MS < 1)
        properties = traffic.properties_bytes() + digits(keys).sum(axis=1) + tag_bytes[tag]
        yield Batch(
            number + np.arange(rows),
            topic,
            random.integers(0, traffic.queues, rows),
            tag,
            random.integers(0, PRODUCERS, rows),
            store_ms,
            store_ms - random.integers(0, BORN_BEFORE_MS, rows),
            random.integers(0, POOL_BYTES, rows),
            keys,
            properties,
            log.MIN_RECORD_BYTES + traffic.body_bytes + topic_bytes[topic] + properties,
        )
        number += rows
        now_ms = int(store_ms[-1])

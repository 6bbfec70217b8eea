"""What is lost is named by the numbers of its queue: those between records, and those that only units still hold."""

from __future__ import annotations

import random
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
from sampled import seeds

from storeio import audit
from storeio.checks import batch_numbers
from storeio.checks.batch_numbers import spans_of
from storeio.checks.queue_files import Queue, QueueFile
from storeio.format import batchqueue
from storeio.format import commitlog as log
from storeio.paths import BATCHQUEUE

WITH_BATCHES = ("rich-5.3.3", "rich-5.5.1")
Queues = dict[tuple[str, int], set[int]]


def numbers_in(rows: list[dict[str, str]]) -> Queues:
    """Return the queue offsets of messages as the broker decoded them, by queue."""
    found: Queues = {}
    for row in rows:
        first = int(row["queue_offset"])
        found.setdefault((row["topic"], int(row["queue_id"])), set()).update(
            range(first, first + int(row["batch_size"]))
        )
    return found


def body_at(flags: int) -> int:
    """Return where the body of a record begins, whose hosts have four bytes, or sixteen."""
    return 88 + 12 * bool(flags & log.SYS_BORN_V6) + 12 * bool(flags & log.SYS_STORE_V6)


def told_in(rows: list[tuple[str, int, tuple[tuple[int, int], ...]]]) -> Queues:
    return {
        (topic, queue): {n for low, high in lost for n in range(low, high)}
        for topic, queue, lost in rows
        if lost and not topic.startswith(log.LMQ_PREFIX)
    }


@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize("name", golden.BASES + WITH_BATCHES)
def test_what_units_of_damaged_records_hold_is_lost(name: str, seed: int, tmp_path: Path) -> None:
    """Any of the messages, all of a queue, or its first or last ones; the queues themselves are sound."""
    chance, size = random.Random(seed), int(golden.options(name)["clFile"])
    root = golden.copy_of(name, tmp_path / "store")
    rows = [row for row in golden.dump(name) if int(row["body_len"]) and not int(row["sys_flag"]) & log.SYS_UNNUMBERED]
    queues = sorted({(row["topic"], row["queue_id"]) for row in rows})
    hit = []
    for queue in chance.sample(queues, min(len(queues), 5)):
        own = [row for row in rows if (row["topic"], row["queue_id"]) == queue]
        at = chance.randrange(len(own))
        hit += chance.choice([own, own[at:], own[: at + 1], chance.sample(own, at + 1)])
    for row in hit:
        at = int(row["phy_offset"]) + body_at(int(row["sys_flag"]))
        with (root / f"commitlog/{at - at % size:020d}").open("r+b") as file:
            file.seek(at % size)
            (byte,) = file.read(1)
            file.seek(at % size)
            file.write(bytes([byte ^ 1]))
    found = audit.check(root, jobs=1)
    expected = numbers_in(hit)
    assert told_in([(row.topic, row.queue_id, row.lost) for row in found.queues]) == expected
    by_range = [
        (part.topic, part.queue_id, ((part.first_queue_offset, part.stop_queue_offset),)) for part in found.lost
    ]
    assert sum(len(told_in([one]).get(one[:2], ())) for one in by_range) == sum(map(len, expected.values()))
    ends = {(row["topic"], int(row["queue_id"])) for row in golden.dump(name)}
    whole = {(row.topic, row.queue_id): row for row in audit.check(golden.store(name), jobs=1).queues}
    for row in found.queues:
        if (row.topic, row.queue_id) in ends:
            before = whole[row.topic, row.queue_id]
            assert (row.min_queue_offset, row.max_queue_offset) == (before.min_queue_offset, before.max_queue_offset)


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_units_of_batch_queues_are_believed_where_they_fit(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_numbers, "CHUNK_UNITS", chunk)
    units = np.zeros(12, batchqueue.UNIT)
    counts = [3, 1, 5, 2, 2, 4, 1, 1, 7, 1]
    units["size"][:10], units["batch_size"][:10] = 100, counts
    units["base_queue_offset"][:10] = begins = np.cumsum([0, *counts[:-1]])
    units["base_queue_offset"][4] = 1000  # fits to neither of its neighbours
    units["base_queue_offset"][6] = 2**63 - 1
    units["batch_size"][8] = -7
    data = np.frombuffer(units.tobytes(), np.uint8)
    queue = Queue(BATCHQUEUE, "T", 0, len(data), (QueueFile("file", 0, len(data), len(data)),))
    found = spans_of(queue, lambda _, start, stop: data[start:stop], range(12))
    fit = [0, 1, 2, 3, 7, 9]  # 5 has strangers on both sides, 7 and 9 have nothing else
    assert found == {i: (int(begins[i]), int(begins[i]) + counts[i]) for i in fit}

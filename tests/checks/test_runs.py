"""Runs of consecutive queue offsets: all queues at once, as record by record."""

from __future__ import annotations

from dataclasses import replace

import golden_data as golden
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storeio.audit import prepare
from storeio.dispatch import implied_units
from storeio.format import commitlog as log
from storeio.kernels import group as g
from storeio.kernels import tables as w
from storeio.splits import Split
from storeio.walk import Walked, walk_split

BASE = 1 << 30
FAR = 2**63 - 2  # damaged numbers are of any size
RECORD = st.tuples(
    st.integers(0, 3),  # queue
    st.one_of(st.integers(-2, 6), st.sampled_from([FAR, -FAR])),  # queue offset
    st.sampled_from([1, 1, 1, 2, 5]),  # messages
    st.sampled_from([0, 0, log.SYS_COMMIT, log.SYS_TRANSACTION]),  # sys flag; the last is rolled back
)
Row = tuple[int, int, int, int]
ROOM = np.empty(40 * g.UNIT_BYTES, np.uint8)
ELSEWHERE = range(0, 40, 3)  # records that say so; all have another mark


def wrapped(number: int) -> int:
    """Return a number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def slow_runs(rows: list[Row], queue: int) -> list[list[int]]:
    """Return the runs of a queue as a reader of the rule would find them."""
    found: list[list[int]] = []
    for i, (q, number, messages, flag) in enumerate(rows):
        if q != queue or flag & log.SYS_TRANSACTION not in (0, log.SYS_COMMIT):
            continue
        at = BASE + 100 * i
        if not found or found[-1][1] != number:
            found.append([number, number, at, at, 0, int(i in ELSEWHERE)])
        found[-1][1] = wrapped(found[-1][1] + messages)
        found[-1][3] = at + 90
        found[-1][4] += 1
    return found


def followed(rows: list[Row], begins: list[int]) -> list[Row]:
    """Return the rows with offsets that follow on in each queue, from where it begins."""
    found = []
    after = dict(enumerate(begins))
    for queue, _, messages, flag in rows:
        found.append((queue, after[queue], messages, flag))
        if flag & log.SYS_TRANSACTION in (0, log.SYS_COMMIT):
            after[queue] = wrapped(after[queue] + messages)
    return found


UNBROKEN = st.builds(followed, st.lists(RECORD, max_size=40), st.lists(st.sampled_from([0, 7, FAR]), min_size=4))


@given(st.one_of(st.lists(RECORD, max_size=40), UNBROKEN))
def test_runs_are_those_of_the_rule(rows: list[Row]) -> None:
    records = np.zeros((w.RECORD_ROWS, len(rows)), np.int64)
    for i, (queue, number, messages, flag) in enumerate(rows):
        records[w.R_QUEUE, i], records[w.R_BATCH_BASE, i], records[w.R_BATCH_SIZE, i] = queue, number, messages
        records[w.R_SYS_FLAG, i], records[w.R_POSITION, i], records[w.R_SIZE, i] = flag, 100 * i, 90
        records[w.R_MARKS, i] = w.MARK_TIME | (w.MARK_PHYSICAL if i in ELSEWHERE else 0)
    split = Split("commitlog/0", BASE, 1 << 20, 0, 1 << 20)
    state = split.first_state()
    keys, spans = np.empty((3, 0), np.int64), np.empty((4, 0), np.int64)
    queues = [(b"T%d" % q, q) for q in range(4)]
    empty = np.empty(0, np.uint8)
    walked = Walked(split, state, state, -1, records, keys, spans, queues, empty, 0, lambda start, stop: empty)
    found = {units.queue_id: units.runs().T.tolist() for units in implied_units(walked)}
    said = int(g.group_by_queue(records, BASE, np.zeros(5, np.int64), np.empty((len(rows), 2), np.int64), ROOM))
    assert bool(said & g.UNBROKEN) == all(len(slow_runs(rows, q)) < 2 for q in range(4))
    assert found == {q: runs for q in range(4) if (runs := slow_runs(rows, q))}


@pytest.mark.parametrize("name", golden.STORES)
def test_of_real_stores_each_way_is_the_same(name: str) -> None:
    plan = prepare(str(golden.store(name)), split_bytes=1 << 20)
    queues = 0
    for split in plan.splits:
        walked = walk_split(lambda start, stop, path=split.path: plan.read(path, start, stop), split)
        for units in implied_units(walked):
            assert units.run_table is not None
            assert np.array_equal(units.runs(), replace(units, run_table=None).runs())
            assert units.runs()[g.RUN_RECORDS].sum() == len(units.record)
            queues += 1
    assert queues

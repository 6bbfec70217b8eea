"""Queues packed for workers: equal to those that were packed, and small."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest

from storeio import audit
from storeio.audit import AuditPlan, SplitReport
from storeio.checks.columns import Columns, ColumnsBuilder, no_columns
from storeio.checks.packed import PackedQueues
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE


def looked_at(root: Path) -> AuditPlan:
    """Return a plan with what the store's files say of themselves."""
    with ThreadPoolExecutor(1) as pool:
        return audit.FileLooks(audit.prepare(str(root)), pool).told()


@pytest.mark.parametrize("name", golden.STORES)
def test_packed_queues_are_those_that_were_packed(name: str) -> None:
    plan = looked_at(golden.store(name))
    packed = pickle.loads(pickle.dumps(PackedQueues(plan.queues)))
    assert plan.queues
    assert dict(packed) == dict(plan.queues)
    assert len(packed) == len(plan.queues)
    assert packed.get((CONSUMEQUEUE, "nobody's", 0)) is None
    topic = next(topic for kind, topic, _ in plan.queues if kind == CONSUMEQUEUE)
    assert packed.get((CONSUMEQUEUE, topic, 10**6)) is None


def test_a_file_keeps_an_odd_name(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    place = root / "consumequeue" / "topic_0" / "0"
    first, *others = sorted(place.iterdir())
    for path in others:
        path.unlink()
    first.rename(place / "0000")
    plan = looked_at(root)
    assert "consumequeue/topic_0/0/0000" in [file.path for file in plan.queue(CONSUMEQUEUE, "topic_0", 0).files]
    assert dict(PackedQueues(plan.queues)) == dict(plan.queues)


def test_what_travels_gives_the_same_reports() -> None:
    plan = looked_at(golden.store("rich-5.5.1"))
    sent = pickle.loads(pickle.dumps(plan.for_workers()))
    assert (sent.facts, sent.multi_dispatch) == (plan.facts, plan.multi_dispatch)
    for split in plan.splits:
        same(audit.audit_split(plan, split), audit.audit_split(sent, split))


def same(here: SplitReport, there: SplitReport) -> None:
    """Assert that two reports say the same of their queues."""
    assert (here.findings, here.counts, here.whole) == (there.findings, there.counts, there.whole)
    assert list(there.covered.ranges()) == list(here.covered.ranges())
    for (key, table), (key_there, table_there) in zip(here.runs.tables(), there.runs.tables(), strict=True):
        assert (key, table.tolist()) == (key_there, table_there.tolist())


KEYS = [(CONSUMEQUEUE, "t", 0), (CONSUMEQUEUE, "u", 7), (BATCHQUEUE, "t", 0), (CONSUMEQUEUE, "t", 0)]


def test_tables_come_out_as_they_were_added() -> None:
    tables = [np.arange(5 * n, dtype=np.int64).reshape(5, n) - 7 for n in (2, 0, 1, 3)]
    runs, covered = ColumnsBuilder(5), ColumnsBuilder(2)
    for key, table in zip(KEYS, tables, strict=True):
        runs.add(key, table)
        covered.add_ranges(key, [(low, low + 3) for low in table[0].tolist()])
    columns = pickle.loads(pickle.dumps(runs.columns()))
    assert [key for key, _ in columns.tables()] == KEYS
    assert [table.tolist() for _, table in columns.tables()] == [table.tolist() for table in tables]
    assert all(table.flags.c_contiguous for _, table in columns.tables())
    expected = [[(low, low + 3) for low in table[0].tolist()] for table in tables]
    assert [ranges for _, ranges in covered.columns().ranges()] == expected
    assert columns.queues() == sorted(set(KEYS))
    assert list(no_columns(5).tables()) == list(no_columns(2).ranges()) == []


@pytest.mark.parametrize(
    ("names", "keys", "width"),
    [
        (["cq", "t"], [[0], [2], [0], [1]], 1),
        (["cq", "t"], [[-1], [1], [0], [1]], 1),
        (["cq", "t"], [[0], [1], [0], [2]], 1),
        (["cq", "t"], [[0, 0], [1, 1], [0, 1], [2, -1]], 1),
        (["cq", "t"], [[0, 0], [1, 1], [0, 1], [2**62, 2**62]], 1),
        (["cq", "t"], [[0], [1], [0]], 1),
    ],
)
def test_columns_that_do_not_fit_are_refused(names: list[str], keys: list[list[int]], width: int) -> None:
    """They may come from a table that anyone wrote."""
    with pytest.raises(ValueError, match="queue"):
        Columns(names, np.array(keys, np.int64), np.zeros((2, width), np.int64))


@pytest.mark.parametrize("name", golden.STORES)
def test_a_report_is_the_same_behind_its_journey(name: str) -> None:
    plan = looked_at(golden.store(name))
    for split in plan.splits:
        here = audit.audit_split(plan, split)
        same(here, pickle.loads(pickle.dumps(here)))

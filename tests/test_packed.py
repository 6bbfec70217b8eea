"""Queues packed for workers: equal to those that were packed, and small."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import golden_data as golden
import pytest

from storeio import audit
from storeio.audit import AuditPlan
from storeio.checks.packed import PackedQueues
from storeio.paths import CONSUMEQUEUE


def looked_at(root: Path) -> AuditPlan:
    """Return a plan with what the store's files say of themselves."""
    with ThreadPoolExecutor(1) as pool:
        return audit.look_at_files(audit.prepare(str(root)), pool, lambda _: None)


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
    assert (sent.batch_topics, sent.multi_dispatch) == (plan.batch_topics, plan.multi_dispatch)
    for split in plan.splits:
        here, there = audit.audit_split(plan, split), audit.audit_split(sent, split)
        assert (here.findings, here.covered, here.counts) == (there.findings, there.covered, there.counts)
        assert pickle.dumps(here.runs) == pickle.dumps(there.runs)


@pytest.mark.parametrize("name", golden.STORES)
def test_a_report_is_the_same_behind_its_journey(name: str) -> None:
    plan = looked_at(golden.store(name))
    for split in plan.splits:
        here = audit.audit_split(plan, split)
        there = pickle.loads(pickle.dumps(here))
        assert list(there.runs) == list(here.runs)
        for key, table in here.runs.items():
            assert there.runs[key].flags.c_contiguous
            assert there.runs[key].tolist() == table.tolist()
        for field in set(here.__slots__) - {"runs", "spans", "index", "rare"}:
            assert getattr(there, field) == getattr(here, field), field
        assert there.spans.tolist() == here.spans.tolist()

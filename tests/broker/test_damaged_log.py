"""Plans for stores whose log is damaged, too: consumers get no message less from a real broker than before."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden_data
import pytest
import salvages
from golden_data import given_for
from plans import contents
from sampled import seeds

from broker.brokers import VERSIONS, Queue, Started, run
from broker.whole import messages_of, records_of
from storeio.apply import apply_plan, undo
from storeio.planning import plan_store

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

NEW: list[Queue] = [("topic_0", 0), ("topic_new", 0)]


def delivered(started: Started, name: str) -> set[tuple[str, int, int]]:
    """Return the messages that consumers got as they were sent: topic, queue id, physical offset."""
    sent = {
        (m["topic"], m["queue_id"], m["record"]["physical_offset"], m["record"].get("body_crc"))
        for m in messages_of(records_of(golden_data.dump(name), golden_data.options(name)))
    }
    found = {(d.topic, d.queue_id, d.physical_offset, d.body_crc) for d in started.delivered if d.body_ok}
    return {row[:3] for row in found & sent}


@pytest.mark.parametrize("seed", seeds(3, 60))
@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_takes_no_message_from_consumers(version: str, seed: int, tmp_path: Path) -> None:
    name, root, before = f"base-{version}", tmp_path / "store", tmp_path / "before"
    damage = salvages.damaged(name, seed, root)
    salvages.overwrite_units(damage)
    chance = damage.chance
    if chance.random() < 0.5:
        (root / "abort").touch()
    shutil.copytree(root, before)
    damaged, how = contents(root), {"broker": version, "given": given_for(name), "jobs": 1}
    allow_log = chance.random() < 0.5
    found = plan_store(root, tmp_path / "plan.json", allow_log=allow_log, **how)
    assert contents(root) == damaged  # planning only reads
    if not found.plan.actions:
        pytest.skip("the seed's damages leave nothing to plan")
    apply_plan(tmp_path / "plan.json", root, allow_log=allow_log)
    assert not plan_store(root, tmp_path / "again.json", allow_log=allow_log, **how).plan.actions
    shutil.copytree(root, tmp_path / "after")
    options = golden_data.options(name)
    starts = [run(version, place, options, put=NEW, stop="halt") for place in (before, tmp_path / "after")]
    assert starts[1].outcome == found.predicted_after.outcome.outcome, starts[1].reason
    if starts[0].outcome == "starts":
        assert starts[1].outcome == "starts", starts[1].reason
        assert delivered(starts[0], name) <= delivered(starts[1], name)
        first, second = ([new.delivered for new in started.new] for started in starts)
        assert all(now or not then for then, now in zip(first, second, strict=True)), (first, second)
    undo(root)
    assert contents(root) == damaged

"""Queues that a real broker builds from nothing but a log are those that a rebuild gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rebuilds import tree
from test_rebuild_rules import with_copied_lists

from broker.brokers import run
from storeio.rebuild.node import rebuild

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(("version", "copies"), [("5.1.4", True), ("5.3.3", True), ("5.5.1", True), ("4.9.8", False)])
def test_lists_of_other_messages_lead_to_no_light_queue(version: str, copies: bool, tmp_path: Path) -> None:
    root = with_copied_lists(tmp_path / "store", copies=copies)
    built = tmp_path / "broker"
    shutil.copytree(root / "commitlog", built / "commitlog")
    if version == "5.1.4":
        (built / "abort").touch()  # else 5.0.0 to 5.3.1 build nothing; 4.9.8 then would give delayed ones other codes
    options = {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200}
    lists = {"set.enableMultiDispatch": "true", "set.enableLmq": "true"}
    started = run(version, built, options | lists, consume=False, stop="halt")
    assert started.outcome == "starts", started.reason
    units = started.queues["%LMQ%a", 0]
    assert units == ((0, 4) if copies else (0, 8))
    rebuild(root, tmp_path / "new", parts=("queues",))
    light = "consumequeue/%LMQ%a/0"
    assert tree(tmp_path / "new", light) == tree(built, light) != {}

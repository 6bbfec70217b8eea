"""Queues that a real broker builds from nothing but a log are those that a rebuild gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rebuilds import QUEUES, log_with_lists, settings_of, tree
from test_rebuild_rules import with_copied_lists

from broker.brokers import MORE_VERSIONS, VERSIONS, run
from storeio import audit
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


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("version", [*VERSIONS, *MORE_VERSIONS])
def test_queues_that_messages_list_and_are_sent_to(version: str, seed: int, tmp_path: Path) -> None:
    builder = log_with_lists(tmp_path / "store", seed, ordinary=version == "4.9.8", ext=True, ext_bytes=204)
    settings, given = builder.settings, settings_of(builder.settings)
    root = builder.close()
    made = tmp_path / "broker"
    shutil.copytree(root / "commitlog", made / "commitlog")
    if version == "5.1.4":
        (made / "abort").touch()
    options = {
        "clFile": settings.segment_bytes, "cqEntries": settings.units_per_file, "cqExt": "true",
        "cqExtFile": settings.ext_bytes, "indexSlots": settings.index_slots, "indexNum": settings.index_units,
        "set.enableMultiDispatch": "true", "set.enableLmq": "true",
    }  # fmt: skip
    started = run(version, made, options, consume=False, stop="halt")
    assert started.outcome == "starts", started.reason
    rebuild(root, tmp_path / "new", given=given, parts=("queues",))
    assert tree(tmp_path / "new") == tree(made, *QUEUES)
    assert [f.code for f in audit.check(made, given=given).findings if f.severity != "info"] == []

"""Each recorded start: the prediction equals what the real broker did, file by file and queue by queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_data
import pytest
from simulated import disk_of, recorded, setup_of

from storeio.simulate.outcome import as_recorded, simulate_start
from storeio.simulate.pull import consume
from storeio.simulate.rules import rules_of

CASES = [(name, case) for name in golden_data.CASES for case in golden_data.cases(name)]


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}:{case['id']}" for name, case in CASES])
def test_prediction_equals_the_broker(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    base = golden_data.base_of(name)
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    setup = setup_of(root, golden_data.options(base))
    found, broker = simulate_start(disk_of(root), rules_of(case["broker"]), setup)
    assert found.outcome == case["outcome"], found.reason
    assert found.mode == ("normal" if case["state"] == "clean" else "abnormal")
    for name_of_state, state in (("after_load", found.after_load), ("after_start", found.after_start)):
        expected = case[name_of_state]
        if expected is None:
            continue
        assert state is not None
        assert recorded(as_recorded(state)) == recorded(expected), name_of_state
    if "start_file" in case:
        assert found.start_file == f"commitlog/{case['start_file']}"
    if case.get("consumers"):
        got = consume(broker)
        counts = {"messages": got.messages, "undecodable": got.undecodable}
        assert counts == {key: case["consumers"][key] for key in counts}


REFUSED = [
    (name, case) for name, case in CASES if case["id"] in ("46-clean", "63-clean") and case["outcome"] == "refuses"
]


@pytest.mark.parametrize(("name", "case"), REFUSED, ids=[f"{name}:{case['id']}" for name, case in REFUSED])
def test_the_broker_logs_the_phrase(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    root = golden_data.damaged(golden_data.base_of(name), case["edits"], tmp_path / "store")
    setup = setup_of(root, golden_data.options(golden_data.base_of(name)))
    found, _ = simulate_start(disk_of(root), rules_of(case["broker"]), setup, digests=False)
    assert found.phrase
    assert any(found.phrase in line for line in case["log"])


def test_a_start_that_hangs_says_what_the_broker_logs_while_it_waits(tmp_path: Path) -> None:
    """As in ``DefaultMessageStore.start`` of 4.9.8: the recorder kept no lines of a start that did not end."""
    (case,) = (case for case in golden_data.cases("rows-4.9.8") if case["id"] == "23-clean")
    root = golden_data.damaged("base-4.9.8", case["edits"], tmp_path / "store")
    setup = setup_of(root, golden_data.options("base-4.9.8"))
    found, _ = simulate_start(disk_of(root), rules_of("4.9.8"), setup, digests=False)
    assert found.outcome == "hangs"
    assert found.phrase.startswith("Try to finish doing reput the messages fall behind")

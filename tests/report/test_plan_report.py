"""The report of a plan: what it says of starts is what a simulation says."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden_data
import pytest
from golden_data import given_for

from storeio.planning import plan_store
from storeio.report.planning import render_plan

pytestmark = pytest.mark.share(1)
NAME, VERSION = "base-5.5.1", "5.5.1"


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        (True, "starts and deletes 20 files that hold data"),
        (False, "starts but clients will not get what they should"),
    ],
)
def test_a_plan_says_of_a_harmful_start_what_simulate_says(gone: bool, says: str, tmp_path: Path) -> None:
    root = golden_data.copy_of(NAME, tmp_path / "store")
    segments = sorted((root / "commitlog").iterdir())
    if gone:
        shutil.rmtree(root / "commitlog")
    else:
        segments[4].write_bytes(segments[3].read_bytes())
    planned = plan_store(root, broker=VERSION, given=given_for(NAME), jobs=1)
    assert planned.predicted_before.harms
    assert says in " ".join(render_plan(planned, "").split())

"""Each recorded damage that leaves the commitlog as it was: the plan makes the store what it was, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_data
import pytest
from golden_data import given_for
from plans import CASES, contents, files_of, planned

from storeio.apply import apply_plan, undo
from storeio.plan.model import LOG
from storeio.planning import plan_store
from storeio.results import EXIT_REPAIRED, EXIT_SOUND


@pytest.mark.share(8)
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}:{case['id']}" for name, case in CASES])
def test_a_plan_makes_it_what_it_was(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    found = planned(name, case, tmp_path)
    assert found.cures, found.plan.left
    assert not any(action.risk == LOG for action in found.plan.actions)
    root, base = tmp_path / "store", golden_data.base_of(name)
    damaged = contents(root)
    if found.plan.actions:
        assert apply_plan(tmp_path / "plan.json", root).exit_code == EXIT_REPAIRED
    assert files_of(root) == files_of(golden_data.store(base)) | excess(root, golden_data.store(base))
    again = plan_store(root, tmp_path / "again.json", broker=case["broker"], given=given_for(base), jobs=1)
    assert again.before.exit_code == EXIT_SOUND  # what storeio check says
    assert again.plan.actions == ()
    assert again.exit_code == EXIT_SOUND
    if found.plan.actions:
        undo(root)
        assert contents(root) == damaged


def excess(root: Path, base: Path) -> dict[str, bytes]:
    """Return files of zeros that a damage has put behind a queue's last one, which harm nobody."""
    known = files_of(base)
    return {path: data for path, data in files_of(root).items() if path not in known and not data.strip(b"\0")}

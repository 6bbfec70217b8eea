"""Each recorded damage that leaves the commitlog as it was: the plan makes the store what it was, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storeio.apply import apply_plan, undo
from storeio.plan.model import LOG
from storeio.plan.results import Planned
from storeio.planning import plan_store
from storeio.results import EXIT_REPAIRED, EXIT_SOUND
from tests import golden_data

DERIVED = ("consumequeue", "batchconsumequeue", "consumequeue_ext")


def leaves_the_log(name: str, case: dict[str, Any]) -> bool:
    """Tell whether a case changes no segment; it may put strays and an empty segment beside them."""
    log = golden_data.store(golden_data.base_of(name)) / "commitlog"
    return not any(
        path == "commitlog" or (path.startswith("commitlog/") and (kind == "rename" or (log / path[10:]).exists()))
        for kind, path, *_ in case["edits"]
    )


CASES = [(name, case) for name in golden_data.CASES for case in golden_data.cases(name) if leaves_the_log(name, case)]


def given_for(base: str) -> dict[str, str]:
    """Return the settings with which a sound store was written."""
    options = golden_data.options(base)
    return {
        "mappedFileSizeCommitLog": str(options["clFile"]),
        "mappedFileSizeConsumeQueue": str(20 * options["cqEntries"]),
        "maxHashSlotNum": str(options["indexSlots"]),
        "maxIndexNum": str(options["indexNum"]),
    }


def planned(name: str, case: dict[str, Any], place: Path, **how: Any) -> Planned:
    """Return the plan for a recorded case, whose store is made below ``place``."""
    base = golden_data.base_of(name)
    root = golden_data.damaged(base, case["edits"], place / "store")
    words = {"broker": case["broker"], "given": given_for(base), "jobs": 1, **how}
    return plan_store(root, place / "plan.json", **words)


def files_of(root: Path) -> dict[str, bytes]:
    """Return the content of the files of all queues."""
    paths = [path for top in DERIVED for path in sorted((root / top).rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


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


def contents(root: Path) -> dict[str, bytes | None]:
    """Return everything below a directory, directories as None."""
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}

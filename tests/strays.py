"""What the tests of odd files beside a log share: a store, its names, and a plan that is carried out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import golden_data as golden
from golden_data import given_for

from storeio.apply import apply_plan
from storeio.plan.results import Planned
from storeio.planning import plan_store

SEGMENT = 32768
QUEUE = "consumequeue/topic_0/0"
SIZES = given_for("base-5.3.3")


def copy(tmp_path: Path, name: str = "base-5.3.3") -> Path:
    return golden.copy_of(name, tmp_path / "store")


def log_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def planned(root: Path, tmp_path: Path, goal: str = "repair", *, allow_log: bool = True) -> Planned:
    how = {"broker": "5.3.3", "given": SIZES, "jobs": 1}
    found = plan_store(root, tmp_path / "plan.json", goal=goal, allow_log=allow_log, **how)  # type: ignore[arg-type]
    if found.plan.actions:
        apply_plan(tmp_path / "plan.json", root, allow_log=True)
    return found


def of_segment(number: int) -> Callable[[Path], bytes]:
    return lambda root: (root / "commitlog" / f"{number * SEGMENT:020d}").read_bytes()

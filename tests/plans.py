"""What the tests of plans share: the recorded damages that leave the log as it was, and their plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_data

from storeio.plan.results import Planned
from storeio.planning import plan_store

DERIVED = ("consumequeue", "batchconsumequeue", "consumequeue_ext")


def leaves_the_log(name: str, case: dict[str, Any]) -> bool:
    """Tell whether a case changes no segment; it may put strays and an empty segment beside them."""
    log = golden_data.store(golden_data.base_of(name)) / "commitlog"
    return not any(
        path == "commitlog" or (path.startswith("commitlog/") and (kind == "rename" or (log / path[10:]).exists()))
        for kind, path, *_ in case["edits"]
    )


CASES = [(name, case) for name in golden_data.CASES for case in golden_data.cases(name) if leaves_the_log(name, case)]


def planned(name: str, case: dict[str, Any], place: Path, **how: Any) -> Planned:
    """Return the plan for a recorded case, whose store is made below ``place``."""
    base = golden_data.base_of(name)
    root = golden_data.damaged(base, case["edits"], place / "store")
    words = {"broker": case["broker"], "given": golden_data.given_for(base), "jobs": 1, **how}
    return plan_store(root, place / "plan.json", **words)


def files_of(root: Path) -> dict[str, bytes]:
    """Return the content of the files of all queues."""
    paths = [path for top in DERIVED for path in sorted((root / top).rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def contents(root: Path) -> dict[str, bytes | None]:
    """Return everything below a directory, directories as None."""
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


BASE = "base-5.3.3"
QUEUE = "consumequeue/topic_0/0"


def cq(position: int) -> str:
    return f"{QUEUE}/{position:020d}"

"""Every recorded damage: each edit that changes meaning gives a finding at the edit's place.

None is exempt; ``place_of`` leaves out those that restate the bytes that stood there.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import golden_data
import pytest

from storeio import audit
from storeio.findings import Finding

LISTS = [
    f"{kind}-{version}"
    for version in ("4.9.8", "5.1.4", "5.3.3", "5.4.0", "5.5.1", "long-5.5.1")
    for kind in ("rows", "fuzz")
] + ["lpo-5.5.1", "lpo-long-5.5.1"]
CASES = [(name, case) for name in LISTS for case in golden_data.cases(name)]


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}:{case['id']}" for name, case in CASES])
def test_each_edit_is_found_at_its_place(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    base = golden_data.store("base-" + name.split("-", 1)[1])
    root = tmp_path / "store"
    shutil.copytree(base, root)
    golden_data.apply_edits(root, case["edits"])
    found = audit.check(root, jobs=1)
    for edit in case["edits"]:
        place = place_of(base, root, edit)
        if place is None:
            continue
        hits = [finding for finding in found.findings if covers(finding, *place)]
        assert hits, f"{edit} at {place}: only {[(f.code, f.path, f.position, f.length) for f in found.findings]}"


def place_of(base: Path, root: Path, edit: list[Any]) -> tuple[str, int, int] | None:
    """Path and byte range that an edit left different from the sound store, None where it left nothing so."""
    kind, path = edit[0], edit[1]
    if kind in ("write", "zero"):
        if not (base / path).exists() or not (root / path).exists():
            return path, 0, 2**62
        length = len(edit[3]) // 2 if kind == "write" else edit[3]
        old = (base / path).read_bytes()[edit[2] : edit[2] + length]
        new = (root / path).read_bytes()[edit[2] : edit[2] + length]
        differing = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
        if old == new or not differing:
            return None  # the bytes that were there, or cut off again by a later edit
        return path, edit[2] + differing[0], edit[2] + differing[-1] + 1
    if kind == "truncate":
        return path, edit[2], 2**62
    if kind == "create":
        # Rows 35: an all-zero file behind the last one is what every running broker has.
        return None if not any((root / path).read_bytes()) and path > last_segment(base) else (path, 0, 2**62)
    return path, 0, 2**62


def last_segment(base: Path) -> str:
    """Path of the store's last segment."""
    return max(f"commitlog/{file.name}" for file in (base / "commitlog").iterdir())


def covers(finding: Finding, path: str, start: int, stop: int) -> bool:
    """Whether a finding names a place in the range, or, for whole files, the directory that lost them."""
    if finding.path == path:
        return finding.position < stop and finding.position + max(finding.length, 1) > start
    whole = start == 0 and stop == 2**62
    return whole and (path.startswith(finding.path + "/") or finding.path.startswith(path + "/"))

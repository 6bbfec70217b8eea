"""Splits that did not wait for index files: what comes of it is what comes of waiting, whatever these turn out to be.

Here no index file is looked at before all splits have been, if these are begun at all.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest

from storeio.audit import looks, node
from storeio.audit.plan import AuditPlan, FileReport, FileTask
from storeio.audit.split import SplitReport
from storeio.format import index as layout
from storeio.paths import INDEX
from storeio.results import Audit, AuditCancelled, Progress

pytestmark = pytest.mark.share(2)

STORE = "base-5.3.3"
JOBS = 8  # more than index files
IN_INDEX = [
    (name, case)
    for name in ("rows-4.9.8", "fuzz-4.9.8", "rows-5.3.3", "fuzz-5.3.3", "rows-5.5.1", "fuzz-5.5.1")
    for case in golden.cases(name)
    if any(edit[1].startswith("index/") for edit in case["edits"])
]


class Late:
    """Has index files looked at when all splits have been, or when none of them is begun; counts the latter."""

    def __init__(self, patch: pytest.MonkeyPatch, splits: int) -> None:
        self.looks, self.left, self.go = 0, splits, threading.Event()
        lock = threading.Lock()
        files, presumed, split_of = node.run_file_tasks, looks.presumed_reports, node.audit_split

        def look_at_files(plan: AuditPlan, tasks: Sequence[FileTask]) -> list[FileReport]:
            if tasks[0].file.kind == INDEX:
                assert self.go.wait(60)
            return files(plan, tasks)

        def presume(plan: AuditPlan, tasks: Sequence[FileTask]) -> list[FileReport] | None:
            found = presumed(plan, tasks)
            if found is None:
                self.go.set()
            return found

        def look_at_split(*given: Any, **rest: Any) -> SplitReport:
            try:
                return split_of(*given, **rest)
            finally:
                with lock:
                    self.looks += 1
                    self.left -= 1
                    if not self.left:
                        self.go.set()

        patch.setattr(node, "run_file_tasks", look_at_files)
        patch.setattr(looks, "presumed_reports", presume)
        patch.setattr(node, "audit_split", look_at_split)


def late_audit(patch: pytest.MonkeyPatch, root: Path) -> tuple[Audit, int]:
    """Return the audit of a store whose index files are late, and how often each split was looked at."""
    splits = len(node.prepare(str(root)).splits)
    with patch.context() as inner:
        late = Late(inner, splits)
        found = node.check(root, jobs=JOBS)
    assert late.looks % splits == 0
    return found, late.looks // splits


def told(audit: Audit) -> Audit:
    """Return an audit without its times."""
    return dataclasses.replace(audit, started_ms=0, seconds=0)


def test_a_sound_store_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in golden.BASES:
        root = golden.store(name)
        found, times = late_audit(monkeypatch, root)
        assert (times, told(found)) == (1, told(node.check(root, jobs=1)))


@pytest.mark.parametrize(("name", "case"), IN_INDEX, ids=[f"{name}:{case['id']}" for name, case in IN_INDEX])
def test_damaged_index_files(name: str, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = golden.damaged(golden.base_of(name), case["edits"], tmp_path / "store")
    found, _ = late_audit(monkeypatch, root)
    assert told(found) == told(node.check(root, jobs=1))


def disordered(place: Path) -> Path:
    """Return a store with an index file of which one unit points behind the log."""
    root = golden.copy_of(STORE, place)
    file, shape = min((root / INDEX).iterdir()), node.prepare(str(root)).index_shape
    assert shape is not None
    data = bytearray(file.read_bytes())
    at = layout.units_start(shape[0]) + 5 * layout.UNIT_BYTES + 4
    data[at : at + 8] = (2**40).to_bytes(8, "big")
    file.write_bytes(data)
    return root


def test_where_a_unit_is_out_of_order_the_splits_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = disordered(tmp_path / "store")
    found, times = late_audit(monkeypatch, root)
    assert times == 2
    assert told(found) == told(node.check(root, jobs=1))
    assert any(finding.path.startswith("index/") for finding in found.findings)


def test_of_a_cancelled_audit_nothing_is_told_that_was_compared_with_a_presumption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cancel(*_: object) -> bool:
        raise KeyboardInterrupt

    root = golden.store(STORE)
    plan = node.prepare(str(root))
    Late(monkeypatch, len(plan.splits))
    monkeypatch.setattr(node, "have_same_index", cancel)
    with pytest.raises(AuditCancelled) as caught:
        node.check(root, jobs=JOBS)
    assert [part[0] for part in caught.value.known.reading.left] == [split.path for split in plan.splits]


def test_progress_ends_with_all_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = disordered(tmp_path / "store")
    plan, seen = node.prepare(str(root)), list[Progress]()
    Late(monkeypatch, len(plan.splits))
    node.check(root, jobs=JOBS, progress=seen.append)
    done = [one.done_bytes for one in seen]
    assert done == sorted(done)
    twice = sum(split.stop - split.start for split in plan.splits)
    assert seen[-1].done_bytes == seen[-1].total_bytes == plan.total_bytes + twice

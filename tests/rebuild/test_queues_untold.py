"""Queues of which nothing is left, where not every record is known, or not every one is what it seems."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from audits import unreadable
from incrementals import COARSE, SPLIT_BYTES, Kept, age, full, short_youth, timeless
from sampled import sampled
from storebuilder import StoreBuilder, forged

from storeio import audit
from storeio.audit import node
from storeio.rebuild.node import rebuild
from storeio.results import Audit, AuditCancelled, Unfinished

__all__ = ["short_youth"]
NAME = "rich-5.3.3"
GONE = (("batchconsumequeue",), ("batchconsumequeue", "consumequeue"))
BODY_AT = 88  # in a record of one body


def parts_of(root: Path) -> tuple[int, int]:
    """Return how many files and splits an audit looks at."""
    plan = audit.prepare(str(root), split_bytes=COARSE)
    return len(audit.file_tasks(plan)), len(plan.splits)


@pytest.mark.parametrize("gone", sampled(((gone,) for gone in GONE), [(GONE[-1],)]))
def test_time_runs_out_around_the_second_walk(gone: tuple[str, ...], tmp_path: Path) -> None:
    root = golden.without(NAME, tmp_path / "store", *gone)
    age(root)
    expected = full(root, COARSE)
    codes = {finding["code"] for finding in expected["findings"]}
    files, splits = parts_of(root)
    outcomes = set()
    for most in (files + 1, files + splits - 1, files + splits, files + splits + 1, files + 2 * splits - 1, 10**9):
        kept = Kept()
        found = kept.audit(root, split_bytes=COARSE, stop=lambda looked, most=most: looked >= most)  # type: ignore[misc]
        outcomes.add(type(found))
        if isinstance(found, Unfinished):
            assert found.reading.left and {finding.code for finding in found.findings} <= codes
        else:
            assert timeless(found) == expected
        assert timeless(kept.audit(root, split_bytes=COARSE)) == expected
    assert outcomes == {Audit, Unfinished}


def imitating(root: Path) -> Path:
    """Return a store without queues, a body of which is full of batches that are right for their place."""
    builder = StoreBuilder(root, segment_bytes=32768)
    for _ in range(12):
        builder.message("plain", 0, bytes(200))
    builder.make_room(9400)
    body, at = bytearray(b"y" * 9000), 100
    while at < 8400:
        batch = forged(builder.end + BODY_AT + at, topic="plain", inner=3, store_ms=1_700_000_000_000)
        body[at : at + len(batch)] = batch
        at += len(batch)
    builder.message("plain", 0, bytes(body))
    for _ in range(30):
        builder.message("plain", 0, bytes(300))
    builder.close()
    shutil.rmtree(root / "consumequeue")
    return root


def test_imitated_batches_are_not_believed(tmp_path: Path) -> None:
    root = imitating(tmp_path / "store")
    age(root)
    expected = full(root, split_bytes=1 << 20)
    assert {f["code"] for f in expected["findings"] if f["severity"] == "error"} == {"CQ_MISSING"}
    splits = audit.prepare(str(root), split_bytes=4096).splits
    guesses = [audit.audit_split(audit.prepare(str(root)), split).told for split in splits]
    assert any(told.batch_topics for told in guesses)
    kept = Kept()
    for _ in range(2):
        assert timeless(kept.audit(root, split_bytes=4096)) == full(root, split_bytes=4096) == expected
    built = rebuild(root, tmp_path / "new", split_bytes=4096)
    assert [queue.kind for queue in built.queues] == ["consumequeue"]


@pytest.mark.share(2)
@pytest.mark.parametrize("gone", GONE)
def test_unreadable_splits_are_told_once(
    gone: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.without(NAME, tmp_path / "store", *gone)
    segments = sorted((root / "commitlog").iterdir())
    age(root)
    unreadable(monkeypatch, f"commitlog/{segments[2].name}")
    expected, kept = full(root), Kept()
    splits = audit.prepare(str(root), split_bytes=SPLIT_BYTES).splits
    assert expected["failed"] == [f"{s.path}: Input/output error" for s in splits if s.path.endswith(segments[2].name)]
    for _ in range(2):
        assert timeless(kept.audit(root)) == expected


@pytest.mark.share(2)
@pytest.mark.parametrize("most", [5, 30, 100, 170])
def test_a_cancelled_audit_says_nothing_that_a_whole_one_does_not(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.without(NAME, tmp_path / "store", "batchconsumequeue")
    whole = {(f.code, f.topic) for f in audit.check(root, split_bytes=SPLIT_BYTES).findings}
    look, looked = node.audit_split, 0

    def look_until(*given: Any, **rest: Any) -> Any:
        nonlocal looked
        looked += 1
        if looked > most:
            raise KeyboardInterrupt
        return look(*given, **rest)

    monkeypatch.setattr(node, "audit_split", look_until)
    with pytest.raises(AuditCancelled) as caught:
        audit.check(root, jobs=1, split_bytes=SPLIT_BYTES)
    known = caught.value.known
    assert {(f.code, f.topic) for f in known.findings} <= whole
    assert known.reading.left

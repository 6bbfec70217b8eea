"""Stores that real brokers wrote are sound, whatever the splits, and an audit leaves no trace in them."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import golden_data
import pytest
from sampled import sampled

import storeio
from storeio import audit, turns
from storeio.audit import looks
from storeio.audit.plan import split_size
from storeio.paths import describe
from storeio.results import Audit, QueueResult
from storeio.scan import Listing

pytestmark = pytest.mark.share(2)

SPLIT = ("base-4.9.8", "rich-4.9.8", "ext-5.3.3", "upgraded", "rich-5.5.1")


def facts(found: Audit) -> Audit:
    """The audit without what a second run changes: times and the place of the store."""
    return replace(found, store="", started_ms=0, seconds=0.0)


@pytest.mark.parametrize("name", golden_data.STORES)
def test_a_store_that_a_broker_wrote_is_sound(name: str) -> None:
    root = golden_data.store(name)
    found = storeio.check(root)
    assert [f for f in found.findings if f.severity != "info"] == []
    assert (found.verdict, found.exit_code, found.failed) == ("sound", 0, [])
    assert found.log.records == len(golden_data.dump(name))
    for classes in found.bytes_by_kind().values():
        assert sum(classes[c] for c in ("stale", "torn", "garbage", "missing")) == 0
        assert sum(count for c, count in classes.items() if c != "total") == classes["total"]
    audited = {file.path: file.size for file in found.files}
    kinds = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index")
    for path in root.rglob("*"):
        if path.is_file() and path.relative_to(root).parts[0] in (*kinds, "checkpoint", "lock", "abort"):
            assert audited[path.relative_to(root).as_posix()] == path.stat().st_size


@pytest.mark.parametrize("name", golden_data.STORES)
def test_every_record_that_enters_a_queue_is_compared_with_its_unit(name: str) -> None:
    found = storeio.check(golden_data.store(name))
    queued = [row for row in golden_data.dump(name) if int(row["sys_flag"]) & 12 in (0, 8)]
    in_log: dict[tuple[str, int], int] = {}
    for row in queued:
        key = (row["topic"], int(row["queue_id"]))
        in_log[key] = in_log.get(key, 0) + 1
    own = [q for q in found.queues if not q.topic.startswith("%LMQ%")]
    assert {(q.topic, q.queue_id): q.in_log for q in own} == in_log
    assert all(q.units == q.in_log and not q.lost for q in own)
    assert found.checks["queue_units"] == found.checks["queue_units_on_disk"] >= len(queued)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sampled(SPLIT, SPLIT[::2]))
def test_splits_change_nothing_of_a_sound_store(name: str) -> None:
    root = golden_data.store(name)
    whole = facts(audit.check(root))
    for split_bytes in (1 if name == "base-4.9.8" else 1000, 4096):
        assert facts(audit.check(root, split_bytes=split_bytes)) == whole, split_bytes


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["rows-5.5.1", "fuzz-4.9.8", "fuzz-5.3.3"])
def test_splits_and_turns_change_nothing_of_a_damaged_store(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, case in enumerate(golden_data.cases(name)[::9]):
        root = golden_data.damaged(golden_data.base_of(name), case["edits"], tmp_path / str(number))
        whole = audit.check(root, jobs=1)
        with monkeypatch.context() as patch:
            if number % 2:
                patch.setattr(turns, "MANY", 1)
                patch.setattr(looks, "FILES_APART", 1)
                patch.setattr(looks, "FILES_TOGETHER", 2)
            cut = audit.check(root, jobs=2, split_bytes=3000)
        assert facts(cut) == facts(whole), case["id"]


@pytest.mark.parametrize(
    ("log_bytes", "queues", "expected"),
    [(1 << 20, 4, 8 << 20), (512 << 20, 16, 32 << 20), (512 << 20, 3000, 3000 * 16384), (1 << 33, 16, 64 << 20),
     (512 << 20, 100_000, 64 << 20)],
)  # fmt: skip
def test_splits_are_larger_in_large_logs_and_where_queues_are_many(log_bytes: int, queues: int, expected: int) -> None:
    log = [describe("commitlog/00000000000000000000", log_bytes)]
    files = [describe(f"consumequeue/t{n // 8}/{n % 8}/{file:020d}", 20) for n in range(queues) for file in (0, 20)]
    assert split_size(log, Listing("", (*log, *files))) == expected


def state(root: Path) -> dict[str, tuple[int, int, str]]:
    """Modification time, mode and digest of everything below a directory."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        stat = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (stat.st_mtime_ns, stat.st_mode, digest)
    return found


@pytest.mark.parametrize("name", ["rich-5.5.1", "ext-4.9.8"])
def test_an_audit_writes_nothing_and_needs_no_right_to(name: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden_data.store(name), root)
    for path in [*root.rglob("*"), root]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = state(root)
    found = audit.check(root)
    after = state(root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert found.verdict == "sound"
    assert after == before


def test_queue_results_name_numbers_and_kinds() -> None:
    found = storeio.check(golden_data.store("base-5.5.1"))
    case = next(c for c in golden_data.cases("rows-5.5.1") if c["id"] == "1-clean")
    recorded = {key: value[:2] for key, value in case["after_load"]["queues"].items()}
    assert {f"{q.topic}/{q.queue_id}": [q.min_queue_offset, q.max_queue_offset] for q in found.queues} == recorded
    assert found.log.max_physical_offset == case["after_load"]["max_physical_offset"]
    assert all(isinstance(q, QueueResult) and q.kind == "cq" for q in found.queues)


def test_an_index_without_units_is_sound_whatever_its_shape(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden_data.store("base-5.3.3"), root)
    for path in (root / "index").iterdir():
        path.write_bytes(bytes(36) + b"\0\0\0\1" + bytes(path.stat().st_size - 40))
    found = audit.check(root)
    assert {f.code for f in found.findings if f.path.startswith("index/")} <= {"INDEX_UNIT_MISSING"}

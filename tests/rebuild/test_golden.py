"""A rebuild of a store that a broker wrote gives the broker's own files, and with them the store is sound."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden_data as golden
import pytest
from golden_data import given_for, sizes_of
from rebuilds import QUEUES, contents, no_waiting_for_disks, tree

import storeio
from storeio import audit
from storeio.apply import apply_plan
from storeio.planning import plan_store
from storeio.rebuild.node import rebuild

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]
DERIVED = {"consumequeue", "index", "checkpoint", "abort"}
LISTS = ("rows-4.9.8", "rows-5.3.3", "rows-5.5.1", "rows-long-5.5.1")


@pytest.mark.parametrize("name", golden.STORES)
@pytest.mark.parametrize(("split_bytes", "jobs"), [(None, 2), (4096, 1), (20_000, 3)])
def test_files_are_those_of_the_broker(name: str, split_bytes: int | None, jobs: int, tmp_path: Path) -> None:
    root, into = golden.store(name), tmp_path / "new"
    result = rebuild(root, into, given=given_for(name), split_bytes=split_bytes, jobs=jobs)
    assert tree(into, *QUEUES) == tree(root, *QUEUES)
    assert contents(tree(into, "index"), "index") == contents(tree(root, "index"), "index")
    assert {path.split("/")[0] for path in result.files} <= {*QUEUES, "index", "checkpoint"}
    assert sorted(result.files) == sorted(tree(into))
    assert (result.exit_code, result.log, result.left_out) == (0, [], {})
    assert result.records == len(golden.dump(name))
    assert all(queue.usual for queue in result.queues)
    assert sum(q.units for q in result.queues) == storeio.check(root).checks["queue_units_on_disk"]


@pytest.mark.parametrize("name", golden.STORES)
def test_a_log_with_what_was_rebuilt_is_a_sound_store(name: str, tmp_path: Path) -> None:
    root, into = golden.store(name), tmp_path / "new"
    given = given_for(name)
    rebuild(root, into, given=given)
    shutil.copytree(root / "commitlog", into / "commitlog")
    if (root / "config").is_dir():
        shutil.copytree(root / "config", into / "config")
    found = audit.check(into, given=given)
    assert [(f.code, f.path, f.detail) for f in found.findings if f.severity != "info"] == []
    assert found.exit_code == 0


def swap(root: Path, into: Path) -> None:
    """Put what was rebuilt in the place of what a store has."""
    (root / "abort").unlink(missing_ok=True)
    for top in ("consumequeue", "index"):
        shutil.rmtree(root / top, ignore_errors=True)
        if (into / top).exists():
            (into / top).rename(root / top)
    (into / "checkpoint").replace(root / "checkpoint")


@pytest.mark.share(2)
@pytest.mark.parametrize("name", LISTS)
def test_a_damage_of_queues_index_or_checkpoint_is_mended(name: str, tmp_path: Path) -> None:
    given = sizes_of(golden.options(golden.base_of(name)))
    queues = tree(golden.store(golden.base_of(name)), "consumequeue")
    chosen = [
        case
        for case in golden.cases(name)
        if {edit[1].split("/")[0] for edit in case["edits"]} <= DERIVED and case["id"].endswith("clean")
    ]
    assert len(chosen) > 3
    for number, case in enumerate(chosen):
        root = golden.damaged(golden.base_of(name), case["edits"], tmp_path / str(number))
        into = tmp_path / f"{number}-new"
        result = rebuild(root, into, given=given)
        assert result.exit_code == 0, case["id"]
        assert tree(into, "consumequeue") == queues, case["id"]
        swap(root, into)
        found = audit.check(root, given=given)
        assert [(f.code, f.path, f.detail) for f in found.findings if f.severity != "info"] == [], case["id"]
        shutil.rmtree(root)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("which", [8, 80])  # the first record of its queue, and one amid it
def test_where_a_record_is_lost_its_queue_has_another_unit_that_check_knows(
    which: int, queues: bool, tmp_path: Path
) -> None:
    name = "rich-5.3.3"
    root, given = golden.copy_of(name, tmp_path / "store"), given_for(name)
    row = golden.dump(name)[which]
    place, size, number = (int(row[field]) for field in ("phy_offset", "size", "queue_offset"))
    path = f"consumequeue/{row['topic']}/{row['queue_id']}/{0:020d}"
    unit = (root / path).read_bytes()[20 * number :][:20]
    with (root / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(place)
        log.write(bytes(size))
    if not queues:
        shutil.rmtree(root / "consumequeue")
    result = rebuild(root, tmp_path / "new", given=given)
    swap(root, tmp_path / "new")
    kept = queues and number > 0
    beside = (root / path).read_bytes()[20 * (number - 1 if number else 1) :][:20]
    assert (root / path).read_bytes()[20 * number :][:20] == (unit if kept else beside)
    assert sum(queue.kept for queue in result.queues) == kept
    found = audit.check(root, given=given).findings
    assert [f.code for f in found if f.severity != "info"] == ["LOG_HOLE", *["CQ_INTO_DAMAGE"] * kept]


def test_the_upgraded_store_has_tags_in_its_index_only_from_the_newer_broker_on(tmp_path: Path) -> None:
    root = golden.store("upgraded")
    result = rebuild(root, tmp_path / "new", given=given_for("upgraded"))
    (note,) = (note for note in result.notes if "tags" in note)
    assert 0 < int(note.split()[-2]) < result.max_physical_offset


@pytest.mark.parametrize(
    ("version", "broker"), [("5.3.3", None), ("5.3.3", "5.3.3"), ("5.4.0", "5.4.0"), ("5.5.1", "5.4.0")]
)
def test_where_neither_index_nor_checkpoint_is_left_the_broker_that_is_named_says_whether_tags_are_indexed(
    version: str, broker: str | None, tmp_path: Path
) -> None:
    name, gone = f"base-{version}", tmp_path / "store"
    shutil.rmtree(golden.copy_of(name, gone) / "index")
    (gone / "checkpoint").unlink()
    given = given_for(name)
    result = rebuild(gone, tmp_path / "new", given=given, broker=broker)
    assert contents(tree(tmp_path / "new", "index"), "index") == contents(tree(golden.store(name), "index"), "index")
    assert any("--broker" in note for note in result.notes) == (version == "5.3.3")
    plan_store(gone, tmp_path / "plan.json", given=given, broker=broker)
    apply_plan(tmp_path / "plan.json", gone)
    assert contents(tree(gone, "index"), "index") == contents(tree(golden.store(name), "index"), "index")

"""A plan is carried out to the expected bytes, and taken back to the exact old ones."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import golden_data
import pytest
from applies import (
    CHANGES,
    EMPTY,
    Counter,
    Maker,
    every_kind,
    hooked,
    listing,
    sha,
    small_store,
    tree_of,
)

from storeio.apply import apply_plan, undo
from storeio.errors import MismatchError, NotAppliedError, UsageError
from storeio.plan import check_plan
from storeio.plan.digest import Entry, listing_sha256


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "place" / "store")


def home(root: Path) -> Path:
    return root.parent / f"{root.name}.storeio"


def test_every_kind_of_action_and_back(root: Path, tmp_path: Path) -> None:
    (root / "lock").unlink()
    maker = every_kind(root)
    found = apply_plan(maker.save(tmp_path / "plans"), allow_log=True)
    assert tree_of(root) == maker.tree
    assert (found.outcome, found.done, found.exit_code) == ("applied", len(maker.actions), 1)
    assert Path(found.directory).parent == home(root)
    assert home(root).stat().st_mode & 0o077 == 0, "messages may be in it"
    back = undo(root)
    assert tree_of(root) == maker.before
    assert "lock" not in maker.before
    assert (back.outcome, back.left, back.exit_code) == ("undone", 0, 1)
    assert [path.name for path in home(root).iterdir()] == [f"{found.name}.undone"]


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.3.3", golden_data.RICH[0]])
def test_stores_of_real_brokers(name: str, tmp_path: Path) -> None:
    root = golden_data.copy_of(name, tmp_path / "store")
    maker = Maker(root)
    files = [path for path, data in maker.tree.items() if data and path.startswith("consumequeue/")]
    queue = os.path.dirname(files[0])
    rebuilt = {path: data for path, data in maker.tree.items() if data and os.path.dirname(path) == queue}
    maker.move(queue)
    for path, data in rebuilt.items():
        maker.create(path, len(data)).write(path, 0, data[::-1].lstrip(b"\0") or b"\1")
    maker.write("checkpoint", 0, b"\0\0\0\1" * 6)
    if files[-1] not in rebuilt:
        maker.resize(files[-1], 40)
    log = min(path for path in maker.tree if path.startswith("commitlog/"))
    maker.write(log, 100, bytes(3000), zeros=True, risk="log")
    plan = maker.save(tmp_path / "plans")
    apply_plan(plan, allow_log=True)
    assert tree_of(root) == maker.tree != maker.before
    with pytest.raises(MismatchError, match="does not fit"):
        apply_plan(plan, allow_log=True)
    assert tree_of(root) == maker.tree
    undo(root)
    assert tree_of(root) == maker.before


def test_a_plan_without_actions_does_nothing(root: Path, tmp_path: Path) -> None:
    maker = Maker(root)
    found = apply_plan(maker.save(tmp_path / "plans"))
    assert (found.outcome, found.exit_code) == ("nothing", 0)
    assert tree_of(root) == maker.before
    assert not home(root).exists()


def test_the_store_that_is_given_counts_and_not_the_plans(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(root, other)
    maker = Maker(root).write("checkpoint", 8, b"12345678")
    apply_plan(maker.save(tmp_path / "plans"), other)
    assert tree_of(root) == maker.before
    assert tree_of(other) == maker.tree


def test_a_store_behind_a_link_is_changed_where_it_lies(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    maker = Maker(root).write("checkpoint", 8, b"12345678")
    found = apply_plan(maker.save(tmp_path / "plans"), tmp_path / "link")
    assert Path(found.directory).parent == home(root.resolve())
    assert tree_of(root) == maker.tree
    assert not (tmp_path / "link.storeio").exists()


def test_bytes_of_more_than_one_piece(root: Path, tmp_path: Path) -> None:
    (root / "big").write_bytes(os.urandom(5 << 20))
    maker = Maker(root).write("big", 12345, os.urandom(3 << 20)).resize("big", 100).create("zero", 3 << 20)
    maker.write("zero", 1 << 20, os.urandom(2 << 20))
    apply_plan(maker.save(tmp_path / "plans"))
    assert tree_of(root) == maker.tree
    undo(root)
    assert tree_of(root) == maker.before


def test_two_applies_are_taken_back_one_by_one(root: Path, tmp_path: Path) -> None:
    one = Maker(root).write("checkpoint", 8, b"12345678")
    first = apply_plan(one.save(tmp_path / "one"))
    two = Maker(root).write("checkpoint", 8, b"abcdefgh").write("checkpoint", 100, b"abcdefgh")
    second = apply_plan(two.save(tmp_path / "two"))
    assert first.name < second.name
    with pytest.raises(MismatchError, match=r"checkpoint: other bytes within 8 to 16"):
        undo(root, name=first.name)
    assert tree_of(root) == two.tree
    assert undo(root).name == second.name
    assert undo(root).name == first.name
    assert tree_of(root) == one.before
    with pytest.raises(UsageError, match="nothing to take back"):
        undo(root)
    with pytest.raises(UsageError, match="no apply x"):
        apply_plan(one.save(tmp_path / "one"))
        undo(root, name="x")


def test_the_same_plan_again_after_it_was_taken_back(root: Path, tmp_path: Path) -> None:
    maker = every_kind(root)
    plan = maker.save(tmp_path / "plans")
    for _ in range(3):
        apply_plan(plan, allow_log=True)
        assert tree_of(root) == maker.tree
        undo(root)
        assert tree_of(root) == maker.before
    assert len(list(home(root).iterdir())) == 3


CHANGED = {
    "bytes that were written": ("consumequeue/T/0/00000000000000000000", 30),
    "a created file": ("consumequeue/T/1/00000000000000000000", 3),
    "a renamed file": ("index/kept", 0),
    "an extended file": ("index/FIRST", 200),
}


@pytest.mark.parametrize("what", CHANGED)
def test_undo_refuses_what_somebody_changed_since(root: Path, tmp_path: Path, what: str) -> None:
    maker = every_kind(root)
    first = min(path for path in maker.before if path.startswith("index/"))
    apply_plan(maker.save(tmp_path / "plans"), allow_log=True)
    path, position = CHANGED[what]
    path = path.replace("index/FIRST", first)
    with (root / path).open("r+b") as file:
        file.seek(position)
        old = file.read(1)
        file.seek(position)
        file.write(bytes([old[0] ^ 1]))
    changed = tree_of(root)
    with pytest.raises(MismatchError, match=path):
        undo(root)
    assert tree_of(root) == changed


def test_undo_refuses_where_names_came_or_went(root: Path, tmp_path: Path) -> None:
    maker = every_kind(root)
    apply_plan(maker.save(tmp_path / "plans"), allow_log=True)
    (root / "stray").write_bytes(b"again")
    with pytest.raises(MismatchError, match="stray: something is there"):
        undo(root)
    (root / "stray").unlink()
    (root / "new/deep/other").write_bytes(b"")
    with pytest.raises(MismatchError, match="new/deep/other: not made by this apply"):
        undo(root)
    (root / "new/deep/other").unlink()
    (root / "abort").unlink()
    with pytest.raises(MismatchError, match="abort: not a file"):
        undo(root)
    (root / "abort").touch()
    undo(root)
    assert tree_of(root) == maker.before


@pytest.mark.parametrize("name", ["backup", "moved/11", "moved/5/deep/er/file", "plan.json", "bytes"])
def test_undo_refuses_a_damaged_backup(root: Path, tmp_path: Path, name: str) -> None:
    maker = every_kind(root)
    found = apply_plan(maker.save(tmp_path / "plans"), allow_log=True)
    path = Path(found.directory) / name
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    with pytest.raises((MismatchError, NotAppliedError), match=r"damaged|changed|not JSON"):
        undo(root)
    assert tree_of(root) == maker.tree


def test_the_index_of_the_backup_tells_a_person_where_the_old_bytes_are(root: Path, tmp_path: Path) -> None:
    maker = every_kind(root)
    run = Path(apply_plan(maker.save(tmp_path / "plans"), allow_log=True).directory)
    backup = (run / "backup").read_bytes()
    rows = json.loads((run / "backup.json").read_text())
    assert len(rows) == len(maker.actions)
    first = rows[0]
    old = maker.before[first["path"]]
    assert old is not None
    stop = first["in_backup_at"] + first["length"]
    assert backup[first["in_backup_at"] : stop] == old[first["position"] : first["position"] + first["length"]]
    moved = [(run / row["moved_to"], row["path"]) for row in rows if row["moved_to"]]
    assert [path for _, path in moved] == ["consumequeue/T/1", "stray", "abort"]
    assert (run / "moved/11").read_bytes() == maker.before["stray"] == b"none of the broker's"


def test_backups_may_lie_on_another_file_system(tmp_path: Path, disk_path: Path) -> None:
    root = small_store(tmp_path / "store")
    if os.stat(disk_path).st_dev == os.stat(root).st_dev:
        pytest.skip("one file system only")
    os.chmod(root / "stray", 0o640)
    (tmp_path / "store.storeio").symlink_to(disk_path)
    maker = every_kind(root)
    found = apply_plan(maker.save(tmp_path / "plans"), allow_log=True)
    assert Path(found.directory).parent == disk_path
    assert tree_of(root) == maker.tree
    undo(root)
    assert tree_of(root) == maker.before
    assert (root / "stray").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("what", ["a link that leads nowhere", "a link to a file", "a file"])
def test_backups_are_kept_nowhere_but_in_a_directory(what: str, root: Path, tmp_path: Path) -> None:
    """A disk for them may not be mounted: the link to its directory then leads nowhere."""
    (tmp_path / "file").write_bytes(b"")
    if what == "a file":
        home(root).write_bytes(b"")
    else:
        home(root).symlink_to(tmp_path / ("file" if what.endswith("file") else "mount/backups"))
    (tmp_path / "mount").mkdir()
    before = tree_of(root)
    plan = Maker(root).write("checkpoint", 8, b"12345678").save(tmp_path / "plans")
    for work in (lambda: apply_plan(plan), lambda: undo(root)):
        with pytest.raises(UsageError, match="no directory; what an apply replaces is kept there"):
            work()
    assert tree_of(root) == before
    assert list((tmp_path / "mount").iterdir()) == []


def test_backups_never_lie_in_the_store(root: Path, tmp_path: Path) -> None:
    home(root).symlink_to(root / "config")
    maker = Maker(root).write("checkpoint", 8, b"12345678")
    with pytest.raises(UsageError, match="leads into the store"):
        apply_plan(maker.save(tmp_path / "plans"))
    assert tree_of(root) == maker.before


def test_everything_is_on_the_disk_before_what_relies_on_it(root: Path, tmp_path: Path) -> None:
    """Each write into the store comes after the fsync of its backup and of the journal's line, and has its own."""
    maker = every_kind(root)
    seen = Counter()
    with hooked(seen):
        apply_plan(maker.save(tmp_path / "plans"), allow_log=True)
    steps = seen.seen
    assert {name for name, _ in steps} >= {"write", "set length", "fsync", "create", "make directory", "rename"}
    assert {name for name, _ in steps} <= set(CHANGES)
    dirty: set[str] = set()
    begun = False
    for name, path in steps:
        ours = path.startswith("20") and "Z-" in path
        if name == "fsync":
            dirty.discard(path)
        elif name in ("write", "set length"):
            if ours and path.endswith("/journal"):
                assert {each for each in dirty if not each.endswith("/journal")} == set()
                begun |= ".part" not in path
            elif not ours:
                assert begun
                assert {each for each in dirty if each != path} == set()
            dirty.add(path)
    assert dirty == set()


def test_listing_digest_is_as_documented() -> None:
    tree = {"x": None, "x/a": None, "x/a/\udcff": b"", "x/b": b"1", "y": b"2"}
    entries = [Entry("b", "file", 1, sha(b"1")), Entry("a/\udcff", "file", 0, EMPTY), Entry("a", "directory")]
    assert listing_sha256(entries) == listing_sha256(entries[::-1]) == listing(tree, "x")
    assert listing_sha256(entries[1:]) != listing_sha256(entries)


def test_the_planner_can_check_its_own_plans(root: Path) -> None:
    maker = every_kind(root)
    check_plan(maker.plan(), allow_log=True)
    with pytest.raises(UsageError, match="--allow-log"):
        check_plan(maker.plan())

"""Plans and stores made to reach outside: nothing is changed anywhere, and the reason is said."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applies import EMPTY, Maker, every_kind, sha, small_store, tree_of

from storeio.apply import apply_plan, undo
from storeio.errors import MismatchError, NotAppliedError, NotAStoreError, UsageError
from storeio.plan.outcome import APPLIED, UNDONE

QUEUE = "consumequeue/T/0/00000000000000000000"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return a directory with a store, a plan that fits it, and things around it that must stay."""
    small_store(tmp_path / "world" / "store")
    for name in ("secret", "plans/secret", "elsewhere/secret"):
        (tmp_path / "world" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "world" / name).write_bytes(b"x" * 200)
    maker = Maker(tmp_path / "world" / "store").write(QUEUE, 20, b"\x07" * 40).create("made", 10)
    maker.write("made", 2, b"abc").resize("checkpoint", 100).move("stray").rename("config/topics.json", "renamed")
    maker.save(tmp_path / "world" / "plans")
    return tmp_path / "world"


def edited(world: Path, **fields: Any) -> Path:
    """Return the plan with fields set: ``action_3_path`` of an action, else of the plan."""
    path = world / "plans" / "plan.json"
    found = json.loads(path.read_text())
    for name, value in fields.items():
        part, _, rest = name.partition("_")
        if part == "action":
            number, _, name = rest.partition("_")
            found["actions"][int(number)][name] = value
        else:
            found[name] = value
    path.write_text(json.dumps(found))
    return path


def refused(world: Path, error: type[Exception] = UsageError, **options: Any) -> str:
    """Return the reason for which the plan is refused; nothing may change by it."""
    before = tree_of(world)
    with pytest.raises(error) as told:
        apply_plan(world / "plans" / "plan.json", world / "store", **options)
    assert tree_of(world) == before
    return str(told.value)


def test_as_it_is_the_plan_fits(world: Path) -> None:
    before = tree_of(world / "store")
    assert apply_plan(world / "plans" / "plan.json", world / "store").outcome == APPLIED
    assert tree_of(world / "store") != before
    assert undo(world / "store").outcome == UNDONE
    assert tree_of(world / "store") == before


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5])
@pytest.mark.parametrize(
    "path",
    [
        "../secret", "consumequeue/../../secret", "/etc/passwd", "", ".", "..", "a//b", "a/./b", "a/", "/a", "a/..",
        "a\0b", "a\nb", "a\x7fb", "..\\secret", "a\\b", "\ud800", "x" * 256, "/".join(["x" * 200] * 30),
        "lock", "lock/x",
    ],
)  # fmt: skip
def test_paths_that_no_plan_may_name(world: Path, number: int, path: str) -> None:
    edited(world, **{f"action_{number}_path": path})
    assert f"action {number}: path" in refused(world)


@pytest.mark.parametrize("path", ["../secret", "/tmp/x", "lock", "a/../b", ""])
def test_targets_that_no_plan_may_name(world: Path, path: str) -> None:
    edited(world, action_5_target=path)
    assert "action 5: path" in refused(world)


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "sub/x", "..", ".", "a\0b", "", "a\\b", "a\nb", "x" * 256]
)
def test_bytes_files_that_are_not_beside_the_plan(world: Path, name: str) -> None:
    edited(world, bytes_file=name)
    assert "bytes_file" in refused(world)


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "longer", "shorter", "other", "gone"])
def test_another_bytes_file(world: Path, kind: str) -> None:
    path = world / "plans" / "plan.bytes"
    data = path.read_bytes()
    path.unlink()
    if kind == "link":
        (world / "elsewhere" / "bytes").write_bytes(data)
        path.symlink_to(world / "elsewhere" / "bytes")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind != "gone":
        path.write_bytes({"longer": data + b"x", "shorter": data[:-1], "other": bytes([data[0] ^ 1]) + data[1:]}[kind])
    assert "plan.bytes" in refused(world, MismatchError)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"action_0_length": 2**62}, "ends behind"),
        ({"action_0_length": 2**31 - 1}, "ends behind"),
        ({"action_0_position": 2**62}, "ends behind"),
        ({"action_0_position": 2**63 - 1, "action_0_old_length": 2**63 - 1}, "ends behind"),
        ({"action_0_length": 2**62, "action_0_old_length": 2**63 - 1}, "bytes file"),
        ({"action_0_length": 2**62, "action_0_old_length": 2**63 - 1, "action_0_source": -1}, "bytes long"),
        ({"action_0_length": 0}, "nothing to write"),
        ({"action_0_length": -1}, "out of range"),
        ({"action_0_position": -1}, "out of range"),
        ({"action_0_source": 2**62}, "bytes file"),
        ({"action_0_source": -2}, "out of range"),
        ({"action_0_source": 3}, "digest that the plan says"),
        ({"action_0_old_length": 199}, "200 bytes long, not 199"),
        ({"action_0_old_length": -1}, "ends behind"),
        ({"action_0_old_sha256": "0" * 64}, "bytes 20 to 60 are not what the plan replaces"),
        ({"action_0_old_sha256": ""}, "digest is missing"),
        ({"action_0_new_sha256": "0" * 64}, "digest that the plan says"),
        ({"action_0_path": "consumequeue/T/0"}, "a directory is there"),
        ({"action_0_path": "nothing"}, "nothing is there"),
        ({"action_0_path": QUEUE + "/x"}, "no directory"),
        ({"action_0_target": "x"}, "only a rename"),
        ({"action_1_length": 2**31}, "more than a broker's file"),
        ({"action_1_length": 2**62}, "more than a broker's file"),
        ({"action_1_length": 2**31 - 1}, "digest|bytes long"),
        ({"action_1_path": "consumequeue/T/1/00000000000000000000"}, "something is there"),
        ({"action_1_path": "consumequeue/T/1"}, "something is there"),
        ({"action_1_path": "abort/x"}, "no directory"),
        ({"action_1_new_sha256": "0" * 64}, "digest"),
        ({"action_1_old_sha256": "0" * 64}, "expects something"),
        ({"action_2_position": 8}, "ends behind"),
        ({"action_2_old_length": 11}, "bytes long"),
        ({"action_2_old_sha256": "0" * 64}, "not what the plan replaces"),
        ({"action_3_length": 4096}, "changes no length"),
        ({"action_3_length": 2**62}, "more than a broker's file|digest"),
        ({"action_3_length": 5000, "action_3_old_sha256": "", "action_3_new_sha256": "0" * 64}, "digest that the plan"),
        ({"action_3_old_sha256": "0" * 64}, "bytes 100 to 4096 are not"),
        ({"action_3_old_length": 5000}, "4096 bytes long"),
        ({"action_4_old_sha256": "0" * 64}, "not what the plan replaces"),
        ({"action_4_old_length": 7, "action_4_length": 7}, "bytes long, not 7"),
        ({"action_4_path": "consumequeue/T/0", "action_4_old_length": 0, "action_4_length": 0}, "was changed"),
        ({"action_4_path": "consumequeue/T/1", "action_4_old_length": 0, "action_4_length": 0}, "does not hold"),
        ({"action_5_target": "checkpoint"}, "something is there"),
        ({"action_5_target": "config"}, "something is there"),
        ({"action_5_old_sha256": "0" * 64}, "not what the plan replaces"),
        ({"action_5_path": "config", "action_5_old_length": 0, "action_5_length": 0}, "a directory is there"),
        ({"action_1_risk": "log"}, "--allow-log"),
        ({"action_5_target": "commitlog/x"}, "--allow-log"),
        ({"bytes_length": 1}, "bytes file"),
        ({"bytes_sha256": "0" * 64}, "not the bytes of this plan"),
        ({"bytes_length": -1}, "bytes_length"),
    ],
    ids=str,
)  # fmt: skip
def test_numbers_and_digests_that_do_not_fit(world: Path, fields: dict[str, Any], says: str) -> None:
    edited(world, **fields)
    assert re.search(says, refused(world))


def test_the_log_is_changed_only_where_that_is_allowed(world: Path) -> None:
    maker = Maker(world / "store").write("commitlog/00000000000000000000", 5, b"log")
    maker.save(world / "plans")
    assert "--allow-log" in refused(world)
    Maker(world / "store").move("commitlog").save(world / "plans")
    assert "--allow-log" in refused(world)
    apply_plan(world / "plans" / "plan.json", world / "store", allow_log=True)
    assert not (world / "store" / "commitlog").exists()


SEQUENCES: dict[str, tuple[Callable[[Maker], object], str]] = {
    "created twice": (lambda m: (m.create("x", 5), m.create("x", 5)), "something is there"),
    "created below a file": (lambda m: (m.create("x", 5), m.create("x/y", 5)), "is a file"),
    "created above a file": (lambda m: (m.create("x/y", 5), m.create("x", 5)), "something is there"),
    "overlapping": (lambda m: (m.write(QUEUE, 0, b"a" * 40), m.write(QUEUE, 39, b"b" * 40)), "earlier action wrote"),
    "inside": (lambda m: (m.write(QUEUE, 0, b"a" * 40), m.write(QUEUE, 10, b"b", zeros=True)), "earlier action wrote"),
    "around": (lambda m: (m.write(QUEUE, 10, b"a"), m.write(QUEUE, 0, b"b" * 40)), "earlier action wrote"),
    "moved twice": (lambda m: (m.move("stray"), m.actions.append(m.actions[0])), "nothing is there"),
    "written after it was moved": (
        lambda m: (m.write("stray", 0, b"a"), m.move("stray"), m.actions.append(m.actions[0])), "nothing is there",
    ),
    "written below what was moved": (
        lambda m: (m.write(QUEUE, 0, b"a"), m.actions.clear(), m.move("consumequeue"), m.tree.update(m.before),
                   m.write(QUEUE, 0, b"a")), "nothing is there",
    ),
    "moved after it was changed": (lambda m: (m.write(QUEUE, 0, b"a"), m.move("consumequeue")), "was changed"),
    "written behind a cut": (
        lambda m: (m.write(QUEUE, 100, b"a"), m.actions.insert(0, m.actions.pop()), m.resize(QUEUE, 50),
                   m.actions.reverse()), "bytes long",
    ),
    "renamed over what was created": (
        lambda m: (m.create("y", 1), m.tree.pop("y"), m.rename("stray", "y")), "something is there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_actions_that_cannot_follow_on_each_other(world: Path, name: str) -> None:
    make, says = SEQUENCES[name]
    maker = Maker(world / "store")
    make(maker)
    maker.save(world / "plans")
    assert says in refused(world)


def test_neighbouring_writes_do_not_overlap(world: Path) -> None:
    maker = Maker(world / "store").write(QUEUE, 40, b"a" * 20).write(QUEUE, 0, b"b" * 40).write(QUEUE, 60, b"c")
    apply_plan(maker.save(world / "plans"))
    assert tree_of(world / "store") == maker.tree


# ---- Stores


def test_a_directory_that_is_a_link(world: Path) -> None:
    shutil.move(world / "store" / "consumequeue", world / "elsewhere" / "consumequeue")
    (world / "store" / "consumequeue").symlink_to(world / "elsewhere" / "consumequeue")
    assert "consumequeue is a link" in refused(world, MismatchError)


def test_files_that_are_links(world: Path) -> None:
    for number, path in ((0, QUEUE), (3, "checkpoint"), (4, "stray"), (5, "config/topics.json")):
        target = world / "store" / path
        shutil.move(target, world / "elsewhere" / "moved")
        target.symlink_to(world / "elsewhere" / "moved")
        assert f"action {number}" in refused(world, MismatchError)
        target.unlink()
        shutil.move(world / "elsewhere" / "moved", target)
    (world / "store" / "made").symlink_to(world / "elsewhere" / "new")
    assert "action 1" in refused(world, MismatchError)
    (world / "store" / "made").unlink()
    apply_plan(world / "plans" / "plan.json", world / "store")


def test_links_in_a_directory_that_is_moved(world: Path) -> None:
    maker = Maker(world / "store").move("consumequeue/T/1")
    maker.save(world / "plans")
    (world / "store" / "consumequeue/T/1/deep/link").symlink_to(world / "secret")
    assert "neither a regular file nor a directory" in refused(world, MismatchError)


def test_pipes_and_the_like(world: Path) -> None:
    (world / "store" / QUEUE).unlink()
    os.mkfifo(world / "store" / QUEUE)
    assert "neither a regular file nor a directory" in refused(world, MismatchError)


def test_a_file_of_several_names(world: Path) -> None:
    os.link(world / "store" / QUEUE, world / "elsewhere" / "other-name")
    assert "2 names" in refused(world, MismatchError)


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "linked"])
def test_a_lock_file_that_is_none(world: Path, kind: str) -> None:
    lock = world / "store" / "lock"
    lock.unlink()
    if kind == "link":
        lock.symlink_to(world / "secret")
    elif kind == "pipe":
        os.mkfifo(lock)
    elif kind == "directory":
        lock.mkdir()
    else:
        os.link(world / "secret", lock)
    assert "lock" in refused(world, MismatchError)


def test_a_link_that_comes_between_the_check_and_the_write(world: Path) -> None:
    """Who swaps a directory for a link in the middle gets nothing written there."""
    from applies import hooked

    outside = world / "elsewhere" / "T"
    shutil.copytree(world / "store" / "consumequeue" / "T", outside)
    before = tree_of(outside)

    def swap(name: str, path: str, half: object) -> None:
        if path.endswith("/journal") and name == "fsync" and ".part" not in path:
            queue = world / "store" / "consumequeue" / "T"
            if not queue.is_symlink():
                queue.rename(world / "elsewhere" / "old")
                queue.symlink_to(outside)

    with hooked(swap), pytest.raises(NotAppliedError, match="is a link"):
        apply_plan(world / "plans" / "plan.json", world / "store")
    assert tree_of(outside) == before


def test_a_backup_directory_in_the_hands_of_others(world: Path) -> None:
    found = apply_plan(every_kind(world / "store").save(world / "plans"), allow_log=True)
    run = Path(found.directory)
    text = (run / "plan.json").read_text()
    (run / "plan.json").write_text(text.replace("consumequeue/T/0", "../elsewhere/x"))
    before = tree_of(world / "store")
    with pytest.raises(NotAppliedError, match="not relative and plain"):
        undo(world / "store")
    (run / "plan.json").write_text(text.replace("a test", "A test"))
    with pytest.raises(NotAppliedError, match="were changed since"):
        undo(world / "store")
    (run / "plan.json").write_text(text)
    journal = (run / "journal").read_bytes()
    (run / "journal").write_bytes(journal.replace(b'"begin","action":1,', b'"begin","action":7,', 1))
    with pytest.raises(NotAppliedError, match="line 4 is damaged"):
        undo(world / "store")
    (run / "journal").write_bytes(b"\n".join(journal.split(b"\n")[:2] + journal.split(b"\n")[4:]))
    with pytest.raises(NotAppliedError, match="cannot follow"):
        undo(world / "store")
    assert tree_of(world / "store") == before


def test_a_journal_that_lost_its_end_takes_nothing_back(world: Path) -> None:
    """An action that it does not tell of would stay, and the store be called as it was before."""
    maker = every_kind(world / "store")
    found = apply_plan(maker.save(world / "plans"), allow_log=True)
    journal = Path(found.directory) / "journal"
    lines, applied = journal.read_bytes().splitlines(keepends=True), tree_of(world / "store")
    for count in range(len(lines)):
        journal.write_bytes(b"".join(lines[:count]))
        if count >= len(lines) - 2:  # that it was complete is all that it does not tell, or that the last one ended
            continue
        with pytest.raises((MismatchError, NotAppliedError)):
            undo(world / "store")
        assert tree_of(world / "store") == applied
    assert undo(world / "store").outcome == "undone"
    assert tree_of(world / "store") == maker.before


@pytest.mark.parametrize(
    "text",
    [
        b"[]", b'"x"', b"1", b"null", b"{}", b"{", b"\xff", b"[" * 100_000, b'{"step":1}',
        b'{"step":"begin","action":"x"}', b'{"step":"begin","action":null}', b'{"step":"done","action":1e0}',
        b'{"step":"begin","action":true,"made":[]}', b'{"step":"begin","action":99,"made":[1]}',
        b'{"step":"undo begin","made":{}}',
    ],
)  # fmt: skip
def test_a_journal_line_that_no_apply_wrote(text: bytes, world: Path) -> None:
    found = apply_plan(every_kind(world / "store").save(world / "plans"), allow_log=True)
    with (Path(found.directory) / "journal").open("ab") as journal:
        journal.write(hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text + b"\n")
    before = tree_of(world / "store")
    with pytest.raises(NotAppliedError, match="is no line of a journal"):
        undo(world / "store")
    assert tree_of(world / "store") == before


def test_a_journal_of_any_length_is_not_read(world: Path) -> None:
    found = apply_plan(every_kind(world / "store").save(world / "plans"), allow_log=True)
    os.truncate(Path(found.directory) / "journal", 1 << 40)
    with pytest.raises(NotAppliedError, match="1099511627776 bytes long, which no journal is"):
        undo(world / "store")


@pytest.mark.parametrize("root", ["nowhere", "secret", "/"])
def test_what_is_no_store(world: Path, root: str) -> None:
    before = tree_of(world)
    for call in (lambda: apply_plan(world / "plans" / "plan.json", world / root), lambda: undo(world / root)):
        with pytest.raises(NotAStoreError):
            call()
    assert tree_of(world) == before


def test_plans_that_are_none(world: Path) -> None:
    for path in (world / "nowhere.json", world / "plans"):
        with pytest.raises(UsageError, match=r"no such plan|is a directory"):
            apply_plan(path, world / "store")
    for data in (b"\xff\xfe", b"{}", b"[" * 100_000, b""):
        (world / "plans" / "plan.json").write_bytes(data)
        assert "plan" in refused(world)


def test_empty_digests_are_those_of_nothing(world: Path) -> None:
    """A file without bytes may be named with the digest of nothing, and of nothing else."""
    (world / "store" / "empty").touch()
    Maker(world / "store").move("empty").save(world / "plans")
    assert json.loads((world / "plans" / "plan.json").read_text())["actions"][0]["old_sha256"] == EMPTY
    edited(world, action_0_old_sha256=sha(b"x"))
    assert "not what the plan replaces" in refused(world, MismatchError)
    edited(world, action_0_old_sha256=EMPTY)
    apply_plan(world / "plans" / "plan.json", world / "store")
    assert not (world / "store" / "empty").exists()


def test_a_directory_in_the_place_of_the_mark_of_a_lock_file(world: Path) -> None:
    """It cannot be removed in the end, when all is changed already."""
    (world / "store.storeio" / "lock-was-made").mkdir(parents=True)
    assert "lock-was-made" in refused(world, MismatchError)

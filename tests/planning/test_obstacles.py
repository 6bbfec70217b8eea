"""``storeio plan`` on stores with obstacles: links, pipes, files in place of directories. Plans are applied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import golden_data
import pytest
from golden_data import given_for, segment
from plans import BASE, QUEUE, cq

from storeio.apply import apply_plan, undo
from storeio.errors import StoreError
from storeio.plan import model
from storeio.plan.results import Planned
from storeio.planning import Selection, plan_store
from storeio.results import EXIT_REPAIRED

pytestmark = pytest.mark.share(2)

Change = Callable[[Path], object]
TOPIC = QUEUE.rpartition("/")[0]
OTHER = "consumequeue/topic_1/1/" + "0" * 20  # damaged in every case, and to be cured whatever else is wrong


def entries(root: Path) -> dict[bytes, bytes | None]:
    """Return everything below a directory, itself and not what it links to."""
    found: dict[bytes, bytes | None] = {}
    for place in sorted(root.rglob("*")):
        name = os.fsencode(place.relative_to(root))
        if place.is_symlink():
            found[name] = b"link " + os.fsencode(os.readlink(place))
        else:
            found[name] = place.read_bytes() if place.is_file() else b"pipe" if place.is_fifo() else None
    return found


def planned(change: Change, place: Path, **how: object) -> Planned:
    """Return the plan for the base store with one queue damaged and a change; applied and taken back, too."""
    root = golden_data.damaged(BASE, [["zero", OTHER, 60, 20]], place / "store")
    change(root)
    before = entries(root)
    words = {"broker": "5.3.3", "given": given_for(BASE), "jobs": 1, **how}
    found = plan_store(root, place / "plan.json", **words)  # type: ignore[arg-type]
    assert entries(root) == before
    if found.plan.actions:
        allowed = bool(how.get("allow_log"))
        assert apply_plan(place / "plan.json", root, allow_log=allowed).exit_code == EXIT_REPAIRED
        undo(root)
        assert entries(root) == before
    return found


def in_place_of(path: str, make: Change) -> Change:
    """Return what removes a file or directory of a store and makes something else of its name."""

    def change(root: Path) -> None:
        place = root / path
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        make(place)

    return change


def file(place: Path) -> None:
    place.write_bytes(b"something")


def folder(place: Path) -> None:
    place.mkdir()
    (place / "inside").write_bytes(b"something")


def linked(path: str) -> Change:
    """Return what moves a part of a store away and links to it."""

    def change(root: Path) -> None:
        away = root.parent / "away"
        (root / path).rename(away)
        (root / path).symlink_to(away)

    return change


MOVED = {
    "checkpoint is a directory": ("checkpoint", folder),
    "index is a file": ("index", file),
    "consumequeue is a file": ("consumequeue", file),
    "a topic is a file": (TOPIC, file),
    "a queue is a file": (QUEUE, file),
    "a queue file is a directory": (cq(0), folder),
}


@pytest.mark.parametrize("name", MOVED)
def test_obstacles_are_moved_aside(name: str, tmp_path: Path) -> None:
    path, make = MOVED[name]
    found = planned(in_place_of(path, make), tmp_path)
    assert found.cures, found.plan.left
    (move,) = (action for action in found.plan.actions if action.kind == model.MOVE)
    assert (move.path, move.risk) == (path, model.METADATA)


def test_what_a_link_in_the_store_leads_to_is_not_moved_aside(tmp_path: Path) -> None:
    """It is a stray by its name, but holds the units of the queue."""

    def change(root: Path) -> None:
        place = root / cq(0)
        place.rename(place.with_name(f"m_{place.name}"))
        place.symlink_to(f"m_{place.name}")

    found = planned(change, tmp_path)
    assert {action.path for action in found.plan.actions} == {OTHER}
    assert not found.cures
    assert any(f"the link {cq(0)} leads to it" in text for text in found.plan.left)


BATCH = "batchconsumequeue/new"


@pytest.mark.parametrize(
    ("files", "moved"),
    [
        ({f"{BATCH}/0/x": 5}, BATCH),
        ({f"{BATCH}/0/x": 5, f"{BATCH}/1/x": 5}, BATCH),
        ({f"{BATCH}/0/x": 5, f"{BATCH}/0/{0:020d}": 4600}, f"{BATCH}/0"),
        ({f"{BATCH}/0/x/y": 5, f"{BATCH}/0/{0:020d}": 4600}, f"{BATCH}/0"),
    ],
)
def test_a_directory_goes_with_the_strays_in_it(files: dict[str, int], moved: str, tmp_path: Path) -> None:
    """What is found of them comes first, and no apply moves a directory after something in it; 5.x refuse with it."""

    def change(root: Path) -> None:
        for path, length in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(bytes(length))

    found = planned(change, tmp_path)
    assert found.cures, found.plan.left
    assert [action.path for action in found.plan.actions if action.kind == model.MOVE] == [moved]


@pytest.mark.parametrize("name", MOVED)
def test_what_needs_them_moved_is_left_where_that_is_not_wanted(name: str, tmp_path: Path) -> None:
    path, make = MOVED[name]
    found = planned(in_place_of(path, make), tmp_path, select=Selection(risks=(model.DERIVED,)))
    assert not any(action.kind == model.MOVE for action in found.plan.actions)
    assert not found.cures
    if path != "consumequeue":
        assert OTHER in {action.path for action in found.plan.actions}
    if path != "checkpoint":  # whose repair itself is of the risk that is not wanted
        assert any(text.startswith(f"{path}: a ") and "not wanted" in text for text in found.plan.left)


REFUSED: dict[str, tuple[Change, str, str]] = {
    "a stray pipe": (lambda root: os.mkfifo(root / "commitlog/x"), "commitlog/x", "pipe"),
    "a pipe in a stray directory": (
        lambda root: ((root / "commitlog/x").mkdir(), os.mkfifo(root / "commitlog/x/y")), "commitlog/x/y", "pipe",
    ),
    "a pipe for a queue file": (in_place_of(cq(0), os.mkfifo), cq(0), "pipe"),
    "a pipe for a checkpoint": (in_place_of("checkpoint", os.mkfifo), "checkpoint", "pipe"),
    "a stray link": (lambda root: (root / "commitlog/x").symlink_to("/etc/hostname"), "commitlog/x", "symbolic link"),
    "a link in a stray directory": (
        lambda root: ((root / "commitlog/x").mkdir(), (root / "commitlog/x/y").symlink_to(root / segment(0))),
        "commitlog/x/y", "symbolic link",
    ),
    "a damaged queue file is a link": (
        lambda root: (golden_data.apply_edits(root, [["zero", cq(0), 40, 20]]), linked(cq(0))(root)),
        cq(0), "symbolic link",
    ),
    "the directory of a damaged queue is a link": (
        lambda root: (golden_data.apply_edits(root, [["zero", cq(0), 40, 20]]), linked(TOPIC)(root)),
        TOPIC, "symbolic link",
    ),
    "a damaged queue file has two names": (
        lambda root: (
            golden_data.apply_edits(root, [["zero", cq(0), 40, 20]]), os.link(root / cq(0), root.parent / "other"),
        ),
        cq(0), "2 names",
    ),
    "a backslash": (lambda root: (root / "commitlog/a\\b").write_bytes(b"x"), "a\\\\b", "no name in a store"),
    "a new line": (lambda root: (root / "commitlog/a\nb").write_bytes(b"x"), "a\\nb", "no name in a store"),
    "a segment is a directory": (in_place_of(segment(0), folder), segment(0), "--allow-log allows that"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_apply_would_touch_is_left_and_the_rest_is_planned(name: str, tmp_path: Path) -> None:
    change, path, reason = REFUSED[name]
    found = planned(change, tmp_path)
    assert OTHER in {action.path for action in found.plan.actions}
    assert not found.cures
    assert any(path in text and reason in text for text in found.plan.left), found.plan.left


def test_a_directory_named_like_a_segment_is_moved_where_the_log_may_be_changed(tmp_path: Path) -> None:
    found = planned(in_place_of(segment(0), folder), tmp_path, allow_log=True)
    assert ("move", segment(0)) in {(action.kind, action.path) for action in found.plan.actions}


def test_a_pipe_for_a_segment_is_no_end_of_the_plan(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        in_place_of(segment(0), os.mkfifo)(root)
        (root / "commitlog" / "copy").write_bytes(b"x")

    found = planned(change, tmp_path)
    assert "commitlog/copy" in {action.path for action in found.plan.actions}
    assert not any(action.path == segment(0) for action in found.plan.actions)
    assert not found.cures


@pytest.mark.parametrize(
    ("change", "says"),
    [(linked("lock"), "lock: neither a regular file"), (in_place_of("lock", folder), "lock: a directory where")],
)
def test_what_keeps_an_apply_from_locking_the_store_is_said(change: Change, says: str, tmp_path: Path) -> None:
    root, plan = golden_data.damaged(BASE, [["zero", OTHER, 60, 20]], tmp_path / "store"), tmp_path / "plan.json"
    change(root)
    found = plan_store(root, plan, broker="5.3.3", given=given_for(BASE), jobs=1)
    assert any(text.startswith("remove it first: ") for text in found.plan.left)
    with pytest.raises(StoreError, match=says):
        apply_plan(plan, root)
    in_place_of("lock", Path.touch)(root) if (root / "lock").is_dir() else (root / "lock").unlink()
    assert apply_plan(plan, root).exit_code == EXIT_REPAIRED


@pytest.mark.parametrize("far", [False, True])
def test_a_link_to_nothing_is_not_taken_for_cured(far: bool, tmp_path: Path) -> None:
    def change(root: Path) -> None:
        (root / "commitlog/x").symlink_to("nowhere")
        if far:  # what lies in the directory is then asked for
            (root / segment(20)).write_bytes(bytes(32768))

    found = planned(change, tmp_path, allow_log=far)
    assert not found.cures
    assert (segment(20) in {action.path for action in found.plan.actions}) == far


def test_holes_are_not_read_and_stay_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue file of zeros without end: the zeros that are cut off take no space when they come back."""
    read = []
    real = os.pread

    def counted(handle: int, length: int, position: int) -> bytes:
        read.append(length)
        return real(handle, length, position)

    length = 64 << 20
    monkeypatch.setattr(os, "pread", counted)
    found = planned(lambda root: os.truncate(root / cq(0), length), tmp_path)
    assert found.cures, found.plan.left
    assert ("resize", cq(0)) in {(action.kind, action.path) for action in found.plan.actions}
    assert sum(read) < length
    status = (tmp_path / "store" / cq(0)).stat()
    assert status.st_size == length
    assert status.st_blocks * 512 < length // 2

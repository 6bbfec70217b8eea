"""A directory that cannot be listed is not taken for one that is empty: what would rest on that is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storeio import cli
from storeio.scan import Listing, require_listed

Deny = Callable[[str], None]


@pytest.fixture
def deny(store: Path, monkeypatch: pytest.MonkeyPatch) -> Deny:
    """Return what makes the listing of a directory of the store fail, as for another user; tests may be root's."""
    listed = os.scandir

    def without(path: str) -> None:
        def scandir(place: Any = ".") -> Any:
            if isinstance(place, str | os.PathLike) and os.path.realpath(place) == str(store / path):
                raise PermissionError(13, "Permission denied")
            return listed(place)

        monkeypatch.setattr(os, "scandir", scandir)

    return without


@pytest.mark.parametrize("words", ["simulate STORE --retention", "plan STORE"])
def test_without_the_log_nothing_is_deleted_by_age_or_planned(
    words: str, store: Path, deny: Deny, capsys: pytest.CaptureFixture[str]
) -> None:
    deny("commitlog")
    assert cli.run([str(store) if word == "STORE" else word for word in words.split()]) == 8
    said = capsys.readouterr()
    assert said.out == ""
    assert "commitlog: Permission denied" in said.err


def test_a_log_that_is_not_seen_is_an_empty_one_to_brokers(
    store: Path, deny: Deny, capsys: pytest.CaptureFixture[str]
) -> None:
    """So they delete all queues: 4.9.8, 5.3.3 and 5.5.1 did when they were started without the right to list it."""
    deny("commitlog")
    assert cli.run(["simulate", str(store), "--broker", "all", "--json", "-"]) == 12
    for line in capsys.readouterr().out.splitlines():
        said = json.loads(line)
        assert (said["outcome"], said["unread"]) == ("starts", ["commitlog: Permission denied"])
        assert said["deleted"] == sorted(
            place.relative_to(store).as_posix() for place in store.glob("consumequeue/*/*/*")
        )
        assert (said["loses"], said["consumers"]) == (None, None)
    assert cli.run(["simulate", str(store), "--quiet"]) == 12
    assert f"it deletes {len(said['deleted'])} files that hold data" in capsys.readouterr().out
    assert cli.run(["inspect", str(store)]) == 8
    assert "empty directory" not in capsys.readouterr().out


def test_of_a_log_that_is_seen_in_part_nothing_is_predicted(
    store: Path, deny: Deny, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "commitlog/aside").mkdir()
    deny("commitlog/aside")
    assert cli.run(["simulate", str(store)]) == 8
    assert "commitlog/aside: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["consumequeue", "consumequeue/topic_0", "consumequeue/topic_0/0", "index"])
def test_of_a_start_is_said_what_can_be(
    path: str, store: Path, deny: Deny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(path)
    assert cli.run(["simulate", str(store), "--broker", "5.3.3", "--json", "-"]) & 8
    said = json.loads(capsys.readouterr().out)
    assert (said["unread"], said["outcome"]) == ([f"{path}: Permission denied"], "starts")
    assert "topic_1/0" in said["after_start"]["queues"]
    assert cli.run(["simulate", str(store), "--into", str(tmp_path / "new"), "--quiet"]) & 8
    assert not (tmp_path / "new").exists()
    assert cli.run(["simulate", str(store), "--retention"]) == 8


@pytest.mark.parametrize(("place", "audit"), [("lost+found", 0), ("commitlog/lost+found", 4), ("mine", 12)])
def test_what_a_start_does_not_look_at_does_not_matter(place: str, audit: int, store: Path, deny: Deny) -> None:
    """A file system's own directory where it is mounted, which only root may list, has nothing of a store."""
    (store / place).mkdir()
    deny(place)
    assert cli.run(["simulate", str(store), "--broker", "5.3.3"]) == 0
    assert cli.run(["check", str(store)]) == audit


def test_a_root_that_cannot_be_listed_is_not_called_no_store(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And other stores are audited beside it."""
    root = tmp_path / "round"
    root.symlink_to(root)
    told = f"{root}: cannot be listed: Too many levels of symbolic links"
    assert cli.run(["check", str(root), str(store), "--json", "-"]) == 8
    failed, audited = map(json.loads, capsys.readouterr().out.splitlines())
    assert (failed["error"], failed["exit_code"]) == (told, 8)
    assert (audited["verdict"], audited["exit_code"]) == ("sound", 0)
    for words in ("diff STORE ROOT", "salvage STORE --donor ROOT --into NEW", "rebuild ROOT --into NEW", "plan ROOT"):
        paths = {"STORE": store, "ROOT": root, "NEW": tmp_path / "new"}
        assert cli.run([str(paths.get(word, word)) for word in words.split()]) == 8
        assert capsys.readouterr().err == f"storeio: {told}\n"


def test_queues_are_not_rebuilt_from_a_log_that_is_not_seen(
    store: Path, deny: Deny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deny("commitlog")
    assert cli.run(["rebuild", str(store), "--into", str(tmp_path / "new"), "--json", "-"]) == 8
    found = json.loads(capsys.readouterr().out)
    assert "commitlog: Permission denied" in found["error"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", ["consumequeue/topic_0", "consumequeue/topic_1/0", "index"])
def test_a_plan_mends_the_rest_and_nothing_there(path: str, store: Path, deny: Deny, tmp_path: Path) -> None:
    """A file is gone in each queue of topic_1; of one of them that is not known where its directory is not listed."""
    gone = [f"consumequeue/topic_1/{number}/{1000:020d}" for number in (0, 1)]
    for name in gone:
        (store / name).unlink()
    deny(path)
    assert cli.run(["plan", str(store), "--out", str(tmp_path / "plan.json")]) == 12
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert {action["path"] for action in plan["actions"]} == {name for name in gone if not name.startswith(path)}
    assert plan["after"]["verdict"] == "damaged"
    assert not any((store / name).exists() for name in gone)


def test_a_salvage_does_not_say_what_a_broker_would_have_given_up(
    store: Path, deny: Deny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deny("consumequeue/topic_0")
    assert cli.run(["salvage", str(store), "--into", str(tmp_path / "new"), "--json", "-"]) & 8
    found = json.loads(capsys.readouterr().out)
    assert found["log"]["records"] == 850
    assert found["log"]["saved"] is None


def test_what_went_meanwhile_and_names_of_objects_are_no_reason() -> None:
    gone = (("commitlog/x", "No such file or directory"),)
    require_listed(Listing("/s", (), gone), {"commitlog"})
    require_listed(Listing("s3://b/s", (), (("commitlog/", "its name is none that a file can have"),)), {"commitlog"})

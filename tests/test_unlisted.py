"""A directory that cannot be listed is not taken for one that is empty: what would rest on that is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest

from storeio import cli
from storeio.scan import Listing, require_listed

Deny = Callable[[str], None]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return golden.copy_of("base-5.3.3", tmp_path / "store")


@pytest.fixture
def deny(store: Path, monkeypatch: pytest.MonkeyPatch) -> Deny:
    """Return what makes the listing of a directory of the store fail, as for another user; tests may be root's."""
    listed = os.scandir

    def without(path: str) -> None:
        def scandir(place: Any = ".") -> Any:
            if isinstance(place, str | os.PathLike) and os.fspath(place).rstrip("/") == str(store / path):
                raise PermissionError(13, "Permission denied")
            return listed(place)

        monkeypatch.setattr(os, "scandir", scandir)

    return without


@pytest.mark.parametrize(
    "path", ["commitlog", "consumequeue", "consumequeue/topic_0", "consumequeue/topic_0/0", "index"]
)
@pytest.mark.parametrize("words", ["simulate STORE", "simulate STORE --broker all", "simulate STORE --retention"])
def test_a_start_is_not_predicted(
    words: str, path: str, store: Path, deny: Deny, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(path)
    assert cli.run([str(store) if word == "STORE" else word for word in words.split()]) == 8
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{path}: Permission denied" in said.err


def test_what_a_start_does_not_look_at_does_not_matter(store: Path, deny: Deny) -> None:
    (store / "lost+found").mkdir()
    deny("lost+found")
    assert cli.run(["simulate", str(store), "--broker", "5.3.3"]) == 0


def test_queues_are_not_rebuilt_from_a_log_that_is_not_seen(
    store: Path, deny: Deny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deny("commitlog")
    assert cli.run(["rebuild", str(store), "--into", str(tmp_path / "new"), "--json", "-"]) == 8
    found = json.loads(capsys.readouterr().out)
    assert "commitlog: Permission denied" in found["error"]
    assert not (tmp_path / "new").exists()


def test_a_plan_does_not_rest_on_it(store: Path, deny: Deny, tmp_path: Path) -> None:
    deny("consumequeue/topic_0")
    assert cli.run(["plan", str(store), "--out", str(tmp_path / "plan.json")]) == 8
    assert not (tmp_path / "plan.json").exists()


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

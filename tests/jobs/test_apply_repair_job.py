"""The repair job's table: a row for every action, none for what failed, and no run twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from applies import Maker, small_store, tree_of

from jobs import apply_repair, lazy_session, local_delta, tables
from jobs.declared import ACTIONS
from storeio.errors import UsageError


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no session: local tables do without."""
    monkeypatch.setattr(lazy_session, "build_session", lambda *args, **named: pytest.fail("a session was asked for"))


def test_a_row_for_every_action(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = small_store(tmp_path / "store")
    maker = Maker(root).create("made", 10).write("made", 2, b"abc", codes=("A", "B"), topic="T", queue_id=3)
    plan, place = str(maker.save(tmp_path / "plans")), str(tmp_path / "tables")
    words = [plan, "--tables", place, "--json", "-", "--run-id", "one"]
    (root / "made").touch()
    assert apply_repair.main(words) == 16
    assert not (tmp_path / "tables").exists()
    (root / "made").unlink()
    capsys.readouterr()
    assert apply_repair.main(words) == 1
    told = json.loads(capsys.readouterr().out)
    rows = tables.rows_with(lazy_session.session_later("none"), place, ACTIONS, {})
    rows.sort(key=lambda row: row["number"])
    assert [(row["kind"], row["path"], row["codes"], row["queue_id"], row["outcome"]) for row in rows] == [
        ("create", "made", "", None, "done"),
        ("write", "made", "A,B", 3, "done"),
    ]
    assert {row["name"] for row in rows} == {told["name"]}
    assert [row["new_sha256"] for row in rows] == [action.new_sha256 for action in maker.actions]
    assert tree_of(root) == maker.tree
    with pytest.raises(UsageError, match="run one is finished"):
        apply_repair.main(words)


@pytest.mark.parametrize("name", ["tables", "tables/actions"])
def test_tables_that_are_a_file_are_found_out_before_the_store_is_changed(name: str, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    before = tree_of(root)
    plan = str(Maker(root).create("made", 10).save(tmp_path / "plans"))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("no directory")
    with pytest.raises(tables.TablesError, match=f"{tmp_path / name}: is not a directory"):
        apply_repair.main([plan, "--tables", str(tmp_path / "tables"), "--quiet"])
    assert tree_of(root) == before


def test_where_spark_has_to_write_it_is_there_before_the_store_is_changed(tmp_path: Path) -> None:
    """A table with other columns is none for what does without it."""
    root = small_store(tmp_path / "store")
    before, place = tree_of(root), str(tmp_path / "tables")
    assert local_delta.appended(tables.rows_of(ACTIONS, []).drop_columns(["outcome"]), tables.path_of(place, ACTIONS))
    plan = str(Maker(root).create("made", 10).save(tmp_path / "plans"))
    with pytest.raises(pytest.fail.Exception, match="a session was asked for"):
        apply_repair.main([plan, "--tables", place, "--quiet"])
    assert tree_of(root) == before

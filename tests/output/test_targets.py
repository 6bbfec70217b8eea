"""Where output goes: what is refused before any work is done, and what is left alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import golden_data as golden
import pytest

from storeio import cli
from storeio.errors import UsageError
from storeio.output import targets
from storeio.output.targets import is_inside, refuse_inside, refuse_same

CALLS = (
    "check STORE --html NAME",
    "plan STORE --out NAME",
    "salvage STORE --into DIR --messages NAME",
)


def call(words: str, **names: object) -> int:
    return cli.run([str(names.get(word, word)) for word in words.split()])


@pytest.mark.parametrize("words", CALLS)
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe"])
def test_what_is_no_plain_file_is_not_replaced(words: str, kind: str, store: Path, tmp_path: Path) -> None:
    pipe = name = tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    if kind != "pipe":
        name = tmp_path / "link.jsonl"
        name.symlink_to(pipe)
    assert call(words, STORE=store, NAME=name, DIR=tmp_path / "new") == 16
    assert stat.S_ISFIFO(os.stat(name).st_mode)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a name, with a blank, at which the system says that something is mounted; nothing is there."""
    place = tmp_path / "a x.jsonl"
    name = str(place).replace(" ", "\\040")  # as proc(5) has it
    (tmp_path / "mounts").write_text(f"36 35 98:0 / / rw - ext4 /dev/a rw\n37 36 98:0 /x {name} rw - ext4 /dev/a rw\n")
    monkeypatch.setattr(targets, "MOUNTS", str(tmp_path / "mounts"))
    return place


INTO = ("rebuild STORE --into NAME", "salvage STORE --into NAME", "simulate STORE --into NAME")


@pytest.mark.parametrize("words", [*CALLS, *INTO])
def test_no_work_is_done_for_a_name_that_cannot_be_had(
    words: str, mounted: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if words in INTO:
        mounted.mkdir()
    else:
        mounted.write_text("old")
    assert call(words, STORE=store, NAME=mounted, DIR=tmp_path / "new") == 16
    assert "mount" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"store", "mounts", mounted.name}
    assert call(words, STORE=store, NAME=tmp_path / "x.jsonl", DIR=tmp_path / "new") == 0


def test_json_goes_into_a_file_that_is_mounted(mounted: Path, store: Path) -> None:
    mounted.write_text("old, and longer than what comes" * 10_000)
    before = mounted.stat().st_ino
    assert call("check STORE --quiet --json NAME", STORE=store, NAME=mounted) == 0
    assert mounted.stat().st_ino == before
    assert json.loads(mounted.read_text())["verdict"] == "sound"


@pytest.mark.parametrize(
    "words",
    [
        "check STORE --html NAME --json NAME",
        "check STORE --html LINK --json NAME",
        "plan STORE --out NAME --json NAME",
        "plan STORE --out NAME --json NAME.bytes",
        "salvage STORE --into DIR --messages NAME --json NAME",
    ],
)
def test_one_name_for_two_outputs_is_wrong_use(
    words: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = tmp_path / "x.jsonl"
    (tmp_path / "link").symlink_to(name)
    names = {"NAME": name, "NAME.bytes": f"{name}.bytes", "LINK": tmp_path / "link"}
    assert call(words, STORE=store, DIR=tmp_path / "new", **names) == 16
    assert "name the same file" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "store"]


@pytest.mark.parametrize(
    "words",
    [
        "check STORE --conf NAME --json NAME",
        "check STORE --conf NAME --html NAME",
        "check STORE --conf NAME --json LINK",
        "diff STORE STORE --conf NAME --json NAME",
        "inspect STORE --conf NAME --json NAME",
        "plan STORE --conf NAME --json NAME",
        "plan STORE --conf NAME --out NAME",
        "rebuild STORE --into DIR --conf NAME --json NAME",
        "salvage STORE --into DIR --conf NAME --json NAME",
        "salvage STORE --into DIR --conf NAME --messages NAME",
        "simulate STORE --conf NAME --json NAME",
        "apply NAME STORE --json NAME",
        "apply NAME STORE --json LINK",
        "apply PLAN STORE --json NAME",
    ],
)
def test_what_is_read_is_not_replaced(words: str, store: Path, tmp_path: Path) -> None:
    name = tmp_path / "plan.jsonl"
    name.write_text("messageIndexEnable=true\n")
    (tmp_path / "link").symlink_to(name)
    bytes_of = tmp_path / "plan"
    if "PLAN" in words:
        bytes_of.write_text("{}")
        name = name.rename(tmp_path / "plan.bytes")
    names = {"NAME": name, "LINK": tmp_path / "link", "PLAN": bytes_of}
    assert call(words, STORE=store, DIR=tmp_path / "new", **names) == 16
    assert name.read_text() == "messageIndexEnable=true\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        "salvage STORE --donor OTHER --into OTHER/new",
        "salvage STORE --donor OTHER --into DIR --json OTHER/x.json",
        "salvage STORE --donor OTHER --into DIR --messages OTHER/x.jsonl",
        "plan STORE --goal salvage --allow-log --donor OTHER --out OTHER/x.json",
        "plan STORE --goal salvage --allow-log --donor OTHER --json OTHER/x.json",
        "simulate STORE --into DIR --json DIR",
        "simulate STORE --into DIR --json DIR/x.json",
        "apply PLAN STORE --json STORE.storeio/x.json",
        "undo STORE --json STORE.storeio/x.json",
        "undo LINK --json STORE.storeio/x.json",
        "check STORE --history TABLES --html TABLES/runs/x.html",
        "check STORE --history TABLES --html DIR.html --json TABLES/runs/_delta_log/x.json",
    ],
)
def test_nothing_is_put_between_what_is_read_or_kept(
    words: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, plan, home = tmp_path / "other", tmp_path / "plan.json", tmp_path / "store.storeio"
    golden.copy_of("base-5.3.3", other)
    assert call("plan STORE --out PLAN --quiet", STORE=store, PLAN=plan) == 0
    home.mkdir()
    (tmp_path / "link").symlink_to(store)
    (tmp_path / "tables" / "runs" / "_delta_log").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    names = {"STORE": store, "OTHER": other, "PLAN": plan, "DIR": tmp_path / "new", "TABLES": tmp_path / "tables"}
    for name, place in {**names, "LINK": tmp_path / "link"}.items():
        words = words.replace(name, str(place))
    assert cli.run(words.split()) == 16
    assert "inside" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_report_may_lie_beside_tables(tmp_path: Path) -> None:
    (tmp_path / "runs" / "_delta_log").mkdir(parents=True)
    for free in (tmp_path / "report.json", tmp_path / "reports" / "report.json"):
        refuse_inside("--json", free)
    with pytest.raises(UsageError, match="--json"):
        refuse_inside("--json", tmp_path / "runs" / "report.json")


def test_outputs_that_go_nowhere_or_to_standard_output_are_no_files() -> None:
    refuse_same({"--json": "-", "--html": None, "--out": "-"})
    with pytest.raises(UsageError, match="--a and --b"):
        refuse_same({"--a": "x", "--b": "./x"})


@pytest.mark.parametrize(
    "words", ["check LOOP", "rebuild LOOP --into DIR", "salvage LOOP --into DIR", "plan STORE --out LOOP/x"]
)
def test_a_link_to_itself_is_an_error_in_one_line(
    words: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    code = call(words, STORE=store, LOOP=loop, DIR=tmp_path / "new", **{"LOOP/x": loop / "x"})
    said = capsys.readouterr().err
    assert code in (8, 16)
    assert "unexpected" not in said
    assert len(said.splitlines()) == 1
    assert is_inside(loop / "x", tmp_path)


@pytest.mark.parametrize("name", ["a\tb.json", "a\\b.json", "a\nb"])
def test_a_plan_has_a_name_that_plans_may_have(name: str, store: Path, tmp_path: Path) -> None:
    assert cli.run(["plan", str(store), "--out", str(tmp_path / name)]) == 16


@pytest.mark.parametrize("root", ["file:///data/a?b", "file:///data/a#b", "file:///data/a?"])
def test_a_file_uri_is_a_path_alone(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", root]) == 16
    assert "%3F" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["", "commitlog", "consumequeue/topic_0"])
@pytest.mark.parametrize(
    "words",
    [
        "check STORE --json NAME",
        "check STORE --html NAME",
        "inspect STORE --json NAME",
        "plan STORE --out NAME",
        "rebuild STORE --into NAME",
        "simulate STORE --into NAME",
        "salvage STORE --into DIR --messages NAME",
    ],
)
def test_nothing_is_written_into_another_store(words: str, folder: str, store: Path, tmp_path: Path) -> None:
    """Brokers refuse to start where a file that they do not know lies among segments."""
    other = golden.copy_of("base-5.5.1", tmp_path / "other")
    before = sorted(other.rglob("*"))
    assert call(words, STORE=store, NAME=other / folder / "x.jsonl", DIR=tmp_path / "new") == 16
    assert sorted(other.rglob("*")) == before
    assert not (tmp_path / "new").exists()


def test_beside_a_store_and_below_what_only_seems_one_everything_can_be_written(store: Path, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert targets.store_around(tmp_path / "x.json") is None
    assert targets.store_around(f"{store}.json") is None
    assert targets.store_around(store / "x") == store.resolve()


@pytest.mark.parametrize(
    "words", ["rebuild STORE --into NAME", "check STORE --json NAME", "salvage STORE --into DIR --messages NAME"]
)
def test_nothing_is_written_into_a_table(words: str, store: Path, tmp_path: Path) -> None:
    """It would go with what no run needs any more."""
    (tmp_path / "tables" / "runs" / "_delta_log").mkdir(parents=True)
    name = tmp_path / "tables" / "runs" / "x.jsonl"
    assert call(words, STORE=store, NAME=name, DIR=tmp_path / "new") == 16
    assert not name.exists()
    assert not (tmp_path / "new").exists()

"""``storeio apply`` and ``storeio undo``: exit codes, text, JSON, and that errors are one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_data
import pytest
from applies import Counter, Maker, die, every_kind, hooked, killed, small_store, tree_of

from jobs import apply_repair
from storeio import cli
from storeio.errors import UsageError
from storeio.plan.model import from_json, to_json

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "place" / "store")


@pytest.fixture
def maker(root: Path, tmp_path: Path) -> Maker:
    made = every_kind(root)
    made.save(tmp_path / "plans")
    return made


@pytest.fixture
def plan(maker: Maker, tmp_path: Path) -> str:
    return str(tmp_path / "plans" / "plan.json")


def test_apply_says_what_was_done_and_what_comes_next(plan: str, root: Path, maker: Maker, capsys: Captured) -> None:
    assert cli.run(["apply", plan, "--allow-log"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"APPLIED: {root}: 17 actions done\n")
    rows = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3] for line in out.splitlines() if line.endswith("bytes")}
    assert rows["ranges written"] == "6"
    assert rows["moved out of the store"] == "3"
    directory = next((root.parent / "store.storeio").iterdir())
    assert str(directory) in out.replace("\n           ", "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines.index("NEXT") < lines.index(f"storeio check {root}") < lines.index(f"storeio undo {root}")
    assert cli.run(["undo", str(root)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"UNDONE: {root}: {directory.name} is taken back")
    assert tree_of(root) == maker.before


def test_what_the_plan_left_is_said(plan: str, root: Path, capsys: Captured) -> None:
    made = from_json(Path(plan).read_text())
    Path(plan).write_text(to_json(replace(made, left=("one thing",))))
    assert cli.run(["apply", plan, "--allow-log"]) == 1
    out = capsys.readouterr().out
    assert "Not planned, and as it was: one thing\n" in out
    assert "# what is left\n" in out
    assert "proves that it is sound" not in out


def test_json_has_every_action(plan: str, root: Path, maker: Maker, capsys: Captured) -> None:
    assert cli.run(["apply", plan, str(root), "--allow-log", "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["exit_code"], told["done"]) == ("applied", 1, 17)
    assert [row["outcome"] for row in told["actions"]] == ["done"] * 17
    assert [row["path"] for row in told["actions"]] == [action.path for action in maker.actions]
    assert Path(told["backup"]).name == told["name"]
    assert cli.run(["undo", str(root), "--name", told["name"], "--json", "-"]) == 1
    back = json.loads(capsys.readouterr().out)
    assert (back["outcome"], back["left"], back["backup"]) == ("undone", 0, told["backup"] + ".undone")


def test_quiet_is_one_line(plan: str, root: Path, capsys: Captured) -> None:
    assert cli.run(["apply", plan, "--allow-log", "--quiet"]) == 1
    assert cli.run(["undo", str(root), "--quiet"]) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["APPLIED", "UNDONE"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["apply"], 16, "Missing argument"),
        (["apply", "PLAN"], 16, "--allow-log"),
        (["apply", "/nowhere/plan.json"], 16, "no such plan"),
        (["apply", "PLAN", "/nowhere", "--allow-log"], 16, "not a store"),
        (["apply", "--resume", "ROOT"], 16, "nothing was applied"),
        (["apply", "PLAN", "--json", "ROOT/x.json"], 16, "lies inside the store"),
        (["undo", "ROOT"], 16, "nothing was applied"),
        (["undo", "/nowhere"], 16, "not a store"),
        (["undo"], 16, "Missing argument"),
        (["apply", "--help"], 0, ""),
        (["undo", "--help"], 0, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_exit_codes(
    plan: str, root: Path, maker: Maker, words: list[str], code: int, says: str, capsys: Captured
) -> None:
    words = [word.replace("PLAN", plan).replace("ROOT", str(root)) for word in words]
    assert cli.run(words) == code
    assert says in capsys.readouterr().err
    assert tree_of(root) == maker.before
    assert not (root.parent / "store.storeio").exists()


def test_a_plan_that_does_not_fit_is_16_and_one_line(plan: str, root: Path, capsys: Captured) -> None:
    (root / "stray").write_bytes(b"of another kind now.")
    assert cli.run(["apply", plan, "--allow-log", "--json", "-"]) == 16
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "stray: its bytes are not what the plan replaces" in err
    assert json.loads(out)["exit_code"] == 16


@pytest.mark.parametrize("text", ["{}", "no plan", None, '{"store": "\\u0000"}'])
def test_what_is_no_plan_is_16_and_json_with_and_without_a_store(
    plan: str, root: Path, text: str | None, capsys: Captured
) -> None:
    if text is None:
        Path(plan).unlink()
    elif "store" in text:
        Path(plan).write_text(json.dumps(json.loads(Path(plan).read_text()) | json.loads(text)))
    else:
        Path(plan).write_text(text)
    for words in ([plan], [plan, str(root)]):
        assert cli.run(["apply", *words, "--allow-log", "--json", "-"]) == 16
        out, err = capsys.readouterr()
        assert err.count("\n") == 1
        told = json.loads(out)
        assert told["exit_code"] == 16
        assert told["error"] in err


def test_an_error_in_the_middle_is_8_and_tells_how_to_go_on(
    plan: str, root: Path, maker: Maker, capsys: Captured
) -> None:
    def fail(name: str, path: str, half: object) -> None:
        raise OSError(28, "No space left on device")

    with hooked(Counter(70, fail)):
        assert cli.run(["apply", plan, "--allow-log"]) == 8
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "No space left on device" in err
    assert f"`storeio apply --resume {root}` finishes it, `storeio undo {root}` takes it back" in err
    assert cli.run(["apply", plan, "--allow-log"]) == 8
    assert "did not end" in capsys.readouterr().err
    assert cli.run(["apply", "--resume", str(root)]) == 1
    assert tree_of(root) == maker.tree
    assert "APPLIED" in capsys.readouterr().out
    assert cli.run(["apply", "--resume", plan]) == 0
    assert "NOTHING TO DO" in capsys.readouterr().out


def test_cancelled_is_32(plan: str, root: Path, maker: Maker, capsys: Captured) -> None:
    def interrupt(name: str, path: str, half: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with hooked(Counter(5, interrupt)):
        assert cli.run(["apply", plan, "--allow-log"]) == 32
    assert "cancelled; nothing was changed" in capsys.readouterr().err
    assert tree_of(root) == maker.before
    with hooked(Counter(70, interrupt)):
        assert cli.run(["apply", plan, "--allow-log"]) == 32
    out = capsys.readouterr().out
    assert out.startswith("STOPPED")
    assert f"storeio apply --resume {root}" in out
    assert cli.run(["undo", str(root)]) == 1
    assert tree_of(root) == maker.before


@pytest.mark.parametrize("at", [0, 1, 2, 3, 6, 12])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_before_the_first_action_nothing_is_left(
    number: signal.Signals, at: int, plan: str, root: Path, capsys: Captured
) -> None:
    (root / "lock").unlink(missing_ok=True)  # so that one is made
    store = tree_of(root)

    def stop(name: str, path: str, half: object) -> None:
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with hooked(Counter(at, stop)):
        assert cli.run(["apply", plan, "--allow-log", "--json", "-"]) == 32
    told = json.loads(capsys.readouterr().out)
    assert told["error"] == "cancelled; nothing was changed"
    assert tree_of(root) == store
    assert not (root.parent / "store.storeio").exists()
    assert signal.getsignal(number) == before


def test_an_undo_that_is_stopped_before_it_began_changes_nothing(
    plan: str, root: Path, maker: Maker, capsys: Captured
) -> None:
    def stop(name: str, path: str, half: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    (root / "lock").unlink(missing_ok=True)
    assert cli.run(["apply", plan, "--allow-log", "--quiet"]) == 1
    for at in range(3):  # the lock file and its mark are made
        with hooked(Counter(at, stop)):
            assert cli.run(["undo", str(root)]) == 32
        assert "nothing was changed" in capsys.readouterr().err
        assert tree_of(root) == {path: data for path, data in maker.tree.items() if path != "lock"}
    assert cli.run(["undo", str(root), "--quiet"]) == 1
    assert tree_of(root) == {path: data for path, data in maker.before.items() if path != "lock"}


def test_signals_from_outside_end_it_between_two_actions(root: Path, tmp_path: Path) -> None:
    """The whole program, as it is installed, with a SIGTERM at a moment that nobody chose."""
    (root / "big").write_bytes(bytes(4 << 20))
    made = Maker(root)
    for number in range(200):
        made.write("big", number * 20000, bytes([number % 251 + 1]) * 19000)
    plan = made.save(tmp_path / "many")
    words = [sys.executable, "-m", "storeio", "apply", str(plan), "--json", "-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        home = root.parent / "store.storeio"
        limit = time.monotonic() + 60
        while (
            b'"done"' not in b"".join(p.read_bytes() for p in home.glob("*Z-????????/journal"))
            and time.monotonic() < limit
        ):
            time.sleep(0.001)
        child.terminate()
        assert child.stdout is not None
        told = json.loads(child.stdout.read())
    assert child.returncode == told["exit_code"]
    assert told["exit_code"] in (1, 32)
    if told["exit_code"] == 32:
        assert told["done"] < 200
        assert [row["outcome"] for row in told["actions"]].count("done") == told["done"]
        assert cli.run(["apply", "--resume", str(root), "--quiet"]) == 1
    assert tree_of(root) == made.tree
    assert cli.run(["undo", str(root), "--quiet"]) == 1
    assert tree_of(root) == made.before


def test_hostile_names_cannot_act_on_a_terminal(plan: str, root: Path, capsys: Captured) -> None:
    found: Any = json.loads(Path(plan).read_text())
    found["actions"][0]["path"] = "x\x1b[31m\u202e"
    Path(plan).write_text(json.dumps(found))
    assert cli.run(["apply", plan, "--allow-log"]) == 16
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\u202e" not in err


def test_a_damaged_queue_of_a_real_store_is_repaired(tmp_path: Path, capsys: Captured) -> None:
    """Damage, check, apply what a person would plan, check: from 4 to 0 by way of 1."""
    good = golden_data.store("base-5.3.3")
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    path = next(p for p, data in sorted(tree_of(root).items()) if data and p.startswith("consumequeue/"))
    whole = (good / path).read_bytes()
    (root / path).write_bytes(whole[:40] + b"\xff" * 20 + whole[60:])
    options = ["--quiet", "--set", "maxHashSlotNum=200", "--set", "maxIndexNum=800"]
    assert cli.run(["check", str(root), *options]) == 4
    made = Maker(root).write(path, 40, whole[40:60])
    assert cli.run(["apply", str(made.save(tmp_path / "plans"))]) == 1
    assert cli.run(["check", str(root), *options]) == 0
    assert tree_of(root) == tree_of(good)


def test_the_job_is_the_same_command(plan: str, root: Path, maker: Maker, capsys: Captured) -> None:
    assert apply_repair.main([plan, "--quiet"]) == 16
    assert "--allow-log" in capsys.readouterr().err
    child = killed(lambda: apply_repair.main([plan, "--allow-log"]), Counter(80, die))
    assert child
    assert apply_repair.main([str(root), "--resume", "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["resumed"]
    assert tree_of(root) == maker.tree
    rows = apply_repair.action_rows("run", 1, told)
    assert [row[-1] for row in rows] == ["done"] * 17
    with pytest.raises(UsageError, match="lies inside the store"):
        apply_repair.main([plan, "--tables", str(root / "tables")])
    assert tree_of(root) == maker.tree

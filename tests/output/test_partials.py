"""Outputs in the making: each has a name of its own, and what a killed run left is named by the next."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import golden_data as golden
import pytest

from storeio import cli
from storeio.output.partials import left_beside, partial_name
from storeio.output.whole_file import is_replaceable, whole_file

pytestmark = pytest.mark.share(2)

WORDS = {
    "after": ["simulate", "--into"],
    "plan.json": ["plan", "--out"],
    "page.html": ["check", "--html"],
    "told.json": ["check", "--json"],
    "new": ["rebuild", "--into"],
    "saved": ["salvage", "--into"],
    "messages.jsonl": ["salvage", "--into", "saved", "--messages"],
}


@pytest.mark.parametrize("name", WORDS)
def test_what_a_killed_run_left_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    left, own = tmp_path / f"{name}.0a1b2c3d.partial", tmp_path / f"{name}.partial"
    for place in (left, own):  # the second is of somebody else
        place.write_text("mine")
    verb, *options = WORDS[name]
    assert cli.run([verb, str(golden.store("base-5.3.3")), *options, name]) == 0
    said = capsys.readouterr()
    assert f"{left.name} is beside the output" in " ".join((said.out + said.err).split())
    assert own.name not in (said.out + said.err).replace(left.name, "")
    assert [place.read_text() for place in (left, own)] == ["mine", "mine"]
    assert {place.name.partition(".0a1b")[0] for place in tmp_path.iterdir()} <= {*WORDS, "plan.json.bytes", own.name}


@pytest.mark.parametrize("name", WORDS)
def test_names_may_be_as_long_as_the_disk_has_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *options = WORDS[name]
    most = 255 - len(".bytes") if verb == "plan" else 255
    at = most - len(name.encode())
    long = "\u00e9" * (at // 2) + "x" * (at % 2) + name  # two bytes each
    left = Path(partial_name(long))
    Path(partial_name(f"y{long[1:]}")).touch()  # of somebody else
    left.touch()
    assert cli.run([verb, str(golden.store("base-5.3.3")), *options, long]) == 0
    assert Path(long).exists()
    said = capsys.readouterr()
    text = "".join((said.out + said.err).split())
    assert text.count("isbesidetheoutput") == 1
    assert left.name.rpartition("x")[2] in text


def test_a_plan_has_room_for_the_name_of_its_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["plan", str(golden.store("base-5.3.3")), "--out", str(tmp_path / ("x" * 250))]) == 16
    assert "too long a name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    with whole_file(place) as one, whole_file(place) as other:
        assert {note.split()[0] for note in left_beside(place)} <= {one.name, other.name}
        one.write_text("one")
        other.write_text("other")
    assert place.read_text() == "one"
    assert [each.name for each in tmp_path.iterdir()] == [place.name]


KILLED = """
import os, signal, sys
from storeio import cli, planning
from storeio.planning import node

node.audit.check = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
cli.run(["plan", sys.argv[1], "--out", sys.argv[2]])
"""


def test_a_killed_plan_leaves_what_the_next_one_names(tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    words = [sys.executable, "-c", KILLED, str(golden.store("base-5.3.3")), str(place)]
    assert subprocess.run(words, env=os.environ, timeout=60).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert [note.split()[0] for note in left_beside(place)] == [left.name]


ENDS = """
import os, sys
import storeio.commands.check as check
from storeio import cli

sound, ends = check.run_audit, {ends}
check.run_audit = lambda root, **given: ends(root) if root == "last" else sound(root, **given)
cli.run(["check", sys.argv[1], "last", "--json", sys.argv[2]])
"""


def test_a_killed_run_leaves_the_json_file_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "told.json"
    place.write_text("old")
    killed = ENDS.format(ends="lambda root: os.kill(os.getpid(), 9)")
    words = [sys.executable, "-c", killed, str(golden.store("base-5.3.3")), str(place)]
    assert subprocess.run(words, env=os.environ, timeout=60, capture_output=True).returncode == -signal.SIGKILL
    assert place.read_text() == "old"
    assert [note.split()[0] for note in left_beside(place)] == [p.name for p in tmp_path.iterdir() if p != place]


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("words", [["check", "--json"], ["check", "--html"], ["plan", "--out"]])
def test_a_full_disk_leaves_the_file_as_it_was(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "told"
    place.write_text("old")
    monkeypatch.setattr("storeio.output.whole_file.flush", full)
    monkeypatch.setattr("storeio.planning.output.flush", full)
    assert cli.run([words[0], str(golden.store("base-5.3.3")), words[1], str(place)]) == 8
    assert capsys.readouterr().err.endswith("No space left on device\n")
    assert (place.read_text(), os.listdir(tmp_path)) == ("old", [place.name])


def test_links_are_followed_and_no_more_may_read_the_new_file(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.touch(0o600)
    link.symlink_to(real)
    assert cli.run(["inspect", str(golden.store("base-5.3.3")), "--json", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads(real.read_text().splitlines()[0])["path"]
    assert real.stat().st_mode & 0o777 == 0o600


def test_what_has_a_reader_of_its_own_is_written_in_place(tmp_path: Path) -> None:
    fifo, out, link = (tmp_path / name for name in ("fifo", "out", "link"))
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader, out.open("w+") as open_file:
        link.symlink_to(f"/dev/fd/{open_file.fileno()}")  # as /dev/stdout is one, of a plain file
        for target in (fifo, link):
            assert cli.run(["inspect", str(golden.store("base-5.3.3")), "--json", str(target)]) == 0
        told = [reader.communicate()[0].decode(), open_file.read()]
    assert [json.loads(line)["path"] for line in told[0].splitlines()]
    assert told[0] == told[1]
    assert {place.name for place in tmp_path.iterdir()} == {"fifo", "link", "out"}


def test_who_has_read_enough_of_the_text_has_the_json_file_all_the_same(tmp_path: Path) -> None:
    place = tmp_path / "told.jsonl"
    words = [sys.executable, "-m", "storeio", "inspect", str(golden.store("base-5.3.3")), "--records", "--json"]
    with subprocess.Popen([*words, str(place)], stdout=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        ran.stdout.close()
        assert ran.wait(60) == 0
    lines = place.read_text().splitlines()
    assert len(lines) == len(golden.dump("base-5.3.3"))


def test_a_file_beside_which_nothing_may_be_made_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    place.touch()
    assert is_replaceable(place)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert not is_replaceable(place)
    assert is_replaceable(tmp_path / "new")  # to be told when it is made

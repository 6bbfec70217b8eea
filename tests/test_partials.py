"""Outputs in the making: each has a name of its own, and what a killed run left is named by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import golden_data as golden
import pytest

from storeio import cli
from storeio.partials import left_beside
from storeio.staging import whole_file

WORDS = {
    "after": ["simulate", "--into"],
    "plan.json": ["plan", "--out"],
    "page.html": ["check", "--html"],
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

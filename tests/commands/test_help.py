"""Help as people read it: what they come for first; every call that it shows can be made; shells complete it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from storeio import cli
from storeio.commands.examples import EXAMPLES, TASKS

VERBS = sorted({*cli.COMMANDS, "completion"})


def parsed(verb: str, words: list[str]) -> dict[str, Any]:
    """Return the parameters of a call that is not made."""
    command = cli.cli.get_command(click.Context(cli.cli), verb)
    assert command is not None
    return command.make_context(verb, list(words)).params


def test_every_verb_stands_below_what_people_come_for() -> None:
    assert sorted(verb for _, verbs in TASKS for verb, _ in verbs) == VERBS == sorted(EXAMPLES)
    assert cli.cli.list_commands(click.Context(cli.cli)) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_examples_can_be_called(verb: str) -> None:
    for line, purpose in EXAMPLES[verb]:
        assert purpose
        words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"'))
        assert words[:2] == ["storeio", verb]
        parsed(verb, words[2 : words.index(">") if ">" in words else None])
    with pytest.raises(click.UsageError):
        parsed(verb, ["--no-such-option"])


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_shows_the_task_and_fits(
    verb: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.run([*filter(None, [verb]), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > width and not line.startswith("  storeio ")] == []
    if verb:
        assert lines.index("Examples:") < lines.index(next(line for line in lines if line.startswith("Usage:")))


@pytest.mark.parametrize("verb", sorted(cli.COMMANDS))
def test_every_verb_takes_what_scripts_give_to_all(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker.conf").touch()
    common = [
        "--json",
        "-",
        "--jobs",
        "2",
        "--quiet",
        "--conf",
        str(tmp_path / "broker.conf"),
        "--set",
        "deleteWhen=04",
    ]
    words = shlex.split(EXAMPLES[verb][0][0])[2:]
    assert parsed(verb, [*words, *common])["quiet"]
    assert cli.run([verb, *words, "--set", "noSetting=1"]) == cli.EXIT_USAGE
    assert "noSetting" in capsys.readouterr().err


def test_a_misspelt_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["chekc", "x"]) == 16
    assert "no verb 'chekc': did you mean check?" in capsys.readouterr().err
    assert cli.run(["\x1b[31mx"]) == 16
    assert "there are apply, check, completion" in capsys.readouterr().err


@pytest.mark.parametrize("shell", cli.SHELLS)
def test_completion_is_a_script_of_the_shell(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert cli.COMPLETE in script
    if shutil.which(shell) is None:
        assert shell in script.lower() or "compdef" in script
        return
    place = tmp_path / "script"
    place.write_text(script)
    assert subprocess.run([shell, "-n", str(place)], capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("storeio che", {"check"}),
        ("storeio salvage --dono", {"--donor"}),
        ("storeio plan --risk d", {"derived"}),
        ("storeio completion z", {"zsh"}),
    ],
)
def test_what_is_completed(typed: str, expected: set[str]) -> None:
    words = typed.split()
    given = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1), cli.COMPLETE: "bash_complete"}
    ran = subprocess.run(
        [sys.executable, "-m", "storeio"], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert {line.partition(",")[2] for line in ran.stdout.splitlines()} == expected


def test_stores_are_completed_as_files() -> None:
    given = {"COMP_WORDS": "storeio check /da", "COMP_CWORD": "2", cli.COMPLETE: "bash_complete"}
    ran = subprocess.run(
        [sys.executable, "-m", "storeio"], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.splitlines() == ["file,/da"]

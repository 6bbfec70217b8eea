"""What is taken for granted of files that are made anew is said by every verb that makes some, and in its JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import golden_data as golden
import pytest
from golden_data import given_for

from storeio import cli

NAME = "base-5.5.1"
SETTINGS = ("mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")


def said(words: list[str], given: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return the text of a call, and its JSON's notes, with these settings."""
    sets = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    cli.run([*words, *sets])
    text = " ".join(capsys.readouterr().out.split())
    shutil.rmtree(words[words.index("--into") + 1], ignore_errors=True) if "--into" in words else None
    cli.run([*words, *sets, "--json", "-"])
    found = json.loads(capsys.readouterr().out)
    sources = {name: found["settings"][name]["source"] for name in SETTINGS} if "settings" in found else {}
    assert all((source == "default") == (not given) for source in sources.values())
    return text, " ".join(found["notes"])


@pytest.mark.parametrize("verb", ["salvage", "plan", "simulate", "rebuild"])
def test_defaults_that_nothing_confirms_are_said(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden.without(NAME, tmp_path / "store", "consumequeue", "index")
    words = [verb, str(root), *(["--into", str(tmp_path / "new")] if verb in ("salvage", "rebuild") else [])]
    words += ["--broker", "5.5.1"] if verb != "salvage" else []
    text, notes = said(words, {}, capsys)
    assert all(name in text for name in SETTINGS)
    assert verb == "rebuild" or all(f"--set {name}=N" in notes for name in SETTINGS)
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    text, notes = said(words, given_for(NAME), capsys)
    assert "brokers' default" not in text + notes

"""Directories of runs of tests: one that is in use stays, what a killed run left is removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import temporary

CODE = """
import sys, time
from pathlib import Path
import temporary
(temporary.begun(Path(sys.argv[1])) / "file").write_text("x")
print("made", flush=True)
time.sleep(600)
"""


def test_only_remains_of_killed_runs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory stays as long as the process that made it, and while it is so young that nobody may hold it yet."""
    command = [sys.executable, "-c", CODE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (place,) = tmp_path.iterdir()
        monkeypatch.setattr(temporary, "YOUNG_S", -1)
        temporary.remove_remains(tmp_path)
        assert place.exists()
        process.kill()
    monkeypatch.setattr(temporary, "YOUNG_S", 600)
    temporary.remove_remains(tmp_path)
    assert (place / "file").exists()
    monkeypatch.setattr(temporary, "YOUNG_S", -1)
    temporary.remove_remains(tmp_path)
    assert not place.exists()

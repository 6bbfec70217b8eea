"""Values of options and settings without end: wrong use, never a traceback or a wait."""

from __future__ import annotations

import os
from pathlib import Path

import golden_data
import pytest

from storeio import cli

NINES = "9" * 5000  # Python reads no more than 4300 digits at once


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "--broker", f"5.{NINES}.0"], ["plan", "--broker", f"5.{NINES}.0"],
        ["plan", "--queue", f"topic_0/{NINES}"], ["plan", "--queue", f"topic_0/-{NINES}"],
        ["inspect", "--at", "0x" + "f" * 5000], ["inspect", "--hex", "0x" + "f" * 5000],
        ["check", "--set", f"mappedFileSizeCommitLog={NINES}"], ["check", "--set", f"messageDelayLevel={NINES}s"],
        ["check", "--html", "page.html", "--history", os.fsdecode(b"\xff")],
    ],
)  # fmt: skip
def test_numbers_without_end_are_wrong_use(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run([words[0], str(golden_data.store("base-5.3.3")), *words[1:]]) == 16
    said = capsys.readouterr().err
    assert "limit" not in said
    assert "unexpected" not in said


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        (f"mappedFileSizeCommitLog={NINES}", 0), (f"mappedFileSizeCommitLog={'0' * 5000}32768", 0),
        (f"fileReservedTime=-{NINES}", 0), (f"{NINES}={NINES}", 0), (f"messageDelayLevel={NINES}s", 16),
        (f"# {NINES}\n" * 400, 16),
    ],
)  # fmt: skip
def test_broker_conf_with_lines_without_end(
    conf: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker.conf").write_text(conf)
    words = ["check", str(golden_data.store("base-5.3.3")), "--conf", str(tmp_path / "broker.conf")]
    assert cli.run(words) == code
    said = capsys.readouterr()
    assert len(said.out) + len(said.err) < 10_000
    assert "limit (" not in said.err


def test_a_conf_without_end_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", str(golden_data.store("base-5.3.3")), "--conf", "/dev/zero"]) == 16
    assert "is no broker.conf" in capsys.readouterr().err

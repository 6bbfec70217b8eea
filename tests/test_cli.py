"""The command line: exit codes, what goes where, and that nothing goes wrong loudly."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import audits
import pytest

from storeio import cli
from storeio.commands import check, console
from storeio.errors import AuditError, NotAStoreError, UnreadableError
from storeio.results import Audit


class Engine:
    """Stands in for the audit: gives the results it was told, and remembers the calls."""

    def __init__(self, results: dict[str, Audit | BaseException]) -> None:
        self.results = results
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, root: str, **arguments: Any) -> Audit:
        self.calls.append((root, arguments))
        result = self.results[root]
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in = Engine(
        {
            "good": audits.sound(store="good"),
            "bad": audits.damaged(store="bad"),
            "partly": audits.damaged(store="partly", failed=["x: Permission denied"]),
            "none": NotAStoreError("none: not a directory"),
            "unreadable": UnreadableError("commitlog: Input/output error"),
            "void": AuditError("byte classes do not add up"),
            "crash": ZeroDivisionError("division\x1b[31m by zero"),
            "memory": MemoryError(),
            "cancel": KeyboardInterrupt(),
        }
    )
    monkeypatch.setattr(check, "run_audit", stand_in)
    monkeypatch.delenv("STOREIO_DEBUG", raising=False)
    return stand_in


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("check good", 0),
        ("check bad", 4),
        ("check good bad", 4),
        ("check partly", 12),
        ("check none", 16),
        ("check unreadable", 8),
        ("check void", 8),
        ("check crash", 8),
        ("check memory", 8),
        ("check cancel", 32),
        ("check bad none unreadable", 28),
        ("check bad cancel none", 36),
        ("check", 16),
        ("", 16),
        ("nonsense", 16),
        ("check --nonsense good", 16),
        ("check --jobs 0 good", 16),
        ("check --set nonsense=1 good", 16),
        ("check --set mappedFileSizeCommitLog=0 good", 16),
        ("check --conf /nowhere/broker.conf good", 16),
        ("check --json /nowhere/x.json good", 16),
        ("--help", 0),
        ("check --help", 0),
    ],
)
def test_exit_codes(engine: Engine, arguments: str, code: int) -> None:
    assert cli.run(arguments.split()) == code


@pytest.mark.parametrize("store", ["none", "unreadable", "void", "crash", "memory", "cancel"])
def test_what_goes_wrong_is_one_line(engine: Engine, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["check", store])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("storeio: ")
    assert store in err
    assert "\x1b" not in err
    assert "Traceback" not in err
    assert ("STOREIO_DEBUG=1" in err) == (store in ("void", "crash"))


def test_debug_shows_where(engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREIO_DEBUG", "1")
    assert cli.run(["check", "crash"]) == 8
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "\x1b" not in err


def test_cancelling_tells_how_far_it_came(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    from storeio.audit import Progress

    def cancelled(root: str, *, progress: Callable[[Progress], None], **_: Any) -> Audit:
        progress(Progress(1_500_000, 3_000_000, "log"))
        raise KeyboardInterrupt

    check.run_audit = cancelled  # type: ignore[assignment]  # the fixture puts the old one back
    assert cli.run(["check", "--json", "-", "bad"]) == 32
    out, err = capsys.readouterr()
    assert "cancelled after 1.50 MB of 3.00 MB (log)" in err
    assert json.loads(out)["exit_code"] == 32


def test_finished_stores_keep_their_report_when_cancelled(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--quiet", "bad", "cancel", "good"]) == 36
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["DAMAGED"]
    assert [root for root, _ in engine.calls] == ["bad", "cancel"]


def test_json_on_standard_output_is_alone_there(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--json", "-", "bad"]) == 4
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "damaged"
    assert err == ""


def test_several_stores_give_json_lines(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--json", "-", "good", "none", "bad"]) == 20
    read = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(r["store"], r["verdict"], r["exit_code"]) for r in read] == [
        ("good", "sound", 0),
        ("none", None, 16),
        ("bad", "damaged", 4),
    ]
    assert read[1]["error"] == "none: not a directory"


def test_json_file_leaves_the_text(engine: Engine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.run(["check", "--json", str(tmp_path / "a.json"), "good"]) == 0
    assert capsys.readouterr().out.startswith("SOUND")
    assert json.loads((tmp_path / "a.json").read_text())["store"] == "good"


def test_json_file_inside_the_store_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    assert cli.run(["check", "--json", str(link / "commitlog" / "a.json"), str(tmp_path)]) == 16
    assert "never written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_quiet_is_one_line_a_store(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--quiet", "good", "bad"]) == 4
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["SOUND", "DAMAGED"]
    assert err == ""


def test_options_reach_the_engine(engine: Engine, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(b"brokerName=\xe4\nmaxIndexNum=800\nmaxHashSlotNum=100\n")
    options = f"--conf {conf} --set maxIndexNum=900 --jobs 3 --split-bytes 4096 --no-progress"
    assert cli.run(["check", *options.split(), "good"]) == 0
    ((_, arguments),) = engine.calls
    assert arguments["given"] == {"maxIndexNum": "900", "maxHashSlotNum": "100"}
    assert arguments["given"].source("maxIndexNum") == "--set"
    assert arguments["given"].source("maxHashSlotNum") == str(conf)
    assert (arguments["jobs"], arguments["split_bytes"]) == (3, 4096)


def test_usage_errors_name_the_setting(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["check", "--set", "mapedFileSizeCommitLog=1", "good"])
    assert "did you mean mappedFileSizeCommitLog?" in capsys.readouterr().err


def test_full_disk_below_the_json_file(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    assert cli.run(["check", "--json", "/dev/full", "good"]) == 8
    assert capsys.readouterr().err == "storeio: --json /dev/full: could not be written: No space left on device\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = []
    for stream, variable in ((Terminal(), None), (Terminal(), "NO_COLOR"), (io.StringIO(), None)):
        with monkeypatch.context() as patch:
            if variable:
                patch.setenv(variable, "1")
            patch.setattr(sys, "stdout", stream)
            cli.run(["check", "bad"])
        shown.append(stream.getvalue())
    assert ["\x1b" in text for text in shown] == [True, False, False]
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown[0]) == shown[1] == shown[2]


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from storeio.audit import Progress

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    drawn = []
    for stream in (Terminal(), io.StringIO()):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            meter = console.Meter()
            with meter.bar("/data/[red]store\x1b[2J", shown=True):
                meter.update(Progress(50_000_000, 100_000_000, "log"))
                time.sleep(0.2)
        drawn.append(stream.getvalue())
    assert "50.0/100.0 MB" in drawn[0]
    assert "[red]store\\x1b[2J" in drawn[0], "neither markup nor escape sequences of a name are obeyed"
    assert drawn[1] == ""


def test_width_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("20", console.LEAST_WIDTH), ("100", 100), ("5000", console.MOST_WIDTH)):
        monkeypatch.setenv("COLUMNS", columns)
        assert console.terminal_width() == width

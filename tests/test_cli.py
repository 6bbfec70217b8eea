"""The command line: exit codes, what goes where, and that nothing goes wrong loudly."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import audits
import golden_data
import pytest

from storeio import __version__, cli
from storeio.commands import check, console
from storeio.errors import AuditError, NotAStoreError, UnreadableError
from storeio.results import Audit

Run = Callable[..., int]
SILENT = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "STOREIO_DEBUG", "FORCE_COLOR")}


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


def storeio(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    command = [sys.executable, "-m", "storeio", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **{"env": SILENT, **options})


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
        ("check --json /nowhere/x.json good", 8),
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
    assert ("STOREIO_DEBUG=1" in err) == (store in ("void", "crash", "memory"))


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


def test_version_names_all_parts() -> None:
    done = storeio("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"storeio {__version__}"
    names = [line.rpartition(" ")[0] for line in done.stdout.splitlines()]
    assert names[:5] == ["storeio", "python", "numpy", "numba", "isal"]
    assert {"click", "rich", "jinja2", "pyarrow", "pyspark", "delta-spark", "deltalake", "lz4", "zstandard"} < {*names}
    assert names[-1] == "crc engine"


def test_process_on_a_sound_store() -> None:
    done = storeio("check", str(golden_data.store("base-5.3.3")))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("SOUND: ")
    assert "\x1b" not in done.stdout


def test_process_on_a_damaged_store(tmp_path: Path) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "a store")
    segment = root / "commitlog" / "00000000000000065536"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1  # in the body of the first record
    segment.write_bytes(data)
    done = storeio("check", "--json", "-", str(root))
    assert (done.returncode, done.stderr) == (4, "")
    assert "LOG_BODY_CRC" in [f["code"] for f in json.loads(done.stdout)["findings"]]
    text = storeio("check", str(root)).stdout
    assert f"\n  storeio inspect '{root}' --file commitlog/00000000000000065536 --hex" in text


def test_process_with_wrong_use(tmp_path: Path) -> None:
    assert storeio("check", str(tmp_path)).returncode == 16
    assert storeio("check", "--frobnicate", str(tmp_path)).returncode == 16


@pytest.mark.parametrize("verb", cli.COMMANDS)
@pytest.mark.parametrize("option", ["--help", "--frobnicate"])
def test_help_and_wrong_options_need_no_compiler(verb: str, option: str) -> None:
    code = f"import sys, storeio.cli; storeio.cli.run([{verb!r}, {option!r}]); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0


def test_closed_pipe_keeps_the_exit_code() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import audits, storeio.cli as c, storeio.commands.check as k\n"
        "k.run_audit = lambda root, **_: audits.damaged(queues=audits.damaged().queues * 9000)\n"
        "c.main(['check', '--all', 'x'])"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=SILENT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 4)


@pytest.mark.parametrize("words", ["--help", "inspect --help", "inspect STORE", "inspect STORE --records --json"])
def test_a_reader_that_has_seen_enough_is_no_repair(words: str) -> None:
    words = words.replace("STORE", str(golden_data.store("base-5.3.3")))
    command = [sys.executable, "-m", "storeio", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=SILENT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_with_32(number: signal.Signals) -> None:
    script = (
        "import sys, time, storeio.cli as c, storeio.commands.check as k\n"
        "k.run_audit = lambda root, **_: (print('begun', flush=True), [time.sleep(0.1) for _ in range(600)])\n"
        "c.main(['check', 'x'])"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.wait(60) == 32
        assert process.stderr.read() == b"storeio: x: cancelled before anything was read\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("words", "hook"),
    [
        (["rebuild", "--into"], "storeio.rebuild.node:Build.add"),
        (["salvage", "--into"], "storeio.salvage.node:write_log"),
        (["plan", "--out"], "storeio.planning.planner:Planner.run"),
        (["simulate", "--into"], "storeio.staging:Staging.write"),
    ],
)
def test_who_is_stopped_leaves_nothing(words: list[str], hook: str, number: signal.Signals, tmp_path: Path) -> None:
    module, _, names = hook.partition(":")
    script = (
        f"import sys, time, storeio.cli as c, {module} as m\n"
        f"*owners, last = {names!r}.split('.')\n"
        "for owner in owners: m = getattr(m, owner)\n"
        "assert hasattr(m, last)\n"
        # Not one long sleep: a signal right in front of the system call does not wake it.
        "setattr(m, last, lambda *a, **k: (print('begun', flush=True), [time.sleep(0.1) for _ in range(600)]))\n"
        "c.main(sys.argv[1:])"
    )
    (tmp_path / "out").mkdir()
    store = str(golden_data.store("base-5.3.3"))
    call = [sys.executable, "-c", script, words[0], store, words[1], str(tmp_path / "out" / "made"), "--quiet"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert list((tmp_path / "out").iterdir())
        process.send_signal(number)
        assert process.wait(60) == 32
    assert list((tmp_path / "out").iterdir()) == []


def test_topic_that_the_terminal_cannot_show() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import audits, storeio.cli as c, storeio.commands.check as k\n"
        "k.run_audit = lambda root, **_: audits.sound(store='/data/\\u6807\\u7b7e')\n"
        "c.main(['check', 'x'])"
    )
    environment = {**SILENT, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"/data/\\u6807\\u7b7e" in done.stdout


def test_real_terminal_gets_a_bar_and_keeps_a_clean_report() -> None:
    leader, follower = pty.openpty()
    environment = {**SILENT, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "storeio", "check", str(golden_data.store("base-5.3.3"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=environment) as process:
        os.close(follower)
        drawn = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while piece := os.read(leader, 1 << 16):
                drawn += piece
        assert process.stdout is not None
        report = process.stdout.read()
        assert process.wait(60) == 0
    os.close(leader)
    assert b"\x1b" in drawn
    assert b"\x1b" not in report


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts the threads of /proc")
@pytest.mark.parametrize("wanted", ["", "2"])
def test_numpy_starts_no_threads_unless_they_are_asked_for(wanted: str) -> None:
    code = "import storeio.process as p; p.own_process(); import os, numpy; print(len(os.listdir('/proc/self/task')))"
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment = {**kept, "OPENBLAS_NUM_THREADS": wanted} if wanted else kept
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == min(int(wanted or 1), os.cpu_count() or 1)


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

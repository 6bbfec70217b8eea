"""The command line as a process of its own: signals, pipes, terminals, and what it imports."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import golden_data
import pytest

from storeio import __version__
from storeio.audit import check as check_here

pytestmark = pytest.mark.share(2)

SILENT = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "STOREIO_DEBUG", "FORCE_COLOR")}


def storeio(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    command = [sys.executable, "-m", "storeio", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **{"env": SILENT, **options})


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


def test_compiled_kernels_run_without_what_only_compiling_needs() -> None:
    """Numba imports all of that before it loads anything: as long a start again, and 40 MB in each worker."""
    check_here(store := golden_data.store("rich-5.5.1"))  # compiles what is not compiled yet
    code = "import sys; from storeio.cli import run; print(run(sys.argv[1:]), 'numba.misc.cffiimpl' in sys.modules)"
    words = [sys.executable, "-c", code, "check", str(store), "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=SILENT)
    assert done.stdout.endswith("\n0 False\n")


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


@pytest.mark.parametrize("option", ["--help", "--frobnicate"])
def test_help_and_wrong_options_need_no_compiler(option: str) -> None:
    code = (
        "import sys, storeio.cli as c\n"
        f"guilty = [verb for verb in c.COMMANDS if c.run([verb, {option!r}]) is None or 'numba' in sys.modules]\n"
        "sys.exit(' '.join(guilty) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


@pytest.mark.parametrize(
    ("words", "hook", "number"),
    [
        (["rebuild", "--into"], "storeio.rebuild.node:Build.add", signal.SIGINT),
        (["rebuild", "--into"], "storeio.rebuild.node:Build.add", signal.SIGTERM),
        (["salvage", "--into"], "storeio.salvage.node:write_log", signal.SIGINT),
        (["salvage", "--into"], "storeio.salvage.node:write_log", signal.SIGHUP),
        (["plan", "--out"], "storeio.planning.planner:Planner.run", signal.SIGTERM),
        (["simulate", "--into"], "storeio.output.staging:Staging.write", signal.SIGINT),
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_to_be_ignored_stops_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """As ``nohup`` asks for, and a shell's ``&``."""
    script = (
        f"import signal, sys; signal.signal({number:d}, signal.SIG_IGN)\n"
        "import storeio.salvage.node as m, storeio.cli as c\n"
        "write = m.write_log\n"
        f"m.write_log = lambda *a, **k: (signal.raise_signal({number:d}), write(*a, **k))[1]\n"
        "c.main(['salvage', sys.argv[1], '--into', sys.argv[2], '--quiet'])"
    )
    call = [sys.executable, "-c", script, str(golden_data.store("base-5.3.3")), str(tmp_path / "made")]
    done = subprocess.run(call, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "made").is_dir()


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

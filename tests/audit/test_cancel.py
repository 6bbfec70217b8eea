"""An audit that somebody cancels: it ends with what is known so far."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest

from storeio import audit, cli
from storeio.audit import Progress
from storeio.results import AuditCancelled

CANCELS_AT: Final = """
import sys, storeio.audit.node as node, storeio.cli as cli, signal, os, time
look, count = node.audit_split, 0
def slow(*given, **rest):
    global count
    count += 1
    if count == {splits}:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)  # the main thread has to come to it before the other splits are done
    return look(*given, **rest)
node.audit_split = slow
cli.main(sys.argv[1:])
"""


def damaged(place: Path) -> Path:
    """Return a store with damage in its first segment, and in a queue."""
    root = golden.copy_of("base-5.3.3", place)
    for path, at in (("commitlog/00000000000000000000", 200), ("consumequeue/topic_1/0/00000000000000000000", 3)):
        data = bytearray((root / path).read_bytes())
        data[at] ^= 0xFF
        (root / path).write_bytes(data)
    return root


def test_the_command_tells_what_is_known(tmp_path: Path) -> None:
    root = damaged(tmp_path / "store")
    words = ["check", str(root), "--jobs", "1", "--split-bytes", "70000", "--json", str(tmp_path / "told.json")]
    words += ["--html", str(tmp_path / "page.html")]
    command = [sys.executable, "-c", CANCELS_AT.format(splits=3), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (36, f"storeio: the page is in {tmp_path / 'page.html'}\n")
    assert done.stdout.startswith("DAMAGED: ")
    assert "were not looked at, it was cancelled" in done.stdout.replace("\n", " ")
    assert "NOT LOOKED AT (nothing is known of these bytes)" in done.stdout
    assert done.stdout.splitlines()[-1].split("#")[0].strip() == f"storeio check {root}"
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["verdict"], told["exit_code"]) == ("damaged", 36)
    assert any(f["path"] == "commitlog/00000000000000000000" for f in told["findings"])
    whole = audit.check(root, jobs=1)
    segments = sorted(file.path for file in whole.files if file.kind == "commitlog")
    left = {part["path"] for part in told["reading"]["left"]}
    assert segments[0] not in left
    assert set(segments[4:]) <= left
    assert "it was cancelled" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("where", ["storeio.predict.start.next_starts", "storeio.commands.check.show"])
def test_behind_the_audit_nothing_of_it_is_lost(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports can take a while: the page has the starts of all broker lines."""
    root = damaged(tmp_path / "store")

    def stop(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(where, stop)
    to, page = tmp_path / "found.json", tmp_path / "page.html"
    assert cli.run(["check", str(root), str(root), "--json", str(to), "--html", str(page)]) == 36
    assert [json.loads(line)["exit_code"] for line in to.read_text().splitlines()] == [4]
    assert "DAMAGED" in page.read_text()
    assert "cancelled behind its audit" in capsys.readouterr().err


def test_the_function_raises_with_what_is_known(tmp_path: Path) -> None:
    root = damaged(tmp_path / "store")
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if len([one for one in seen if one.phase == audit.LOG_PHASE]) == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(AuditCancelled) as caught:
        audit.check(root, jobs=1, split_bytes=70_000, progress=stop)
    known = caught.value.known
    assert isinstance(caught.value, KeyboardInterrupt)
    assert known.cancelled
    whole = audit.check(root, jobs=1)
    first = {f for f in whole.findings if f.path.endswith("/00000000000000000000") and f.path.startswith("commitlog")}
    assert first
    assert first <= set(known.findings)
    assert known.reading.bytes_read + known.reading.left_bytes > sum(f.size for f in whole.files if f.kind == "index")


def test_before_anything_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import os, signal, storeio.audit.node as n, storeio.cli as c\n"
    script += "n.prepare = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)\nc.main(['check', 'x'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (32, "")
    assert done.stderr == "storeio: x: cancelled before anything was read\n"
    assert cli.run(["check", str(golden.store("base-5.3.3")), "--quiet"]) == 0


# Ctrl-C at the import of one module; else where Python drops it; else where Python ends itself by it afterwards.
AT_IMPORT: Final = """
import sys, signal
class Moment:
    def find_spec(self, name, *_):
        if name == "{module}":
            {raises}
sys.meta_path.insert(0, Moment())
"""
MOMENTS: Final = {
    "import of the command line": AT_IMPORT.format(
        module="storeio.commands.console", raises='exec("signal.raise_signal(signal.SIGINT)")'
    ),
    "import of the engine": AT_IMPORT.format(module="numpy.linalg", raises="signal.raise_signal(signal.SIGINT)"),
    "import of the compiler": AT_IMPORT.format(
        module="llvmlite.binding.ffi", raises="signal.raise_signal(signal.SIGTERM)"
    ),
    "a finaliser": """
import signal, time, storeio.commands.check as check
class Moment:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
check.run_audit = lambda *_, **__: ([Moment()].clear(), [time.sleep(0.1) for _ in range(300)])
""",
    "code made of text": """
import signal, storeio.commands.check as check
def stopped(*_, **__):
    exec("signal.raise_signal(signal.SIGINT)")
check.run_audit = stopped
""",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_at_any_moment(moment: str, tmp_path: Path) -> None:
    script = MOMENTS[moment] + "\nfrom storeio.__main__ import main\nmain()"
    command = [sys.executable, "-c", script, "check", "x", "--html", str(tmp_path / "page.html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (32, "", [])
    whose = "" if moment == "import of the command line" else "x: "
    assert done.stderr == f"storeio: {whose}cancelled" + (" before anything was read\n" if whose else "\n")


# A signal when Python, which is about to end, has given up its handlers.
LAST: Final = """
import os
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        kill(pid, {number:d})
last = Last()
"""


@pytest.mark.share(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("begin", "words"),
    [
        ("from storeio.__main__ import main; main()", ["check", "/nowhere"]),
        ("from jobs.common import run_job; run_job(lambda: open('/nowhere'))", []),
    ],
)
def test_when_all_is_said_nothing_changes(begin: str, words: list[str], number: int) -> None:
    command = [sys.executable, "-c", LAST.format(number=number) + begin, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (16 if words else 8, "", 1)

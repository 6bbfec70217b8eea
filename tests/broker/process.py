"""JVMs that start brokers' stores, one store after the other: most of a short start is the start of the JVM.

Behind each start all threads of its store stand still for good. What it left is what a kill leaves, and nothing of it
goes on; ``BrokerStart`` tells where that cannot be, and that JVM then gets no other store.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker.jvm import command, line_of

EVENT: Final = '{"event":'  # 4.x prints a line of its own here and there
MOST_STARTS: Final = 25  # of one JVM: it keeps the memory and the files of all of them


@dataclass(frozen=True)
class Said:
    """What was said of one start."""

    code: int | None  # exit code; None: killed, it took too long
    events: Sequence[dict[str, Any]]
    error: str
    log: str


class Process:
    """A JVM of one broker version."""

    def __init__(self, version: str, options: Sequence[str]) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="storeio-broker-")
        self._home = Path(self._place.name)
        self._starts = 0
        self._more = True
        with (self._home / "error").open("wb") as error:
            self._process = subprocess.Popen(
                command(version, options, self._home), cwd=self._home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=error, text=True, encoding="utf-8", errors="replace", start_new_session=True,
            )  # fmt: skip

    @property
    def takes_more(self) -> bool:
        """Whether another store may be started."""
        return self._more and self._starts < MOST_STARTS

    def start(self, root: Path, arguments: Mapping[str, str], timeout: float) -> Said:
        """Start a store, and return what is said until it stands still, or the process has ended."""
        files = [self._home / name for name in ("error", "broker.log")]
        before = [file.stat().st_size if file.exists() else 0 for file in files]
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), self.kill()))
        timer.start()
        self._starts += 1
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # no Java that could run it: the exit code tells
            self._process.stdin.write(line_of(root, arguments))
            self._process.stdin.flush()
        events = self._events()
        if not self._more:
            self._process.wait()
        timer.cancel()
        error, log = (_from(file, start) for file, start in zip(files, before, strict=True))
        return Said(None if late.is_set() else self._process.returncode, events, error, log)

    def _events(self) -> list[dict[str, Any]]:
        """Return all events of one start. What has said its last is killed: its exit would wait for threads."""
        events = []
        self._more = False
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(EVENT):
                events.append(json.loads(line))
                if events[-1]["event"] == "end":
                    self._more = events[-1]["more"]
                    break
        if not self._more:
            self.kill()
        return events

    def kill(self) -> None:
        """Kill the JVM."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the JVM, and remove what it has left."""
        self.kill()
        self._process.communicate()
        self._place.cleanup()


def _from(file: Path, start: int) -> str:
    """Return what was written into a file behind a position."""
    if not file.exists():
        return ""
    return file.read_bytes()[start:].decode(errors="replace")


_kept: dict[tuple[str, ...], Process] = {}


def kept(version: str, options: Sequence[str]) -> Process:
    """Return a JVM of a broker that takes another store; it ends with this process."""
    key = (version, *options)
    if key in _kept and not _kept[key].takes_more:
        _kept.pop(key).close()
    if key not in _kept:
        _kept[key] = Process(version, options)
    return _kept[key]


@atexit.register
def _end() -> None:
    while _kept:
        _kept.popitem()[1].close()

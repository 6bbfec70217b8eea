"""Plans made by hand against a tree in memory, which is the oracle; and processes that die at any operation.

``Maker`` shares no code with the apply: every action changes a plain dict of names and bytes.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storebuilder import StoreBuilder

from storeio.apply import operations
from storeio.plan.model import ABSENT, ZEROS, Action, Plan, to_json

Tree = dict[str, bytes | None]  # path -> content, None for a directory
EMPTY = hashlib.sha256().hexdigest()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree_of(root: Path) -> Tree:
    """Return all names below a directory with their bytes; other things than files and directories as their mode."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = b"link to " + os.readlink(path).encode()
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = path.read_bytes() if path.is_file() else b"special"
    return found


def listing(tree: Tree, path: str) -> str:
    """Return a directory's digest, written down once more from its definition."""
    lines = []
    for name, data in tree.items():
        if name.startswith(f"{path}/"):
            inner = name[len(path) + 1 :].encode("utf-8", "surrogateescape")
            kind, text = (b"directory", b"") if data is None else (b"file", sha(data).encode())
            lines.append(b"%s\0%s\0%d\0%s\n" % (inner, kind, len(data or b""), text))
    return sha(b"".join(sorted(lines)))


class Maker:
    """Makes a plan for a store, action by action, and the tree that it must end in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = tree_of(root)
        self.tree = dict(self.before)
        self.actions: list[Action] = []
        self.bytes = b""

    def _add(
        self, kind: str, path: str, position: int, length: int, old_length: int, old: str, new: str, **more: Any
    ) -> None:
        more = {"risk": "derived", "source": ZEROS, "reason": "a test", **more}
        source, risk, reason = more.pop("source"), more.pop("risk"), more.pop("reason")
        self.actions.append(Action(kind, path, position, length, old_length, old, new, source, risk, reason, **more))

    def _file(self, path: str) -> bytes:
        data = self.tree[path]
        assert data is not None
        return data

    def _parents(self, path: str) -> None:
        while "/" in path:
            path = path.rpartition("/")[0]
            self.tree.setdefault(path, None)

    def write(self, path: str, position: int, data: bytes, *, zeros: bool = False, **more: Any) -> Maker:
        old = self._file(path)
        source = ZEROS if zeros else len(self.bytes)
        self.bytes += b"" if zeros else data
        replaced = old[position : position + len(data)]
        assert len(replaced) == len(data)
        self._add(
            "write", path, position, len(data), len(old), sha(replaced), sha(data), source=source, **more
        )  # fmt: skip
        self.tree[path] = old[:position] + data + old[position + len(data) :]
        return self

    def create(self, path: str, length: int) -> Maker:
        self._add("create", path, 0, length, ABSENT, "", sha(bytes(length)))
        self._parents(path)
        self.tree[path] = bytes(length)
        return self

    def resize(self, path: str, length: int) -> Maker:
        old = self._file(path)
        cut = old[length:]
        self._add(
            "resize", path, 0, length, len(old), sha(cut) if cut else "", "" if cut else sha(bytes(length - len(old)))
        )
        self.tree[path] = old[:length].ljust(length, b"\0")
        return self

    def move(self, path: str) -> Maker:
        data = self.tree.pop(path)
        if data is None:
            self._add("move", path, 0, 0, 0, listing(self.tree, path), "")
            self.tree = {name: inner for name, inner in self.tree.items() if not name.startswith(f"{path}/")}
        else:
            self._add("move", path, 0, len(data), len(data), sha(data), "")
        return self

    def rename(self, path: str, target: str) -> Maker:
        data = self._file(path)
        self._add("rename", path, 0, len(data), len(data), sha(data), "", target=target)
        del self.tree[path]
        self._parents(target)
        self.tree[target] = data
        return self

    def plan(self, **more: Any) -> Plan:
        given = {
            "store": str(self.root), "version": "0", "created_ms": 0, "broker": "5.3.3", "bytes_file": "plan.bytes",
            "bytes_length": len(self.bytes), "bytes_sha256": sha(self.bytes), "actions": tuple(self.actions), **more,
        }  # fmt: skip
        return Plan(**given)

    def save(self, directory: Path, **more: Any) -> Path:
        """Return the plan's file, the bytes file beside it."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "plan.bytes").write_bytes(self.bytes)
        (directory / "plan.json").write_text(to_json(self.plan(**more)))
        return directory / "plan.json"


def small_store(root: Path) -> Path:
    """Return a store of a few kilobytes with everything in it that plans change."""
    store = StoreBuilder(root, segment_bytes=2048, units_per_file=10, index_slots=5, index_units=20)
    for number in range(24):
        store.message("T", number % 2, b"body %d" % number, keys=f"k{number}")
    store.close(clean=False)
    (root / "stray").write_bytes(b"none of the broker's")
    (root / "consumequeue/T/1/deep/er").mkdir(parents=True)
    (root / "consumequeue/T/1/deep/er/file").write_bytes(b"x" * 100)
    (root / "config").mkdir()
    (root / "config/topics.json").write_bytes(b"{}")
    return root


def every_kind(root: Path) -> Maker:
    """Return a plan with every kind of action, several on one path, and names that are given up and taken again."""
    maker = Maker(root)
    first, second = sorted(path.name for path in (root / "index").iterdir())[:2]
    queue = "consumequeue/T/0/00000000000000000000"
    length = len(maker._file(f"index/{first}"))
    maker.write(queue, 20, b"\x07" * 40).write(queue, 100, bytes(20), zeros=True)
    maker.resize(f"index/{first}", 100).resize(f"index/{first}", length).write(f"index/{first}", 90, b"?" * 50)
    maker.move("consumequeue/T/1").create("consumequeue/T/1/00000000000000000000", 200)
    maker.write("consumequeue/T/1/00000000000000000000", 20, b"\x01\x02\x03" * 20)
    maker.rename(f"index/{second}", "index/kept").create(f"index/{second}", 77).write(f"index/{second}", 1, b"!" * 7)
    maker.move("stray").write("commitlog/00000000000000000000", 5, b"log", risk="log")
    maker.move("abort").create("abort", 0).create("new/deep/file", 10).rename("config/topics.json", "a/b/topics.json")
    return maker


# ---- Dying and failing


CHANGES = (
    "write", "set length", "fsync", "create", "make directory", "rename", "remove", "remove directory",
)  # fmt: skip


class Counter:
    """A hook that counts operations and does something at one of them."""

    def __init__(self, at: int = -1, act: Callable[[str, str, Callable[[], object]], None] | None = None) -> None:
        self.at, self.act = at, act
        self.seen: list[tuple[str, str]] = []

    def __call__(self, name: str, path: str, half: Callable[[], object]) -> None:
        if name not in CHANGES:
            return
        self.seen.append((name, path))
        if len(self.seen) - 1 == self.at and self.act is not None:
            self.act(name, path, half)


class PowerCut(Counter):
    """Dies at an operation, and before that takes back all that no fsync has made sure of: bytes and names."""

    def __init__(self, at: int, root: Path) -> None:
        super().__init__(at, self._cut)
        self.root, self.home = root, root.parent / f"{root.name}.storeio"
        self.contents: dict[Path, bytes] = {}
        self.names: list[tuple[set[Path], Callable[[], object]]] = []

    def __call__(self, name: str, path: str, half: Callable[[], object]) -> None:
        super().__call__(name, path, half)
        if name == "rename":
            old, new = map(self._real, path.split(" to "))
            self.names.append(({old.parent, new.parent}, lambda: new.exists() and new.rename(old)))
            return
        real = self._real(path)
        if name in ("write", "set length"):
            self.contents.setdefault(real, real.read_bytes())
        elif name == "create":
            self.names.append(({real.parent}, lambda: real.unlink(missing_ok=True)))
        elif name == "make directory":
            self.names.append(({real.parent}, lambda: real.exists() and real.rmdir()))
        elif name == "remove":
            data = real.read_bytes()
            self.names.append(({real.parent}, lambda: real.exists() or real.write_bytes(data)))
        elif name == "remove directory":
            self.names.append(({real.parent}, lambda: real.mkdir(exist_ok=True)))
        elif name == "fsync":
            self.contents.pop(real, None)
            self.names = [(above, back) for above, back in self.names if real not in above]

    def _real(self, path: str) -> Path:
        """Return the file that an operation means."""
        if path.startswith("/"):
            return Path(path)
        if path.split("/")[0] == self.home.name:
            path = path.partition("/")[2]
            return self.home / path if path else self.home
        return (self.home if path[:2] == "20" and "Z-" in path else self.root) / path

    def _cut(self, name: str, path: str, half: Callable[[], object]) -> None:
        for file, data in self.contents.items():
            file.write_bytes(data)
        for _, back in reversed(self.names):
            back()
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def hooked(hook: operations.Hook) -> Iterator[None]:
    operations.hook = hook
    try:
        yield
    finally:
        operations.hook = None


def die(name: str, path: str, half: Callable[[], object]) -> None:
    """Be killed in front of an operation."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_torn(name: str, path: str, half: Callable[[], object]) -> None:
    """Be killed in the middle of an operation."""
    half()
    os.kill(os.getpid(), signal.SIGKILL)


def killed(work: Callable[[], object], hook: operations.Hook) -> bool:
    """Run the work in a child of this process; return whether the child was killed, not whether it did well."""
    child = os.fork()
    if not child:
        code = 1
        try:
            operations.hook = hook
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed"
    return os.WIFSIGNALED(status)


def copied(source: Path, target: Path) -> Path:
    """Return a copy of a directory of stores, put in place of what is there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target


def seeded(seed: int) -> random.Random:
    return random.Random(seed)


def hold(place: Path) -> subprocess.Popen[str]:
    """Return a process that holds the store's lock as a broker does."""
    code = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code, str(place / "store" / "lock")]
    made = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "held\n"
    return made

"""What the system refuses in the middle: one clear line, the store unchanged or to be finished and taken back."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from applies import Counter, copied, every_kind, hold, hooked, small_store, tree_of

from storeio.apply import apply_plan, operations, undo
from storeio.errors import NotAppliedError, UsageError

ERRORS = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)}


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """Yield a directory with a store and a plan for it; tests copy it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        root = small_store(directory / "base" / "store")
        (root / "lock").unlink()
        every_kind(root).save(directory / "base" / "plans")
        yield directory / "base"


def failing(number: int) -> operations.Hook:
    def fail(name: str, path: str, half: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def apply(place: Path) -> None:
    apply_plan(place / "plans" / "plan.json", place / "store", allow_log=True)


@pytest.mark.share(2)
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_every_operation_may_fail(base: Path, number: int) -> None:
    maker = every_kind(base / "store")
    seen = Counter()
    with hooked(seen):
        apply(copied(base, base.parent / "run"))
    count = len(seen.seen)
    step = 1 if number == errno.ENOSPC else 3
    changed = 0
    for at in range(number % step, count, step):
        place = copied(base, base.parent / "run")
        with hooked(Counter(at, failing(number))), pytest.raises(NotAppliedError) as told:
            apply(place)
        text = str(told.value)
        assert ERRORS[number] in text
        assert "\n" not in text
        path = re.sub(r"\d{8}T[\d.]+Z", "TIME", seen.seen[at][1])
        text = re.sub(r"\d{8}T[\d.]+Z", "TIME", text)
        assert path in text, "the file is named"
        if "unchanged" in text:
            assert tree_of(place / "store") == maker.before, at
            assert list((place / "store.storeio").glob("*")) == [], at
            continue
        if "storeio undo" in text:
            changed += 1
            first, second = copied(place, base.parent / "a"), copied(place, base.parent / "b")
            apply_plan(first / "store", resume=True)
            assert tree_of(first / "store") == maker.tree, at
            undo(second / "store")
            assert tree_of(second / "store") == maker.before, at
            continue
        try:  # in front of all or behind all: locks
            assert apply_plan(place / "store", resume=True).outcome == "nothing", at
            assert tree_of(place / "store") == maker.tree, at
        except UsageError as error:
            assert "nothing" in str(error)
            assert tree_of(place / "store") == maker.before, at
    assert changed > count // step // 3


def test_reading_may_fail(base: Path) -> None:
    maker = every_kind(base / "store")

    class Reads(Counter):
        def __call__(self, name: str, path: str, half: Callable[[], object]) -> None:
            if name == "read":
                super().__call__("write", path, half)

    seen = Reads()
    with hooked(seen):
        apply(copied(base, base.parent / "run"))
    for at in range(0, len(seen.seen), 7):
        place = copied(base, base.parent / "run")
        with hooked(Reads(at, failing(errno.EIO))), pytest.raises(NotAppliedError, match="Input/output error"):
            apply(place)
        try:
            undo(place / "store")
        except UsageError as error:
            assert "nothing" in str(error)
        assert tree_of(place / "store") == maker.before, at


def test_an_undo_may_fail_and_be_called_again(base: Path) -> None:
    maker = every_kind(base / "store")
    done = copied(base, base.parent / "done")
    apply(done)
    seen = Counter()
    with hooked(seen):
        undo(copied(done, base.parent / "count") / "store")
    for at in range(0, len(seen.seen), 3):
        place = copied(done, base.parent / "run")
        with hooked(Counter(at, failing(errno.EIO))), pytest.raises(NotAppliedError, match="Input/output error"):
            undo(place / "store")
        try:
            undo(place / "store")
        except UsageError as error:
            assert "nothing to take back" in str(error)
        assert tree_of(place / "store") == maker.before, at


def test_a_file_system_that_is_read_only(base: Path) -> None:
    place = copied(base, base.parent / "run")
    before = tree_of(place)

    def read_only(name: str, path: str, half: object) -> None:
        if name != "read" and "store.storeio" not in path and "Z-" not in path and path != str(place):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with hooked(read_only), pytest.raises(NotAppliedError, match="lock: create: Read-only file system"):
        apply(place)
    assert tree_of(place) == before


def test_a_short_write_is_carried_on(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, bytes(data)[: max(1, len(data) // 2)], at))
    place = copied(base, base.parent / "run")
    apply(place)
    assert tree_of(place / "store") == every_kind(base / "store").tree


def test_a_disk_that_returns_other_bytes_is_noticed(base: Path) -> None:
    place = copied(base, base.parent / "run")
    queue = place / "store" / "consumequeue/T/0/00000000000000000000"

    def spoil(name: str, path: str, half: object) -> None:
        if name == "fsync" and path.startswith("consumequeue/T/0"):
            with queue.open("r+b") as file:
                file.seek(22)
                file.write(b"\xee")

    with hooked(spoil), pytest.raises(NotAppliedError, match="does not hold what was written"):
        apply(place)


def test_no_space_is_told_before_anything(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied(base, base.parent / "run")
    before = tree_of(place)
    found = os.statvfs(place)

    class Full:
        f_bavail = (16 << 20) // found.f_frsize
        f_frsize = found.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    with pytest.raises(NotAppliedError, match=r"no space: \d+ bytes and 16777216 to spare are needed"):
        apply(place)
    assert tree_of(place) == before
    monkeypatch.setattr(Full, "f_bavail", (17 << 20) // found.f_frsize)
    apply(place)


def test_a_running_broker_is_left_alone(base: Path) -> None:
    place = copied(base, base.parent / "run")
    broker = hold(place)
    before = tree_of(place)
    try:
        with pytest.raises(NotAppliedError, match="a broker is running"):
            apply(place)
        assert tree_of(place) == before
    finally:
        broker.communicate()
    apply(place)
    broker = hold(place)
    before = tree_of(place)
    try:
        for call in (lambda: undo(place / "store"), lambda: apply_plan(place / "store", resume=True)):
            with pytest.raises(NotAppliedError, match="a broker is running"):
                call()
        assert tree_of(place) == before
    finally:
        broker.communicate()


def test_a_broker_finds_the_lock_held(base: Path) -> None:
    """While actions are done, another process cannot take byte 0, and its neighbour it can."""
    place = copied(base, base.parent / "run")
    code = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "for start in (0, 1):\n"
        "    try:\n"
        "        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, start)\n"
        "        print('free')\n"
        "    except OSError:\n"
        "        print('held')\n"
    )
    tried = []

    def attempt(name: str, path: str, half: object) -> None:
        if name == "write" and path.startswith("consumequeue") and not tried:
            words = [sys.executable, "-c", code, str(place / "store" / "lock")]
            tried.extend(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())

    with hooked(attempt):
        apply(place)
    assert tried == ["held", "free"]


def test_two_applies_never_run_at_once(base: Path) -> None:
    place = copied(base, base.parent / "run")
    told = []

    def second(name: str, path: str, half: object) -> None:
        if name == "write" and path.startswith("consumequeue") and not told:
            told.append("")
            for call in (lambda: apply(place), lambda: undo(place / "store")):
                with pytest.raises(NotAppliedError, match="another apply or undo of this store is running"):
                    call()

    with hooked(second):
        apply(place)
    assert told
    assert tree_of(place / "store") == every_kind(base / "store").tree


@pytest.mark.parametrize("at", [60, 90])
def test_interrupted_it_ends_between_two_actions(base: Path, at: int) -> None:
    place = copied(base, base.parent / "run")
    maker = every_kind(base / "store")

    def interrupt(name: str, path: str, half: object) -> None:
        os.kill(os.getpid(), 2)

    with hooked(Counter(at, interrupt)):
        found = apply_plan(place / "plans" / "plan.json", place / "store", allow_log=True)
    assert (found.outcome, found.exit_code) == ("cancelled", 32)
    assert 0 < found.done < len(maker.actions)
    assert tree_of(place / "store") not in (maker.before, maker.tree)
    other = copied(place, base.parent / "b")
    with hooked(Counter(30, interrupt)):
        back = undo(other / "store")
    assert (back.outcome, back.exit_code) == ("cancelled", 32)
    assert undo(other / "store").outcome == "undone"
    assert tree_of(other / "store") == maker.before
    again = apply_plan(place / "store", resume=True)
    assert (again.outcome, again.resumed, again.exit_code) == ("applied", True, 1)
    assert tree_of(place / "store") == maker.tree


def test_interrupted_before_the_first_action_nothing_is_left(base: Path) -> None:
    maker = every_kind(base / "store")
    for at in range(0, 16, 3):
        place = copied(base, base.parent / "run")

        def interrupt(name: str, path: str, half: object) -> None:
            os.kill(os.getpid(), 2)

        with hooked(Counter(at, interrupt)), pytest.raises(KeyboardInterrupt):
            apply(place)
        assert tree_of(place / "store") == maker.before
        assert not (place / "store.storeio").exists()


def test_files_made_by_root_belong_to_the_directorys_owner(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    place = copied(base, base.parent / "run")
    os.chown(place / "store" / "consumequeue" / "T", 1234, 2345)
    apply(place)
    made = place / "store" / "consumequeue/T/1/00000000000000000000"
    assert (made.stat().st_uid, made.stat().st_gid, made.stat().st_mode & 0o777) == (1234, 2345, 0o644)
    assert (made.parent.stat().st_uid, made.parent.stat().st_gid) == (1234, 2345)


def test_descriptors_are_all_closed(base: Path) -> None:
    place = copied(base, base.parent / "run")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        apply(place)
        undo(place / "store")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [1, 20, 100, 175, 176, 185, 190])
def test_an_interrupt_just_behind_a_close_is_one(number: int, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the error of a descriptor that is closed twice, which would hide it."""
    place, left, real = copied(base, base.parent / "run"), [number], os.close

    def close(fd: int) -> None:
        real(fd)
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)

    before = tree_of(place / "store")
    monkeypatch.setattr("storeio.apply.tree.os.close", close)
    with pytest.raises(KeyboardInterrupt):
        apply(place)
    monkeypatch.undo()
    assert tree_of(place / "store") == before

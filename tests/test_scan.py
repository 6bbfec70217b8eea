"""Reading ranges of files: exact bytes, from the file that is there now, and no handle left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import golden_data as golden
import pytest
from sampled import sampled

from storeio import audit
from storeio.errors import NotAStoreError, UnreadableError
from storeio.reading.local_files import HUGE_PAGE_BYTES, MOST_KEPT, SMALL_BYTES
from storeio.reading.local_listing import LINK_BELOW_LINK
from storeio.scan import kept_open, list_store, read_range

pytestmark = pytest.mark.share(2)

HUGE = HUGE_PAGE_BYTES
SIZE = 3 * HUGE + 11
HANDLES = Path("/proc/self/fd")


def handles_below(root: Path) -> list[str]:
    """Return the files below a directory that this process has open."""
    names = []
    for handle in HANDLES.iterdir():
        try:
            names.append(os.readlink(handle))
        except OSError:
            continue  # the handle of the listing itself
    return [name for name in names if name.startswith(f"{root}/")]


RANGES = [(0, SIZE), (5, SMALL_BYTES), (4097, 4098 + SMALL_BYTES), (7, 7), (HUGE - 5, SIZE), (HUGE + 7, 2 * HUGE + 9)]


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_exactly_these_bytes(start: int, stop: int, tmp_path: Path) -> None:
    data = os.urandom(SIZE)
    (tmp_path / "file").write_bytes(data)
    for _ in range(2):
        with kept_open():
            assert read_range(str(tmp_path), "file", start, stop).tobytes() == data[start:stop]
    assert read_range(str(tmp_path), "file", start, stop, populate_to=start).tobytes() == data[start:stop]


@pytest.mark.parametrize("place", ["tmp_path", "disk_path"])
@pytest.mark.parametrize("middle", [b"middle", bytes(range(256)) * 1200])
@pytest.mark.parametrize("start", [0, 5, 3 << 20, 12 << 20])
@pytest.mark.parametrize("stop", [(12 << 20) + 4, 16 << 20])
def test_holes_that_are_read_stay_holes(
    start: int, stop: int, middle: bytes, place: str, request: pytest.FixtureRequest
) -> None:
    """In a file system in memory a hole that is looked at through a mapping takes memory, and is none any more."""
    directory = request.getfixturevalue(place)
    with (directory / "sparse").open("wb") as file:
        for at, data in ((0, b"front"), (5 << 20, middle), (12 << 20, b"back")):
            file.seek(at)
            file.write(data)
        file.truncate(16 << 20)
    blocks = (directory / "sparse").stat().st_blocks
    found = read_range(str(directory), "sparse", start, stop)
    assert found.tobytes() == (directory / "sparse").read_bytes()[start:stop]
    assert not found.flags.writeable
    assert (directory / "sparse").stat().st_blocks == blocks


def test_reads_that_give_less_than_asked_for_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some network file systems do."""
    data, pread, preadv = os.urandom(1000), os.pread, os.preadv
    (tmp_path / "file").write_bytes(data)
    monkeypatch.setattr(os, "pread", lambda handle, count, at: pread(handle, min(count, 70), at))
    monkeypatch.setattr(os, "preadv", lambda handle, rooms, at: preadv(handle, [rooms[0][:70]], at))
    found = read_range(str(tmp_path), "file", 5, 905)
    assert found.tobytes() == data[5:905]
    assert not found.flags.writeable
    with pytest.raises(UnreadableError, match="file: became shorter than 1001 bytes"):
        read_range(str(tmp_path), "file", 5, 1001)


def test_a_file_that_took_another_s_place_is_read_anew(tmp_path: Path) -> None:
    with kept_open():
        for byte in (b"a", b"b"):
            (tmp_path / "new").write_bytes(byte * SIZE)
            (tmp_path / "new").rename(tmp_path / "file")
            assert read_range(str(tmp_path), "file", 0, SIZE).tobytes() == byte * SIZE
        (tmp_path / "file").unlink()
        with pytest.raises(UnreadableError, match="file: No such file"):
            read_range(str(tmp_path), "file", 0, SIZE)


def test_a_file_that_became_shorter_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    with kept_open():
        read_range(str(tmp_path), "file", 0, SIZE)
        os.truncate(tmp_path / "file", SIZE - 1)
        with pytest.raises(UnreadableError, match=f"shorter than {SIZE} bytes"):
            read_range(str(tmp_path), "file", 0, SIZE)


@pytest.mark.skipif(not HANDLES.is_dir(), reason="needs /proc to see open handles")
def test_few_files_stay_open_and_none_afterwards(tmp_path: Path) -> None:
    names = [f"{n}" for n in range(MOST_KEPT + 5)]
    with kept_open():
        for name in names:
            (tmp_path / name).write_bytes(b"x")
            read_range(str(tmp_path), name, 0, 1)
        with kept_open():
            pass  # somebody else's end closes nothing
        assert len(handles_below(tmp_path)) == MOST_KEPT
    assert handles_below(tmp_path) == []
    read_range(str(tmp_path), "0", 0, 1)
    assert handles_below(tmp_path) == []


SPECIAL = [
    ("commitlog/00000000000000032768", "pipe"),
    ("consumequeue/topic_0/0/00000000000000000000", "pipe"),
    ("checkpoint", "pipe"),
    ("consumequeue/new", "pipe"),
    ("commitlog/00000000000000065536", "device"),
]
NAMES = ["check", "plan", "simulate", "salvage"]
VERBS = """
import sys
from storeio.cli import run
root, scratch = sys.argv[1:]
calls = [["check"], ["plan", "--out", f"{scratch}/plan.json"], ["simulate"], ["salvage", "--into", f"{scratch}/made"]]
for verb, *more in calls:
    print(verb, run([verb, root, "--quiet", *more]), file=sys.stderr)
"""


@pytest.mark.parametrize(("path", "kind"), sampled(SPECIAL, SPECIAL[::2]))
def test_what_is_no_file_does_not_hold_up(path: str, kind: str, tmp_path: Path) -> None:
    """In a process of its own: opening a pipe would wait for ever for somebody who writes into it."""
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    place = root / path
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    command = [sys.executable, "-c", VERBS, str(root), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stderr.splitlines()]
    codes = {words[0]: int(words[1]) for words in told if len(words) == 2 and words[0] in NAMES}
    assert list(codes) == NAMES
    assert set(codes.values()) <= {0, 4, 8, 12}
    if codes["plan"] == 8:
        assert f"{path}: not a regular file" in done.stderr
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_range(str(root), path, 0, 1)


@pytest.mark.parametrize("below", ["", "dledger-n0"])
def test_a_store_whose_log_is_a_dledger_log_is_refused(below: str, tmp_path: Path) -> None:
    """Its queues would all point behind the end of a log that is not there, and every message be told as lost."""
    root = golden.without("base-5.3.3", tmp_path / "store", "commitlog")
    segment = root / "dledger-n0" / "data" / f"{0:020d}"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(bytes(100))
    (root / "dledger-n0" / "checkpoint").write_bytes(b"committedIndex=299")
    with pytest.raises(NotAStoreError, match="a DLedger log, which is not read"):
        list_store(root / below)
    old = root / "commitlog" / f"{0:020d}"
    old.parent.mkdir()
    shutil.copy(golden.store("base-5.3.3") / "commitlog" / old.name, old)
    assert list_store(root).of_kind("commitlog")  # which went on without it
    segment.rename(segment.with_name(f"{old.stat().st_size:020d}"))  # a broker that had none begins it there
    with pytest.raises(NotAStoreError, match="goes on in, a DLedger log"):
        list_store(root)


def test_links_to_directories_are_followed_once(tmp_path: Path) -> None:
    """A part of a store may lie on another disk; links below one may lead round and round, as those in /proc do."""
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    whole = list_store(root)
    elsewhere = (root / "consumequeue").rename(tmp_path / "other")
    (root / "consumequeue").symlink_to(elsewhere)
    assert list_store(root) == whole
    (elsewhere / "round").symlink_to(tmp_path)
    listed = list_store(root)
    assert listed.unreadable == (("consumequeue/round", LINK_BELOW_LINK),)
    assert {f.path for f in listed.files} - {f.path for f in whole.files} <= {"consumequeue/round"}
    assert any(text.startswith("consumequeue/round: ") for text in audit.check(root).failed)


def test_nothing_is_looked_at_below_what_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some" / "where").mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)

    def refuse(path: object) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(os, "scandir", refuse)
    for place in (tmp_path, tmp_path / "store" / "commitlog"):
        with pytest.raises(NotAStoreError, match=f"not a store; {tmp_path}/store may be one"):
            list_store(place)

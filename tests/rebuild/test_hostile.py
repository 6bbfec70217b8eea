"""Rebuilds of logs that mean harm, into places that must not be written, on disks that fail: nothing is left behind."""

from __future__ import annotations

import errno
import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from datasources import unreadable_store
from faults import failing
from golden_data import given_for
from rebuilds import built, no_waiting_for_disks, random_log, settings_of, tree
from storebuilder import StoreBuilder

from storeio import cli
from storeio.errors import UsageError
from storeio.rebuild import tally
from storeio.rebuild.node import rebuild

__all__ = ["no_waiting_for_disks"]
NAMES = ("../../etc", "a/b", "..", ".", "nul\0byte", "bell\x07", "/abs", "x" * 300, "broken\udcff", "\u2028line")
SETS = {"mappedFileSizeCommitLog": "16384", "mappedFileSizeConsumeQueue": "1000"}


def below(place: Path) -> set[str]:
    return {p.relative_to(place).as_posix() for p in place.rglob("*")}


def hostile_log(root: Path) -> StoreBuilder:
    builder = StoreBuilder(root)
    for name in NAMES:
        encoded = name.encode("utf-8", "surrogateescape")
        placed = builder.message("y" * len(encoded), 0, b"body")
        segment = builder.segments[-1]
        at = segment.rindex(b"y" * len(encoded))
        segment[at : at + len(encoded)] = encoded
        assert placed.raw
    for queue_id in (-1, -(2**31)):
        builder.message("negative", queue_id, b"body")
    builder.message("fine", 2**31 - 1, b"body")
    return builder


def test_names_that_mean_harm_never_become_paths(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c"
    place.mkdir(parents=True)
    result = built(hostile_log(place / "store"), place / "new")
    queues = sorted(p for p in below(place / "new") if p.startswith("consumequeue/") and p.count("/") == 1)
    assert queues == ["consumequeue/fine"]
    assert (place / "new" / "consumequeue" / "fine" / str(2**31 - 1)).is_dir()
    assert {p.name for p in place.iterdir()} == {"store", "new"}
    assert below(tmp_path) == {"a", "a/b", "a/b/c"} | {f"a/b/c/{p}" for p in below(place)}
    assert set(result.left_out.values()) == {1}
    assert {"../../etc/0", "a/b/0", "../0", "negative/-1", f"negative/{-(2**31)}"} <= set(result.left_out)
    assert len(result.left_out) == len(NAMES) + 2
    assert result.exit_code == 4


def test_names_left_out_are_told_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST_NAMES", 3)
    result = built(hostile_log(tmp_path / "store"), tmp_path / "new")
    assert len(result.left_out) == 4
    assert result.left_out[tally.OTHER_NAMES] == len(NAMES) + 2 - 3


def test_lengths_from_damaged_bytes_allocate_nothing(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", multi_dispatch=True)
    for number in range(20):
        placed = builder.message("t", 0, b"x" * 50, tags="a")
        raw = bytearray(placed.raw)
        field = (0, 4, 12, 20, 84, 84 + 4 + 50)[number % 6]  # size, magic, queue id and number, lengths
        raw[field : field + 4] = struct.pack(">i", 2**31 - 1)
        builder.raw(bytes(raw))
    builder.message("t", 0, b"end", lmq=tuple(f"%LMQ%{i}" for i in range(9)))
    root = builder.close()
    index = next((root / "index").iterdir())
    data = bytearray(index.read_bytes())
    data[36:40] = struct.pack(">i", 2**31 - 1)
    index.write_bytes(data)
    built(builder, tmp_path / "warm")  # modules and tables of the walk
    tracemalloc.start()
    result = built(builder, tmp_path / "new")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert result.exit_code == 4
    assert sum(p.stat().st_size for p in (tmp_path / "new").rglob("*") if p.is_file()) < 16 << 20


@pytest.mark.parametrize("where", ["inside", "itself", "above", "full", "file", "link", "dangling", "nul"])
def test_into_never_goes_over_anything(where: str, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    target = tmp_path / "target"
    if where == "full":
        target.mkdir()
        (target / "mine").touch()
    elif where == "file":
        target.write_text("mine")
    elif where in ("link", "dangling"):
        target.symlink_to(other if where == "link" else tmp_path / "nowhere")
    target = {
        "inside": store / "new", "itself": store, "above": tmp_path, "nul": tmp_path / "a\0b",
    }.get(where, target)  # fmt: skip
    before, content = below(tmp_path), tree(store)
    with pytest.raises(UsageError, match="--into"):
        rebuild(store, target)
    assert below(tmp_path) == before
    assert tree(store) == content


def test_a_link_to_the_store_is_the_store(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    before = below(tmp_path)
    with pytest.raises(UsageError, match="never written"):
        rebuild(store, tmp_path / "link" / "new")
    assert below(tmp_path) == before


@pytest.mark.parametrize("into", ["new", "made/on/the/way", "empty"])
@pytest.mark.parametrize(
    ("name", "number", "error", "says"),
    [
        ("pwrite", 1, errno.ENOSPC, "No space left"),
        ("pwrite", 7, errno.EIO, "Input/output error"),
        ("pwrite", 20, errno.EDQUOT, "quota"),
        ("ftruncate", 3, errno.EFBIG, "too large"),
        ("fsync", 5, errno.EIO, "Input/output error"),
        ("mkdir", 3, errno.EACCES, "Permission denied"),
        ("rename", 1, errno.EIO, "Input/output error"),
    ],
)
def test_a_disk_that_fails_leaves_nothing(
    name: str, number: int, error: int, says: str, into: str, store: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if into == "empty":
        (tmp_path / into).mkdir()
    before, content = below(tmp_path), tree(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name), number, error))
        words = [word for key, value in given_for("base-5.3.3").items() for word in ("--set", f"{key}={value}")]
        code = cli.run(["rebuild", str(store), "--into", str(tmp_path / into), *words])
    assert code == 8
    message = capsys.readouterr().err
    assert says in message
    assert message.count("\n") == 1
    assert below(tmp_path) == before
    assert tree(store) == content


def test_a_file_system_that_takes_no_advice_gets_the_same(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild(store, tmp_path / "usual")
    refused = []

    def refuse(*words: int) -> None:
        refused.append(words)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("storeio.output.staging.BEGIN_BYTES", 1)
    monkeypatch.setattr(os, "posix_fadvise", refuse)
    rebuild(store, tmp_path / "new")
    assert refused
    assert tree(tmp_path / "new") == tree(tmp_path / "usual")


def test_everything_is_flushed_before_the_directory_has_its_name(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    renamed: list[int] = []
    rename = os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.readlink(f"/proc/self/fd/{handle}")))
    monkeypatch.setattr(os, "rename", lambda *names: (renamed.append(len(flushed)), rename(*names))[1])
    result = rebuild(store, tmp_path / "new")
    below_partial = {path.partition(".partial/")[2] for path in flushed[: renamed[-1]]}
    directories = {p.relative_to(tmp_path / "new").as_posix() for p in (tmp_path / "new").rglob("*") if p.is_dir()}
    assert below_partial == {*result.files, *directories, ""}
    assert flushed[renamed[-1] :] == [str(tmp_path)]


def test_an_unreadable_log_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = unreadable_store(tmp_path / "store")
    before = below(tmp_path)
    assert cli.run(["rebuild", str(root), "--into", str(tmp_path / "new"), "--quiet"]) == 8
    assert f"{0:020d}" in capsys.readouterr().err
    assert below(tmp_path) == before


def test_two_rebuilds_into_one_place_do_not_mix(tmp_path: Path) -> None:
    builder = random_log(tmp_path / "store", 3)
    built(builder, tmp_path / "one")
    stranger = tmp_path / "two.0a1b2c3d.partial"
    stranger.mkdir()
    (stranger / "mine").touch()
    for other in ("two.partial", "two.new.0a1b2c3d.partial", "2two.0a1b2c3d.partial"):
        (tmp_path / other).mkdir()
    with_it = rebuild(tmp_path / "store", tmp_path / "two", given=settings_of(builder.settings))
    assert [note.split()[0] for note in with_it.notes if ".partial" in note] == [stranger.name]
    assert (stranger / "mine").exists()
    assert tree(tmp_path / "one") == tree(tmp_path / "two")

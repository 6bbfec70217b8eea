"""The remote way of reading against the local one, on the same files: a directory opened as if it were far away."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from pyarrow import fs

import storeio
from storeio.audit import prepare
from storeio.cli import run
from storeio.errors import NotAStoreError, UsageError, WriteError
from storeio.fingerprints import fingerprints, is_same
from storeio.output.partials import partial_name
from storeio.output.publishing import begun
from storeio.rebuild.derive import derive_split
from storeio.rebuild.node import rebuild
from storeio.rebuild.spill import WRITING, spill
from storeio.rebuild.tally import wanted_of
from storeio.rebuilt import PARTS
from storeio.remote import filesystem, writing
from storeio.report import audit_object
from storeio.report.simulation import simulation_object
from storeio.scan import list_store, read_range

pytestmark = pytest.mark.share(2)

SPLIT_BYTES = 16384
CASES = [("rows-5.3.3", 3), ("rows-5.5.1", 60), ("rows-4.9.8", 30)]


CONNECTED = filesystem.connected  # less what the tests put in its place


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory that ``tree://here`` is."""
    top = tmp_path / "tree"
    top.mkdir()

    def connected(root: str, uri: filesystem.Uri, *_: Any) -> tuple[Any, str]:
        assert (uri.scheme, uri.host) == ("tree", "here"), root
        return fs.SubTreeFileSystem(str(top), fs.LocalFileSystem()), uri.path.lstrip("/")

    monkeypatch.setattr(filesystem, "connected", connected)
    return top


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in found.items() if name not in ("store", "started_ms", "seconds")}


@pytest.mark.parametrize("name", ["base-5.4.0", "ext-5.3.3", "rich-4.9.8", "upgraded"])
def test_sound_stores(name: str, tree: Path) -> None:
    root = golden.copy_of(name, tree / name)
    local, remote = storeio.check(root), storeio.check(f"tree://here/{name}")
    assert timeless(audit_object(remote)) == timeless(audit_object(local))
    assert remote.verdict == "sound"


@pytest.mark.parametrize(("listed", "number"), CASES)
def test_damaged_stores(listed: str, number: int, tree: Path) -> None:
    root = golden.damaged(golden.base_of(listed), golden.cases(listed)[number]["edits"], tree / "store")
    local, remote = (
        storeio.check(root, split_bytes=SPLIT_BYTES),
        storeio.check("tree://here/store", split_bytes=SPLIT_BYTES),
    )
    assert timeless(audit_object(remote)) == timeless(audit_object(local))
    assert local.findings
    starts = [storeio.simulate(place, broker="5.3.3") for place in (root, "tree://here/store")]
    assert timeless(simulation_object(starts[0])) == timeless(simulation_object(starts[1]))


@pytest.mark.parametrize("words", [["--records"], ["--at", "1200"], ["--topic", "topic_1", "--queue", "0"], []])
def test_inspect(words: list[str], tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden.copy_of("base-5.3.3", tree / "store")
    said = []
    for root in (str(tree / "store"), "tree://here/store"):
        assert run(["inspect", root, *words, "--json", "-"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert said[0]


@pytest.mark.parametrize("name", ["new", "n" * 255])
def test_a_rebuild_gets_its_name_at_once_where_directories_can(name: str, tree: Path, tmp_path: Path) -> None:
    golden.copy_of("base-5.3.3", tree / "store")
    left = tree / "deep" / partial_name(name)
    left.mkdir(parents=True)  # by a run that was killed
    built = rebuild("tree://here/store", f"tree://here/deep/{name}")
    assert [note.split()[0] for note in built.notes if ".partial" in note] == [left.name]
    left.rmdir()
    rebuild(tree / "store", tmp_path / "local")
    files = {
        p.relative_to(tree / "deep" / name): p.read_bytes() for p in (tree / "deep" / name).rglob("*") if p.is_file()
    }
    assert files == {
        p.relative_to(tmp_path / "local"): p.read_bytes() for p in (tmp_path / "local").rglob("*") if p.is_file()
    }
    assert built.files == sorted(map(str, files))
    assert [p.name for p in (tree / "deep").iterdir()] == [name]
    with pytest.raises(UsageError, match="is not empty"):
        rebuild("tree://here/store", f"tree://here/deep/{name}")
    with pytest.raises(UsageError, match="lies inside the store"):
        rebuild("tree://here/store", "tree://here/store/new")


def test_a_rebuild_that_fails_leaves_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden.copy_of("base-5.3.3", tree / "store")
    (tree / "new").mkdir()  # an empty directory may be there

    def full(*_: Any) -> None:
        raise WriteError("new: no space")

    monkeypatch.setattr(writing, "rename", full)
    with pytest.raises(WriteError, match="no space"):
        rebuild("tree://here/store", "tree://here/new")
    assert sorted(p.name for p in tree.iterdir()) == ["new", "store"]
    assert list((tree / "new").iterdir()) == []


def test_what_workers_spill_is_no_part_of_the_output(tree: Path, tmp_path: Path) -> None:
    plan = prepare(str(golden.copy_of("base-5.3.3", tree / "store")))
    wanted = wanted_of(plan, None, PARTS)
    found = [derive_split(plan.root, split, wanted) for split in plan.splits]
    stretch = next(iter(found[0].stretches))
    (tmp_path / "file").write_bytes(b"laid")
    with begun("tree://here/new") as staging:
        staging.make_directory(WRITING)
        path, stretches, _ = spill(staging.shared, found)[0]
        at = int(stretches[0])
        assert read_range(str(staging.shared), path, at, at + len(stretch.units)).tobytes() == stretch.units
        writing.upload(str(staging.shared), "a/file", tmp_path / "file")
        assert staging.missing({"a/file": 4, "b/file": 4}) == ["b/file"]
        staging.remove(WRITING)
        assert staging.finish(1) == ["a/file"]
    assert [p.relative_to(tree).as_posix() for p in (tree / "new").rglob("*")] == ["new/a", "new/a/file"]


def test_somebody_else_s_files_are_not_replaced(tree: Path) -> None:
    with pytest.raises(WriteError, match="not empty any more"), begun("tree://here/new") as staging:
        staging.write("a", 0, b"x", size=1)
        (tree / "new").mkdir()
        (tree / "new" / "theirs").touch()
        staging.finish(1)
    assert [p.name for p in tree.iterdir()] == ["new"]
    assert [p.name for p in (tree / "new").iterdir()] == ["theirs"]


def test_a_plan_is_that_of_the_local_store_and_applies_to_it(tree: Path, tmp_path: Path) -> None:
    case = golden.cases("rows-5.3.3")[3]
    root = golden.damaged("base-5.3.3", case["edits"], tree / "store")
    plans = [tmp_path / "local.json", tmp_path / "remote.json"]
    for place, plan in zip((str(root), "tree://here/store"), plans, strict=True):
        storeio.plan(place, plan)
    told = [json.loads(plan.read_text()) for plan in plans]
    assert told[0]["actions"]
    apart = ("store", "created_ms", "bytes_file")
    one, other = ({name: part for name, part in each.items() if name not in apart} for each in told)
    assert one == other
    assert told[1]["store"] == "tree://here/store"
    assert {p.name for p in tmp_path.iterdir()} <= {"tree", *(f"{p.name}{x}" for p in plans for x in ("", ".bytes"))}
    with pytest.raises(UsageError, match="only a store on a local disk"):
        storeio.apply(plans[1])
    storeio.apply(plans[1], root)
    assert storeio.check(root).verdict == "sound"
    with pytest.raises(UsageError, match="only a store on a local disk"):
        storeio.undo("tree://here/store")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["simulate", "STORE", "--into", "tree://here/new"], "local disk"),
        (["simulate", "STORE", "--retention"], "retention"),
        (["plan", "STORE", "--out", "tree://here/plan.json"], "local"),
        (["check", "STORE", "--json", "tree://here/report.json"], "local disk"),
        (["apply", "tree://here/plan.json"], "local disk"),
        (["undo", "STORE"], "only a store on a local disk"),
    ],
)
def test_what_must_be_local_is_said(
    words: list[str], says: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden.copy_of("base-5.3.3", tree / "store")
    assert run([word.replace("STORE", "tree://here/store") for word in words]) == 16
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert [p.name for p in tree.iterdir()] == ["store"]


def test_a_simulated_store_is_written_here(tree: Path, tmp_path: Path) -> None:
    golden.copy_of("base-5.3.3", tree / "store")
    assert run(["simulate", "tree://here/store", "--into", str(tmp_path / "after"), "--quiet"]) == 0
    assert run(["simulate", str(tree / "store"), "--into", str(tmp_path / "local"), "--quiet"]) == 0
    one, other = (
        {p.relative_to(top): p.read_bytes() for p in top.rglob("*") if p.is_file()}
        for top in (tmp_path / "after", tmp_path / "local")
    )
    assert one == other
    assert one


def test_a_file_is_no_store(tree: Path) -> None:
    (tree / "file").write_bytes(b"x")
    (tree / "empty").mkdir()
    for name in ("file", "empty", "nothing"):
        with pytest.raises(NotAStoreError):
            storeio.check(f"tree://here/{name}")


def test_fingerprints_tell_which_files_were_written(tree: Path) -> None:
    root = golden.copy_of("base-5.3.3", tree / "store")
    for path in root.rglob("*"):
        os.utime(path)
    young = fingerprints(list_store("tree://here/store"))
    assert young
    assert not any(is_same(one, one) for one in young.values())  # all were written a moment ago
    long_ago = time.time_ns() - 10**12
    for path in root.rglob("*"):
        os.utime(path, ns=(long_ago, long_ago))
    before = fingerprints(list_store("tree://here/store"))
    written = next(path for path in sorted(root.rglob("*")) if path.is_file())
    os.utime(written, ns=(long_ago + 10**9, long_ago + 10**9))
    now = fingerprints(list_store("tree://here/store"))
    assert [path for path in before if not is_same(before[path], now[path])] == [str(written.relative_to(root))]


@pytest.mark.parametrize(
    ("root", "asked"),
    [
        ("gs://bucket/a%20b?retries=1&connect_timeout=7", "gs://bucket/a%20b?retry_limit_seconds=7"),
        ("gs://bucket/a?retry_limit_seconds=60", "gs://bucket/a?retry_limit_seconds=60"),
        ("hdfs://host/a?retries=1&replication=2", "hdfs://host/a?replication=2"),
    ],
)
def test_clients_get_their_own_options_and_an_end(root: str, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Systems:
        @staticmethod
        def from_uri(uri: str) -> tuple[None, str]:
            seen.append(uri)
            return None, "/"

    monkeypatch.setattr(fs, "FileSystem", Systems)
    monkeypatch.setattr(filesystem, "connected", CONNECTED)
    filesystem.opened(root)
    filesystem.opened.cache_clear()
    assert seen == [asked]

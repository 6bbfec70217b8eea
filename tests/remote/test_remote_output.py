"""Rebuilds into an object store: the local bytes, and a partial output that says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from rebuilds import tree
from remote.objects import DOWN, QUOTED_SECRET, RESET, SECRET, Fault, Objects, Proxy, Request, no_fault
from sampled import sampled

from storeio.audit import prepare
from storeio.cli import run
from storeio.errors import NotAStoreError, UsageError, WriteError
from storeio.output.publishing import begin
from storeio.rebuild import node
from storeio.rebuild.node import rebuild
from storeio.remote import writing
from storeio.remote.listing import COMPLETE, WRITING
from storeio.salvage.node import salvage
from storeio.scan import list_store

pytestmark = pytest.mark.share(2)

Start = Callable[[Fault], Proxy]
STORE = "base-5.3.3"


@pytest.fixture(scope="module")
def local(objects: Objects, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return what a rebuild of the store on disk writes; the store is on the server as ``store``."""
    objects.put_store(golden.store(STORE), "store")
    place = tmp_path_factory.mktemp("rebuilt") / "new"
    rebuild(golden.store(STORE), place)
    return tree(place)


def without_mark(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a complete output, after a look at its mark."""
    told = json.loads(files[COMPLETE])
    rest = {path: data for path, data in files.items() if path != COMPLETE}
    assert {each["path"]: each["size"] for each in told["files"]} == {path: len(data) for path, data in rest.items()}
    return rest


@pytest.mark.share(2)
@pytest.mark.parametrize("trouble", [None, RESET, 503])
def test_bytes_are_those_of_the_local_rebuild(
    trouble: int | str | None, local: dict[str, bytes], objects: Objects, proxied: Start
) -> None:
    proxy = proxied(lambda request: trouble if request.number % 7 == 3 else None)
    name = f"new-{trouble}"
    built = rebuild(objects.uri("store", proxy.endpoint), objects.uri(name, proxy.endpoint))
    assert without_mark(objects.tree(name)) == local
    assert built.files == sorted(local)
    assert any(COMPLETE in note for note in built.notes)
    assert SECRET not in repr(built)
    with pytest.raises(UsageError, match="is not empty"):
        rebuild(objects.uri("store"), objects.uri(name))
    assert {f.path for f in list_store(objects.uri(name)).files if not f.is_dir} == set(local)  # the mark is no part


@pytest.mark.parametrize("is_donor", [True, False])
def test_where_bytes_were_taken_from_is_told_without_secrets(
    is_donor: bool, objects: Objects, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = golden.copy_of(STORE, tmp_path / "store")
    first, second = (root / golden.segment(number) for number in (2, 4))
    if is_donor:
        objects.put_store(root, "whole")
        first.write_bytes(bytes(first.stat().st_size))
        words = [str(root), "--donor", objects.uri("whole")]
    else:
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
        objects.put_store(root, "swapped")
        words = [objects.uri("swapped")]
    told = tmp_path / "told.json"
    assert run(["salvage", *words, "--into", str(tmp_path / "made"), "--json", str(told)]) == 0
    sources = [piece["source"] for piece in json.loads(told.read_text())["moved"]]
    assert sources
    assert all(f"/commitlog/{first.name if is_donor else ''}" in source for source in sources)
    said = capsys.readouterr()
    for text in (said.out, said.err, told.read_text(), (tmp_path / "made/storeio-salvage.json").read_text()):
        assert SECRET not in text
        assert QUOTED_SECRET not in text


def test_a_server_that_dies_leaves_what_says_that_it_is_not_complete(
    local: dict[str, bytes], objects: Objects, proxied: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    proxy = proxied(no_fault)
    put: list[str] = []

    def fault(request: Request) -> str | None:
        if request.method == "PUT" and request.path.startswith("dying/"):
            put.append(request.path)
        return DOWN if len(put) > 5 else None

    proxy.fault = fault
    uri = objects.uri("dying", proxy.endpoint, retries="1", request_timeout="1")
    words = ["rebuild", objects.uri("store"), "--into", uri, "--json", str(tmp_path / "told.json")]
    assert run(words) == 8
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert SECRET not in said.err + said.out + (tmp_path / "told.json").read_text()
    left = objects.tree("dying")
    assert WRITING in left
    assert COMPLETE not in left
    assert 1 < len(left) < len(local)
    with pytest.raises(NotAStoreError, match="not complete"):
        list_store(objects.uri("dying"))
    objects.put("dying/consumequeue/of-before/0/00000000000000000000", b"left over")  # goes with the next run
    rebuild(objects.uri("store"), objects.uri("dying"))
    assert without_mark(objects.tree("dying")) == local


def test_what_fails_while_the_server_lives_is_removed(
    local: dict[str, bytes], objects: Objects, proxied: Start
) -> None:
    del local
    path = "failing/checkpoint"
    proxy = proxied(lambda request: 500 if request.method in ("PUT", "POST") and request.path == path else None)
    with pytest.raises(WriteError, match="checkpoint"):
        rebuild(objects.uri("store"), objects.uri("failing", proxy.endpoint, retries="1"))
    assert objects.tree("failing") == {}


def test_what_was_not_there_when_it_was_to_be_removed_is_looked_for_again(
    local: dict[str, bytes], objects: Objects, proxied: Start
) -> None:
    """An upload may end after all, or a server may say of a file that it is not there and have it."""
    del local
    denied: set[str] = set()

    def fault(request: Request) -> int | None:
        if request.path == "late/checkpoint" and request.method in ("PUT", "POST"):
            return 500
        is_first = request.path not in denied
        if request.method == "HEAD" and request.path.startswith("late/consumequeue/") and is_first:
            denied.add(request.path)
            return 404
        return None

    with pytest.raises(WriteError, match="checkpoint"):
        rebuild(objects.uri("store"), objects.uri("late", proxied(fault).endpoint, retries="1"))
    assert denied
    assert objects.tree("late") == {}


def test_a_mark_that_was_not_there_when_it_was_to_be_removed_is_removed(objects: Objects, proxied: Start) -> None:
    heads: list[Request] = []

    def fault(request: Request) -> int | None:
        is_complete = f"mark/{COMPLETE}" in {f"mark/{path}" for path in objects.tree("mark")}
        if not (is_complete and request.method == "HEAD" and request.path == f"mark/{WRITING}"):
            return None
        heads.append(request)
        return 404 if len(heads) == 2 else None  # the first looks at the token

    staging = begin(objects.uri("mark", proxied(fault).endpoint))
    staging.write("a", 0, b"one", size=3)
    staging.finish(1)
    assert len(heads) > 2
    assert without_mark(objects.tree("mark")) == {"a": b"one"}


def test_a_source_that_cannot_be_read_leaves_no_output(
    local: dict[str, bytes], objects: Objects, proxied: Start
) -> None:
    del local
    proxy = proxied(lambda request: 500 if "commitlog/" in request.path and request.method == "GET" else None)
    with pytest.raises(OSError, match="commitlog/"):
        rebuild(objects.uri("store", proxy.endpoint, retries="0"), objects.uri("unread"))
    assert objects.tree("unread") == {}


def test_two_writers_of_one_place_do_not_both_succeed(objects: Objects) -> None:
    uri = objects.uri("both")
    first, second = begin(uri), begin(uri)
    for staging, data in ((first, b"one"), (second, b"two")):
        staging.write("a", 0, data, size=3)
    with pytest.raises(WriteError, match="something else writes there"):
        first.finish(1)
    first.abandon()
    second.finish(1)
    assert without_mark(objects.tree("both")) == {"a": b"two"}


def test_who_begins_at_the_last_moment_is_not_overruled(objects: Objects, proxied: Start) -> None:
    def fault(request: Request) -> None:
        if request.method == "PUT" and request.path == f"last/{COMPLETE}":
            objects.put(f"last/{WRITING}", b"theirs")

    first = begin(objects.uri("last", proxied(fault).endpoint))
    first.write("a", 0, b"one", size=3)
    with pytest.raises(WriteError, match="something else writes there"):
        first.finish(1)
    first.abandon()
    assert objects.tree("last")[WRITING] == b"theirs"


def test_what_has_come_there_meanwhile_is_not_removed(
    local: dict[str, bytes], objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    del local

    def prepared(*words: Any, **rest: Any) -> Any:
        objects.put("meanwhile/theirs", b"theirs")  # as another rebuild that ended while this one looked at its store
        return prepare(*words, **rest)

    monkeypatch.setattr(node, "prepare", prepared)
    with pytest.raises(WriteError, match="is not empty any more"):
        rebuild(objects.uri("store"), objects.uri("meanwhile"))
    assert objects.tree("meanwhile") == {"theirs": b"theirs"}


@pytest.mark.share(2)
@pytest.mark.parametrize("trouble", sampled((503, 403, DOWN), [403, DOWN]))
def test_an_upload_that_fails_in_the_middle_leaves_what_was_there(
    trouble: int | str, objects: Objects, proxied: Start, tmp_path: Path
) -> None:
    place = f"parts-{trouble}"
    source = tmp_path / "large"
    source.write_bytes(bytes(21 << 20))  # two parts and a rest
    parts: list[Request] = []

    def fault(request: Request) -> int | str | None:
        parts.extend([request] if request.method == "PUT" else [])
        return trouble if len(parts) > 1 and request.method == "PUT" else None

    uri = objects.uri(place, proxied(fault).endpoint, retries="1")
    for before in ({}, {"f": b"before"}):
        for path, data in before.items():
            objects.put(f"{place}/{path}", data)
        parts.clear()
        with pytest.raises(WriteError, match=r"^f: .*part"):
            writing.upload(uri, "f", source)
        assert len(parts) > 1
        assert objects.tree(place) == before
    writing.upload(objects.uri(place), "f", source)
    assert objects.get(f"{place}/f") == source.read_bytes()


@pytest.mark.parametrize(
    ("into", "says"),
    [("store/new", "lies inside the store"), ("store", "lies inside the store"), ("taken", "is not empty")],
)
def test_wrong_places(into: str, says: str, local: dict[str, bytes], objects: Objects) -> None:
    del local
    objects.put("taken/file", b"theirs")
    before = objects.tree(into.partition("/")[0])
    with pytest.raises(UsageError, match=says):
        rebuild(objects.uri("store"), objects.uri(into))
    assert objects.tree(into.partition("/")[0]) == before


def test_a_salvage_that_moves_files_is_that_of_the_local_store(objects: Objects, tmp_path: Path) -> None:
    first, second = (f"commitlog/{number * 32768:020d}" for number in (1, 2))
    edits = [["rename", first, f"commitlog/{777:020d}"], ["zero", second, 4000, 500]]
    root = golden.damaged("base-5.3.3", edits, tmp_path / "store")
    objects.put_store(root, "misnamed")
    local = salvage(root, tmp_path / "local", jobs=1)
    remote = salvage(objects.uri("misnamed"), objects.uri("saved"), jobs=1)
    assert remote.exit_code == local.exit_code
    assert remote.records == local.records > 0
    assert len(remote.moved) == len(local.moved) > 0
    here, there = tree(tmp_path / "local"), without_mark(objects.tree("saved"))
    assert set(there) == set(here)
    derived = [name for name in here if name.startswith(("commitlog/", "consumequeue/", "index/"))]
    assert {name: there[name] for name in derived} == {name: here[name] for name in derived}

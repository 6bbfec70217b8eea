"""Files that change while they are read, and reads that fail once: whatever was made of them says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from remote.objects import Fault, Objects, Proxy, Request

import storeio
from storeio.audit import file_tasks, prepare
from storeio.cli import run
from storeio.errors import UnreadableError
from storeio.incremental.store_run import StoreRun, look_at_file
from storeio.rebuild.node import rebuild
from storeio.salvage import node
from storeio.salvage.node import salvage
from storeio.scan import failed_since, list_store

Start = Callable[[Fault], Proxy]
STORE = "base-5.3.3"
CHANGED = "changed while it was read"


@pytest.fixture
def root(objects: Objects) -> Path:
    """Return a sound store that is on the server as ``store``, put there anew."""
    objects.put_store(golden.store(STORE), "store")
    return golden.store(STORE)


@pytest.fixture
def segment(root: Path) -> str:
    return sorted(path.relative_to(root).as_posix() for path in root.glob("commitlog/*"))[1]


def once(chosen: Callable[[Request], bool]) -> Fault:
    """Return what fails the first request that is chosen."""
    seen: list[Request] = []

    def fault(request: Request) -> int | None:
        if seen or not chosen(request):
            return None
        seen.append(request)
        return 500

    return fault


def reads_index(request: Request) -> bool:
    return request.method == "GET" and request.path.startswith("store/index/")


def changing(objects: Objects, root: Path, path: str) -> Fault:
    """Return what puts other bytes into a file at the first request for it."""
    data = (root / path).read_bytes() + b"x"  # times of the server are whole seconds
    seen: list[Request] = []

    def fault(request: Request) -> None:
        if request.method == "GET" and request.path == f"store/{path}":
            seen.append(request)
            if len(seen) == 1:
                objects.put(f"store/{path}", data)

    return fault


def test_a_head_that_could_not_be_read_once_is_told(root: Path, objects: Objects, proxied: Start) -> None:
    """The shape of all index files is told from one of them: without it all of them looked damaged."""
    del root
    found = storeio.check(objects.uri("store", proxied(once(reads_index)).endpoint, retries="0"))
    said = [finding for finding in found.findings if finding.code == "UNREADABLE"]
    assert [finding.path.partition("/")[0] for finding in said] == ["index"]
    assert "500" in said[0].detail
    assert found.exit_code & 8
    assert f"{said[0].path}: {said[0].detail}" in found.failed


def test_what_was_judged_without_it_is_not_kept_for_the_next_audit(
    root: Path, objects: Objects, proxied: Start
) -> None:
    del root
    for fault, is_kept in ((once(reads_index), False), (lambda _: None, True)):
        plan = prepare(objects.uri("store", proxied(fault).endpoint, retries="0"))
        plan.listing.versions.update(dict.fromkeys(plan.listing.versions, "1-1"))  # type: ignore[attr-defined]
        store_run = StoreRun(plan, {}, 0, "run")  # type: ignore[arg-type]
        task = next(task for task in file_tasks(plan) if task.file.kind == "index")
        assert (store_run.take_file(task, look_at_file(plan, task)) is not None) == is_kept


def test_nothing_is_built_without_it(root: Path, objects: Objects, proxied: Start, tmp_path: Path) -> None:
    del root
    with pytest.raises(UnreadableError, match=r"index/.*500"):
        rebuild(objects.uri("store", proxied(once(reads_index)).endpoint, retries="0"), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    rebuild(objects.uri("store", proxied(once(reads_index)).endpoint, retries="1"), tmp_path / "new")


def test_failures_of_before_are_not_told_again(root: Path, objects: Objects, proxied: Start) -> None:
    uri = objects.uri("store", proxied(once(reads_index)).endpoint, retries="0")
    first = list_store(uri)
    assert storeio.check(uri).failed
    assert failed_since(first)
    again = storeio.check(uri)
    assert again.failed == storeio.check(root).failed == []
    assert again.exit_code == 0


def test_a_salvage_of_what_changed_after_its_audit(
    root: Path, segment: str, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = node.write_log

    def changed(*words: Any) -> None:
        objects.put(f"store/{segment}", (root / segment).read_bytes() + b"x")
        written(*words)

    monkeypatch.setattr(node, "write_log", changed)
    saved = salvage(objects.uri("store"), tmp_path / "saved", jobs=1)
    assert f"could not be read: {segment}: {CHANGED}" in saved.problems
    assert saved.exit_code & 8


def test_inspect_tells_what_changed(
    root: Path, segment: str, objects: Objects, proxied: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = proxied(changing(objects, root, segment))
    assert run(["inspect", objects.uri("store", proxy.endpoint), "--records", "--json", "-"]) == 8
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert f"{segment}: {CHANGED}" in said.err
    assert all(json.loads(line) for line in said.out.splitlines())
    objects.put_store(root, "store")
    other = next(path.relative_to(root).as_posix() for path in root.glob("index/*"))
    proxy = proxied(changing(objects, root, segment))
    words = ["inspect", objects.uri("store", proxy.endpoint), "--at", "100", "--json", "-"]
    objects.put(f"store/{other}", b"of no matter")
    assert run(words) == 0  # nothing of the files that changed was read


def test_diff_tells_what_changed(
    root: Path, segment: str, objects: Objects, proxied: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = proxied(changing(objects, root, segment))
    assert run(["diff", objects.uri("store", proxy.endpoint), str(root)]) == 8
    assert f"{segment}: {CHANGED}" in capsys.readouterr().err

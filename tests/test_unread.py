"""Of what cannot be read nothing is said but that: neither that messages are lost, nor that files are damaged."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest
from faults import Faults

from storeio import audit
from storeio.codes import INFO
from storeio.results import Audit, messages_in

STORE: Final = "base-5.3.3"
SEGMENT: Final = 32768
EACH: Final = 3  # files of a kind that one after the other cannot be read
EVERY_KIND: Final = ("rich-4.9.8", "rich-5.3.3", "ext-5.5.1", "base-5.5.1")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return golden.copy_of(STORE, tmp_path / "store")


@pytest.fixture
def faults(store: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(store, monkeypatch)


def segment(number: int) -> str:
    return f"commitlog/{number * SEGMENT:020d}"


def wrong(found: Audit) -> list[tuple[str, str]]:
    """Return code and path of what is wrong."""
    return [(f.code, f.path) for f in found.findings if f.severity != INFO]


def require_only_unread(found: Audit, paths: Collection[str]) -> None:
    """Require that nothing is said but that these could not be read."""
    assert sorted(wrong(found)) == [("UNREADABLE", path) for path in sorted(paths)]
    assert found.lost == []
    assert all(not queue.lost for queue in found.queues)
    assert [text.partition(": ")[0] for text in found.failed] == sorted(paths)
    assert found.exit_code == 12


@pytest.mark.parametrize("numbers", [(0,), (4,), (8,), (9,), (8, 9), (0, 1, 5), range(10)])
def test_messages_in_segments_that_cannot_be_read_are_not_lost(
    numbers: Collection[int], store: Path, faults: Faults
) -> None:
    whole = audit.check(store)
    paths = [segment(number) for number in numbers]
    for path in paths:
        faults.deny(path)
    found = audit.check(store)
    require_only_unread(found, paths)
    assert found.log.records + messages_in(found.unread) == whole.log.records == 850
    assert found.bytes_by_kind()["commitlog"]["missing"] == len(paths) * SEGMENT


@pytest.mark.parametrize("path", ["commitlog", segment(3)])
def test_nor_are_those_of_a_log_that_cannot_be_listed(path: str, store: Path, faults: Faults) -> None:
    if path == "commitlog":
        faults.deny(path)
    else:  # a link that leads to itself: not even its length is told
        (store / path).unlink()
        (store / path).symlink_to((store / path).name)
    found = audit.check(store)
    require_only_unread(found, [path])
    assert found.log.records + messages_in(found.unread) == 850


@pytest.mark.parametrize("path", ["consumequeue", "consumequeue/topic_0", "consumequeue/topic_0/1", "index"])
def test_files_in_directories_that_cannot_be_listed_are_not_missing(path: str, store: Path, faults: Faults) -> None:
    faults.deny(path)
    require_only_unread(audit.check(store), [path])


@pytest.mark.parametrize("name", EVERY_KIND)
def test_nothing_else_follows_from_one_file_that_cannot_be_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    usual = {(f.code, f.path) for f in audit.check(root).findings}
    kinds = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "checkpoint")
    files = [path for kind in kinds for path in sorted(root.rglob("*")) if path.relative_to(root).parts[0] == kind]
    files = [path for path in files if path.is_file()]
    chance = random.Random(name)
    of_kinds = [[path for path in files if path.relative_to(root).parts[0] == kind] for kind in kinds]
    for path in (path for of_kind in of_kinds for path in chance.sample(of_kind, min(len(of_kind), EACH))):
        with monkeypatch.context() as patch:
            Faults(root, patch).deny(str(path.relative_to(root)))
            found = audit.check(root)
        told = {(f.code, f.path) for f in found.findings if f.severity != INFO} - usual
        assert told == {("UNREADABLE", str(path.relative_to(root)))}, path
        assert found.lost == []


def test_what_is_lost_beside_it_is_told(store: Path, faults: Faults) -> None:
    (store / segment(2)).write_bytes(bytes(SEGMENT))
    lost = audit.check(store)
    faults.deny(segment(6))
    found = audit.check(store)
    assert messages_in(found.lost) == messages_in(lost.lost) > 0
    assert found.lost == lost.lost
    assert messages_in(found.unread) > 0
    assert {code for code, _ in wrong(found)} == {code for code, _ in wrong(lost)} | {"UNREADABLE"}

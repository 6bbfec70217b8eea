"""A store as a plan leaves it: links from one of its names to another lead where they would."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storeio.linked import LinkedStore
from storeio.scan import list_store

FILE = "consumequeue/T/0/00000000000000000000"
OTHER = "consumequeue/T/0/m_0"


def made(root: Path, path: str, target: str) -> LinkedStore:
    """Return links to a store in which ``path`` is a link to ``target``."""
    (root / FILE).parent.mkdir(parents=True)
    (root / OTHER).write_bytes(b"units")
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).symlink_to(target)
    return LinkedStore(list_store(root), root.parent / "linked" / "store")


@pytest.mark.parametrize(
    ("path", "target", "name"), [(FILE, "m_0", FILE), ("consumequeue/T/1", "0", "consumequeue/T/1/m_0")]
)
@pytest.mark.parametrize("absolute", [True, False])
def test_what_is_written_or_removed_is_so_under_both_names(
    path: str, target: str, name: str, absolute: bool, tmp_path: Path
) -> None:
    store = made(tmp_path / "s", path, str((tmp_path / "s" / path).parent / target) if absolute else target)
    before = store.before(name)
    store.write(OTHER, 1, b"N")
    assert (store.root / name).read_bytes() == b"uNits"
    assert before.read_bytes() == b"units"
    assert store.link_to(OTHER) == (path if path == name else None)
    store.remove(OTHER)
    assert os.path.lexists(store.root / name)
    assert not store.exists(name)
    store.restore(OTHER)
    assert (store.root / name).read_bytes() == b"units"
    assert (tmp_path / "s" / OTHER).read_bytes() == b"units"


CHANGES: dict[str, Callable[[LinkedStore], object]] = {
    "written": lambda store: store.write(FILE, 0, b"U"),
    "removed": lambda store: store.remove(FILE),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_link_is_changed_alone(how: str, tmp_path: Path) -> None:
    store = made(tmp_path / "s", FILE, "m_0")
    CHANGES[how](store)
    assert (store.root / OTHER).read_bytes() == b"units"
    assert store.exists(FILE) == (how == "written")


def test_a_link_out_of_the_store_is_none_in_it(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"x")
    store = made(tmp_path / "s", FILE, str(tmp_path / "elsewhere"))
    assert store.link_to(OTHER) is None
    assert (store.root / FILE).read_bytes() == b"x"

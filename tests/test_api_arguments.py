"""Numbers and names that functions of the library do not take: an error of the library, and nothing done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest

import storeio
from storeio.errors import StoreError, UnreadableError, UsageError
from storeio.store import MOST_MISSING_BYTES

ROOT = "base-5.3.3"

Call = Callable[[Path, Path], Any]


@pytest.mark.parametrize(
    "call",
    [
        lambda root, _: storeio.check(root, jobs=0),
        lambda root, _: storeio.check(root, jobs=-3),
        lambda root, _: storeio.check(root, split_bytes=0),
        lambda root, new: storeio.rebuild(root, new, jobs=-1),
        lambda root, new: storeio.salvage(root, new, jobs=0),
        lambda root, new: storeio.salvage(root, new, donors=[root]),
        lambda root, new: storeio.plan(root, new, donors=[root], goal="salvage", allow_log=True),
        lambda root, new: storeio.plan(root, new, goal="everything"),
        lambda root, _: storeio.diff(root, root),
        lambda root, _: storeio.simulate(root, heap_bytes=0),
        lambda root, _: storeio.open_store(root).units("topic_0", 0, kind="queue"),
    ],
)
def test_refused(call: Call, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        call(golden.store(ROOT), tmp_path / "new")
    assert isinstance(told.value, StoreError)
    assert list(tmp_path.iterdir()) == []


def test_a_stray_name_far_away_allocates_nothing(tmp_path: Path) -> None:
    root = golden.copy_of(ROOT, tmp_path / "store")
    store = storeio.open_store(root)
    assert len(store.units("topic_0", 0))
    first = sorted((root / "consumequeue/topic_0/0").iterdir())[0]
    (first.parent / f"{MOST_MISSING_BYTES * 20:020d}").write_bytes(first.read_bytes())
    with pytest.raises(UnreadableError, match="consumequeue/topic_0/0: its files hold"):
        storeio.open_store(root).units("topic_0", 0)

"""Work grows as a store does, not as its square: how often something is looked at is counted, not how long it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from storebuilder import StoreBuilder

import storeio
from storeio.checks.queue_files import QueueFile

FILES = 300


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often a queue's file is asked for its name."""
    count, name = [0], QueueFile.__dict__["path"]

    def path(file: QueueFile) -> Any:
        count[0] += 1
        return name.__get__(file)

    monkeypatch.setattr(QueueFile, "path", property(path, name.__set__))
    return count


def test_an_audit_does_not_go_through_all_files_of_a_queue_for_each(tmp_path: Path, asked: list[int]) -> None:
    builder = StoreBuilder(tmp_path / "store", units_per_file=1)
    for _ in range(FILES):
        builder.message("t")
    assert storeio.check(builder.close()).verdict == "sound"
    assert asked[0] < 20 * FILES

"""Work grows as a store does, not as its square: how often something is looked at is counted, not how long it takes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from rebuilds import settings_of
from storebuilder import StoreBuilder

import storeio
from storeio.checks.queue_files import QueueFile
from storeio.rebuild.node import rebuild
from storeio.simulate import pull

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


def test_a_message_that_fills_a_gap_of_its_queue_is_not_read_for_each_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = StoreBuilder(tmp_path / "store")
    for number in (0, 1, 2000, 2001):
        builder.message("t", queue_offset=number)
    root, given = builder.close(), settings_of(builder.settings)
    (built,) = rebuild(root, tmp_path / "new", given=given, parts=("queues",)).queues
    shutil.rmtree(root / "consumequeue")
    (tmp_path / "new" / "consumequeue").rename(root / "consumequeue")
    read, message_at = [], pull.message_at

    def counted(*args: Any) -> Any:
        read.append(args)
        return message_at(*args)

    monkeypatch.setattr(pull, "message_at", counted)
    got = storeio.simulate(root, broker="5.5.1", given=given).consumers
    assert got is not None and got.messages == built.stop == 2002
    assert 0 < len(read) < 200

"""A rebuild goes by the store's own files where the log does not tell, and says which of these it could not read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from faults import Faults

from storeio import cli
from storeio.rebuild.node import rebuild
from storeio.report.rebuilding import render_rebuilt

SEGMENT: Final = 32768


@pytest.mark.parametrize(
    "path", ["consumequeue", "consumequeue/topic_0", "consumequeue/topic_0/1", "index", "index/20261120235712297",
             "checkpoint", "config"],
)  # fmt: skip
def test_what_was_decided_without_all_files_is_told(path: str, store: Path, faults: Faults, tmp_path: Path) -> None:
    (store / "config").mkdir()
    faults.deny(path)
    made = rebuild(store, tmp_path / "new")
    assert (made.failed, made.exit_code) == ([f"{path}: Permission denied"], 8)
    said = render_rebuilt(made)
    assert said.startswith("DOUBTFUL: ")
    assert f"{path}: Permission denied" in said
    assert "mv " not in said
    assert made.records == 850
    assert cli.run(["rebuild", str(store), "--into", str(tmp_path / "again"), "--quiet"]) == 8


def test_an_index_file_amid_which_a_block_cannot_be_read_is_told(store: Path, faults: Faults, tmp_path: Path) -> None:
    """Its units tell whether tags are indexed."""
    path = sorted((store / "index").iterdir())[0].relative_to(store).as_posix()
    faults.fail(path, 4096, (store / path).stat().st_size)
    made = rebuild(store, tmp_path / "new")
    assert {text.partition(": ")[0] for text in made.failed} == {path}
    assert made.exit_code == 8
    assert rebuild(store, tmp_path / "queues", parts=("queues",)).failed == made.failed


def test_what_decides_nothing_need_not_be_read(store: Path, faults: Faults, tmp_path: Path) -> None:
    (store / "lost+found").mkdir()
    faults.deny("lost+found")
    faults.deny("consumequeue/topic_0/0/00000000000000001000")
    made = rebuild(store, tmp_path / "new")
    assert (made.failed, made.exit_code) == ([], 0)


def test_units_in_gaps_that_cannot_be_read_are_told(store: Path, faults: Faults, tmp_path: Path) -> None:
    """Else they are taken from there: they tell the place of a record that is lost."""
    (store / f"commitlog/{2 * SEGMENT:020d}").write_bytes(bytes(SEGMENT))
    kept = {(q.topic, q.queue_id): (q.kept, q.filled) for q in rebuild(store, tmp_path / "kept").queues}
    assert all(count and not filled for count, filled in kept.values())
    path = "consumequeue/topic_0/1/00000000000000000000"
    faults.deny(path)
    made = rebuild(store, tmp_path / "new")
    assert (made.failed, made.exit_code) == ([f"{path}: Permission denied"], 12)
    filled = {(q.topic, q.queue_id) for q in made.queues if q.filled}
    assert filled == {("topic_0", 1)}

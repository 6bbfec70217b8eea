"""A salvage of a store of which not all can be read: the rest is saved, and what is not is told."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest
from faults import Faults, failing
from golden_data import segment

from storeio import audit, cli
from storeio.errors import UnreadableError
from storeio.report.salvaging import render_salvaged
from storeio.salvage.node import salvage
from storeio.salvaged import Salvaged

pytestmark = pytest.mark.share(2)

STORE: Final = "base-5.3.3"
SEGMENT: Final = 32768
BLOCK: Final = 4096
MESSAGES: Final = 850


def require_saved(made: Salvaged, store: Path, *unread: tuple[str, int, int]) -> None:
    """Require that all is saved that does not lie in what could not be read, byte for byte, and the rest told."""
    ranges = [(int(path[-20:]) + low, int(path[-20:]) + high) for path, low, high in unread]
    rows = [(int(row["phy_offset"]), int(row["size"])) for row in golden.dump(STORE)]
    kept = [(at, size) for at, size in rows if not any(at < high and at + size > low for low, high in ranges)]
    assert (made.records, made.lost_count) == (len(kept), MESSAGES - len(kept))
    assert made.exit_code == 12
    for path, low, high in unread:
        assert any(text.startswith(f"could not be read: {path}: ") for text in made.problems), (path, low, high)
    whole, into = golden.store(STORE), Path(made.into)
    for at, size in kept:
        path, position = f"commitlog/{at - at % SEGMENT:020d}", at % SEGMENT
        new, old = ((root / path).read_bytes()[position : position + size] for root in (into, whole))
        assert new == old
    assert audit.check(into).exit_code == 0


@pytest.mark.parametrize("number", [0, 4, 9])
def test_one_segment_that_cannot_be_read_leaves_all_others(
    number: int, store: Path, faults: Faults, tmp_path: Path
) -> None:
    faults.deny(segment(number))
    made = salvage(store, tmp_path / "new")
    require_saved(made, store, (segment(number), 0, SEGMENT))
    assert "LOST (messages that no byte of the store that could be read can supply)" in render_salvaged(made)
    assert made.saved is None  # what a broker would have made of it nobody can tell


def test_nor_does_one_whose_length_is_not_told(store: Path, tmp_path: Path) -> None:
    (store / segment(3)).unlink()
    (store / segment(3)).symlink_to((store / segment(3)).name)
    require_saved(salvage(store, tmp_path / "new"), store, (segment(3), 0, SEGMENT))


@pytest.mark.parametrize("seed", range(4))
def test_of_a_segment_with_bad_blocks_the_rest_is_saved(seed: int, store: Path, faults: Faults, tmp_path: Path) -> None:
    chance = random.Random(seed)
    bad = [(segment(n), n * BLOCK % SEGMENT, n * BLOCK % SEGMENT + BLOCK) for n in chance.sample(range(9), 3)]
    for row in bad:
        faults.fail(*row)
    require_saved(salvage(store, tmp_path / "new"), store, *bad)


def test_what_a_file_has_behind_a_segments_length_need_not_be_read(store: Path, faults: Faults, tmp_path: Path) -> None:
    """It is no part of the log."""
    with (store / segment(3)).open("ab") as file:
        file.write(b"?" * 2 * BLOCK)
    faults.fail(segment(3), SEGMENT, SEGMENT + BLOCK)
    made = salvage(store, tmp_path / "new", given={"mappedFileSizeCommitLog": str(SEGMENT)})
    assert (made.records, made.lost, made.problems) == (MESSAGES, [], [])


@pytest.mark.parametrize("is_denied", [False, True])
def test_a_segment_without_a_number_for_a_name_has_bad_blocks(
    is_denied: bool, store: Path, faults: Faults, tmp_path: Path
) -> None:
    """No audit looks at such a file; a salvage takes from it what it gives."""
    path = f"{segment(3)}.bak"
    (store / segment(3)).rename(store / path)
    if is_denied:
        faults.deny(path)
    else:
        faults.fail(path, 3 * BLOCK, 4 * BLOCK)
    made = salvage(store, tmp_path / "new")
    unread = [text.partition(": ")[2] for text in made.problems if text.startswith("could not be read: ")]
    assert [text.startswith(f"{path}: bytes ") for text in unread] == [True]
    assert (made.records + made.lost_count, made.exit_code) == (MESSAGES, 12)
    assert (made.records > MESSAGES - 20) is not is_denied
    assert audit.check(made.into).exit_code == 0


def test_many_bad_blocks_are_left_out_in_larger_pieces(
    store: Path, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storeio.reading.around.MOST_BLOCKS", 1)
    faults.fail(segment(3), 0, BLOCK)
    faults.fail(segment(3), 2 * BLOCK, 3 * BLOCK)
    made = salvage(store, tmp_path / "new")
    assert made.records + made.lost_count == MESSAGES
    assert MESSAGES - 100 < made.records < MESSAGES
    assert made.exit_code == 12


def test_a_donor_fills_what_cannot_be_read(store: Path, faults: Faults, tmp_path: Path) -> None:
    donor = golden.copy_of(STORE, tmp_path / "donor")
    faults.fail(segment(4), 2 * BLOCK, 3 * BLOCK)
    faults.deny(segment(6))
    made = salvage(store, tmp_path / "new", donors=[donor])
    assert (made.records, made.lost_count) == (MESSAGES, 0)
    assert {piece.source.rpartition("/commitlog/")[0] for piece in made.moved} == {str(donor)}


def test_a_donor_of_which_not_all_can_be_read_gives_the_rest(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    donor = golden.copy_of(STORE, tmp_path / "donor")
    for number in (2, 6):
        (store / segment(number)).write_bytes(bytes(SEGMENT))
    Faults(donor, monkeypatch).deny(segment(6))
    made = salvage(store, tmp_path / "new", donors=[donor])
    whole = salvage(store, tmp_path / "other")
    assert whole.records < made.records < MESSAGES
    assert made.records + made.lost_count == MESSAGES
    assert f"could not be read: {donor}: {segment(6)}: bytes 0 to {SEGMENT}: Permission denied" in made.problems


@pytest.mark.parametrize(
    "path",
    ["consumequeue/topic_0/0/00000000000000001000", "index/20261120235712297", "checkpoint", "consumequeue/topic_0"],
)
def test_what_is_built_anew_need_not_be_read(path: str, store: Path, faults: Faults, tmp_path: Path) -> None:
    faults.deny(path)
    made = salvage(store, tmp_path / "new")
    assert (made.records, made.lost_count) == (MESSAGES, 0)
    assert made.exit_code == 8
    assert audit.check(made.into).exit_code == 0


@pytest.mark.parametrize("name", ["topics.json", "consumerOffset.json"])
def test_a_table_that_cannot_be_read_is_told_and_left_out(
    name: str, store: Path, faults: Faults, tmp_path: Path
) -> None:
    (store / "config").mkdir()
    for each in ("topics.json", "consumerOffset.json"):
        (store / "config" / each).write_text('{"topicConfigTable": {}, "offsetTable": {}}')
    faults.deny(f"config/{name}")
    made = salvage(store, tmp_path / "new")
    assert (made.records, made.lost_count, made.exit_code) == (MESSAGES, 0, 8)
    assert f"could not be read: config/{name}: Permission denied" in made.problems
    assert [path.name for path in (tmp_path / "new/config").iterdir()] == [
        each for each in ("topics.json", "consumerOffset.json") if each != name
    ]


def test_a_log_that_cannot_be_listed_is_not_taken_for_none(store: Path, faults: Faults, tmp_path: Path) -> None:
    faults.deny("commitlog")
    with pytest.raises(UnreadableError, match=r"^commitlog: Permission denied"):
        salvage(store, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["symlink", "ftruncate", "pwrite"])
def test_a_full_directory_for_temporary_files_is_told_by_its_name(
    name: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds links to the store, and copies of what is put into its place; the store's own files are not full."""
    one, other = ((store / segment(number)).read_bytes() for number in (2, 3))
    (store / segment(2)).write_bytes(other)
    (store / segment(3)).write_bytes(one)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(os, name, failing(getattr(os, name), 1, errno.ENOSPC))
    assert cli.run(["salvage", str(store), "--into", str(tmp_path / "new"), "--quiet"]) == 8
    told = capsys.readouterr().err
    assert f"{tmp_path / 'scratch'}/" in told
    assert "could not be written: No space left" in told
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not (tmp_path / "new").exists()

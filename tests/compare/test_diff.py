"""``storeio diff``: two logs byte by byte, up to where they agree, and what each alone holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import golden_data as golden
import pytest
import salvages
from storebuilder import StoreBuilder

from storeio import cli
from storeio.compare.model import A_ALONE, A_DAMAGED, B_ALONE, DIVERGED
from storeio.compare.node import diff
from storeio.errors import UsageError

SIZES = {"mappedFileSizeCommitLog": "4096"}


def built(root: Path, count: int, *, other_from: int = 1000) -> list[int]:
    """Write a store of so many messages, other ones from a number on; return where they lie."""
    builder = StoreBuilder(root, segment_bytes=4096)
    places = [
        builder.message("topic", k % 2, bytes(100 + k) if k < other_from else b"!" * (100 + k)).physical_offset
        for k in range(count)
    ]
    builder.close()
    return places


@pytest.mark.parametrize("name", ["base-4.9.8", "rich-5.5.1"])
def test_a_store_equals_its_copy(name: str, tmp_path: Path) -> None:
    found = diff(golden.store(name), golden.copy_of(name, tmp_path / "copy"), jobs=1)
    assert (found.verdict, found.exit_code, found.ranges, found.queues) == ("equal", 0, [], [])
    assert found.aligned_to == found.first.max_physical_offset


def test_a_copy_that_stopped_earlier(tmp_path: Path) -> None:
    places = built(tmp_path / "a", 60)
    built(tmp_path / "b", 40)
    found = diff(tmp_path / "a", tmp_path / "b", given=SIZES, jobs=1)
    assert found.verdict == "prefix"
    assert [(part.why, part.stop) for part in found.ranges] == [(A_ALONE, found.first.max_physical_offset)]
    assert found.ranges[0].start == found.aligned_to <= places[40]
    assert [(queue.queue_id, queue.only_first, queue.only_second) for queue in found.queues] == [
        (0, ((20, 30),), ()), (1, ((20, 30),), ()),
    ]  # fmt: skip


def test_logs_that_went_different_ways(tmp_path: Path) -> None:
    places = built(tmp_path / "a", 60)
    built(tmp_path / "b", 60, other_from=31)
    found = diff(tmp_path / "a", tmp_path / "b", given=SIZES, jobs=1)
    assert found.verdict == "different"
    assert found.aligned_to == places[31]
    assert found.first_divergence is not None
    assert places[31] < found.first_divergence < places[32]
    assert {part.why for part in found.ranges} == {DIVERGED}
    assert found.queues == []  # the same numbers, of other messages


def test_damage_is_no_divergence(tmp_path: Path) -> None:
    places = built(tmp_path / "a", 60)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    path = tmp_path / "a" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[places[3] + 100] ^= 1
    path.write_bytes(data)
    found = diff(tmp_path / "a", tmp_path / "b", given=SIZES, jobs=1)
    assert [(part.start, part.stop, part.why) for part in found.ranges] == [
        (places[3] + 100, places[3] + 101, A_DAMAGED)
    ]
    assert found.first_divergence is None
    assert found.aligned_to == places[3]
    assert [queue.only_second for queue in found.queues] == [((1, 2),)]


@pytest.mark.parametrize("seed", range(6))
def test_every_byte_that_differs_lies_in_a_range(seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged("base-5.3.3", seed, tmp_path / "a")
    sizes = {"mappedFileSizeCommitLog": str(damage.segment_bytes)}
    found = diff(damage.root, golden.store("base-5.3.3"), given=sizes, jobs=1)
    start = max(found.first.min_physical_offset, found.second.min_physical_offset)
    stop = min(found.first.max_physical_offset, found.second.max_physical_offset)
    for path in (golden.store("base-5.3.3") / "commitlog").iterdir():
        theirs, mine = path.read_bytes(), damage.root / "commitlog" / path.name
        ours = mine.read_bytes()[: damage.segment_bytes] if mine.exists() else b""
        for at in range(len(theirs)):
            place = int(path.name) + at
            if start <= place < stop and (at >= len(ours) or ours[at] != theirs[at]):
                assert any(part.start <= place < part.stop for part in found.ranges), place


def test_segments_of_different_sizes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not copies of one log"):
        diff(golden.store("base-5.3.3"), golden.store("rich-5.3.3"))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built(tmp_path / "a", 20)
    built(tmp_path / "b", 20, other_from=10)
    words = [str(tmp_path / "a"), str(tmp_path / "b"), "--set", "mappedFileSizeCommitLog=4096"]
    assert cli.run(["diff", *words]) == 4
    assert capsys.readouterr().out.startswith("DIFFERENT: ")
    assert cli.run(["diff", *words, "--json", "-"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "different"
    assert told["ranges"][0]["why"] == DIVERGED
    assert cli.run(["diff", words[0], words[0]]) == 16
    assert "is the store itself" in capsys.readouterr().err
    shutil.copytree(words[0], tmp_path / "c")
    assert cli.run(["diff", words[0], str(tmp_path / "c"), "--quiet"]) == 0


@pytest.mark.parametrize("target", ["/nowhere", golden.segment(2).rpartition("/")[2]])
def test_what_could_not_be_read_is_told_and_counts(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = golden.store("base-5.3.3"), golden.copy_of("base-5.3.3", tmp_path / "b")
    (other / golden.segment(2)).unlink()
    (other / golden.segment(2)).symlink_to(target)
    found = diff(one, other, jobs=1)
    assert (found.verdict, found.exit_code, found.first.unread) == ("different", 12, ())
    assert [text.partition(": ")[0] for text in found.second.unread] == [golden.segment(2)]
    assert cli.run(["diff", str(one), str(other), "--jobs", "1"]) == 12
    assert "COULD NOT BE READ (of the second)" in capsys.readouterr().out


@pytest.mark.parametrize("which", [0, 1])
def test_a_log_that_leads_nowhere_is_named(
    which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        golden.copy_of("base-5.3.3", tmp_path / name)
    broken = ["one", "other"][which]
    shutil.rmtree(f"{broken}/commitlog")
    Path(f"{broken}/commitlog").symlink_to("/nowhere/at/all")
    assert cli.run(["diff", "one", "other"]) == 8
    assert capsys.readouterr().err.startswith(f"storeio: {broken}: commitlog: ")


@pytest.mark.parametrize("which", [0, 1])
def test_a_log_without_files_has_no_size(which: int, tmp_path: Path) -> None:
    roots = [golden.copy_of("base-5.3.3", tmp_path / name) for name in ("one", "other")]
    shutil.rmtree(roots[which] / "commitlog")
    (roots[which] / "commitlog").mkdir()
    found = diff(*roots, jobs=1)
    assert found.verdict != "equal"
    assert [part.why for part in found.ranges] == [[B_ALONE, A_ALONE][which]]
    assert sum(part.stop - part.start for part in found.ranges) == 320944


def test_a_donor_that_cannot_be_read_is_named_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    golden.damaged("base-5.3.3", [["zero", golden.segment(2), 0, 4096]], tmp_path / "store")
    golden.copy_of("base-5.3.3", tmp_path / "donor")
    shutil.rmtree("donor/commitlog")
    Path("donor/commitlog").symlink_to("commitlog")
    assert cli.run(["salvage", "store", "--donor", "donor", "--into", "out"]) == 8
    assert capsys.readouterr().err.startswith("storeio: donor: commitlog: ")

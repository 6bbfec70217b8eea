"""What intact records hold that lie elsewhere in the log than they say is not lost, and is counted apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import golden_data as golden
import numpy as np
import pytest
from golden_data import segment

from storeio import audit
from storeio.audit.misplaced import MISPLACED, told
from storeio.report.rows import table_rows
from storeio.report.text import verdict_sentence
from storeio.results import LostRange, messages_in

FAR: Final = 70
SIZE: Final = 32768


def bytes_came_in(name: str, number: int) -> list[Any]:
    """Return the edit that puts 12 bytes in front of a segment's fourth record; its last ones fall off."""
    start = sorted(int(row["phy_offset"]) for row in golden.dump(name) if int(row["phy_offset"]) >= number * SIZE)[3]
    data = (golden.store(name) / segment(number)).read_bytes()
    inside = start - number * SIZE
    return ["write", segment(number), inside, (bytes(12) + data[inside:-12]).hex()]


def renamed(number: int, to: int) -> list[Any]:
    """Return the edit that gives a segment the name of another place."""
    return ["rename", segment(number), segment(to)]


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
@pytest.mark.parametrize("numbers", [(1,), (4, 5), (9,)])
def test_messages_of_segments_with_other_names(name: str, numbers: tuple[int, ...], tmp_path: Path) -> None:
    edits = [renamed(number, FAR + i) for i, number in enumerate(numbers)]
    found = audit.check(golden.damaged(name, edits, tmp_path / "store"), jobs=1)
    theirs = [row for row in golden.dump(name) if int(row["phy_offset"]) // SIZE in numbers]
    assert (found.lost, messages_in(found.misplaced), found.exit_code) == ([], len(theirs), 4)
    assert {part.evidence for part in found.misplaced} == {MISPLACED}
    assert all(not queue.lost for queue in found.queues)
    assert f"; {len(theirs)} messages of 4 queues are not in place, but" in verdict_sentence(found)
    (run,) = table_rows(found, run_id="r")["runs"]
    assert (run["lost_messages"], run["misplaced_messages"], run["unread_messages"]) == (0, len(theirs), 0)


@pytest.mark.parametrize("number", [3, 7, 11])
def test_light_and_batch_queues_of_a_segment_with_another_name(number: int, tmp_path: Path) -> None:
    name = "rich-5.5.1"
    size = int(golden.options(name)["clFile"])
    edit = ["rename", f"commitlog/{number * size:020d}", f"commitlog/{FAR * size:020d}"]
    found = audit.check(golden.damaged(name, [edit], tmp_path / "store"), jobs=1)
    assert found.lost == []
    assert {part.topic[:5] for part in found.misplaced} >= {"%LMQ%", "bcq_a"}


def test_messages_behind_bytes_that_came_in(tmp_path: Path) -> None:
    name = "base-5.3.3"
    found = audit.check(golden.damaged(name, [bytes_came_in(name, 4)], tmp_path / "store"), jobs=1)
    theirs = [row for row in golden.dump(name) if int(row["phy_offset"]) // SIZE == 4]
    assert messages_in([*found.lost, *found.misplaced]) == len(theirs) - 3
    assert messages_in(found.lost) <= 1  # the last one, if the blank record is shorter than what came in


def test_a_segment_that_lies_twice_holds_nothing_that_is_missing(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    (root / segment(FAR)).write_bytes((root / segment(4)).read_bytes())
    found = audit.check(root, jobs=1)
    assert (found.lost, found.misplaced) == ([], [])


def test_numbers_are_told_apart_by_place() -> None:
    """A number may have been given twice: only a record that lay where the message is missing is that message."""
    missing = [LostRange("t", 0, 10, 20, 1000, 2000, "a gap"), LostRange("t", 0, 30, 31, 5000, 5100, "its unit")]
    runs = np.array([[12, 14, 1200, 1300, 2], [14, 17, 1300, 1400, 3], [30, 31, 100, 200, 1]], np.int64).T
    parts = [(p.first_queue_offset, p.stop_queue_offset, p.evidence) for p in told(missing, runs, is_placed=True)]
    assert parts == [(10, 12, "a gap"), (12, 17, MISPLACED), (17, 20, "a gap"), (30, 31, "its unit")]


@pytest.mark.parametrize("seed", range(20))
def test_each_missing_number_is_looked_for_among_all_runs(seed: int) -> None:
    chance = np.random.default_rng(seed)
    runs = np.empty((5, 30), np.int64)
    runs[0], runs[2], runs[4] = chance.integers(0, 60, 30), chance.integers(0, 900, 30), 1
    runs[1], runs[3] = runs[0] + chance.integers(1, 6, 30), runs[2] + chance.integers(1, 200, 30)
    missing = [
        LostRange("t", 0, first, first + 8, at, at + 100, "a hole")
        for first, at in zip(range(0, 60, 10), chance.integers(0, 1000, 6).tolist(), strict=True)
    ]
    found = {
        number
        for part in told(missing, runs, is_placed=True)
        if part.evidence == MISPLACED
        for number in range(part.first_queue_offset, part.stop_queue_offset)
    }
    assert found == {
        number
        for part in missing
        for number in range(part.first_queue_offset, part.stop_queue_offset)
        for low, high, start, stop, _ in runs.T.tolist()
        if low <= number < high and start < part.physical_stop and stop > part.physical_start
    }

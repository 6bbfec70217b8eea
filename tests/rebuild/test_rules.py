"""Rebuilds of random logs: as the obvious derivation has them, and with wild numbers as the rules have it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implied import PREPARED, Settings, derive
from rebuilds import (
    QUEUES,
    Obvious,
    built,
    contents,
    log_with_lists,
    no_waiting_for_disks,
    obvious_files,
    obviously_placed,
    random_log,
    settings_of,
    tree,
    with_copied_lists,
)
from storebuilder import StoreBuilder

from storeio import audit
from storeio.checks.segments import LogView
from storeio.rebuild import old, placement, queues
from storeio.rebuild.node import rebuild

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]
SIZES: tuple[dict[str, Any], ...] = (
    {},
    {"ext": True, "units_per_file": 7},
    {"multi_dispatch": True, "index_units": 31, "index_slots": 5},
    {"batch_topics": frozenset({"bcq"}), "units_per_file": 13},
)
WILD = (2**31 - 1, 2**41, 2**56, 2**62, -1, -(2**40))


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(12))
def test_random_logs_give_what_is_obviously_derived(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = random_log(tmp_path / "store", seed, **SIZES[seed % len(SIZES)])
    for topic in builder.settings.batch_topics:  # which topics these are, no log tells
        (tmp_path / "store" / "batchconsumequeue" / topic / "0").mkdir(parents=True)
        (tmp_path / "store" / "batchconsumequeue" / topic / "0" / f"{0:020d}").touch()
    expected = derive(builder.records(), builder.settings)
    names = ("TOGETHER_BYTES", "MOST_WAITING", "MANY", "MOST_HELD")
    usual = tuple(getattr(queues, name) for name in names)
    # Of the same splits units wait for the end, for more of their queue, for more of all queues, and not at all; then
    # they are joined in the end, every few splits, and alone, as those of many queues are.
    runs = (
        (None, 2, usual), (4096, 3, usual), (8192, 1, (100, *usual[1:])), (2048, 2, (500, 700, *usual[2:])),
        (4096, 1, (1, 1, *usual[2:])), (2048, 2, (*usual[:2], 1, usual[3])), (2048, 1, (100, 700, 1, 400)),
        (2048, 1, (1, 1, 1, 1)),
    )  # fmt: skip
    for number, (split_bytes, jobs, limits) in enumerate(runs):
        for name, limit in zip(names, limits, strict=True):
            monkeypatch.setattr(queues, name, limit)
        into = tmp_path / f"new-{number}"
        result = built(builder, into, split_bytes=split_bytes, jobs=jobs)
        assert tree(into, *QUEUES) == {path: bytes(data) for path, data in expected.files.items()}
        assert contents(tree(into, "index"), "index") == [bytes(data) for data in expected.index]
        assert result.exit_code == 0
        assert result.records == builder.messages


def test_checkpoint_says_what_is_true_of_log_and_index(tmp_path: Path) -> None:
    builder = random_log(tmp_path / "store", 4, index_units=31)
    root = builder.close()
    rebuild(root, tmp_path / "new", given=settings_of(builder.settings))
    data = (tmp_path / "new" / "checkpoint").read_bytes()
    assert len(data) == 4096
    assert data[:24] == (root / "checkpoint").read_bytes()[:24]
    # A start after a crash deletes index files that end later than is said.
    (root / "abort").touch()
    rebuild(root, tmp_path / "then", given=settings_of(builder.settings))
    *_, last = contents(tree(tmp_path / "then", "index"), "index")
    assert (tmp_path / "then" / "checkpoint").read_bytes() == data[:16] + last[8:16] + data[24:]
    assert last[8:16] > data[16:24]
    rebuild(root, tmp_path / "alone", given=settings_of(builder.settings), parts=("checkpoint",))
    assert (tmp_path / "alone" / "checkpoint").read_bytes() == data


runs = st.tuples(st.one_of(st.integers(0, 40), st.sampled_from(WILD)), st.integers(1, 4))
relative = st.tuples(st.integers(-6, 6), st.integers(1, 4))
numbers = st.lists(
    st.one_of(st.tuples(st.just("at"), runs), st.tuples(st.just("by"), relative)), min_size=1, max_size=9
)


def numbered(parts: list[tuple[str, tuple[int, int]]]) -> list[int]:
    """Return queue offsets: runs that begin at a number, or some way from where the one before ended."""
    found: list[int] = []
    for kind, (number, count) in parts:
        first = number if kind == "at" else (found[-1] + 1 if found else 0) + number
        found += range(first, first + count)
    return [min(max(number, -(2**63)), 2**63 - 1) for number in found]


def numbered_log(root: Path, wanted: list[int]) -> StoreBuilder:
    builder = StoreBuilder(root, units_per_file=8)
    for i, number in enumerate(wanted):
        builder.message("t", 0, b"x" * 400, queue_offset=number, tags=f"t{i}")
        if i % 5 == 0:
            builder.message("t", 0, b"half", transaction=PREPARED)
        if i % 7 == 0:
            builder.message("other", 1, b"between")
    return builder


def expected_of(builder: StoreBuilder) -> Obvious:
    mine = [head for head in builder.records() if head.topic == b"t" and head.sys_flag & 0xC != PREPARED]
    return obviously_placed(mine)


@settings(max_examples=150)
@given(numbers, st.sampled_from([None, 4096, 700]), st.sampled_from([1, 2, queues.MANY]))
def test_numbers_of_any_kind_are_placed_by_the_rules(
    parts: list[tuple[str, tuple[int, int]]], split_bytes: int | None, many: int
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "MANY", many)
        check_numbers(Path(place), numbered(parts), split_bytes)


@pytest.mark.parametrize(
    ("wanted", "gaps", "replaced", "moved"),
    [
        ([5, 6, 7, 0, 1, 2, 3], 0, 3, 0),  # the queue was lost, a new one began
        ([0, 1, 2, 3, 4, 3, 4, 5], 0, 2, 0),  # a tail was given out again
        ([0, 1, 2, 2, 3], 0, 1, 0),
        ([0, 1, 9, 10], 1, 0, 0),
        ([0, 1, 77, 3, 4], 0, 0, 1),
        ([0, 1, 2**50, 3, 4], 0, 0, 1),
        ([0, 1, 2**39, 2**39 + 1, 4, 5], 0, 0, 2),  # a jump that no disk is to be filled for
        ([2**50, 2**50 + 1], 0, 0, 0),
        ([0, 2**41], 0, 0, 1),  # of the first two the greater one
        ([2**41, 1], 0, 0, 1),
        ([2**41, 2**41 + 2], 0, 0, 2),
        ([2**41, 2**41], 0, 0, 2),
        ([-5, -4, 0, 1], 0, 0, 4),
        ([0, 1, 20, 21, 8, 9], 1, 0, 2),  # back into a gap, where the two have room
        ([0, 1, *range(20, 37), 30, 31, 32, 8, 9, 10], 0, 14, 6),  # as many as have room
        ([0, 1, *range(20, 37), 30, 31, 8, 9], 1, 0, 4),  # two in a row are no queue that began again
        ([0, 56, 70, 2, 3, 4], 0, 1, 1),
        ([0, 1, *range(20, 37), 9, 10, 11], 1, 17, 0),  # too many
        ([0, 1, *range(20, 37), 9, 10], 1, 0, 2),
        ([*range(30), 12, 13], 0, 0, 2),
        ([0, 1, 5, 4, 5, 6, 10, 11], 2, 0, 1),  # one makes room rather than that three follow on
        ([*range(9), 12, 11, 9, 13, 14], 1, 0, 3),  # their numbers are missing ones: only the order is wrong
        ([1, 0, 3, 4], 1, 0, 2),
        ([0, 1, 2, 4, 5, 6, 6, 8], 1, 0, 1),  # one number is missing, and one wrong: that is less than that three are
        ([0, 1, 4, 4, 5, 6, 8], 2, 0, 1),
        ([0, 1, 2, 4, 5, 5, 6, 7, 8], 0, 0, 2),
        ([0, 1, 2, 0, 5, 6], 1, 0, 1),  # a number was lost, and one is wrong
        ([0, 1, 2, 1, 0, 6], 1, 0, 2),
        ([0, 1, 9, 4, 5], 1, 0, 1),
        ([0, 1, 2, 3, 1, 0], 0, 0, 2),  # the last ones, which are no queue that began again
        ([0, 1, 2, 3, 4, 2, 3, 7, 8], 0, 0, 2),  # two in a row are wrong
        ([0, 1, 2, 3, 4, 90, 70, 7, 8], 0, 0, 2),
        ([0, 1, 2, 3, 4, 1, 2, 5, 6, 7], 0, 2, 0),  # two of another queue
        ([0, 1, 2, 3, 4, 1, 2, 5, 6], 0, 0, 4),  # either two may be those with wrong numbers
        ([4, 1, 2, 3], 0, 0, 1),  # a whole log's queue begins at 0
        ([0, 1, 2, 4, 3], 0, 0, 2),
        ([2, 0], 0, 0, 2),  # as many behind as before: either may be the wrong ones
        ([5, 6, 7, 0, 1, 2], 0, 0, 6),
        ([0, 1, 2, 5, 3, 5, 6], 0, 0, 2),
        ([0, 1, 57, 58, 2, 6, 7, 8], 1, 0, 3),  # there is room for one more
        ([0, 1, 57, 2, 3, 5], 1, 1, 0),
        ([0, 1, 2, 57, 3], 0, 0, 2),
        ([0, 1, 2, 1, 3], 0, 0, 2),
        ([4, 0, 0], 0, 0, 3),  # brokers give each a unit
        ([2, 0, 0, 3, 4], 0, 0, 3),
        ([0, 8, 0, 1], 1, 0, 2),
        ([0, 0, 0, 0, 1], 0, 0, 4),
        ([1, 4, 0, 4, 5], 1, 0, 3),
        ([*range(10, 26), 0], 0, 0, 17),  # one says that sixteen are of another queue
        ([*range(10, 26), *range(17)], 0, 16, 0),
    ],
)
def test_known_troubles(wanted: list[int], gaps: int, replaced: int, moved: int, tmp_path: Path) -> None:
    queue = check_numbers(tmp_path, wanted, None)
    assert (len(queue.gaps()), queue.replaced, queue.moved) == (gaps, replaced, moved)


def test_what_is_filled_counts_over_all_gaps_of_a_queue() -> None:
    """Else a few records make queue files of any size; a part of the log that may have held what is gone has no bound.

    Every run has 20 records of 100 bytes, and but for the third, with a segment in front of it, nothing lies between.
    """
    jump, records, size, segment = 3 * 2**21, 20, 100, 1 << 30
    runs, at = [], 0
    for i in range(6):
        first, at = i * jump, at + (segment if i == 2 else 0)
        runs.append([first, first + records, at, at + records * size, records, 0])
        at += records * size
    placed = placement.place(runs, LogView([], 0, at))
    assert [gap.stop for gap in placed.gaps] == [jump, 2 * jump, 3 * jump]
    assert (placed.replaced, placed.moved) == (0, 2 * records)  # the last two follow on
    assert placed.beyond == 2 * (jump - records)
    again = [jump + records, jump + 2 * records, at, at + records * size, records, 0]
    cut_back = placement.place([*runs, again], LogView([], 0, at))
    assert ([gap.stop for gap in cut_back.gaps], cut_back.beyond) == ([jump], jump - records)


def test_a_record_that_may_be_a_stranger_keeps_its_unit_in_front_of_damage(tmp_path: Path) -> None:
    """As it does in a sound log: as few go on behind it."""
    builder = StoreBuilder(tmp_path / "store", units_per_file=8)
    placed = [builder.message("t", 0, b"x", queue_offset=number) for number in (0, 1, 57, 2, 3, 20)]
    root = builder.close()
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(placed[4].physical_offset)
        file.write(bytes(len(placed[4].raw)))
    (queue,) = rebuild(root, tmp_path / "new", given=settings_of(builder.settings), parts=("queues",)).queues
    assert (queue.units, queue.replaced, queue.moved, queue.gaps) == (5, 0, 2, ((4, 20),))


def test_units_of_the_store_in_a_gap_of_many_files_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = numbered_log(tmp_path / "store", [0, 1, 400, 401])
    looked: list[int] = []
    whole, unpacked = old.StoreUnits.__call__, []

    def spy(self: old.StoreUnits, key: Any) -> Any:
        unpacked.append(key)
        units = whole(self, key)

        def spied(first: int, stop: int) -> Any:
            looked.extend(range(first, stop))
            return units(first, stop)

        return spied

    monkeypatch.setattr(old.StoreUnits, "__call__", spy)
    built(builder, tmp_path / "new", parts=("queues",))
    assert looked == list(range(2, 400))
    assert unpacked == [("consumequeue", "t", 0)]  # with all of its files, of which there may be thousands


def check_numbers(place: Path, wanted: list[int], split_bytes: int | None) -> Obvious:
    """Rebuild a log with these numbers, compare with the obvious placement, and return that."""
    builder = numbered_log(place / "store", wanted)
    expected = expected_of(builder)
    result = built(builder, place / "new", split_bytes=split_bytes, parts=("queues",))
    found = {path: data for path, data in tree(place / "new").items() if "/t/" in path}
    assert found == obvious_files("t", 0, expected, builder.settings)
    (queue,) = (queue for queue in result.queues if queue.topic == "t")
    assert list(queue.gaps) == expected.gaps()
    assert (queue.first, queue.stop) == (min(expected.at), expected.stop)
    assert (queue.units, queue.replaced, queue.moved) == (len(expected.at), expected.replaced, expected.moved)
    assert queue.filled == sum(stop - first for first, stop in expected.gaps())
    assert result.exit_code == (0 if queue.usual else 4)
    return expected


def test_a_gap_keeps_the_units_of_the_store_that_point_into_the_hole(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", units_per_file=8)
    placed = [builder.message("t", 0, b"x" * 300) for _ in range(20)]
    root = builder.close()
    segment = root / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    for one in placed[6:10]:  # four records become nothing
        data[one.physical_offset : one.physical_offset + len(one.raw)] = bytes(len(one.raw))
    segment.write_bytes(data)
    queue = root / "consumequeue" / "t" / "0" / f"{160:020d}"
    units = bytearray(queue.read_bytes())
    units[20:40] = bytes(20)  # of number 9, the store has no unit either
    queue.write_bytes(units)
    result = rebuild(root, tmp_path / "new", given=settings_of(builder.settings))
    (built_queue,) = result.queues
    assert (built_queue.gaps, built_queue.kept, built_queue.filled) == (((6, 10),), 3, 1)
    assert result.exit_code == 4
    old = tree(root, "consumequeue")
    new = tree(tmp_path / "new", "consumequeue")
    last = f"consumequeue/t/0/{160:020d}"
    assert {path for path in old if old[path] != new[path]} == {last}
    assert new[last][20:40] == new[last][:20]  # the one before again
    assert new[last][40:] == old[last][40:]


@pytest.mark.parametrize("copies", [True, False])
def test_a_message_with_the_lists_of_another_is_in_no_light_queue(copies: bool, tmp_path: Path) -> None:
    """A retry or a delay has them with all other properties; only 4.9 numbers it anew, and ends no properties."""
    root = with_copied_lists(tmp_path / "store", copies=copies)
    units = 4 if copies else 8
    sizes = settings_of(Settings(multi_dispatch=True))
    queue = f"consumequeue/%LMQ%a/0/{0:020d}"
    assert len((root / queue).read_bytes().rstrip(b"\0")) > 20 * (units - 1)
    assert [f.code for f in audit.check(root, given=sizes).findings if f.severity != "info"] == []
    result = rebuild(root, tmp_path / "new", given=sizes)
    assert [q.stop for q in result.queues if q.topic == "%LMQ%a"] == [units]
    assert tree(tmp_path / "new", "consumequeue") == tree(root, "consumequeue")


@pytest.mark.parametrize("ext", [True, False])
@pytest.mark.parametrize("ordinary", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_queues_that_messages_list_and_are_sent_to(seed: int, ordinary: bool, ext: bool, tmp_path: Path) -> None:
    """Only what was sent to a queue itself has ext units there; one message has one unit in a queue."""
    builder = log_with_lists(tmp_path / "store", seed, ordinary=ordinary, ext=ext, ext_bytes=204)
    root = builder.close()
    given = settings_of(builder.settings)
    assert [f.code for f in audit.check(root, given=given).findings if f.severity != "info"] == []
    old = tree(root, *QUEUES)
    assert any(path.startswith("consumequeue_ext/%LMQ%") for path in old) == ext
    for split_bytes in (None, 4096, 700):
        into = tmp_path / f"new-{split_bytes}"
        result = rebuild(root, into, given=given, split_bytes=split_bytes)
        assert tree(into, *QUEUES) == old
        assert (into / "checkpoint").read_bytes()[:24] == (root / "checkpoint").read_bytes()[:24]
        assert result.exit_code == 0


def test_a_blank_list_leads_to_no_queue(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", multi_dispatch=True)
    for _ in range(2):
        builder.message("orders", 0, properties={"INNER_MULTI_DISPATCH": " ", "INNER_MULTI_QUEUE_OFFSET": "0"})
    root, given = builder.close(), settings_of(builder.settings)
    assert [f.code for f in audit.check(root, given=given).findings if f.severity != "info"] == []
    rebuild(root, tmp_path / "new", given=given)
    assert tree(tmp_path / "new", "consumequeue") == tree(root, "consumequeue")

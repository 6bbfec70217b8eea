"""Several records of one queue, one behind the other, of which none has its number any more: all come back."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
import salvages
from golden_data import given_for
from implied import PREPARED
from rebuilds import settings_of
from salvages import in_record
from storebuilder import StoreBuilder

from storeio import audit
from storeio.format import commitlog as log
from storeio.planning import plan_store
from storeio.report.salvaging import salvaged_sentence
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

NAME = "base-4.9.8"
QUEUE = "topic_0", 1
SIZE = int(golden.options(NAME)["clFile"])
GIVEN = given_for(NAME)
LAST = 210


def places() -> list[int]:
    """Return where the records of the queue lie, by number."""
    return [at for at, row in sorted(salvages.originals_of(NAME).items()) if row.name == QUEUE]


def renumbered(first: int, changes: list[int]) -> list[list[object]]:
    """Return the edits that change the numbers of the records from one on by so much."""
    rows = zip(places()[first:], range(first, first + len(changes)), changes, strict=False)
    return [in_record(at, log.QUEUE_OFFSET_AT, struct.pack(">q", n + change)) for at, n, change in rows if change]


def numbers_in(parts: Iterable[Any]) -> set[tuple[tuple[str, int], int]]:
    """Return the numbers of lost ranges, with their queues."""
    return {
        ((part.topic, part.queue_id), n)
        for part in parts for n in range(part.first_queue_offset, part.stop_queue_offset)
    }  # fmt: skip


@pytest.mark.parametrize("delay", [None, 12])
def test_the_only_record_of_a_queue_gets_its_number_from_its_unit_where_it_says_none(
    delay: int | None, tmp_path: Path
) -> None:
    """In a log of which retention has taken the begin, nothing else tells; the message was lost, and not even told."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=4096)
    for _ in range(30):
        builder.message("t", 0, b"body" * 20)
    place = builder.message("one", 0, b"body", delay=delay).physical_offset
    builder.message("t", 0, b"body")
    root, base = builder.close(), place - place % 4096
    assert base > 0
    (root / f"commitlog/{0:020d}").unlink()
    segment = root / f"commitlog/{base:020d}"
    before = segment.read_bytes()
    at = place - base + log.QUEUE_OFFSET_AT
    segment.write_bytes(before[:at] + struct.pack(">q", -5) + before[at + 8 :])
    result = salvage(root, tmp_path / "new", given=settings_of(builder.settings), jobs=1)
    assert [(change.field, change.physical_offset) for change in result.restored] == [("queue_offset", place)]
    assert (tmp_path / f"new/commitlog/{base:020d}").read_bytes() == before


CHANGES = ([1, 1], [-1, -1], [7, 7], [1, 1, 1], [1, -1], [5, 8], [-30, 50, 2], [1, 1, -2], [2, 0, 2], [3] * 16)


@pytest.mark.share(5)
@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("first", [0, 104])
@pytest.mark.parametrize("queues", [True, False])
def test_records_in_a_row_get_their_numbers_back(first: int, changes: list[int], queues: bool, tmp_path: Path) -> None:
    """The numbers before and behind them leave just theirs, whether queues say the same or are gone."""
    edits = renumbered(first, changes)
    root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    found = audit.check(root, given=GIVEN, jobs=1)
    codes = {f.code for f in found.findings if f.severity != "info"} - {"CQ_MISSING"}
    assert codes <= {"LOG_FIELD", "LOG_UNIT_DISAGREES", "CQ_UNIT_ORPHAN"}  # the last of numbers below 0
    assert found.lost == []
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert {at: row.raw for at, row in now.items()} == {at: row.raw for at, row in salvages.originals_of(NAME).items()}
    plan = plan_store(root, tmp_path / "plan.json", given=GIVEN, jobs=1, allow_log=True, goal="salvage")
    assert plan.cures


@pytest.mark.parametrize("changes", [[2, -1], [30, -1], [30, 40, -2]])
@pytest.mark.parametrize("queues", [True, False])
def test_of_records_either_of_which_may_have_a_wrong_number_units_tell(
    changes: list[int], queues: bool, tmp_path: Path
) -> None:
    """The first seem to be of another queue, as the numbers go on behind them; without units nobody gets another."""
    edits = renumbered(104, changes)
    root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    wanted = salvages.originals_of(NAME) if queues else salvages.records_of(root, SIZE)
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    dropped = {row.physical_offset for row in result.dropped}
    assert (len(result.restored), len(dropped)) == ((len(changes), 0) if queues else (0, len(changes) - 1))
    assert (result.exit_code == 0) == queues == (not result.lost)
    now = salvages.records_of(tmp_path / "new", SIZE)
    kept = {at: row.raw for at, row in wanted.items() if at not in dropped}
    assert {at: row.raw for at, row in now.items() if at not in dropped} == kept


@pytest.mark.parametrize("lost", [103, LAST - 2])
def test_of_two_records_of_one_number_behind_a_hole_the_first_is_right(lost: int, tmp_path: Path) -> None:
    """Without queues: the hole held the number before it."""
    own = salvages.originals_of(NAME)
    hole, wrong = places()[lost], places()[lost + 2]
    edits = [["zero", *in_record(hole, 0, b"")[1:3], len(own[hole].raw)], *renumbered(lost + 2, [-1])]
    root = golden.damaged(NAME, [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert [(row.physical_offset, row.queue_offset) for row in result.restored] == [(wrong, lost + 2)]
    assert [(p.first_queue_offset, p.stop_queue_offset) for p in result.lost] == [(lost, lost + 1)]
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [at for at in own if now[at].raw != own[at].raw] == [hole]


@pytest.mark.parametrize("changes", [[5, -3], [5, 8]])
def test_a_unit_beside_records_with_wrong_numbers_tells_its_own(changes: list[int], tmp_path: Path) -> None:
    """They do not stand off alike: so it is not their file that has another name than its own."""
    lost = LAST - 2
    at = places()[lost]
    hole = ["zero", *in_record(at, 0, b"")[1:3], len(salvages.originals_of(NAME)[at].raw)]
    root = golden.damaged(NAME, [hole, *renumbered(lost + 1, changes)], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.dropped, result.problems) == (4, [], [])
    assert numbers_in(result.lost) == {(QUEUE, lost)}
    assert len(result.restored) == len(changes)


@pytest.mark.share(2)
@pytest.mark.parametrize(("changes", "queues"), [
    ([1, -1], True), ([1, 1, -2], True), ([-3, -3], True), ([5, 8], True), ([7, 3], True), ([-100, 2**39], True),
    ([2**41, 9, -8], True), ([-8, -8, 2**41, 9], True),
    ([1, 1, -2], False), ([7, 3], False), ([-3, -2], False), ([-100, 2**39], False),
    ([2**41, 9, -8], False), ([-8, -1, 1], False), ([-3, -8, -8], False), ([-8, -8, -30, -30], False),
])  # fmt: skip
def test_numbers_at_the_end_of_a_queue_that_no_broker_gives(changes: list[int], queues: bool, tmp_path: Path) -> None:
    """They are mixed up, or go back though their units do not or they are one or two, or jump time and again."""
    edits = renumbered(LAST + 1 - len(changes), changes)
    root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [at for at in places() if now[at].raw != salvages.originals_of(NAME)[at].raw] == []


def test_a_jump_that_has_its_unit_stays_in_front_of_a_last_record_that_goes_back(tmp_path: Path) -> None:
    """A broker's unit stands there. A second salvage finds nothing to do."""
    edits = renumbered(LAST - 1, [7, 3])
    file = f"consumequeue/{QUEUE[0]}/{QUEUE[1]}/{4000:020d}"
    jump, back = places()[LAST - 1 :]
    own = salvages.originals_of(NAME)[jump]
    tags = (golden.store(NAME) / file).read_bytes()[180:][12:20]  # of the unit of number 209
    unit = struct.pack(">qi", jump, len(own.raw)) + tags
    edits += [["zero", file, 180, 40], ["write", file, 20 * (LAST + 6 - 200), unit.hex()]]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert [(row.physical_offset, row.queue_offset) for row in result.restored] == [(back, LAST + 7)]
    again = salvage(tmp_path / "new", tmp_path / "again", given=GIVEN, jobs=1)
    assert (again.restored, again.dropped, again.moved) == ([], [], [])


@pytest.mark.share(2)
@pytest.mark.parametrize(("queue_id", "changes", "queues"), [
    (15, [3], True), (15, [2**39], True), (15, [-1], True), (15, [-1], False), (7, [5, 8], True), (7, [-1, -1], True),
    (7, [2**45, 2**46], True), (7, [2**45, 2**46], False),
])  # fmt: skip
def test_queues_none_of_whose_numbers_is_right(queue_id: int, changes: list[int], queues: bool, tmp_path: Path) -> None:
    """One has one record, the other two. The log begins at 0, and so do they."""
    name, queue = "rich-4.9.8", ("SCHEDULE_TOPIC_XXXX", queue_id)
    size, own = int(golden.options(name)["clFile"]), salvages.originals_of(name)
    rows = zip([at for at in sorted(own) if own[at].name == queue], changes, strict=True)
    edits = [
        ["write", f"commitlog/{at - at % size:020d}", at % size + 20, struct.pack(">q", n + change).hex()]
        for n, (at, change) in enumerate(rows)
    ]  # fmt: skip
    root = golden.damaged(name, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", size)
    assert [at for at in own if now[at].raw != own[at].raw] == []


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("number", [0, 100, LAST - 1])
def test_a_last_record_that_goes_back_gets_the_number_of_its_unit_in_a_new_queue(
    number: int, queues: bool, tmp_path: Path
) -> None:
    """A broker skips it where it builds the queue anew. A second salvage finds nothing to do."""
    edits = renumbered(LAST, [number - LAST])
    file = f"consumequeue/{QUEUE[0]}/{QUEUE[1]}/{4000:020d}"
    root = golden.damaged(
        NAME, [*edits, ["zero", file, 200, 20] if queues else ["rmtree", "consumequeue"]], tmp_path / "a"
    )
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    assert [(row.queue_offset, row.field) for row in result.restored] == [(LAST, "queue_offset")]
    again = salvage(tmp_path / "new", tmp_path / "again", given=GIVEN, jobs=1)
    assert (again.exit_code, again.restored, again.dropped, again.moved) == (0, [], [], [])


@pytest.mark.parametrize("how", ["swapped", "gone", "gone with the segment"])
def test_last_messages_that_no_number_misses_are_counted_by_what_points_at_them(how: str, tmp_path: Path) -> None:
    """Their queue's units stand in another queue's file, or only the index has units of them."""
    own, lost = salvages.originals_of(NAME), places()[200:]
    edits: list[golden.Edit] = [["zero", *in_record(at, 0, b"")[1:3], 88] for at in lost]
    names = [f"consumequeue/topic_0/{queue_id}/{number:020d}" for queue_id, number in ((1, 4000), (0, 0))]
    if how == "swapped":
        edits += [["rename", names[0], "aside"], ["rename", names[1], names[0]], ["rename", "aside", names[1]]]
    else:
        edits.append(["rmtree", "consumequeue"])
    if how == "gone with the segment":
        lost = [at for at in own if at >= SIZE * 9]
        edits.append(["delete", f"commitlog/{SIZE * 9:020d}"])
    result = salvage(golden.damaged(NAME, edits, tmp_path / "store"), tmp_path / "new", given=GIVEN, jobs=1)
    keyed = [at for at in lost if b"KEYS\1" in own[at].raw or b"UNIQ_KEY\1" in own[at].raw]
    assert result.unnamed == len(lost if how == "swapped" else keyed)
    assert (result.exit_code, result.verdict, result.lost, result.dropped) == (4, "lossy", [], [])
    assert f"{result.unnamed} messages lost of which nothing tells the queue" in salvaged_sentence(result)


@pytest.mark.parametrize("damage", [
    ["delete", golden.segment(9)],
    *(["truncate", golden.segment(9), kept] for kept in (3000, 15000, 19000)),
    ["zero", golden.segment(9), 18839, 300],  # of topic_0/0, which lacks nothing, no unit is left
])  # fmt: skip
def test_files_that_changed_queues_give_no_queue_the_numbers_of_another_one(
    damage: golden.Edit, tmp_path: Path
) -> None:
    """Their records say whose some of their units are; where all are lost, one file goes back behind the one before."""
    files = [f"consumequeue/topic_0/{queue_id}/{4000:020d}" for queue_id in (0, 1)]
    there = [(golden.store(NAME) / path).read_bytes().hex() for path in files]
    edits = [["write", path, 0, data] for path, data in zip(files, reversed(there), strict=True)]
    root = golden.damaged(NAME, [*edits, damage], tmp_path / "store")
    left = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    originals = salvages.originals_of(NAME)
    gone = {(row.name, n) for row in originals.values() if row.raw not in left for n in row.numbers}
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.problems) == (4, [])
    told = numbers_in(result.lost)
    assert told <= gone
    assert len(told) + result.unnamed == len(gone)
    assert numbers_in(audit.check(root, given=GIVEN, jobs=1).lost) == told


@pytest.mark.parametrize("kept", [3, 7])
def test_directories_that_changed_places_tell_of_each_others_messages(kept: int, tmp_path: Path) -> None:
    """Files that point behind the log alone go on behind such as records say whose they are."""
    queues = [f"consumequeue/topic_0/{queue_id}" for queue_id in (0, 1)]
    moves = [["rename", queues[0], "aside"], ["rename", queues[1], queues[0]], ["rename", "aside", queues[1]]]
    deletes = [["delete", golden.segment(number)] for number in range(kept, 10)]
    root = golden.damaged(NAME, [*moves, *deletes], tmp_path / "store")
    gone = {
        (row.name, n) for at, row in salvages.originals_of(NAME).items() if at >= kept * SIZE for n in row.numbers
    }  # fmt: skip
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.problems, result.unnamed) == (4, [], 0)
    assert numbers_in(result.lost) == gone == numbers_in(audit.check(root, given=GIVEN, jobs=1).lost)


@pytest.mark.parametrize("queue_id", [0, 1])
@pytest.mark.parametrize("name", [5000, 8000])
def test_a_renamed_file_that_points_behind_the_log_tells_the_next_numbers(
    name: int, queue_id: int, tmp_path: Path
) -> None:
    """Between its units and those before the log had no room for the messages that its name leaves out."""
    path = f"consumequeue/topic_0/{queue_id}"
    edits = [["rename", f"{path}/{4000:020d}", f"{path}/{name:020d}"], ["delete", golden.segment(9)]]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    gone = {(row.name, n) for at, row in salvages.originals_of(NAME).items() if at >= 9 * SIZE for n in row.numbers}
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.problems, result.unnamed) == (4, [], 0)
    assert numbers_in(result.lost) == gone == numbers_in(audit.check(root, given=GIVEN, jobs=1).lost)


@pytest.mark.parametrize("count", [17, 40])
@pytest.mark.parametrize("queues", [True, False])
def test_many_records_with_other_numbers_are_left_alone(count: int, queues: bool, tmp_path: Path) -> None:
    """No damage gives so many of them numbers that rise: a broker did, and nothing says which are right."""
    edits = renumbered(60, [3] * count)
    root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.restored, result.dropped) == ([], [])
    before, now = salvages.records_of(root, SIZE), salvages.records_of(tmp_path / "new", SIZE)
    assert {at: row.raw for at, row in now.items()} == {at: row.raw for at, row in before.items()}


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_records_in_a_row_that_stray_into_another_queue_come_back(count: int, queues: bool, tmp_path: Path) -> None:
    """There they are too many: its numbers go on behind them as if they were not there."""
    own = salvages.originals_of(NAME)
    other = [at for at, row in sorted(own.items()) if row.name == ("topic_0", 0)]
    before = [sum(at < place for at in other) for place in places()]  # numbers that the other queue has given out
    between = next(
        first for first in range(60, LAST - count)
        if before[first] == before[first + count - 1] and not first - 1 <= before[first] <= first + count
    )  # fmt: skip
    edits = [in_record(at, log.QUEUE_ID_AT, struct.pack(">i", 0)) for at in places()[between : between + count]]
    root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [at for at in own if now[at].raw != own[at].raw] == []


def test_a_record_whose_number_would_be_the_next_one_of_another_queue_comes_back(tmp_path: Path) -> None:
    """Without queues: the six records of that queue behind it are in order only if it is none of them."""
    own = salvages.originals_of(NAME)
    other = [at for at, row in sorted(own.items()) if row.name == ("topic_0", 0)]
    at = places()[len(other)]
    assert sum(place > at for place in other) == 6
    edits = [in_record(at, log.QUEUE_ID_AT, struct.pack(">i", 0)), ["rmtree", "consumequeue"]]
    result = salvage(golden.damaged(NAME, edits, tmp_path / "store"), tmp_path / "new", given=GIVEN, jobs=1)
    assert [(row.physical_offset, row.field) for row in result.restored] == [(at, "queue_id")]
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [at for at in own if now[at].raw != own[at].raw] == []


@pytest.mark.parametrize("others", [[99], [99, 98], [7, 99, 98], [-1, 99], [99, 99], [7, 99, 99, 99]])
def test_records_that_stray_into_queues_of_their_own_come_back(others: list[int], tmp_path: Path) -> None:
    """Without queues: they are the only records of their queues, or have none, and theirs lacks them all."""
    own = places()[60 : 60 + len(others)]
    edits = [in_record(at, log.QUEUE_ID_AT, struct.pack(">i", q)) for at, q in zip(own, others, strict=True)]
    root = golden.damaged(NAME, [*edits, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.problems) == (0, [], [], [])
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [at for at in own if now[at].raw != salvages.originals_of(NAME)[at].raw] == []


def test_a_record_whose_topic_is_one_byte_off_comes_back(tmp_path: Path) -> None:
    """Without queues: it is the only one of that topic, and the right one's queue lacks just its number."""
    at, raw = places()[70], salvages.originals_of(NAME)[places()[70]].raw
    edits = [in_record(at, raw.index(b"topic_0") + 3, b"m"), ["rmtree", "consumequeue"]]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.exit_code, [row.field for row in result.restored], result.problems) == (0, ["topic"], [])
    assert salvages.records_of(tmp_path / "new", SIZE)[at].raw == raw


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("same_queue", [True, False])
def test_a_copy_that_names_its_new_place_gets_no_number(same_queue: bool, queues: bool, tmp_path: Path) -> None:
    """With another number, or at another time, it would be a message that nobody sent."""
    own = salvages.originals_of(NAME)
    inner = [at for at in sorted(own) if 20 < own[at].numbers.start < 150]
    pairs = [
        (at, source) for at in inner[:200] for source in inner
        if len(own[at].raw) == len(own[source].raw) and at // SIZE < source // SIZE
        and (own[at].name == own[source].name) == same_queue and own[at].name[0] == own[source].name[0]
    ]  # fmt: skip
    for number, (at, source) in enumerate(pairs[::17][:3]):
        raw = bytearray(own[source].raw)
        raw[log.PHYSICAL_OFFSET_AT : log.PHYSICAL_OFFSET_AT + 8] = struct.pack(">q", at)
        edits = [in_record(at, 0, bytes(raw))]
        place = tmp_path / f"{number}"
        root = golden.damaged(NAME, edits if queues else [*edits, ["rmtree", "consumequeue"]], place / "store")
        result = salvage(root, place / "new", given=GIVEN, jobs=1)
        assert (result.restored, result.problems) == ([], [])
        assert [row.physical_offset for row in result.dropped] == [at]
        assert [(p.topic, p.queue_id, p.first_queue_offset) for p in result.lost] == [
            (*own[at].name, own[at].numbers.start)
        ]
        again = salvage(place / "new", place / "again", given=GIVEN, jobs=1)
        assert (again.restored, again.dropped, again.moved) == ([], [], [])


@pytest.mark.parametrize(("one", "other"), [(4, 5), (4, 6), (4, 40)])
def test_units_that_changed_places_are_wrong_themselves(one: int, other: int, tmp_path: Path) -> None:
    """The units next to each are right, as next to a record with a damaged number, but it does not lie in between."""
    root = golden.copy_of(NAME, tmp_path / "store")
    path = root / "consumequeue" / QUEUE[0] / str(QUEUE[1]) / f"{2000:020d}"
    data = path.read_bytes()
    units = [data[at : at + 20] for at in range(0, len(data), 20)]
    units[one], units[other] = units[other], units[one]
    path.write_bytes(b"".join(units))
    found = audit.check(root, given=GIVEN, jobs=1)
    assert {f.code for f in found.findings if f.severity != "info"} == {"CQ_SHIFTED"}
    assert sum(f.count for f in found.findings if f.code == "CQ_SHIFTED") == 2
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert (result.restored, result.dropped, result.lost, result.problems) == ([], [], [], [])


def test_the_tombstone_of_a_message_that_was_smaller_stays_behind_those_before_it(tmp_path: Path) -> None:
    """The hole begins with room for it, as it begins with a message that is in no queue."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=4096)
    builder.message("t", body=b"body", delay=3)
    start = builder.message("other", body=b"x" * 300, transaction=PREPARED).physical_offset
    before = builder.message("t", body=b"x" * 300, delay=3).physical_offset
    builder.message("t", delay=3)
    builder.message("other", body=b"x" * 300, transaction=PREPARED)
    stop = builder.end
    builder.message("other", body=b"body")
    root, given = builder.close(), settings_of(builder.settings)
    golden.apply_edits(root, [["zero", f"commitlog/{0:020d}", start, stop - start]])
    result = salvage(root, tmp_path / "new", given=given, jobs=1)
    assert result.problems == []
    saved = salvages.records_of(tmp_path / "new", 4096)
    delayed = {at: row.numbers.start for at, row in sorted(saved.items()) if row.name == (log.SCHEDULE_TOPIC, 2)}
    assert list(delayed.values()) == [0, 1, 2]
    assert delayed[before] == 1
    assert audit.check(tmp_path / "new", given=given, jobs=1).exit_code == 0


@pytest.mark.parametrize(
    ("total", "said", "with_queues"),
    [
        (total, said, with_queues)
        for total, said, with_queues in itertools.product((7, 8, 9, 20), (0, 2, 5, 7, 9999), (True, False))
        if (total, said) != (7, 7)  # 5 and 6 may have been lost
        and (with_queues or (total > 7 and said != 5 and (said, total) != (7, 8)))  # 6 may be the lost one, or 5 and 6
    ],
)
def test_a_wrong_number_behind_a_lost_record_is_that_of_its_unit_or_before_the_next(
    total: int, said: int, with_queues: bool, tmp_path: Path
) -> None:
    builder = StoreBuilder(tmp_path / "store")
    placed = [builder.message("T", 0, b"x" * 100) for _ in range(total)]
    path = builder.close() / f"commitlog/{0:020d}"
    data = bytearray(path.read_bytes())
    data[placed[5].physical_offset + 100] ^= 1
    struct.pack_into(">q", data, placed[6].physical_offset + log.QUEUE_OFFSET_AT, said)
    path.write_bytes(data)
    if not with_queues:
        shutil.rmtree(tmp_path / "store/consumequeue")
    result = salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    assert [(fixed.field, fixed.queue_offset) for fixed in result.restored] == [("queue_offset", 6)]
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in result.lost] == [(5, 6)]
    assert audit.check(tmp_path / "new", jobs=1).exit_code == 0


@pytest.mark.parametrize("planned", [False, True])
def test_the_greatest_number_of_all_without_queues(planned: bool, tmp_path: Path) -> None:
    """Behind it the lowest one of 64 bits follows on: to count with more bits tells nothing of what it was."""
    root = golden.without(NAME, tmp_path / "store", "consumequeue")
    with (root / golden.segment(0)).open("r+b") as file:
        file.seek(log.QUEUE_OFFSET_AT)
        file.write(struct.pack(">q", 2**63 - 1))
    if planned:
        made = plan_store(
            root, tmp_path / "plan.json", given=given_for(NAME), goal="salvage", allow_log=True, broker="5.3.3", jobs=1
        )
        assert (made.lost, made.cures) == (0, True)
        return
    found = salvage(root, tmp_path / "new", given=given_for(NAME), jobs=1)
    assert (found.lost, found.problems, found.restored_count) == ([], [], 1)
    assert salvages.records_of(tmp_path / "new", SIZE) == salvages.originals_of(NAME)


@pytest.mark.parametrize("count", [1, 2, 20])
def test_numbers_beyond_64_bits_end_no_salvage(count: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", segment_bytes=4096)
    words = b"INNER_NUM\x01-5\x02INNER_BASE\x01-9223372036854775808\x02"
    for number in range(count):
        builder.message("T", 0, b"x", properties=words, sys_flag=0x80, queue_offset=5 * number)
    root = builder.close()
    found = salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": "4096"}, jobs=1)
    assert found.records + len(found.dropped) + found.lost_count >= count

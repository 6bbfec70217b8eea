"""Queue files in wrong places and damaged units over an intact log, of which salvage changes no byte."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
import salvages
from golden_data import given_for
from salvages import in_record, numbers_of
from storebuilder import StoreBuilder, forged

from storeio.format import commitlog as log
from storeio.planning import plan_store
from storeio.salvage.decide import IN_A_BODY
from storeio.salvage.doubts import ELSEWHERE
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

NAME = "base-5.3.3"
SIZE = int(golden.options(NAME)["clFile"])
GIVEN = given_for(NAME)
END = 320_944  # of its log
BIZARRE = struct.pack(">i", 77)  # a queue that nobody wrote to

Edit = list[Any]


def file_of(queue: str, number: int = 0) -> str:
    """Return a file of a queue: the one that begins with a number."""
    return f"consumequeue/{queue}/{number * 20:020d}"


def segment(size: int, number: int) -> str:
    """Return the path of a segment, counted from 0."""
    return f"commitlog/{number * size:020d}"


def applied(name: str, edits: list[Edit], root: Path) -> Path:
    """Return a copy of a golden store after the edits; two kinds are of these tests alone."""
    golden.copy_of(name, root)
    for kind, source, *rest in edits:
        if kind == "copytree":
            shutil.copytree(root / source, root / rest[0])
        elif kind == "swap":
            one, other, aside = root / source, root / rest[0], root / "aside"
            one.rename(aside), other.rename(one), aside.rename(other)
        else:
            golden.apply_edits(root, [[kind, source, *rest]])
    return root


def assert_untouched(name: str, root: Path, place: Path, *, lost: int = 0) -> None:
    """Neither a plan nor a salvage changes a record, and what a plan does is all that there is to do."""
    given = given_for(name)
    found = plan_store(root, place / "plan.json", given=given, jobs=1, allow_log=True, goal="salvage")
    assert [action.path for action in found.plan.actions if action.path.startswith("commitlog")] == []
    assert (found.cures, found.plan.left) == (True, ())
    result = salvage(root, place / "new", given=given, jobs=1)
    assert (len(result.lost), result.tombstones, result.fillers, result.problems) == (lost, 0, 0, [])
    before = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
    assert {path.name: path.read_bytes() for path in (place / "new" / "commitlog").iterdir()} == before


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "edits"), [
    (NAME, [["copytree", "consumequeue/topic_0/1", "consumequeue/topic_9/77"]]),
    (NAME, [["rename", "consumequeue/topic_0/0", "consumequeue/topic_0/99"]]),
    (NAME, [["rename", "consumequeue/topic_0/1", "consumequeue/topic_0/-1"]]),
    (NAME, [["swap", file_of("topic_0/1", 150), file_of("topic_0/0", 200)]]),
    ("base-4.9.8", [["swap", file_of("topic_1/1", 200), file_of("topic_0/0", 200)]]),
    ("rich-4.9.8", [["swap", file_of("topic_1/0"), file_of("SCHEDULE_TOPIC_XXXX/4")]]),
    ("rich-4.9.8", [["swap", file_of("topic_0/1"), file_of("topic_4/0")]]),
])  # fmt: skip
def test_misplaced_files_tell_nothing_of_an_intact_log(name: str, edits: list[Edit], tmp_path: Path) -> None:
    assert_untouched(name, applied(name, edits, tmp_path / "store"), tmp_path)


@pytest.mark.parametrize("name", [f"{60 * SIZE:020d}", f"{5 * SIZE:020d}.bak"])
@pytest.mark.parametrize(("source", "target"), [(9, 0), (30, 1), (3, 20), (60, 0)])
def test_a_renamed_segment_into_which_records_were_copied(source: int, target: int, name: str, tmp_path: Path) -> None:
    """The first record in it is a copy of one further behind: the file belongs where most of it does."""
    originals = salvages.originals_of(NAME)
    own = [at for at in sorted(originals) if 5 * SIZE <= at < 6 * SIZE]
    path = f"commitlog/{5 * SIZE:020d}"
    copied = b"".join(originals[at].raw for at in own[source : source + 6])
    edits: list[Edit] = [["write", path, own[target] - 5 * SIZE, copied.hex()], ["rename", path, f"commitlog/{name}"]]
    root = golden.damaged(NAME, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert result.problems == []
    now = salvages.records_of(tmp_path / "new", SIZE)
    hit = {at for at in own if own[target] - len(originals[at].raw) < at < own[target] + len(copied)}
    assert [at for at in originals if at not in hit and now[at].raw != originals[at].raw] == []


def test_a_segment_over_another_one_gives_nothing_that_the_log_holds(tmp_path: Path) -> None:
    """Its records lie in their own segment, and so does the blank record that closes it."""
    root = golden.copy_of(NAME, tmp_path / "store")
    source, target = (root / "commitlog" / f"{number * SIZE:020d}" for number in (5, 2))
    target.write_bytes(source.read_bytes())
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    gone = sum(len(row.numbers) for at, row in salvages.originals_of(NAME).items() if at // SIZE == 2)
    assert (result.moved, result.lost_count, result.problems) == ([], gone, [])


def test_segments_that_have_each_others_names_one_of_a_single_record(tmp_path: Path) -> None:
    """What that record says is believed once the segment in front of it has its name back, and was overwritten."""
    name, size = "ext-5.5.1", int(golden.options("ext-5.5.1")["clFile"])
    swapped = [["swap", segment(size, a), segment(size, b)] for a, b in ((2, 7), (6, 8))]
    away = ["rename", segment(size, 4), segment(size, 50)]
    root = applied(name, [*swapped, away, ["rmtree", "consumequeue"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert (result.exit_code, result.lost, result.dropped, result.restored) == (0, [], [], [])
    assert salvages.records_of(tmp_path / "new", size) == salvages.originals_of(name)


@pytest.mark.parametrize("count", [3, 700])
def test_a_renamed_segment_into_which_bytes_came(count: int, tmp_path: Path) -> None:
    """What lies in front of them and behind them comes back, though the two say other places."""
    originals = salvages.originals_of(NAME)
    own = [at for at in sorted(originals) if 5 * SIZE <= at < 6 * SIZE]
    for number in (2, len(own) // 2):
        root = golden.copy_of(NAME, tmp_path / f"store{number}")
        path, inside = root / "commitlog" / f"{5 * SIZE:020d}", own[number] - 5 * SIZE + 9
        data = path.read_bytes()
        path.with_name(f"{60 * SIZE:020d}").write_bytes((data[:inside] + b"?" * count + data[inside:])[:SIZE])
        path.unlink()
        salvage(root, tmp_path / f"new{number}", given=GIVEN, jobs=1)
        now = salvages.records_of(tmp_path / f"new{number}", SIZE)
        gone = {own[number], *(at for at in own if at + len(originals[at].raw) + count > 6 * SIZE)}
        assert [at for at in originals if at not in gone and now[at].raw != originals[at].raw] == [], number


@pytest.mark.parametrize("name", [f"{5 * SIZE:020d}", f"{60 * SIZE:020d}", f"{5 * SIZE:020d}.bak"])
def test_records_that_were_pushed_out_of_their_segment_come_back(name: str, tmp_path: Path) -> None:
    """The file became longer by what came in. Brokers read no more of it than a segment's length."""
    originals = salvages.originals_of(NAME)
    lost = [at for at in sorted(originals) if at >= 5 * SIZE][2]
    root = golden.copy_of(NAME, tmp_path / "store")
    path, inside = root / "commitlog" / f"{5 * SIZE:020d}", lost - 5 * SIZE + 9
    data = path.read_bytes()
    path.unlink()
    path.with_name(name).write_bytes(data[:inside] + b"?" * 700 + data[inside:])
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [at for at in originals if now[at].raw != originals[at].raw] == [lost]
    assert (result.lost_count, result.problems) == (1, [])


@pytest.mark.parametrize("place", [END, END + 9056, 10**6, 2**40])
def test_a_wrong_unit_of_a_record_that_is_there_makes_no_log_longer(place: int, tmp_path: Path) -> None:
    edits: list[Edit] = [["write", file_of("topic_0/1", 50), 200, struct.pack(">qi", place, 300).hex()]]
    assert_untouched(NAME, applied(NAME, edits, tmp_path / "store"), tmp_path)


def test_a_lone_unit_far_behind_the_log_makes_it_no_longer(tmp_path: Path) -> None:
    """It has the next number of its queue, so the message is told to be lost."""
    edits: list[Edit] = [["write", file_of("topic_0/0", 200), 20, struct.pack(">qiq", 10**6, 300, 0).hex()]]
    assert_untouched(NAME, applied(NAME, edits, tmp_path / "store"), tmp_path, lost=1)


def test_units_in_a_row_tell_of_segments_that_are_gone(tmp_path: Path) -> None:
    """The units of one queue alone are left, in which nothing points into the first lost segment."""
    originals = salvages.originals_of(NAME)
    own = {at: row.numbers[0] for at, row in originals.items() if row.name == ("topic_0", 0)}
    low = 6 * SIZE
    first = min(number for at, number in own.items() if at >= low + 2 * SIZE)
    unknown = [number for at, number in own.items() if at >= low and number < first]
    edits: list[Edit] = [["delete", f"commitlog/{base:020d}"] for base in range(low, max(originals), SIZE)]
    edits += [["rmtree", f"consumequeue/{queue}"] for queue in ("topic_0/1", "topic_1/0", "topic_1/1")]
    per_file = int(golden.options(NAME)["cqEntries"])
    edits += [["write", file_of("topic_0/0", n // per_file * per_file), n % per_file * 20, "ff" * 20] for n in unknown]
    result = salvage(applied(NAME, edits, tmp_path / "store"), tmp_path / "new", given=GIVEN, jobs=1)
    now = salvages.records_of(tmp_path / "new", SIZE)
    want = {at: number for at, number in own.items() if number >= first}
    assert want
    assert {at: now[at].numbers[0] for at in want if at in now and now[at].name == ("topic_0", 0)} == want
    assert set(numbers_of(result.lost)) >= {("topic_0", 0, number) for number in want.values()}


def test_records_in_a_row_of_a_queue_that_lacks_their_numbers_come_back(tmp_path: Path) -> None:
    """Three of them say the same wrong queue, in which their numbers follow on from each other."""
    originals = salvages.originals_of(NAME)
    places = [at for at in sorted(originals) if originals[at].name == ("topic_1", 0)][60:63]
    root = golden.damaged(NAME, [in_record(at, log.QUEUE_ID_AT, BIZARRE) for at in places], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=GIVEN, jobs=1)
    assert ([row.physical_offset for row in result.restored], result.lost) == (places, [])
    now = salvages.records_of(tmp_path / "new", SIZE)
    assert [now[at].raw for at in places] == [originals[at].raw for at in places]


@pytest.mark.parametrize("moved", [False, True])
def test_the_last_record_of_a_queue_that_fits_behind_another_one(moved: bool, tmp_path: Path) -> None:
    """Its unit tells that it is no record of that one, unless the units next to it show that its file is misplaced."""
    name = "rich-4.9.8"
    originals, size = salvages.originals_of(name), int(golden.options(name)["clFile"])
    last = {row.name: (at, row.numbers[-1]) for at, row in sorted(originals.items()) if row.numbers}
    (place, number), other = last["topic_3", 1], 0
    assert last["topic_3", other][1] == number - 1
    if moved:
        swapped = applied(name, [["swap", file_of("topic_3/0"), file_of("topic_3/1")]], tmp_path / "store")
        assert_untouched(name, swapped, tmp_path)
        return
    edit = ["write", f"commitlog/{place // size * size:020d}", place % size + log.QUEUE_ID_AT, f"{other:08x}"]
    root = golden.damaged(name, [edit], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert ([row.physical_offset for row in result.restored], result.lost) == ([place], [])
    assert salvages.records_of(tmp_path / "new", size)[place].raw == originals[place].raw


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("short", [0, 10, 46, 90, 300])
def test_records_behind_a_lost_one_whose_unit_has_a_smaller_size(short: int, queues: bool, tmp_path: Path) -> None:
    """In whose body lies what looks like a record; too little is left before the next one for another record."""
    builder = StoreBuilder(tmp_path / "store")
    for i in range(12):
        body = b"%d" % i * 300
        if i == 4:
            body = (b".." + forged(builder.end + 90, store_ms=builder.now_ms)).ljust(600, b"-")
        builder.message("t", i % 2, body)
    root = builder.close()
    size = builder.settings.segment_bytes
    before = salvages.records_of(root, size)
    places = sorted(before)
    lost, later = places[4], places[9]
    for at in (lost, later):
        golden.apply_edits(root, [["write", segment(size, 0), at, (b"garbage!" * 2).hex()]])
    unit = file_of("t/0")
    golden.apply_edits(root, [["write", unit, 20 * 2 + 8, struct.pack(">i", len(before[lost].raw) - short).hex()]])
    if not queues:
        shutil.rmtree(root / "consumequeue/t/1")
    given = {
        "mappedFileSizeCommitLog": str(size),
        "mappedFileSizeConsumeQueue": str(20 * builder.settings.units_per_file),
    }
    found = salvage(root, tmp_path / "new", given=given, jobs=1)
    assert found.problems == []
    assert [(row.physical_offset, row.reason) for row in found.dropped] == [(lost + 90, IN_A_BODY)]
    now = salvages.records_of(tmp_path / "new", size)
    assert all(now[at].raw == before[at].raw for at in places if at not in (lost, later))
    assert [(row.queue_id, row.first_queue_offset) for row in found.lost] == [(0, 2), (1, 4)]


def test_a_lost_record_that_lay_over_the_copy_of_another_one(tmp_path: Path) -> None:
    """4096 bytes of a segment, copied further up: of the last lost record a copied one takes the first part."""
    root = golden.copy_of("base-4.9.8", tmp_path / "store")
    size = int(golden.options("base-4.9.8")["clFile"])
    damage = salvages.Damage(root, random.Random(), size, salvages.originals_of("base-4.9.8"))
    path = root / segment(size, 5)
    data = path.read_bytes()
    path.write_bytes(data[:4775] + data[1054 : 1054 + 4096] + data[4775 + 4096 :])
    found = salvage(root, tmp_path / "new", given=damage.given, jobs=1)
    assert found.problems == []
    assert [(row.physical_offset - 5 * size, row.reason) for row in found.dropped] == [(8192, ELSEWHERE)]
    assert salvages.compared(damage, tmp_path / "new", found).right
    assert damage.originals[5 * size + 4663].raw == salvages.records_of(tmp_path / "new", size)[5 * size + 4663].raw


@pytest.mark.parametrize("count", [None, 8, 64])
def test_what_bytes_moved_goes_back_a_record_among_them_or_not(count: int | None, tmp_path: Path) -> None:
    """A record was written twice, and moved those behind it: it says another place than they, and they all the same."""
    root = golden.copy_of("base-5.5.1", tmp_path / "store")
    path = root / golden.segment(8)
    data = path.read_bytes()
    came = data[5307 : 5307 + int.from_bytes(data[5307:5311], "big")] if count is None else bytes(count)
    assert len(came) == (count or 233)
    path.write_bytes((data[:24129] + came + data[24129:])[:SIZE])
    result = salvage(root, tmp_path / "new", given=given_for("base-5.5.1"), jobs=1)
    assert (result.lost, result.problems) == ([], [])
    assert (tmp_path / "new" / golden.segment(8)).read_bytes() == data

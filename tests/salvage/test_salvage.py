"""``storeio salvage`` on damaged stores of real brokers: every intact message, no false one, exact losses."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import golden_data as golden
import pytest
import salvages
from applies import tree_of
from golden_data import given_for
from rebuilds import no_waiting_for_disks
from sampled import seeds

from storeio import audit, cli
from storeio.format.commitlog import encode_blank
from storeio.planning import plan_store
from storeio.predict.start import simulate
from storeio.salvage.node import salvage
from storeio.salvaged import GAPS

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]

STORES = ("base-4.9.8", "base-5.3.3", "base-5.5.1", "rich-4.9.8", "rich-5.3.3", "rich-5.5.1", "ext-5.5.1", "upgraded")


# Seeds that once came out wrong, each for a reason of its own.
ONCE_WRONG = (
    ("rich-4.9.8", 70042),  # a stray took the number of a record behind it, and that was taken for the stray
    ("rich-5.5.1", 43), ("rich-5.5.1", 170), ("rich-5.3.3", 70), ("rich-5.3.3", 90), ("rich-5.3.3", 109),
    ("rich-5.3.3", 144), ("rich-4.9.8", 57), ("upgraded", 203), ("upgraded", 219), ("upgraded", 220),
    ("base-4.9.8", 234), ("ext-5.5.1", 38), ("ext-5.5.1", 81), ("base-5.3.3", 156), ("base-5.5.1", 185),
    ("base-4.9.8", 195), ("ext-5.5.1", 227), ("base-5.3.3", 316), ("rich-5.5.1", 260), ("base-4.9.8", 336),
    ("rich-4.9.8", 351), ("rich-4.9.8", 397), ("base-4.9.8", 406),
    ("base-5.3.3", 469), ("rich-5.3.3", 555),
)  # fmt: skip


def one_bit(now: salvages.Original, before: salvages.Original) -> bool:
    """Tell whether a record differs from what it was in one bit of its store time alone."""
    differs = now.head.store_ms ^ before.head.store_ms
    return differs.bit_count() == 1 and sum(a != b for a, b in zip(now.raw, before.raw, strict=True)) == 1


def assert_saved(name: str, seed: int, place: Path, *, units: bool = False) -> None:
    """Save exactly what is left, and leave a store that is sound; ``units`` of queues are overwritten, too."""
    damage = salvages.damaged(name, seed, place / "store")
    if units:
        salvages.overwrite_units(damage)
    given = damage.given
    result = salvage(damage.root, place / "new", given=given, jobs=1)
    difference = salvages.compared(damage, place / "new", result)
    assert difference.right, (damage.kinds, difference)
    assert result.problems == []
    now = salvages.records_of(place / "new", damage.segment_bytes)
    said = {
        (part.topic, part.queue_id, n)
        for part in result.lost
        for n in range(part.first_queue_offset, part.stop_queue_offset)
    }
    dropped = {row.physical_offset for row in result.dropped}
    gone = [
        at for at, row in damage.originals.items() if at not in dropped and (at not in now or now[at].raw != row.raw)
    ]
    untold = [
        at for at in gone if not any((*damage.originals[at].name, n) in said for n in damage.originals[at].numbers)
    ]
    assert result.unnamed <= len(untold)
    after = audit.check(place / "new", given=given, jobs=1)
    odd = [f for f in after.findings if f.severity != "info"]
    leaps = {f.physical_offset for f in odd if f.code == "LOG_TIME"}
    if leaps:
        # One bit of a store time, with several answers that all fit the neighbours: nothing tells which.
        saved = salvages.records_of(place / "new", damage.segment_bytes)
        flips = {at for at in leaps if at in saved and one_bit(saved[at], damage.originals[at])}
        odd = [f for f in odd if f.code != "LOG_TIME" or f.physical_offset not in flips]
    assert not odd, (damage.kinds, odd[:5])


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(2, 240))
@pytest.mark.parametrize("name", STORES)
def test_random_damage(name: str, seed: int, tmp_path: Path) -> None:
    assert_saved(name, seed, tmp_path)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(1, 60))
@pytest.mark.parametrize("name", STORES)
def test_random_damage_of_log_and_queues(name: str, seed: int, tmp_path: Path) -> None:
    assert_saved(name, seed, tmp_path, units=True)


def test_units_of_garbage_behind_a_queue_name_no_lost_messages(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    unit = struct.pack(">qiq", 2**62 + 12345, 2**28, 7)
    golden.apply_edits(root, [["write", "consumequeue/topic_0/0/00000000000000004000", 20 * 1, unit.hex()]])
    found = audit.check(root, jobs=1)
    assert {f.code for f in found.findings if f.severity != "info"} == {"CQ_BEYOND_LOG"}
    assert found.lost == []


@pytest.mark.parametrize("at", [0, 3])
def test_numbers_between_units_behind_the_log_are_lost(at: int, tmp_path: Path) -> None:
    """The log's last segment is gone, and one of the units that pointed there is no unit any more."""
    name, queue = "base-5.3.3", ("topic_1", 0)
    size, records = int(golden.options(name)["clFile"]), salvages.originals_of(name)
    last = max(records) // size * size
    behind = (record for place, record in records.items() if place >= last)
    numbers = sorted(record.numbers.start for record in behind if record.name == queue)
    root = golden.copy_of(name, tmp_path / "store")
    per_file = int(golden.options(name)["cqEntries"])
    number = numbers[at]
    file = f"consumequeue/topic_1/0/{number // per_file * per_file * 20:020d}"
    golden.apply_edits(root, [
        ["delete", f"commitlog/{last:020d}"], ["write", file, number % per_file * 20, "ff" * 20],
    ])  # fmt: skip
    found = audit.check(root, given=given_for(name), jobs=1)
    lost = [range(p.first_queue_offset, p.stop_queue_offset) for p in found.lost if (p.topic, p.queue_id) == queue]
    assert [n for part in lost for n in part] == numbers


def test_the_copy_of_a_record_is_none_though_no_unit_says_so(tmp_path: Path) -> None:
    """It took the place of another record of the same size, whose unit is gone; nothing vouches for either."""
    name = "ext-5.5.1"
    records = salvages.originals_of(name)
    sizes: dict[int, int] = {}
    for at, record in records.items():
        if record.name[0].startswith("topic_") and (source := sizes.setdefault(len(record.raw), at)) != at:
            break
    size = int(golden.options(name)["clFile"])
    number = next(iter(record.numbers))
    root = golden.copy_of(name, tmp_path / "store")
    edits = [
        ["write", f"commitlog/{at - at % size:020d}", at % size, records[source].raw.hex()],
        ["zero", f"consumequeue/{record.name[0]}/{record.name[1]}/{0:020d}", 20 * number, 20],
    ]
    golden.apply_edits(root, edits)
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert result.problems == []
    assert [(part.topic, part.queue_id, part.first_queue_offset) for part in result.lost] == [(*record.name, number)]


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "seed"), ONCE_WRONG)
def test_what_once_came_out_wrong(name: str, seed: int, tmp_path: Path) -> None:
    assert_saved(name, seed, tmp_path)


@pytest.mark.share(2)
@pytest.mark.parametrize("count", [1, 512])
@pytest.mark.parametrize("name", ["base-5.3.3", "rich-5.5.1"])
def test_bytes_that_came_into_the_last_segment(name: str, count: int, tmp_path: Path) -> None:
    """What lies shifted behind the log's last record in place goes back, wherever in a record the bytes came in."""
    records, size = salvages.originals_of(name), int(golden.options(name)["clFile"])
    at = [place for place in records if place >= max(records) // size * size][7]
    lengths = records[at].head.properties_at - 2 - at % size
    for inside in (5, 90, lengths, len(records[at].raw) - 3):
        root = golden.copy_of(name, tmp_path / f"store{inside}")
        path = root / "commitlog" / f"{at // size * size:020d}"
        data, where = path.read_bytes(), at % size + inside
        path.write_bytes((data[:where] + b"\x79" * count + data[where:])[:size])
        result = salvage(root, tmp_path / f"new{inside}", given={"mappedFileSizeCommitLog": str(size)}, jobs=1)
        saved = salvages.records_of(tmp_path / f"new{inside}", size)
        assert [place for place in records if place != at and saved[place].raw != records[place].raw] == [], inside
        assert result.problems == []


@pytest.mark.parametrize("name", ["base-4.9.8", "rich-4.9.8"])
def test_a_queue_id_that_repeats_the_number_before(name: str, tmp_path: Path) -> None:
    """Without any queue: a record strays to a queue whose last number before it is its own, so that none is missing.

    Where that last one could be the stray as well, since the missing number may have stood there, nothing tells.
    """
    records, size = salvages.originals_of(name), int(golden.options(name)["clFile"])
    last: dict[tuple[str, int], tuple[int, int]] = {}
    ends = {record.name: record.numbers.stop for _, record in sorted(records.items()) if record.numbers}
    strays: list[tuple[int, int]] = []
    for at, record in sorted(records.items()):
        if len(record.numbers) == 1 and b"__CRC32#" not in record.raw:
            (topic, queue_id), number = record.name, record.numbers[0]
            own_at = last.get(record.name, (0, 0))[1]
            others = [
                q for (t, q), (before, where) in last.items()
                if (t, before) == (topic, number) and q != queue_id and where < own_at
            ]  # fmt: skip
            inside = 0 < number < ends[record.name] - 1  # else its own queue does not lack it
            strays += [(at, other) for other in others if inside]
            last[record.name] = number, at
    assert len(strays) > 3
    for i, (at, other) in enumerate(strays[:: len(strays) // 3]):
        root = golden.copy_of(name, tmp_path / f"store{i}")
        shutil.rmtree(root / "consumequeue")
        with (root / "commitlog" / f"{at // size * size:020d}").open("r+b") as file:
            file.seek(at % size + 12)
            file.write(other.to_bytes(4, "big"))
        result = salvage(root, tmp_path / f"new{i}", given={"mappedFileSizeCommitLog": str(size)}, jobs=1)
        assert [row.physical_offset for row in result.restored] == [at]
        assert salvages.records_of(tmp_path / f"new{i}", size)[at].raw == records[at].raw


@pytest.mark.share(2)
@pytest.mark.parametrize("without_queues", [False, True])
@pytest.mark.parametrize("name", ["base-4.9.8", "rich-4.9.8"])
def test_a_queue_id_that_takes_the_number_after(name: str, without_queues: bool, tmp_path: Path) -> None:
    """The record whose number a stray before it has taken stays as it is; with its unit, the stray comes back."""
    records, size = salvages.originals_of(name), int(golden.options(name)["clFile"])
    last: dict[tuple[str, int], int] = {}
    ends = {record.name: record.numbers.stop for _, record in sorted(records.items()) if record.numbers}
    strays: list[tuple[int, int]] = []
    for at, record in sorted(records.items()):
        if len(record.numbers) == 1 and b"__CRC32#" not in record.raw:
            (topic, queue_id), number = record.name, record.numbers[0]
            others = [q for (t, q), before in last.items() if (t, before + 1) == (topic, number) and q != queue_id]
            strays += [
                (at, other) for other in others if number < ends[topic, other] and number < ends[record.name] - 1
            ]
            last[record.name] = number
    assert len(strays) > 5
    for i, (at, other) in enumerate(strays[:: len(strays) // 4]):
        root = golden.copy_of(name, tmp_path / f"store{i}")
        if without_queues:
            shutil.rmtree(root / "consumequeue")
        with (root / "commitlog" / f"{at // size * size:020d}").open("r+b") as file:
            file.seek(at % size + 12)
            file.write(other.to_bytes(4, "big"))
        salvage(root, tmp_path / f"new{i}", given={"mappedFileSizeCommitLog": str(size)}, jobs=1)
        saved = salvages.records_of(tmp_path / f"new{i}", size)
        wrong = [place for place in records if saved[place].raw != records[place].raw]
        assert wrong in ([], [at]) if without_queues else wrong == [], (at, other)


@pytest.mark.parametrize("name", ["rich-4.9.8", "rich-5.5.1"])
def test_all_queues_are_built_again_light_ones_too(name: str, tmp_path: Path) -> None:
    """Of a store without any queue the records alone tell that it had light ones."""
    root = golden.copy_of(name, tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    sizes = {"mappedFileSizeCommitLog": str(golden.options(name)["clFile"])}
    salvage(root, tmp_path / "new", given=sizes, jobs=1)

    def queues(root: Path) -> set[str]:
        there = root / "consumequeue"
        return {path.relative_to(there).as_posix() for path in there.glob("*/*")}

    assert queues(tmp_path / "new") == queues(golden.store(name))


@pytest.mark.parametrize("name", golden.STORES)
def test_a_sound_store_comes_out_as_it_was(name: str, tmp_path: Path) -> None:
    root = golden.store(name)
    sizes = {"mappedFileSizeCommitLog": str(golden.options(name)["clFile"])}
    result = salvage(root, tmp_path / "new", given=sizes, jobs=1)
    assert result.exit_code == 0
    assert not (result.lost or result.restored or result.dropped or result.moved)
    for path in sorted((root / "commitlog").iterdir()):
        assert (tmp_path / "new" / "commitlog" / path.name).read_bytes() == path.read_bytes(), path.name
    for folder in ("consumequeue", "batchconsumequeue", "consumequeue_ext"):
        for path in (root / folder).rglob("*"):
            if path.is_file():
                new = tmp_path / "new" / path.relative_to(root)
                assert new.read_bytes() == path.read_bytes(), str(new)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["base-5.3.3", "rich-5.5.1"])
def test_gaps_instead_of_tombstones(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    given = damage.given
    result = salvage(damage.root, tmp_path / "new", given=given, losses=GAPS, jobs=1)
    assert result.tombstones == 0
    assert not any(part.tombstone for part in result.lost)
    saved = salvages.records_of(tmp_path / "new", damage.segment_bytes)
    assert salvages.intact(damage) <= set(saved)
    assert result.problems == []


def test_what_is_told_of_the_lost(tmp_path: Path) -> None:
    """Place and size from the queue unit, key hashes from the index, times from index and neighbours."""
    name = "base-5.3.3"
    root, size = golden.copy_of(name, tmp_path / "store"), int(golden.options(name)["clFile"])
    records = salvages.originals_of(name)
    places = sorted(records)
    at = next(place for place in places[20:] if records[place].head.keys and place % size)
    path = root / "commitlog" / f"{at // size * size:020d}"
    data = bytearray(path.read_bytes())
    data[at % size : at % size + len(records[at].raw)] = bytes(len(records[at].raw))
    path.write_bytes(data)
    result = salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)}, broker="5.3.3", jobs=1)
    (lost,) = result.lost
    topic, queue_id = records[at].name
    assert (lost.topic, lost.queue_id, lost.first_queue_offset) == (topic, queue_id, records[at].numbers.start)
    assert (lost.physical_start, lost.physical_stop, lost.bytes) == (
        at,
        at + len(records[at].raw),
        len(records[at].raw),
    )
    assert set(lost.key_hashes) == {key for key, name in records[at].head.keys if name != "TAGS"}
    first, last = lost.first_store_timestamp_ms, lost.last_store_timestamp_ms
    assert first is not None and last is not None
    assert first <= records[at].head.store_ms <= last
    assert result.saved is not None
    assert (result.exit_code, result.records) == (4, len(records) - 1)


@pytest.mark.parametrize("path", ["timerwheel", "config/topics.json"])
def test_what_refuses_a_start_and_is_copied_is_told(path: str, tmp_path: Path) -> None:
    """A start that ends there gives up no message, and the new store has that file, too."""
    root = golden.copy_of("base-5.5.1", tmp_path / "store")
    (root / path).parent.mkdir(exist_ok=True)
    for name in (path, f"{path}.bak"):
        (root / name).write_bytes(bytes(100))
    result = salvage(root, tmp_path / "new", broker="5.5.1", jobs=1)
    (note,) = result.notes
    assert note.startswith("broker 5.5.1 refuses the new store, too: ") and path in note
    assert (result.exit_code, result.saved) == (0, 0)
    assert simulate(tmp_path / "new", broker="5.5.1").outcome.outcome == "refuses"
    assert simulate(tmp_path / "new", broker="5.5.1", metadata=False).outcome.outcome == "starts"


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage = salvages.damaged("base-4.9.8", 1, tmp_path / "store")
    words = ["salvage", str(damage.root), "--set", f"mappedFileSizeCommitLog={damage.segment_bytes}"]
    left = tmp_path / "one.0a1b2c3d.partial"  # by a run that was killed
    left.mkdir()
    code = cli.run([*words, "--into", str(tmp_path / "one")])
    assert code in (0, 4)
    text = capsys.readouterr().out
    assert text.startswith("SAVED")
    assert f"NOTES\n  - {left.name}" in text
    assert cli.run([*words, "--into", str(tmp_path / "two"), "--json", "-"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["exit_code"] == code
    assert {"lost", "restored", "moved", "dropped", "log", "problems", "verdict"} <= told.keys()
    assert told["notes"] == []
    assert cli.run([*words, "--into", str(tmp_path / "two")]) == 16
    assert "not empty" in capsys.readouterr().err
    assert cli.run([*words, "--into", str(damage.root / "inside")]) == 16


@pytest.mark.share(2)
@pytest.mark.parametrize("gone", [1, 4, 7, 8, 9])
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
def test_a_segment_that_lost_bytes_behind_its_blank_record(name: str, gone: int, tmp_path: Path) -> None:
    size = int(golden.options(name)["clFile"])
    path = f"commitlog/{2 * size:020d}"
    root = golden.damaged(name, [["truncate", path, size - gone]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert (result.exit_code, result.problems, result.lost) == (0, [], [])
    assert (tmp_path / "new" / path).read_bytes() == (golden.store(name) / path).read_bytes()
    assert audit.check(tmp_path / "new", given=given_for(name), jobs=1).exit_code == 0
    plan = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1, allow_log=True, goal="salvage")
    assert plan.cures


@pytest.mark.parametrize("is_planned", [False, True])
def test_a_blank_record_behind_damage_hides_no_live_records(is_planned: bool, tmp_path: Path) -> None:
    """No record of the segment tells what is older; two of them, since one may stand behind another one."""
    name, size = "base-5.3.3", int(golden.options("base-5.3.3")["clFile"])
    records = salvages.originals_of(name)
    place = sorted(at for at in records if at // size == 2)[10]
    ends = [place % size - 40, place % size - 16]
    edits: list[golden.Edit] = [["write", golden.segment(2), 0, "ff" * (place % size)]]
    edits += [["write", golden.segment(2), at, encode_blank(size - at).hex()] for at in ends]
    root = golden.damaged(name, edits, tmp_path / "store")
    if is_planned:
        plan = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1, allow_log=True, goal="salvage")
        assert (plan.cures, plan.lost) == (True, 10)
        return
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    now = salvages.records_of(tmp_path / "new", size)
    assert (result.lost_count, result.problems) == (10, [])
    assert [at for at in records if at not in now or now[at].raw != records[at].raw] == [
        at for at in records if 2 * size <= at < place
    ]


def test_a_delayed_message_stays_in_the_queue_of_its_level(tmp_path: Path) -> None:
    """The file of queue 6 is that of queue 12, which lost the same number, and queue 6 has none any more."""
    name = "rich-4.9.8"
    size, records = int(golden.options(name)["clFile"]), salvages.originals_of(name)
    own, other = (f"consumequeue/SCHEDULE_TOPIC_XXXX/{queue_id}" for queue_id in (6, 12))
    units = (golden.store(name) / own / f"{0:020d}").read_bytes()
    edits = [["write", f"{other}/{0:020d}", 0, units.hex()], ["rmtree", own], ["delete", f"commitlog/{4 * size:020d}"]]
    root = golden.damaged(name, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)}, jobs=1)
    now = salvages.records_of(tmp_path / "new", size)
    assert (result.dropped, result.problems) == ([], [])
    assert [at for at in records if at // size != 4 and now[at].raw != records[at].raw] == []


def test_a_tombstone_that_fits_one_hole_alone_goes_before_those_that_fit_many(tmp_path: Path) -> None:
    """A hole of one message in front of a lost segment, without queues: numbers are all that is known."""
    name = "rich-4.9.8"
    size = int(golden.options(name)["clFile"])
    place = 321_046  # of topic_2/0 number 29, in the segment before the lost one
    assert salvages.originals_of(name)[place].name == ("topic_2", 0)
    segment = f"commitlog/{place - place % size:020d}"
    lost = f"commitlog/{place - place % size + size:020d}"
    edits = [["zero", segment, place % size + 88, 60], ["zero", lost, 0, size], ["rmtree", "consumequeue"]]
    root = golden.damaged(name, edits, tmp_path / "store")
    result = salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)}, jobs=1)
    assert result.problems == []
    assert result.lost
    assert all(part.tombstone for part in result.lost)
    saved = salvages.records_of(tmp_path / "new", size)
    assert (saved[place].name, saved[place].numbers) == (("topic_2", 0), range(29, 30))


@pytest.mark.parametrize(("number", "start", "count"), [(4, 28000, 3800), (6, 22000, 9000), (7, 14000, 17500)])
def test_tombstones_for_which_the_pieces_of_a_hole_are_too_small_go_on_to_the_next(
    number: int, start: int, count: int, tmp_path: Path
) -> None:
    """One queue and all its units are gone; those of the others cut the hole into pieces. A lost segment follows."""
    name = "base-4.9.8"
    edits = [["zero", golden.segment(number), start, count], ["delete", golden.segment(number + 1)]]
    root = golden.damaged(name, [*edits, ["rmtree", "consumequeue/topic_0/0"]], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert result.problems == []
    assert result.lost
    assert all(part.tombstone for part in result.lost)
    assert audit.check(tmp_path / "new", given=given_for(name), jobs=1).exit_code == 0


@pytest.mark.parametrize(("content", "code"), [(bytes(8192), 0), (bytes(range(1, 256)) * 32, 8)])
def test_a_log_without_a_record_becomes_an_empty_store(
    content: bytes, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no log at all, or another program's, is nothing saved and no store that says it was."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "commitlog" / f"{0:020d}").write_bytes(content)
    assert cli.run(["salvage", str(tmp_path / "store"), "--into", str(tmp_path / "new")]) == code
    told = capsys.readouterr().out
    assert ("no record was found in the log" in told) == (code != 0)
    assert cli.run(["check", str(tmp_path / "new")]) == 0


@pytest.mark.parametrize("left", [b"", b"\0", b"\x5a"])
@pytest.mark.parametrize("name", ["base-5.3.3", "rich-5.3.3"])
def test_of_a_log_that_is_gone_queues_tell_what_is_lost(name: str, left: bytes, tmp_path: Path) -> None:
    """Message by message as of any other loss; no record stands in for them, as there is no log to stand in.

    Of one that is full of what nobody knows it is said, too: it may be no log, or what was given be wrong.
    """
    root, size = golden.copy_of(name, tmp_path / "store"), int(golden.options(name)["clFile"])
    for path in (root / "commitlog").iterdir():
        path.write_bytes(left * size) if left else path.unlink()
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    originals = salvages.originals_of(name).values()
    lost = [(part.topic, part.queue_id, part.first_queue_offset, part.stop_queue_offset) for part in result.lost]
    assert not any(part.tombstone for part in result.lost)
    for queue in {record.name for record in originals if record.numbers}:
        stop = max(record.numbers.stop for record in originals if record.name == queue and record.numbers)
        assert sum(row[3] - row[2] for row in lost if row[:2] == queue) == stop, queue
    assert result.unnamed <= sum(not record.numbers for record in originals)  # of these only the index tells
    if left.strip(b"\0"):
        assert (len(result.problems), result.exit_code) == (1, 12)
        assert result.problems[0].startswith("no record was found in the log, and ")
    else:
        assert (result.problems, result.exit_code) == ([], 4)


def test_the_store_is_only_read(tmp_path: Path) -> None:
    damage = salvages.damaged("rich-5.3.3", 3, tmp_path / "store")
    before = tree_of(damage.root)
    salvage(damage.root, tmp_path / "new", given=damage.given, jobs=1)
    assert tree_of(damage.root) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "store"]


def test_what_could_not_be_read_is_a_problem_and_no_mere_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A segment that cannot be opened, of the store and then of its donor: nobody knows what it holds."""
    name = "base-5.3.3"
    stores = [golden.copy_of(name, tmp_path / "store"), golden.copy_of(name, tmp_path / "donor")]
    segment = sorted((stores[0] / "commitlog").iterdir())[2].name
    (stores[0] / "commitlog" / segment).unlink()
    (stores[0] / "commitlog" / segment).symlink_to(segment)
    sizes = given_for(name)
    why = f"commitlog/{segment}: Too many levels of symbolic links"
    result = salvage(stores[0], tmp_path / "new", given=sizes)
    assert result.lost
    assert (result.exit_code, result.problems) == (12, [f"could not be read: {why}"])
    sets = [word for key, value in sizes.items() for word in ("--set", f"{key}={value}")]
    assert cli.run(["salvage", str(stores[0]), "--into", str(tmp_path / "told"), *sets]) == 12
    out = capsys.readouterr().out
    assert out.startswith("INCOMPLETE: ")
    assert segment in out.split("NOT DONE")[1].split("LOST")[0]
    whole = salvage(stores[1], tmp_path / "whole", given=sizes, donors=[stores[0]])
    assert (whole.exit_code, whole.lost) == (8, [])
    assert whole.problems == [f"could not be read: {stores[0]}: {why}"]
    filled = salvage(stores[0], tmp_path / "filled", given=sizes, donors=[stores[1]])
    assert (filled.exit_code, filled.lost, filled.problems) == (8, [], [f"could not be read: {why}"])

"""Salvage with other copies of the same log: what one copy lost, another one gives back, byte for byte."""

from __future__ import annotations

from pathlib import Path

import golden_data as golden
import pytest
import salvages
from builts import built, messages, places, queue_id
from rebuilds import no_waiting_for_disks, settings_of
from salvages import Bytes, log_of
from sampled import seeds

from storeio.apply import apply_plan
from storeio.format import commitlog as log
from storeio.plan.results import SALVAGE
from storeio.planning.node import plan_store
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]

STORES = ("base-5.3.3", "rich-4.9.8", "rich-5.5.1")


def unprotected(now: Bytes, before: Bytes, damage: salvages.Damage) -> bool:
    """Tell whether two logs differ only in fields that nothing in a store repeats or checks."""
    if now.keys() != before.keys():
        return False
    for name, data in now.items():
        for at in (i for i, (a, b) in enumerate(zip(data, before[name], strict=True)) if a != b):
            place = int(name) + at
            start = max(start for start in damage.originals if start <= place)
            record = damage.originals[start]
            inside = start - int(name)
            new = salvages.Original(record.head, data[inside : inside + len(record.raw)])
            if not salvages.only_unprotected(new, record):
                return False
    return True


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(3, 20))
@pytest.mark.parametrize("name", STORES)
def test_a_whole_copy_gives_everything_back(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    sizes = {"mappedFileSizeCommitLog": str(damage.segment_bytes)}
    result = salvage(damage.root, tmp_path / "new", given=sizes, donors=[golden.store(name)], jobs=1)
    before, now = log_of(golden.store(name), damage.segment_bytes), log_of(tmp_path / "new", damage.segment_bytes)
    assert now == before or unprotected(now, before, damage), damage.kinds
    assert result.lost == []
    assert result.problems == []


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(3, 20))
@pytest.mark.parametrize("name", STORES)
def test_two_copies_damaged_in_different_places(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    donor = tmp_path / "donor"
    golden.copy_of(name, donor)
    sizes = {"mappedFileSizeCommitLog": str(damage.segment_bytes)}
    before, broken = log_of(donor, damage.segment_bytes), log_of(damage.root, damage.segment_bytes)
    whole = [file for file in sorted(before) if broken.get(file) == before[file]]
    for file in whole[1::2]:  # the donor has holes where this store has none
        data = bytearray(before[file])
        data[2000:5000] = bytes(3000)
        (donor / "commitlog" / file).write_bytes(data)
    salvage(damage.root, tmp_path / "new", given=sizes, donors=[donor], jobs=1)
    now = log_of(tmp_path / "new", damage.segment_bytes)
    assert now == before or unprotected(now, before, damage), damage.kinds


def test_a_segment_of_a_donor_has_another_name(tmp_path: Path) -> None:
    """Brokers parse names as numbers: one without its zeros is that of the same segment."""
    name = "base-5.3.3"
    root, donor = golden.copy_of(name, tmp_path / "store"), golden.copy_of(name, tmp_path / "donor")
    size = int(golden.options(name)["clFile"])
    before = log_of(root, size)
    for file, cut in ((golden.segment(2), 9000), (golden.segment(9), 0)):
        data = (root / file).read_bytes()
        (root / file).write_bytes(data[:cut] + bytes(5000) + data[cut + 5000 :])
        (donor / file).rename((donor / file).with_name(str(int(Path(file).name))))
    result = salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)}, donors=[donor], jobs=1)
    assert (result.lost, result.problems) == ([], [])
    assert log_of(tmp_path / "new", size) == before


@pytest.mark.parametrize("is_planned", [False, True])
@pytest.mark.parametrize("kind", ["swapped", "shifted"])
def test_a_donor_is_put_into_order_before_it_gives(kind: str, is_planned: bool, tmp_path: Path) -> None:
    """What the store lacks lies in the donor under another segment's name, or off by bytes that came in before it."""
    name, size = "base-5.3.3", int(golden.options("base-5.3.3")["clFile"])
    root, donor = golden.copy_of(name, tmp_path / "store"), golden.copy_of(name, tmp_path / "donor")
    before, lost = log_of(root, size), [golden.segment(2), golden.segment(4)]
    for file in lost:
        (root / file).write_bytes(bytes(size))
    if kind == "swapped":
        data = [(donor / file).read_bytes() for file in lost]
        for file, other in zip(lost, reversed(data), strict=True):
            (donor / file).write_bytes(other)
    else:
        for file in lost:
            (donor / file).write_bytes(bytes(77) + (donor / file).read_bytes())
    sizes = {"mappedFileSizeCommitLog": str(size)}
    if is_planned:
        out = tmp_path / "plan.json"
        plan = plan_store(root, out, given=sizes, jobs=1, allow_log=True, goal="salvage", donors=[donor])
        assert (plan.cures, plan.lost) == (True, 0)
        return
    result = salvage(root, tmp_path / "new", given=sizes, donors=[donor], jobs=1)
    assert (result.lost, result.problems) == ([], [])
    assert log_of(tmp_path / "new", size) == before
    for piece in result.moved:  # each is told as it lies in the donor itself
        at = piece.physical_offset
        told = Path(piece.source).read_bytes()[piece.position : piece.position + piece.length]
        assert told == before[f"{at // size * size:020d}"][at % size : at % size + piece.length]


def test_another_log_is_no_donor(tmp_path: Path) -> None:
    """What differs next to the hole is not believed."""
    name = "base-5.3.3"
    root, size = golden.copy_of(name, tmp_path / "store"), int(golden.options(name)["clFile"])
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[4000:6000] = bytes(2000)
    path.write_bytes(data)
    sizes = {"mappedFileSizeCommitLog": str(size)}
    result = salvage(root, tmp_path / "new", given=sizes, donors=[golden.store("base-5.5.1")], jobs=1)
    assert result.moved == []
    assert result.lost
    assert result.exit_code == 4


@pytest.mark.parametrize("is_inside", [True, False])
def test_damage_of_a_donor_costs_no_more_than_it_hit(is_inside: bool, tmp_path: Path) -> None:
    """One record of the segment that is to be given has another queue; else what lies next to the segment is gone."""
    name, lost = "base-5.3.3", golden.segment(4)
    records, size = salvages.originals_of(name), int(golden.options(name)["clFile"])
    at = [place for place in records if place // size == 4][20]
    queue_id = ["write", lost, at % size + 12, f"{records[at].head.queue_id ^ 1:08x}"]
    around = [["zero", golden.segment(3), size - 5000, 5000], ["zero", golden.segment(5), 0, 5000]]
    root = golden.damaged(name, [["delete", lost]], tmp_path / "store")
    donor = golden.damaged(name, [queue_id] if is_inside else around, tmp_path / "donor")
    sizes = {"mappedFileSizeCommitLog": str(size)}
    result = salvage(root, tmp_path / "new", given=sizes, donors=[donor], jobs=1)
    now = salvages.records_of(tmp_path / "new", size)
    wrong = [place for place in records if now[place].raw != records[place].raw]
    assert (wrong, result.lost_count, result.problems) == ([at] if is_inside else [], len(wrong), [])


def test_a_segment_all_of_which_belongs_elsewhere_is_filled_with_the_others(tmp_path: Path) -> None:
    """Copies of another segment's records are all that it holds: there is no later round in which they find a place."""
    name = "base-5.3.3"
    records, size = salvages.originals_of(name), int(golden.options(name)["clFile"])
    copies = b"".join(records[at].raw for at in sorted(records)[40:43])
    edits: list[golden.Edit] = [
        ["zero", golden.segment(2), 0, size],
        ["write", golden.segment(2), 0, copies.hex() + "ff" * 99],
    ]
    edits += [["zero", golden.segment(5), 3000, 3000]]
    root = golden.damaged(name, edits, tmp_path / "store")
    sizes = {"mappedFileSizeCommitLog": str(size)}
    result = salvage(root, tmp_path / "new", given=sizes, donors=[golden.store(name)], jobs=1)
    assert (result.lost, result.problems) == ([], [])
    assert log_of(tmp_path / "new", size) == log_of(golden.store(name), size)


@pytest.mark.parametrize("damaged", ["store", "donor"])
@pytest.mark.parametrize("hit", [0, 5, 11])
def test_of_two_intact_records_the_one_that_its_unit_vouches_for(hit: int, damaged: str, tmp_path: Path) -> None:
    """One copy's has another queue id, and its unit is gone: nothing else tells of it."""
    stores = {name: built(tmp_path / name, messages(*[0, 1, 2] * 4)) for name in ("store", "donor")}
    one = stores[damaged]
    place = places(one)[hit]
    one.put(place + log.QUEUE_ID_AT, queue_id(1 << 14))
    one.unit(f"consumequeue/T/{hit % 3}", hit // 3, b"\x5a" * 20)
    given = settings_of(one.builder.settings)
    found = salvage(stores["store"].root, tmp_path / "new", given=given, donors=[stores["donor"].root], jobs=1)
    assert (found.lost, found.dropped, found.problems) == ([], [], [])
    assert salvages.bytes_of(tmp_path / "new", one.builder.settings.segment_bytes) == one.before


def test_a_unit_vouches_for_no_more_than_it_says(tmp_path: Path) -> None:
    """The donor's record has its unit, the store's not; but it is the donor's that has another born host."""
    stores = [built(tmp_path / name, messages(*[0, 1, 2] * 4)) for name in ("store", "donor")]
    place = places(stores[0])[5]
    stores[0].unit("consumequeue/T/2", 1, bytes(20))
    stores[1].put(place + log.BORN_HOST_AT, b"\x5a")
    given, roots = settings_of(stores[0].builder.settings), [one.root for one in stores]
    found = salvage(roots[0], tmp_path / "new", given=given, donors=[roots[1]], jobs=1)
    assert (found.lost, found.moved) == ([], [])
    assert salvages.bytes_of(tmp_path / "new", stores[0].builder.settings.segment_bytes) == stores[0].before


@pytest.mark.parametrize("is_planned", [False, True])
def test_what_a_donor_holds_otherwise_is_said_where_nothing_tells_which_is_right(
    is_planned: bool, tmp_path: Path
) -> None:
    """No CRC, unit or neighbour covers a message's flag: it stays as the store has it, and the user is told."""
    name = "base-5.3.3"
    root, size = golden.copy_of(name, tmp_path / "store"), int(golden.options(name)["clFile"])
    before, sizes = log_of(root, size), {"mappedFileSizeCommitLog": str(size)}
    places = sorted(salvages.originals_of(name))[5:9:3]
    with (root / golden.segment(0)).open("r+b") as file:
        for place in places:
            file.seek(place + log.FLAG_AT)
            file.write(b"\x01")
    now, donors = log_of(root, size), [golden.store(name)]
    assert now != before
    if is_planned:
        out = tmp_path / "plan.json"
        notes = plan_store(root, out, given=sizes, jobs=1, allow_log=True, goal="salvage", donors=donors).notes
    else:
        result = salvage(root, tmp_path / "new", given=sizes, donors=donors, jobs=1)
        assert (result.lost, result.problems, result.verdict) == ([], [], "whole")
        assert log_of(tmp_path / "new", size) == now
        notes = tuple(result.notes)
    (note,) = notes
    assert note.startswith(f"{golden.store(name)} holds intact records with other bytes, 2, the first at {places[0]}:")


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
def test_a_donor_gives_the_end_of_a_segment_with_what_is_behind_it(name: str, tmp_path: Path) -> None:
    """Half of another segment stands there, and that one ends farther behind."""
    root = golden.copy_of(name, tmp_path / "store")
    path, other = (root / golden.segment(number) for number in (8, 1))
    path.write_bytes(path.read_bytes()[:16384] + other.read_bytes()[16384:])
    found = plan_store(
        root, tmp_path / "plan.json", broker=name.rpartition("-")[2], given=golden.given_for(name), allow_log=True,
        goal=SALVAGE, donors=[golden.store(name)], jobs=1,
    )  # fmt: skip
    assert found.cures
    apply_plan(tmp_path / "plan.json", root, allow_log=True)
    assert path.read_bytes() == (golden.store(name) / golden.segment(8)).read_bytes()

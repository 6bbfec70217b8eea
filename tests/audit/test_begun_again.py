"""Queues whose numbers go back: the check knows what the broker wrote of them, and sees what is wrong beside."""

from __future__ import annotations

import shutil
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rebuilds import Obvious, no_waiting_for_disks, obvious_files, settings_of, tree
from storebuilder import StoreBuilder

from storeio import audit
from storeio.apply import apply_plan
from storeio.findings import Finding
from storeio.planning.node import plan_store
from storeio.predict.start import simulate
from storeio.rebuild.node import rebuild
from storeio.results import Audit

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]
Number = int
SPLITS = (None, 4096, 700)
PER_FILE = 8


def restarted(root: Path, numbers: list[Number]) -> tuple[StoreBuilder, Obvious]:
    """Write a log with these queue offsets, and the queue that a broker comes to have: the later record stands."""
    builder = StoreBuilder(root, units_per_file=PER_FILE)
    for i, number in enumerate(numbers):
        builder.message("t", 0, b"x" * 300, queue_offset=number, tags=f"t{i}")
        if i % 3 == 0:
            builder.message("other", 1, b"between")
    builder.close()
    queue = Obvious()
    for head in builder.records():
        if head.topic == b"t":
            for taken in [number for number in queue.at if number >= head.queue_offset]:
                del queue.at[taken]
            queue.at[head.queue_offset] = head
    for old in (root / "consumequeue" / "t" / "0").iterdir():
        old.unlink()
    for path, data in obvious_files("t", 0, queue, builder.settings).items():
        (root / path).write_bytes(data)
    return builder, queue


def pointed_at(root: Path) -> set[int]:
    """Return where the units of the queue point."""
    files = tree(root, "consumequeue/t").values()
    units = [unit for data in files for unit in struct.iter_unpack(">qiq", data)]
    return {physical for physical, size, _ in units if size > 0}


def looked_at(builder: StoreBuilder, root: Path, split_bytes: int | None) -> Audit:
    return audit.check(root, given=settings_of(builder.settings), jobs=1, split_bytes=split_bytes)


def of_queue(audited: Audit) -> list[Finding]:
    return [finding for finding in audited.findings if finding.code != "LOG_QUEUE_OFFSET_REPEATED"]


LIVES = (
    [*range(20), *range(12)],  # begun again at 0, still shorter than it was
    [*range(12), *range(20)],  # longer than it was
    [*range(20), *range(13, 30)],  # a tail was given out twice
    [*range(9), *range(5), *range(3), *range(7)],
    [*range(9), *range(4, 8), *range(6, 30)],
    [*range(17), 16],  # only the last, and its unit stands
    [*range(17), 0],
)


@pytest.mark.parametrize("split_bytes", SPLITS)
@pytest.mark.parametrize("numbers", LIVES, ids=range(len(LIVES)))
def test_only_the_numbers_are_told_of_a_queue_as_brokers_leave_it(
    numbers: list[Number], split_bytes: int | None, tmp_path: Path
) -> None:
    builder, queue = restarted(tmp_path / "store", numbers)
    audited = looked_at(builder, tmp_path / "store", split_bytes)
    backwards = sum(b <= a for a, b in pairwise(numbers))
    assert {f.code for f in audited.findings} == {"LOG_QUEUE_OFFSET_REPEATED"}
    assert sum(f.count for f in audited.findings) == backwards
    assert not audited.lost
    (result,) = (result for result in audited.queues if result.topic == "t")
    assert (result.min_queue_offset, result.max_queue_offset) == (0, queue.stop)
    classes = {file.path: file.classes for file in audited.files if "/t/" in file.path}
    assert sum(each.get("record", 0) for each in classes.values()) == 20 * len(queue.at)
    assert sum(sum(each.values()) for each in classes.values()) == sum(f.size for f in audited.files if "/t/" in f.path)


@pytest.mark.parametrize("numbers", LIVES, ids=range(len(LIVES)))
def test_a_plan_leaves_a_queue_as_brokers_left_it(numbers: list[Number], tmp_path: Path) -> None:
    """Also one whose last record alone says so: without its unit, as below, its number would be taken for damaged."""
    builder, _ = restarted(tmp_path / "store", numbers)
    made = plan_store(tmp_path / "store", tmp_path / "plan.json", given=settings_of(builder.settings), jobs=1)
    assert not made.plan.actions
    assert not made.predicted_before.harms  # no start gives up what an earlier broker has replaced


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.sampled_from(LIVES[:-2]), data=st.data(), split_bytes=st.sampled_from(SPLITS))
def test_units_that_are_wrong_beside_are_told_one_for_one(
    numbers: list[Number], data: st.DataObject, split_bytes: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("begun") / "store"
    builder, queue = restarted(root, numbers)
    broken = data.draw(st.sets(st.sampled_from(sorted(queue.at)), min_size=1, max_size=6))
    how = {number: data.draw(st.sampled_from([bytes(20), b"\1" * 20])) for number in broken}
    for number, unit in how.items():
        path = root / "consumequeue" / "t" / "0" / f"{number // PER_FILE * PER_FILE * 20:020d}"
        old = bytearray(path.read_bytes())
        at = number % PER_FILE * 20
        old[at : at + 20] = unit
        path.write_bytes(old)
    told: set[Number] = set()
    for finding in of_queue(looked_at(builder, root, split_bytes)):
        if finding.code in ("CQ_UNIT_MISSING", "CQ_UNIT_WRONG"):
            assert finding.queue_offset is not None
            told |= set(range(finding.queue_offset, finding.queue_offset + finding.count))
            assert finding.length == 20 * finding.count
            place = int(finding.path.rpartition("/")[2]) + finding.position
            assert place == 20 * finding.queue_offset
            assert finding.physical_offset == queue.at[finding.queue_offset].physical
    assert told == broken


def test_a_damaged_number_of_the_last_record_hides_nothing(tmp_path: Path) -> None:
    """One record that says a low number, and whose unit does not stand there, takes none from the others."""
    builder, _ = restarted(tmp_path / "store", [*range(30)])
    root = tmp_path / "store"
    last = max((h for h in builder.records() if h.topic == b"t"), key=lambda h: h.physical)
    segment = next(p for p in sorted((root / "commitlog").iterdir(), reverse=True) if int(p.name) <= last.physical)
    data = bytearray(segment.read_bytes())
    at = last.physical - int(segment.name) + 20
    data[at : at + 8] = (3).to_bytes(8, "big")
    segment.write_bytes(data)
    unit = root / "consumequeue" / "t" / "0" / f"{0:020d}"
    units = bytearray(unit.read_bytes())
    units[100:120] = bytes(20)
    unit.write_bytes(units)
    for split_bytes in SPLITS:
        found = looked_at(builder, root, split_bytes).findings
        assert [f.queue_offset for f in found if f.code == "CQ_UNIT_MISSING"] == [5]


def test_a_queue_that_was_lost_after_it_began_again_lacks_what_the_later_records_have(tmp_path: Path) -> None:
    builder, queue = restarted(tmp_path / "store", [*range(20), *range(12)])
    directory = tmp_path / "store" / "consumequeue" / "t" / "0"
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()
    for split_bytes in SPLITS:
        found = looked_at(builder, tmp_path / "store", split_bytes).findings
        missing = [f for f in found if f.code == "CQ_MISSING"]
        assert sum(f.count for f in missing) == len(queue.at)
    start = simulate(tmp_path / "store", broker="5.5.1", given=settings_of(builder.settings))
    assert start.given_up is not None
    assert start.given_up.messages == len(queue.at)
    assert [(again.first, again.stop) for again in start.given_up.reissues] == [(0, queue.stop)]


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([*range(30), 3], 31),  # the last record alone says so
        ([*range(30), 0], 31),
        ([*range(20), 3, *range(20, 30)], 30),  # of another queue, perhaps
        ([*range(20), 0, *range(20, 30)], 30),
        ([*range(20), 3, *range(21, 30)], 30),
    ],
)
@pytest.mark.parametrize("is_gone", [True, False])
def test_one_record_alone_takes_no_number_from_others(
    numbers: list[Number], kept: int, is_gone: bool, tmp_path: Path
) -> None:
    """A broker that builds such a queue passes over the record, or appends its unit: it keeps all others."""
    root = tmp_path / "store"
    builder, _ = restarted(root, numbers)
    directory = root / "consumequeue" / "t"
    shutil.rmtree(directory)
    if not is_gone:
        heads = [head for head in builder.records() if head.topic == b"t"]
        if kept == len(heads) - 1:
            del heads[20]
        (directory / "0").mkdir(parents=True)
        for path, data in obvious_files("t", 0, Obvious(dict(enumerate(heads))), builder.settings).items():
            (root / path).write_bytes(data)
    before = tree(root, "consumequeue/t")
    plan_store(root, tmp_path / "plan.json", given=settings_of(builder.settings), jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    after = pointed_at(root)
    assert len(after) == kept
    assert is_gone or tree(root, "consumequeue/t") == before
    rebuild(root, tmp_path / "new", given=settings_of(builder.settings))
    assert pointed_at(tmp_path / "new") == after

"""Queues of which retention has deleted all messages: their numbers go on, so their last file is kept, and mended."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
from broker.brokers import run
from golden_data import given_for

from storeio import audit
from storeio.apply import apply_plan
from storeio.format import batchqueue, consumequeue
from storeio.planning import plan_store
from storeio.predict.start import simulate
from storeio.rebuild.node import rebuild
from storeio.report.rebuilding import render_rebuilt
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

Ends = dict[tuple[str, int], int]
STORES = (("rich-5.5.1", 13), ("rich-4.9.8", 13), ("ext-5.5.1", 3), ("ext-5.3.3", 6))
UNIT = consumequeue.UNIT_BYTES


def expired(name: str, segments: int, root: Path) -> Path:
    """Return the root of a store whose first segments retention has deleted."""
    golden.copy_of(name, root)
    for segment in sorted((root / "commitlog").iterdir())[:segments]:
        segment.unlink()
    return root


def version_of(name: str) -> str:
    return name.rpartition("-")[2]


def ends(root: Path, name: str) -> Ends:
    """Return where the numbers of each queue go on after a start."""
    start = simulate(root, broker=version_of(name), given=given_for(name)).outcome.after_start
    assert start is not None
    named = (key.rpartition("/") for key in start.queues)
    return {(topic, int(number)): start.queues[f"{topic}/{number}"][1] for topic, _, number in named}


def dead(root: Path, name: str) -> list[tuple[str, int]]:
    """Return the queues that have a file and no message."""
    found = audit.check(root, given=given_for(name), jobs=1)
    assert found.exit_code == 0
    return [(queue.topic, queue.queue_id) for queue in found.queues if not queue.in_log and queue.kind == "cq"]


def last_file(root: Path, queue: tuple[str, int]) -> Path:
    return max((root / "consumequeue" / queue[0] / str(queue[1])).iterdir())


def random_bytes(count: int) -> bytes:
    return np.random.default_rng(1).bytes(count)


def units(path: Path) -> int:
    """Return how many units of a file are written."""
    return int(np.flatnonzero(consumequeue.is_written(consumequeue.decode(path.read_bytes())))[-1]) + 1


@pytest.mark.parametrize(("name", "segments"), STORES)
def test_a_check_says_where_their_numbers_go_on(name: str, segments: int, tmp_path: Path) -> None:
    root = expired(name, segments, tmp_path / "store")
    told = {(q.topic, q.queue_id): (q.min_queue_offset, q.max_queue_offset) for q in audit.check(root, jobs=1).queues}
    queues, after = dead(root, name), ends(root, name)
    assert queues
    assert {queue: told[queue] for queue in queues} == {queue: (after[queue], after[queue]) for queue in queues}


@pytest.mark.parametrize(("name", "segments"), STORES)
def test_a_rebuild_and_a_salvage_keep_them(name: str, segments: int, tmp_path: Path) -> None:
    root = expired(name, segments, tmp_path / "store")
    built = rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    saved = salvage(root, tmp_path / "saved", given=given_for(name), jobs=1)
    assert (built.exit_code, saved.exit_code) == (0, 0)
    queues = dead(root, name)
    for made in ("built", "saved"):
        for queue in queues:
            assert last_file(tmp_path / made, queue).read_bytes() == last_file(root, queue).read_bytes()
    after, then = ends(root, name), ends(tmp_path / "saved", name)
    assert {queue: then.get(queue) for queue in queues} == {queue: after[queue] for queue in queues}
    assert audit.check(tmp_path / "saved", given=given_for(name), jobs=1).exit_code == 0
    assert f"{queues[0][0]}/{queues[0][1]}" in " ".join(render_rebuilt(built).partition("NOTES")[2].split())


@pytest.mark.parametrize("over", [False, True])
def test_a_copy_of_another_queues_file_takes_no_number(over: bool, tmp_path: Path) -> None:
    """Behind the last file, or over it: then the name tells that the one in front of it was full."""
    name = "rich-5.5.1"
    root = expired(name, 13, tmp_path / "store")
    file_bytes = int(given_for(name)["mappedFileSizeConsumeQueue"])
    queue = dead(root, name)[0]
    path, known = last_file(root, queue), ends(root, name)
    shutil.copyfile(path, path.with_name(f"{file_bytes:020d}"))
    full = np.repeat(consumequeue.decode(path.read_bytes())[:1], file_bytes // UNIT)
    full["physical_offset"] = np.arange(len(full)) * 64
    path.write_bytes(full.tobytes())
    living = max(
        (q for q in audit.check(root, jobs=1).queues if q.in_log and q.topic != queue[0]), key=lambda q: q.units
    )
    at = file_bytes if over else 2 * file_bytes
    shutil.copyfile(last_file(root, (living.topic, living.queue_id)), path.with_name(f"{at:020d}"))
    expected = len(full) + (1 if over else known[queue])
    built = rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    assert {(q.topic, q.queue_id): q.stop for q in built.queues}[queue] == expected
    planned = plan_store(root, tmp_path / "plan.json", broker="5.5.1", given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert ends(root, name) == {**known, queue: expected}


@pytest.mark.parametrize(("name", "segments"), [store for store in STORES if store[0] != "ext-5.5.1"])
@pytest.mark.parametrize("damage", ["zeros", "far", "alive", "last"])
def test_a_plan_takes_no_number_from_them(name: str, segments: int, damage: str, tmp_path: Path) -> None:
    root = expired(name, segments, tmp_path / "store")
    queue = max(dead(root, name), key=lambda one: units(last_file(root, one)))
    path, before = last_file(root, queue), ends(root, name)
    count = units(path)
    assert count > 2
    at = (count - 1 if damage == "last" else count // 2) * UNIT
    data = bytearray(path.read_bytes())
    if damage == "zeros":
        data[at : at + UNIT] = bytes(UNIT)
    elif damage == "far":
        data[at] = 0x7F
    else:
        alive = int(golden.dump(name)[-1]["phy_offset"]) - 1
        data[at : at + 8] = alive.to_bytes(8, "big")
    path.write_bytes(data)
    planned = plan_store(root, tmp_path / "plan.json", broker=version_of(name), given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert audit.check(root, given=given_for(name), jobs=1).exit_code == 0
    assert ends(root, name) == before
    again = plan_store(root, broker=version_of(name), given=given_for(name), jobs=1)
    assert again.plan.actions == ()


@pytest.mark.parametrize("name", ["rich-5.5.1", "rich-4.9.8"])
def test_a_unit_that_reaches_into_the_log_is_none_of_a_deleted_message(name: str, tmp_path: Path) -> None:
    """Brokers take its end for how far the queue is dispatched, and pass over new messages."""
    root = expired(name, 13, tmp_path / "store")
    queue, before = dead(root, name)[0], ends(root, name)
    path = last_file(root, queue)
    with path.open("r+b") as file:
        file.seek((units(path) - 1) * UNIT + 8)
        file.write((1 << 19).to_bytes(4, "big"))
    assert audit.check(root, given=given_for(name), jobs=1).exit_code == 4
    salvage(root, tmp_path / "saved", given=given_for(name), jobs=1)
    assert last_file(tmp_path / "saved", queue).read_bytes() != path.read_bytes()
    planned = plan_store(root, tmp_path / "plan.json", broker=version_of(name), given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert ends(root, name) == before


@pytest.mark.parametrize("name", ["rich-5.5.1", "ext-5.3.3"])
def test_a_wrong_name_takes_no_number(name: str, tmp_path: Path) -> None:
    root = expired(name, dict(STORES)[name], tmp_path / "store")
    queue, before = dead(root, name)[0], ends(root, name)
    path = last_file(root, queue)
    path.rename(path.with_name(f"{10:020d}"))
    planned = plan_store(root, tmp_path / "plan.json", broker=version_of(name), given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert path.is_file()
    assert ends(root, name) == before


@pytest.mark.parametrize(("name", "segments"), STORES)
@pytest.mark.parametrize("content", ["zeros", "random"])
def test_a_file_without_a_unit_tells_by_its_name_how_far_the_numbers_are(
    name: str, segments: int, content: str, tmp_path: Path
) -> None:
    """Brokers take a unit for granted in the last file, whatever it holds; without one, 5.x do not start."""
    root = expired(name, segments, tmp_path / "store")
    queue = dead(root, name)[0]
    path = last_file(root, queue)
    path = path.rename(path.with_name(f"{path.stat().st_size:020d}"))
    path.write_bytes(random_bytes(path.stat().st_size) if content == "random" else bytes(path.stat().st_size))
    before = ends(root, name)
    assert before[queue] == path.stat().st_size // UNIT + 1
    built = rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    mine = next(one for one in built.queues if (one.topic, one.queue_id) == queue)
    assert (mine.units, mine.kept, mine.filled, mine.stop, built.exit_code) == (0, 0, 1, before[queue], 4)
    planned = plan_store(root, tmp_path / "plan.json", broker=version_of(name), given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert audit.check(root, given=given_for(name), jobs=1).exit_code == 0
    assert ends(root, name) == before
    assert plan_store(root, broker=version_of(name), given=given_for(name), jobs=1).plan.actions == ()


@pytest.mark.parametrize("what", ["zeros", "its only unit", "a name too low"])
def test_no_number_is_below_those_that_a_broker_takes_the_last_file_for(what: str, tmp_path: Path) -> None:
    """With an earlier file that is whole, or a name in front of its place."""
    name = "base-5.5.1"
    root = expired(name, 8, tmp_path / "store")
    queue = root / "consumequeue/gone/0"
    queue.mkdir(parents=True)
    whole = (root / f"consumequeue/topic_0/0/{1000:020d}").read_bytes()
    last = queue / f"{2000:020d}"
    last.write_bytes(whole[:60].ljust(1000, b"\0"))
    sound = ends(root, name)["gone", 0]
    assert sound == 103
    if what == "a name too low":
        last.rename(queue / f"{1990:020d}")
    else:
        (queue / f"{1000:020d}").write_bytes(whole)
        last.write_bytes((whole[:8] + b"\1" + whole[9:20] if what == "its only unit" else b"").ljust(1000, b"\0"))
    before = ends(root, name)["gone", 0]
    planned = plan_store(root, tmp_path / "plan.json", broker="5.5.1", given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert before <= ends(root, name)["gone", 0] <= sound


def test_units_of_which_most_are_damaged_are_not_believed(tmp_path: Path) -> None:
    name = "rich-5.5.1"
    root = expired(name, 13, tmp_path / "store")
    queue = dead(root, name)[0]
    path = last_file(root, queue)
    data = bytearray(path.read_bytes())
    for number in range(units(path) - 1):
        data[number * UNIT] = 0x7F
    path.write_bytes(data)
    built = rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    assert queue not in {(one.topic, one.queue_id) for one in built.queues}


def test_a_log_that_begins_at_0_has_none(tmp_path: Path) -> None:
    """Units of which it has no message are somebody else's."""
    root = golden.copy_of("base-5.5.1", tmp_path / "store")
    shutil.copytree(root / "consumequeue/topic_0", root / "consumequeue/topic_7")
    built = rebuild(root, tmp_path / "built", jobs=1)
    assert {queue.topic for queue in built.queues} == {"topic_0", "topic_1"}


@pytest.mark.parametrize("segments", [1, 4, 7, 9])
def test_a_copy_of_a_queue_that_lives_is_none(segments: int, tmp_path: Path) -> None:
    name = "base-5.5.1"
    root = expired(name, segments, tmp_path / "store")
    shutil.copytree(root / "consumequeue/topic_0", root / "consumequeue/topic_7")
    built = rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    assert {queue.topic for queue in built.queues} == {"topic_0", "topic_1"}


@pytest.mark.broker
@pytest.mark.parametrize(("name", "segments"), [store for store in STORES if store[0] != "ext-5.3.3"])
def test_real_brokers_go_on_where_they_were(name: str, segments: int, tmp_path: Path) -> None:
    root = expired(name, segments, tmp_path / "store")
    queues, version = dead(root, name), version_of(name)
    salvage(root, tmp_path / "saved", given=given_for(name), jobs=1)
    swapped = shutil.copytree(root, tmp_path / "swapped")
    rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    for part in ("consumequeue", "consumequeue_ext"):
        if (tmp_path / "built" / part).is_dir():
            shutil.rmtree(swapped / part, ignore_errors=True)
            shutil.move(tmp_path / "built" / part, swapped / part)
    told = []
    for each in (root, tmp_path / "saved", swapped):
        started = run(version, each, golden.options(name), stop="halt")
        assert started.outcome == "starts", started.reason
        told.append({queue: started.queues[queue][1] for queue in queues})
    assert told[0] == told[1] == told[2]
    assert all(told[0].values())


BATCH_QUEUE = ("bcq_b", 2)


def batch_file(root: Path) -> Path:
    return next((root / "batchconsumequeue" / BATCH_QUEUE[0] / str(BATCH_QUEUE[1])).iterdir())


def damaged_at(path: Path, number: int, at: int, data: bytes) -> None:
    """Overwrite bytes of a unit of a batch queue."""
    with path.open("r+b") as file:
        file.seek(number * batchqueue.UNIT_BYTES + at)
        file.write(data)


@pytest.mark.parametrize("name", ["rich-5.5.1", "rich-5.3.3"])
@pytest.mark.parametrize(
    ("number", "at", "data"),
    [
        pytest.param(3, 0, bytes(46), id="zeros"),
        pytest.param(0, 0, b"\xff" * 46, id="the first"),
        pytest.param(5, 28, b"\x10", id="its queue offset"),
        pytest.param(7, 8, bytes(4), id="its size"),
        pytest.param(2, 37, b"\0", id="its messages"),
    ],
)
def test_a_batch_queue_without_messages_is_mended(name: str, number: int, at: int, data: bytes, tmp_path: Path) -> None:
    """A broker would end it at a damaged unit; or go on at the queue offset that this one names."""
    root = expired(name, 14, tmp_path / "store")
    before = ends(root, name)
    damaged_at(batch_file(root), number, at, data)
    found = audit.check(root, given=given_for(name), jobs=1)
    ends_there = data == bytes(46)  # to whom takes zeros for the queue's end
    expected = "BCQ_DIRTY_TAIL" if ends_there else "BCQ_UNIT_ORPHAN"
    assert {f.code for f in found.findings if f.severity != "info"} == {expected}
    planned = plan_store(root, tmp_path / "plan.json", broker=version_of(name), given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert audit.check(root, given=given_for(name), jobs=1).exit_code == 0
    assert ends(root, name) == before


@pytest.mark.parametrize("name", ["rich-5.5.1", "rich-5.3.3"])
@pytest.mark.parametrize("gone", range(2, 13))
def test_sound_units_of_deleted_batches_are_none_the_worse_for_damage_behind_them(
    name: str, gone: int, tmp_path: Path
) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    segments = sorted((root / "commitlog").iterdir())
    for segment in (segments[0], segments[gone]):
        segment.unlink()
    found = audit.check(root, given=given_for(name), jobs=1)
    assert {f.detail for f in found.findings if f.code == "BCQ_UNIT_ORPHAN"} <= {"its record is not intact"}


@pytest.mark.parametrize("name", ["rich-5.5.1", "rich-5.3.3"])
def test_a_damaged_unit_of_a_deleted_batch_hides_no_message_behind_it(name: str, tmp_path: Path) -> None:
    """Brokers end the queue at such a unit."""
    root = expired(name, 4, tmp_path / "store")
    before = ends(root, name)
    damaged_at(batch_file(root), 1, 0, b"\xff" * 46)
    assert ends(root, name) != before
    assert audit.check(root, given=given_for(name), jobs=1).exit_code == 4
    planned = plan_store(root, tmp_path / "plan.json", broker=version_of(name), given=given_for(name), jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert ends(root, name) == before


@pytest.mark.parametrize("segments", [4, 9, 11, 13])
def test_light_queues_go_on_where_they_were(segments: int, tmp_path: Path) -> None:
    """The numbers in lists run ahead of the units: how far, the store's own tell."""
    name = "rich-5.5.1"
    root = expired(name, segments, tmp_path / "store")
    rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    before = ends(root, name)
    shutil.rmtree(root / "consumequeue")
    shutil.move(tmp_path / "built" / "consumequeue", root / "consumequeue")
    after = ends(root, name)
    light = [queue for queue in before if queue[0].startswith("%LMQ%")]
    assert len(light) == 4
    assert {queue: after[queue] for queue in light} == {queue: before[queue] for queue in light}


@pytest.mark.parametrize("number", [0, 5, 11])
def test_a_unit_of_a_deleted_message_that_points_into_the_log_moves_no_light_queue(number: int, tmp_path: Path) -> None:
    """It is the first that does, and stands where others do not say that the queue begins."""
    name = "rich-5.5.1"
    root = expired(name, 9, tmp_path / "store")
    rebuild(root, tmp_path / "sound", given=given_for(name), jobs=1)
    queue = "%LMQ%a0", 0
    path = last_file(root, queue)
    stored = consumequeue.decode(path.read_bytes())
    log_min = min(int(segment.name) for segment in (root / "commitlog").iterdir())
    alive = np.flatnonzero(stored["physical_offset"] >= log_min)
    assert number < alive[0]
    data = bytearray(path.read_bytes())
    data[number * UNIT : number * UNIT + 12] = data[alive[0] * UNIT : alive[0] * UNIT + 12]
    path.write_bytes(data)
    rebuild(root, tmp_path / "built", given=given_for(name), jobs=1)
    assert last_file(tmp_path / "built", queue).read_bytes() == last_file(tmp_path / "sound", queue).read_bytes()

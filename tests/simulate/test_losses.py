"""What a start gives up, against counting by hand: intact messages that no unit of their queue points at afterwards."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import golden_data
import pytest
import slow

import storeio
from storeio.paths import file_name
from storeio.predict.start import simulate
from storeio.simulate.predicted import Prediction

pytestmark = pytest.mark.share(2)

SAMPLE = 7
LISTS = ("rows-4.9.8", "rows-5.1.4", "rows-5.3.3", "rows-5.5.1", "rows-long-5.5.1", "fuzz-4.9.8", "fuzz-long-5.5.1")
CASES = [
    (name, case)
    for number, name in enumerate(LISTS)
    for case in golden_data.cases(name)[number % SAMPLE :: SAMPLE]
    if case["outcome"] == "starts"
]
FILLED = 2**31 - 1  # size of units that stand in front of a queue's first one
QUEUED = (0, 8)  # transaction bits of messages that enter a queue


def given(base: str) -> dict[str, str]:
    options = golden_data.options(base)
    return {
        "mappedFileSizeCommitLog": str(options["clFile"]),
        "maxHashSlotNum": str(options["indexSlots"]),
        "maxIndexNum": str(options["indexNum"]),
    }


def predicted(name: str, case_id: str, place: Path, **how: Any) -> Prediction:
    """Return the prediction for a recorded case."""
    base = golden_data.base_of(name)
    case = next(case for case in golden_data.cases(name) if case["id"] == case_id)
    root = golden_data.damaged(base, case["edits"], place / "store")
    return simulate(root, **{"broker": case["broker"], "given": given(base), **how})


def units_after(found: Prediction) -> dict[str, set[int]]:
    """Return the physical offsets of the units that consumers can read, by queue, from the predicted files."""
    state = found.outcome.after_start
    assert state is not None
    offsets: dict[str, set[int]] = {}
    for queue, (low, high, _) in state.queues.items():
        offsets[queue] = set()
        for path in state.files:
            if path.startswith(f"consumequeue/{queue}/"):
                data = b"".join(piece.tobytes() for piece in found.disk.content(path))
                first = int(path.rpartition("/")[2]) // 20
                for i in range(len(data) // 20):
                    if low <= first + i < high:
                        place, size = struct.unpack_from(">qi", data, 20 * i)
                        offsets[queue] |= {place} if place or size not in (0, FILLED) else set()
    return offsets


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}:{case['id']}" for name, case in CASES])
def test_given_up_is_what_no_unit_points_at(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    found = predicted(name, case["id"], tmp_path)
    assert found.given_up is not None
    state = found.outcome.after_start
    assert state is not None
    units = units_after(found)
    intact, lost = 0, 0
    for path in sorted((tmp_path / "store" / "commitlog").iterdir()):
        if not path.is_file() or not path.name.isdigit():
            continue
        base = int(path.name)
        for head in slow.SlowWalk(path.read_bytes(), base).records:
            if head.sys_flag & 0xC not in QUEUED:
                continue
            intact += 1
            at = base + head.position
            kept = f"commitlog/{path.name}" in state.files and at + head.size <= state.max_physical_offset
            queue = f"{head.topic.decode(errors='replace')}/{head.queue_id}"
            lost += not (kept and at in units.get(queue, ()))
    assert (found.given_up.intact, found.given_up.messages) == (intact, lost)


def test_actions_and_numbers(tmp_path: Path) -> None:
    """A flipped bit in the last file but one: 4.9.8 unlinks the last file after a clean stop, 5.3.3 does not look."""
    found = predicted("rows-4.9.8", "6-clean", tmp_path)
    assert found.given_up is not None
    actions = {(loss.action, loss.path.rpartition("/")[2].lstrip("0")) for loss in found.given_up.losses}
    assert actions == {("deletes the commitlog file", "294912"), ("ends the log before it", "262144")}
    for loss in found.given_up.losses:
        assert loss.messages == loss.last_queue_offset - loss.first_queue_offset + 1
    ends = {(r.topic, r.queue_id): (r.first, r.stop) for r in found.given_up.reissues}
    state = found.outcome.after_start
    assert state is not None
    assert {f"{topic}/{number}": first for (topic, number), (first, _) in ends.items()} == {
        queue: high for queue, (_, high, _) in state.queues.items()
    }
    assert found.exit_code == 4
    newer = simulate(tmp_path / "store", broker="5.3.3", given=given("base-4.9.8"))
    assert (newer.exit_code, newer.given_up and newer.given_up.losses) == (0, [])


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_a_unit_that_fills_up_does_not_point_at_the_first_message(version: str, tmp_path: Path) -> None:
    """In front of a queue's first new unit stand units of place 0, where a message of that queue lies."""
    found = predicted(f"rows-{version}", "38-abort", tmp_path)
    assert found.given_up is not None
    first = next(row for row in golden_data.dump(f"base-{version}") if row["phy_offset"] == "0")
    (loss,) = (
        loss
        for loss in found.given_up.losses
        if (loss.topic, loss.queue_id) == (first["topic"], int(first["queue_id"]))
    )
    assert (loss.first_queue_offset, loss.first_physical_offset) == (0, 0)


def test_lost_directory_restarts_a_queue(tmp_path: Path) -> None:
    found = predicted("rows-5.3.3", "36B-clean", tmp_path)
    assert found.given_up is not None
    lost = {(loss.topic, loss.queue_id): loss for loss in found.given_up.losses}
    assert len(lost) == 1
    ((queue, loss),) = lost.items()
    assert loss.action == "makes no queue unit for it"
    assert [(r.topic, r.queue_id, r.first) for r in found.given_up.reissues] == [(*queue, 0)]


QUEUE = "consumequeue/topic_1/0/"
MISNAMED = {  # how, and how many of the queue's messages the brokers named did not deliver when it was tried
    "to 2001": (["rename", f"{QUEUE}{2000:020d}", f"{QUEUE}{2001:020d}"], {"4.9.8": 50, "5.3.3": 50, "5.5.1": 50}),
    "the first": (["rename", f"{QUEUE}{0:020d}", f"{QUEUE}{1:020d}"], {"4.9.8": 50, "5.5.1": 50}),
    "the last": (["rename", f"{QUEUE}{4000:020d}", f"{QUEUE}{4001:020d}"], {"4.9.8": 26, "5.5.1": 26}),
    "over the next": (["rename", f"{QUEUE}{3000:020d}", f"{QUEUE}{3500:020d}"], {"4.9.8": 50, "5.5.1": 50}),
    "no digits in front": (["rename", f"{QUEUE}{2000:020d}", f"{QUEUE}2000"], {"4.9.8": 76, "5.5.1": 76}),
    "a second one": (["copy", f"{QUEUE}{2000:020d}", f"{QUEUE}{2001:020d}"], {"4.9.8": 32, "5.5.1": 1}),
    "to 1990": (["rename", f"{QUEUE}{2000:020d}", f"{QUEUE}{1990:020d}"], {"4.9.8": 0, "5.5.1": 0}),
}
TRIED = [(how, version) for how, (_, tried) in MISNAMED.items() for version in tried]


@pytest.mark.parametrize(("how", "version"), TRIED, ids=[f"{how} {version}" for how, version in TRIED])
def test_messages_that_consumers_jump_over(how: str, version: str, tmp_path: Path) -> None:
    """Units in a file whose name is not its place: some unit points at each message, but pulls pass it."""
    (kind, path, target), tried = MISNAMED[how]
    root = golden_data.copy_of(f"base-{version}", tmp_path / "store")
    {"rename": shutil.move, "copy": shutil.copy}[kind](root / path, root / target)
    (root / "abort").touch()
    found = simulate(root, broker=version, given=given(f"base-{version}"))
    assert found.consumers is not None
    assert found.given_up is not None
    missed = tried[version]
    assert (found.consumers.missed, found.consumers.skipped, found.given_up.messages) == (missed, missed, 0)
    # 5.x tells the next offset by the file's name: from 149 on to 149 again, as half a unit is cut off.
    stays = [("topic_1", 0, 149)] if (how, version) == ("to 1990", "5.5.1") else []
    assert found.consumers.stuck == stays
    assert found.harms == found.consumers.lacking == (missed > 0 or bool(stays))


# A file of zeros before the first one, and what the brokers named delivered of 850 when it was tried: messages, and
# answers that no client can read. Java cuts off ``-1 / 32768`` to 0, which is the first file's place.
BEFORE_ALL = {
    "commitlog/-1": {"4.9.8": (850, 0), "5.3.3": (765, 85), "5.5.1": (765, 85)},
    "commitlog/-32767": {"4.9.8": (850, 0), "5.3.3": (849, 1), "5.5.1": (849, 1)},
    "commitlog/-32768": {"4.9.8": (850, 0), "5.3.3": (850, 0), "5.5.1": (850, 0)},
    "consumequeue/topic_0/0/-1": {"4.9.8": (800, 50), "5.3.3": (800, 51), "5.5.1": (800, 51)},
}


@pytest.mark.parametrize("path", BEFORE_ALL)
def test_a_file_with_a_negative_number_is_the_first(path: str, tmp_path: Path) -> None:
    for version, delivered in BEFORE_ALL[path].items():
        root = golden_data.copy_of(f"base-{version}", tmp_path / version)
        (root / path).write_bytes(bytes(32768 if path.startswith("commitlog") else 1000))
        found = simulate(root, broker=version, given=given(f"base-{version}"))
        assert found.consumers is not None
        assert (found.consumers.messages, found.consumers.undecodable) == delivered
        assert found.harms == (delivered != (850, 0))


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_no_consumer_comes_to_units_behind_a_gap_that_takes_forever(version: str, tmp_path: Path) -> None:
    """Each pull leads to where the next file would begin. The brokers named were seen to do so a thousand times."""
    root = golden_data.copy_of(f"base-{version}", tmp_path / "store")
    shutil.move(root / f"{QUEUE}{4000:020d}", root / f"{QUEUE}{2**62 // 1000 * 1000:020d}")
    (root / "abort").touch()
    found = simulate(root, broker=version, given=given(f"base-{version}"))
    assert found.consumers is not None
    assert (found.consumers.messages, found.consumers.missed, found.harms) == (824, 26, True)


def test_a_strange_queues_file_out_of_place_is_no_loss(tmp_path: Path) -> None:
    """Its units point at intact messages that no consumer of this queue has to get."""
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    shutil.copy(root / f"consumequeue/topic_0/0/{2000:020d}", root / f"{QUEUE}{2001:020d}")
    (root / QUEUE / f"{2000:020d}").unlink()
    (root / "abort").touch()
    found = simulate(root, broker="5.5.1", given=given("base-5.5.1"))
    assert found.consumers is not None
    assert found.given_up is not None
    assert (found.consumers.missed, found.given_up.messages) == (0, 50)


MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}
LIGHT = {  # (version, what): how many messages the light queue's consumers did not get when it was tried
    ("4.9.8", "end"): 3, ("5.3.3", "end"): 3, ("5.5.1", "end"): 3,
    ("4.9.8", "end abort"): 0, ("5.5.1", "end abort"): 0, ("5.5.1", "gone abort"): 7,
}  # fmt: skip


@pytest.mark.parametrize(("version", "what"), LIGHT, ids=[" ".join(case) for case in LIGHT])
def test_light_queues_lose_too(version: str, what: str, tmp_path: Path) -> None:
    """The message itself stays in its own queue; recovery after a crash may dispatch it to the light one again."""
    root = golden_data.copy_of(f"rich-{version}", tmp_path / "store")
    path = root / "consumequeue/%LMQ%a0/0" / file_name(0)
    units = path.read_bytes()
    kept = -(-len(units.rstrip(b"\0")) // 20) - 3
    if what.startswith("end"):
        path.write_bytes(units[: 20 * kept].ljust(len(units), b"\0"))
    else:
        path.unlink()
        path.parent.rmdir()
    if what.endswith("abort"):
        (root / "abort").touch()
    found = simulate(root, broker=version, given={**given(f"rich-{version}"), **MULTI})
    assert found.given_up is not None
    lost = LIGHT[version, what]
    assert [(loss.topic, loss.messages) for loss in found.given_up.losses] == ([("%LMQ%a0", lost)] if lost else [])
    assert found.harms == (lost > 0)


def test_lists_that_a_broker_leaves_alone_are_no_loss(tmp_path: Path) -> None:
    """4.9.8 dispatches lists of retried messages, 5.x does not: made again, its light queues are whole without them."""
    root = golden_data.without("rich-4.9.8", tmp_path / "store", "consumequeue", "index")
    (root / "checkpoint").unlink()
    (root / "abort").touch()
    light = []
    for version in ("4.9.8", "5.3.3"):
        found = simulate(root, broker=version, given={**given("rich-4.9.8"), **MULTI})
        assert found.given_up is not None
        assert found.outcome.after_start is not None
        assert found.given_up.losses == []
        light.append(sum(n[1] for name, n in found.outcome.after_start.queues.items() if name.startswith("%LMQ%")))
    assert light[0] > light[1] > 0


def test_what_is_out_of_the_log_counts_once(tmp_path: Path) -> None:
    """For its own queue, and not for each light queue, too, that its list names."""
    setting = {**given("rich-5.5.1"), **MULTI}
    found = simulate(golden_data.copy_of("rich-5.5.1", tmp_path / "store"), broker="4.9.8", given=setting)
    assert found.given_up is not None
    cut = [
        loss
        for loss in found.given_up.losses
        if loss.action in ("deletes the commitlog file", "ends the log before it")
    ]
    segment = int(given("rich-5.5.1")["mappedFileSizeCommitLog"])
    end = min(loss.first_physical_offset for loss in cut)
    log = (tmp_path / "store" / "commitlog" / file_name(end // segment * segment)).read_bytes()
    assert b"%LMQ%" in log[end % segment :]
    assert len({(loss.topic, loss.queue_id) for loss in cut}) > 1
    assert not [loss for loss in cut if loss.topic.startswith("%LMQ%")]


def test_the_verb_is_a_function_and_a_package(tmp_path: Path) -> None:
    golden_data.copy_of("base-5.5.1", tmp_path / "store")
    found = storeio.simulate(tmp_path / "store", broker="5.5.1")
    assert found.exit_code == 0
    assert storeio.simulate(tmp_path / "store", broker="5.5.1").given_up == found.given_up


def test_nothing_is_written(tmp_path: Path) -> None:
    root = golden_data.damaged("base-4.9.8", golden_data.cases("rows-4.9.8")[20]["edits"], tmp_path / "store")

    def facts() -> dict[str, Any]:
        return {
            str(p): (p.stat().st_mtime_ns, p.stat().st_ctime_ns, p.is_file() and p.read_bytes())
            for p in sorted(root.rglob("*"))
        }

    before = facts()
    for version in ("4.9.8", "5.5.1"):
        simulate(root, broker=version)
    assert facts() == before

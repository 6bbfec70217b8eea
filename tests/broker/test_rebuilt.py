"""Queues that a real broker builds from nothing but a log are those that a rebuild gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rebuilds import QUEUES, contents, log_with_lists, random_log, settings_of, tree, with_copied_lists
from sampled import seeds
from storebuilder import StoreBuilder

from broker.brokers import VERSIONS, run
from broker.versions import EVERY_VERSION
from storeio import audit
from storeio.format import consumequeue, index
from storeio.rebuild.node import rebuild

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]


@pytest.mark.parametrize(("version", "copies"), [("5.1.4", True), ("5.3.3", True), ("5.5.1", True), ("4.9.8", False)])
def test_lists_of_other_messages_lead_to_no_light_queue(version: str, copies: bool, tmp_path: Path) -> None:
    root = with_copied_lists(tmp_path / "store", copies=copies)
    built = tmp_path / "broker"
    shutil.copytree(root / "commitlog", built / "commitlog")
    if version == "5.1.4":
        (built / "abort").touch()  # else 5.0.0 to 5.3.1 build nothing; 4.9.8 then would give delayed ones other codes
    options = {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200}
    lists = {"set.enableMultiDispatch": "true", "set.enableLmq": "true"}
    started = run(version, built, options | lists, consume=False, stop="halt")
    assert started.outcome == "starts", started.reason
    units = started.queues["%LMQ%a", 0]
    assert units == ((0, 4) if copies else (0, 8))
    rebuild(root, tmp_path / "new", parts=("queues",))
    light = "consumequeue/%LMQ%a/0"
    assert tree(tmp_path / "new", light) == tree(built, light) != {}


LISTS = {
    "no number": ("%LMQ%a", "x"),
    "what brokers write of another name in front": ("x,%LMQ%a", ",0"),
    "more than a long": ("%LMQ%a", "9" * 19),
    "a sign": ("%LMQ%a", "+1"),
    "lists of different lengths": ("%LMQ%a,%LMQ%b", "x"),
}


@pytest.mark.long  # thirty seconds, of rare names and lists
@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_brokers_fail_at_the_lists_that_are_found(version: str, what: str, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store")
    names, numbers = LISTS[what]
    for lists in ({}, {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": numbers}, {}):
        builder.message("t", 0, b"body", properties={"KEYS": "k", **lists})
    root, given = builder.close(), settings_of(builder.settings) | {"enableMultiDispatch": "true"}
    (root / "abort").touch()
    found = [f for f in audit.check(root, given=given).findings if f.code == "LOG_MULTI_DISPATCH"]
    for path in ("consumequeue", "index"):
        shutil.rmtree(root / path, ignore_errors=True)
    options = {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200, "set.enableLmq": "true"}
    for on in ("true", "false"):
        made = shutil.copytree(root, tmp_path / on)
        started = run(version, made, {**options, "set.enableMultiDispatch": on}, consume=False, stop="halt")
        assert (started.outcome == "starts") == (not found or on == "false")
        assert started.outcome != "starts" or started.queues["t", 0] == (0, 3)


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_queues_that_messages_list_and_are_sent_to(version: str, seed: int, tmp_path: Path) -> None:
    builder = log_with_lists(tmp_path / "store", seed, ordinary=version == "4.9.8", ext=True, ext_bytes=204)
    given, root = settings_of(builder.settings), builder.close()
    made = built_by(version, builder, tmp_path / "broker")
    rebuild(root, tmp_path / "new", given=given, parts=("queues",))
    assert tree(tmp_path / "new") == tree(made, *QUEUES)
    assert [f.code for f in audit.check(made, given=given).findings if f.severity != "info"] == []


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("version", EVERY_VERSION[1:])
def test_a_random_log_is_built_as_the_broker_does(version: str, seed: int, tmp_path: Path) -> None:
    """One with topics of 130 bytes, with which 4.9 ends the log."""
    sizes = {"multi_dispatch": True, "ext": seed == 0, "tag_keys": version in ("5.4.0", "5.5.1"), "index_units": 31}
    builder = random_log(tmp_path / "store", seed, batch_topics=frozenset({"bcq"}), **sizes)
    root, made = builder.close(), built_by(version, builder, tmp_path / "broker")
    given = settings_of(builder.settings)
    rebuild(root, tmp_path / "new", given=given, broker=version)
    assert tree(tmp_path / "new", *QUEUES) == tree(made, *QUEUES)
    ours, theirs = (contents(tree(place, "index"), "index") for place in (tmp_path / "new", made))
    assert ours == [counted(data) for data in theirs]
    assert [f.code for f in audit.check(made, given=given).findings if f.severity != "info"] == []


NUMBERS = [0, 1, 2, 5, 6, 3, 4, 0, 1, 9]
DAMAGED = {  # numbers of queues some of whose records have wrong ones, or are lost
    "two": [0, 1, 2, 3, 4, 2, 3, 7, 8],
    "mixed": [0, 1, 2, 4, 3],
    "first": [4, 1, 2, 3],
    "zero": [0, 1, 2, 0, 5, 6],
    "ahead": [0, 1, 9, 4, 5],
    "last": [0, 1, 2, 3, 1, 0],
    "either": [0, 1, 2, 5, 3, 5, 6],
    "either at the end": [0, 1, 2, 9, 8, 3],
    "either of two": [2, 0],
    "wild": [0, 1, 2**41, 3, 2**50, 5],
    "again and again": [4, 0, 0],
    "again below": [2, 0, 0, 3, 4],
    "two again": [0, 8, 0, 1],
    "zeros": [0, 0, 0, 0, 1],
    "strangers in a gap": [1, 4, 0, 4, 5],
}


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_where_numbers_go_back_or_jump_a_broker_passes_over_or_appends(version: str, tmp_path: Path) -> None:
    """As docs/rebuild.md says where brokers build something else; a rebuild leaves out nothing that they deliver."""
    builder = StoreBuilder(tmp_path / "store")
    placed = [builder.message("t", 0, b"body", queue_offset=number).physical_offset for number in NUMBERS]
    for topic, numbers in DAMAGED.items():
        for number in numbers:
            builder.message(topic, 0, b"body", queue_offset=number)
    root = builder.close()
    made = built_by(version, builder, tmp_path / "broker")
    units = consumequeue.decode((made / f"consumequeue/t/0/{0:020d}").read_bytes())
    offsets = units["physical_offset"][units["size"] > 0].tolist()
    assert [NUMBERS[placed.index(offset)] for offset in offsets] == [0, 1, 2, 5, 6, 0, 9]
    rebuild(root, tmp_path / "new", given=settings_of(builder.settings))
    for topic, numbers in DAMAGED.items():
        ours, theirs = (in_queue(place, topic) for place in (tmp_path / "new", made))
        assert len(ours) == len(numbers)
        assert theirs <= ours


@pytest.mark.parametrize("version", VERSIONS)
def test_a_queue_that_began_again_is_as_its_broker_has_it(version: str, tmp_path: Path) -> None:
    """After its files alone were deleted, and a clean stop, a broker gives its numbers out from 0 on again."""
    builder = StoreBuilder(tmp_path / "store")
    for topic in ("t", "other") * 9:
        builder.message(topic, 0, b"body")
    root, given = builder.close(), settings_of(builder.settings)
    shutil.rmtree(root / "consumequeue" / "t")
    options = {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200}
    started = run(version, root, options, consume=False, put=[("t", 0)] * 4, stop="halt")
    assert [new.queue_offset for new in started.new] == [0, 1, 2, 3]
    rebuild(root, tmp_path / "new", given=given, parts=("queues",))
    assert tree(tmp_path / "new", "consumequeue") == tree(root, "consumequeue")


def in_queue(root: Path, topic: str) -> set[int]:
    """Return the physical offsets of a queue's units."""
    units = consumequeue.decode((root / f"consumequeue/{topic}/0/{0:020d}").read_bytes())
    real = consumequeue.is_written(units) & ~consumequeue.is_pre_blank(units)
    return set(units["physical_offset"][real].tolist())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_queue_whose_first_messages_are_lost_is_delivered_from_the_next_on(version: str, tmp_path: Path) -> None:
    """With the broker's own filler in front it would be from the log's second segment on."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=16384)
    for number in range(60):
        builder.message("t", 0, b"x" * 400, queue_offset=number + 5)
    root, options = builder.close(), {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200}
    rebuild(root, tmp_path / "new", given=settings_of(builder.settings))
    shutil.copytree(root / "commitlog", tmp_path / "new" / "commitlog")
    started = run(version, tmp_path / "new", options, stop="halt")
    assert [message.queue_offset for message in started.delivered] == [5] * 5 + list(range(5, 65))
    assert not started.odd


def built_by(version: str, builder: StoreBuilder, into: Path) -> Path:
    """Return what a broker makes of the log of a store that was written."""
    assert builder.root is not None
    shutil.copytree(builder.root / "commitlog", into / "commitlog")
    if version == "5.1.4":
        (into / "abort").touch()  # else 5.0.0 to 5.3.1 build nothing
    settings = builder.settings
    options = {
        "clFile": settings.segment_bytes, "cqEntries": settings.units_per_file, "indexSlots": settings.index_slots,
        "indexNum": settings.index_units, "set.enableMultiDispatch": str(settings.multi_dispatch).lower(),
        "set.enableLmq": str(settings.multi_dispatch).lower(),
        **({"cqExt": "true", "cqExtFile": settings.ext_bytes} if settings.ext else {}),
        **({"bcqTopics": ",".join(settings.batch_topics)} if settings.batch_topics else {}),
    }  # fmt: skip
    started = run(version, into, options, consume=False, stop="halt")
    assert started.outcome == "starts", started.reason
    return into


def counted(data: bytes) -> bytes:
    """Return an index file with the count that its broker has in memory: 0 on the disk until the first flush."""
    at = index.HEADER.fields["unit_count"][1]
    return data[:at] + max(int.from_bytes(data[at : at + 4], "big"), 1).to_bytes(4, "big") + data[at + 4 :]

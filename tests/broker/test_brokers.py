"""Real brokers find the sound stores whole, and the harness sees where one does not."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import Any

import golden_data
import pytest
from golden_data import given_for
from rebuilds import tree

import storeio
from broker import process
from broker.brokers import VERSIONS, Started, rebuild, run
from broker.jvm import quick
from broker.versions import EVERY_VERSION
from broker.whole import (
    Keys,
    Message,
    Record,
    as_after,
    assert_new_messages,
    assert_whole,
    broker_accepts,
    keys_of,
    messages_of,
    records_of,
)
from storeio.predict.start import simulate

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

NEW = [("topic_0", 0), ("topic_0", 1), ("topic_0", 0), ("topic_1", 0), ("topic_1", 1), ("topic_new", 3)]
FILLER = "00000000000000007fffffff0000000000000000"


def expected(name: str) -> tuple[list[Record], list[Message], Keys]:
    """Return a golden store's records, and what clients have to get of them."""
    records = records_of(golden_data.dump(name), golden_data.options(name))
    return records, messages_of(records), keys_of(records, tags=name.endswith(("5.4.0", "5.5.1")))


def log_end(records: list[Record]) -> int:
    return records[-1]["physical_offset"] + records[-1]["size"]


def start_case(name: str, case_id: str, target: Path, **options: Any) -> tuple[golden_data.Case, Started]:
    """Return a recorded damage and what its broker makes of it today."""
    base = golden_data.base_of(name)
    case = next(case for case in golden_data.cases(name) if case["id"] == case_id)
    root = golden_data.damaged(base, case["edits"], target)
    return case, run(case["broker"], root, golden_data.options(base), stop="halt", **options)


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_sound_store_is_whole_and_goes_on(version: str) -> None:
    name = f"base-{version}"
    records, messages, keys = expected(name)
    starts = broker_accepts(
        golden_data.store(name), version, golden_data.options(name), messages, keys, log_end=log_end(records), put=NEW
    )
    for started in starts.values():
        assert started.loaded_range == (0, log_end(records))
        assert_new_messages(started, NEW)


# All that a log can hold: transactions, batches, light queues, long topics, extended queues, three brokers in turn.
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("rich-4.9.8", "4.9.8"),
        ("rich-5.3.3", "5.3.3"),
        ("rich-5.5.1", "5.5.1"),
        ("ext-4.9.8", "4.9.8"),
        ("ext-5.5.1", "5.5.1"),
        ("upgraded", "5.5.1"),
        ("base-long-5.5.1", "5.5.1"),
    ],
)
def test_store_with_everything_in_it_is_whole(name: str, version: str) -> None:
    records, messages, keys = expected(name)
    broker_accepts(
        golden_data.store(name), version, golden_data.options(name), messages, keys, log_end=log_end(records)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_store_stays_whole_across_a_stop(version: str, tmp_path: Path) -> None:
    name = f"base-{version}"
    records, messages, keys = expected(name)
    root, options = golden_data.copy_of(name, tmp_path / "store"), golden_data.options(name)
    first = run(version, root, options, consume=False, put=NEW)
    assert (first.outcome, first.abort_left) == ("starts", False), first
    audit = storeio.check(root)
    assert audit.verdict == "sound", audit.findings
    second = run(version, root, options, keys=keys, stop="halt")
    assert second.abort_left
    old = [message for message in second.delivered if message.physical_offset < log_end(records)]
    assert_whole(dataclasses.replace(second, delivered=tuple(old)), messages, keys)
    assert {(new.topic, new.queue_id, new.queue_offset, new.physical_offset) for new in first.new} == {
        (new.topic, new.queue_id, new.unit_offset, new.physical_offset) for new in set(second.delivered) - set(old)
    }


# What assert_whole says of recorded damage: the harness must see what it is there for.
@pytest.mark.parametrize(
    ("name", "case_id", "complaint"),
    [
        ("rows-4.9.8", "26-clean", "refuses: .*00000000000000294912.16384 length not matched"),
        ("rows-5.3.3", "26-clean", "refuses: .*00000000000000294912.16384 length not matched"),
        ("rows-5.5.1", "63-clean", "refuses: .*20200101000000000"),
        ("rows-4.9.8", "12-clean", "crashes: in load"),
        ("rows-5.3.3", "39-clean", "the log ends at 180536, not at 320944\nnot delivered .*: 371\n"),
        ("rows-5.3.3", "15-clean", "not delivered .*: 1\n.*\npulls without a message: 1\n.*UNDECODABLE"),
        ("rows-5.3.3", "45A-clean", "not delivered .*: 50\n(.*\n)+pulls without a message: 1\n.*OFFSET_FOUND_NULL"),
        ("rows-5.3.3", "6-clean", "not as it was stored: 1\n.*topic_0/0 at 178: .*body as its CRC says False"),
    ],
)
def test_recorded_damage_is_told(name: str, case_id: str, complaint: str, tmp_path: Path) -> None:
    records, messages, keys = expected(golden_data.base_of(name))
    case, started = start_case(name, case_id, tmp_path / "store", keys=keys)
    assert started.outcome == case["outcome"]
    if case["outcome"] == "starts":
        recorded = case["after_start"]
        assert started.log_range == (recorded["min_physical_offset"], recorded["max_physical_offset"])
        queues = {f"{topic}/{queue_id}": list(ends) for (topic, queue_id), ends in started.queues.items()}
        assert queues == {queue: ends[:2] for queue, ends in recorded["queues"].items()}
    with pytest.raises(AssertionError, match=complaint):
        assert_whole(started, messages, keys, log_end(records))


def test_hanging_broker_is_killed(tmp_path: Path) -> None:
    case, started = start_case("rows-4.9.8", "23-clean", tmp_path / "store", timeout=6)
    assert (started.outcome, started.reason) == (case["outcome"], "in start") == ("hangs", "in start")
    with pytest.raises(AssertionError, match=r"broker 4\.9\.8 hangs: in start"):
        assert_whole(started, [], {})


def test_units_in_another_order_are_told(tmp_path: Path) -> None:
    _, messages, _ = expected("base-5.5.1")
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    queue = root / "consumequeue" / "topic_0" / "1" / "00000000000000000000"
    units = queue.read_bytes()
    queue.write_bytes(units[20:40] + units[:20] + units[40:])
    complaint = r"not delivered .*: 2\n.*'topic_0', 1, 0, .*\n(.*\n)+delivered, not expected: 2"
    with pytest.raises(AssertionError, match=complaint):
        broker_accepts(root, "5.5.1", golden_data.options("base-5.5.1"), messages, {}, states=["clean"])


def test_unit_twice_is_told(tmp_path: Path) -> None:
    _, messages, _ = expected("base-4.9.8")
    root = golden_data.copy_of("base-4.9.8", tmp_path / "store")
    queue = root / "consumequeue" / "topic_0" / "1" / "00000000000000000000"
    units = queue.read_bytes()
    queue.write_bytes(units[:20] + units[:20] + units[40:])
    with pytest.raises(AssertionError, match=r"not delivered .*: 1\n.*\ndelivered, not expected: 1\n"):
        broker_accepts(root, "4.9.8", golden_data.options("base-4.9.8"), messages, {}, states=["clean"])


def test_lost_index_is_told_after_a_clean_stop_and_built_again_after_a_kill(tmp_path: Path) -> None:
    _, messages, keys = expected("base-5.3.3")
    options = golden_data.options("base-5.3.3")
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    shutil.rmtree(root / "index")
    with pytest.raises(AssertionError, match=f"after a stop as in 'clean': .*\nkeys that lead elsewhere: {len(keys)}"):
        broker_accepts(root, "5.3.3", options, messages, keys, states=["clean"])
    broker_accepts(root, "5.3.3", options, messages, keys, states=["abort"])


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_rebuild_by_a_broker_is_timed(version: str, tmp_path: Path) -> None:
    name = f"base-{version}"
    records, messages, _ = expected(name)
    root, options = golden_data.copy_of(name, tmp_path / "store"), golden_data.options(name)
    started = rebuild(version, root, options)
    assert started.load_ms is not None
    assert started.load_ms > 0
    assert started.caught_up_ms is not None
    assert started.caught_up_ms > 0
    assert_whole(run(version, as_after(root, "clean"), options, stop="halt"), messages, {}, log_end(records))


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_store_is_whole(version: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    options = {"clFile": 65536, "cqEntries": 50, "indexSlots": 200, "indexNum": 800}
    put = [("a", 0), ("a", 0), ("b", 1)]
    starts = broker_accepts(tmp_path / "store", version, options, [], {("a", "none"): ()}, log_end=0, put=put)
    for started in starts.values():
        assert_new_messages(started, put)


@pytest.mark.parametrize(("name", "option"), [("set.enabledAppendPropCRC", "true"), ("bcqTopics", "bcq_a,bcq_b")])
def test_unknown_setting_is_reported(name: str, option: str, tmp_path: Path) -> None:
    root = golden_data.copy_of("base-4.9.8", tmp_path / "store")
    options = golden_data.options("base-4.9.8") | {name: option}
    started = run("4.9.8", root, options, consume=False, stop="halt")
    assert (started.outcome, started.unknown_settings) == ("starts", (name.removeprefix("set."),))


def test_a_killed_broker_leaves_no_library_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    seen: list[Path] = []
    run(
        "5.5.1", root, golden_data.options("base-5.5.1"), consume=False, stop="halt",
        meanwhile=lambda: seen.extend(tmp_path.rglob("librocksdbjni*")),
    )  # fmt: skip
    assert seen
    assert not any(path.exists() for path in seen)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_store_has_left_stays_so_while_its_jvm_starts_others(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_kept", {})
    name = f"base-{version}"
    roots = [golden_data.copy_of(name, tmp_path / str(number)) for number in range(2)]
    left = []
    for root in (*roots, roots[0]):
        started = run(version, root, golden_data.options(name), put=NEW, stop="halt")
        assert (started.outcome, {new.delivered for new in started.new}) == ("starts", {True}), started.reason
        left.append(tree(root))
        if root == roots[1]:
            assert tree(roots[0]) == left[0]
            found = storeio.check(roots[0])  # the lock on it is free, as it is once a process is killed
            assert "a broker runs" not in next(f.detail for f in found.findings if f.code == "ABORT_PRESENT")
    assert tree(roots[1]) == left[1]
    (jvm,) = process._kept.values()
    assert jvm.takes_more
    jvm.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_archived_classes_fit_the_jvm_and_the_jars(version: str, tmp_path: Path) -> None:
    root = golden_data.copy_of(f"base-{version}", tmp_path / "store")
    options = (*quick(version), "-Xshare:on")  # else a JVM that cannot use its archive does without
    started = run(version, root, golden_data.options(f"base-{version}"), stop="loaded", java_options=options)
    assert (started.outcome, started.reason) == ("starts", "")


@pytest.mark.parametrize("state", ["clean", "abort"])
@pytest.mark.parametrize("version", VERSIONS)
def test_filler_alone_in_a_queue_keeps_new_messages_out(version: str, state: str, tmp_path: Path) -> None:
    name = f"base-{version}"
    edits = [["write", f"consumequeue/new/0/{0:020d}", 0, FILLER * 50]]
    edits += [["write", "abort", 0, ""]] if state == "abort" else []
    root = golden_data.damaged(name, edits, tmp_path / "store")
    stopped = simulate(root, broker=version, given=given_for(name)).stopped
    assert stopped is not None
    ahead = {(each.topic, each.queue_id) for each in stopped.queues}
    queues = [("topic_0", 0), ("topic_1", 1), ("new", 0)]
    started = run(version, root, golden_data.options(name), put=queues, stop="halt")
    assert [(new.status, new.delivered) for new in started.new] == [
        ("PUT_OK", not stopped.every and queue not in ahead) for queue in queues
    ]
    assert all(new.found != stopped.every for new in started.new)


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_of_new_messages_are_not_found_where_the_index_seems_to_end_behind_the_log(
    version: str, tmp_path: Path
) -> None:
    name = f"base-{version}"
    root = golden_data.damaged(name, [], tmp_path / "store")
    last = max((root / "index").iterdir())
    golden_data.apply_edits(
        root, [["write", f"index/{last.name}", 24, "0000000100000000"]]
    )  # where its last unit points
    stopped = simulate(root, broker=version, given=given_for(name)).stopped
    assert stopped is not None
    assert (stopped.queues, stopped.every, stopped.keys_until) == ((), False, 1 << 32)
    started = run(version, root, golden_data.options(name), put=[("topic_0", 0), ("new", 0)], stop="halt")
    assert [(new.status, new.delivered, new.found) for new in started.new] == [("PUT_OK", True, False)] * 2

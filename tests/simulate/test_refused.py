"""What a refused start leaves behind: as the brokers' shutdown was seen or read to do it, and file by file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import golden_data
import pytest
from golden_data import given_for
from simulated import SOUND_FILES, paths_left, started, store_with

import storeio
from storeio.predict.into import write_into
from storeio.predict.start import simulate
from storeio.simulate.ends import (
    CONFIG_STAGE,
    CRASHES,
    DELAY_STAGE,
    HANGS,
    LOAD_STAGE,
    RECOVERY_STAGE,
    REFUSES,
    START_STAGE,
    STARTS,
    WHEEL_STAGE,
)
from storeio.simulate.metadata import (
    LOAD_ORDER,
    TIMER_CHECK,
    TIMER_WHEEL,
)
from storeio.simulate.outcome import STATED
from storeio.simulate.refused import DEDUCED, DELETED, EMPTIED, RECORDED, ZEROED, leftovers
from storeio.simulate.rules import rules_of
from storeio.simulate.tables import (
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    FILTERS,
    GROUPS,
    ORDER_INFO,
    QUEUE_MAPPING,
    TOPICS,
)

pytestmark = pytest.mark.share(2)

EVERYTHING = {*LOAD_ORDER, DELAY_OFFSETS, TIMER_CHECK, TIMER_WHEEL, "abort"}
REFUSED = [
    (name, case) for name in golden_data.CASES for case in golden_data.cases(name) if case["outcome"] == "refuses"
]
FIRST = "commitlog/00000000000000000000"
LAST = "commitlog/00000000000000294912"


# A link whose file is gone, and the versions that refuse to start, as brokers were seen to.
NOWHERE: dict[str, tuple[str, ...]] = {
    "commitlog/00000000000000163840": ("4.9.8", "5.3.3", "5.5.1"),
    "commitlog/x": ("4.9.8",),  # the last one, which others delete
    "consumequeue/topic_0/0/00000000000000001000": ("4.9.8", "5.3.3", "5.5.1"),
    "consumequeue/x": (),
    "index/20990101000000000": (),
    "checkpoint": (),
    "abort": (),
    "lock": (),
}


@pytest.mark.parametrize("path", NOWHERE)
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_link_to_nothing_is_an_empty_file_where_brokers_list_what_is_there(
    version: str, path: str, tmp_path: Path
) -> None:
    name = f"base-{version}"
    root = golden_data.copy_of(name, tmp_path / "store")
    (root / path).unlink(missing_ok=True)
    (root / path).symlink_to(tmp_path / "nowhere")
    found = simulate(root, broker=version, given=given_for(name))
    assert found.outcome.outcome == (REFUSES if version in NOWHERE[path] else STARTS)
    assert found.outcome.mode == "normal"
    if path.startswith("index/"):
        write_into(found, tmp_path / "said")
        assert (tmp_path / "said" / path).read_bytes() == bytes(16840)


def socket_at(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:  # a longer path has no room in its address
        made.bind(os.path.relpath(place))


NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": socket_at,
    "directory": Path.mkdir,
    "link to a device": lambda place: place.symlink_to("/dev/null"),
    "link into nothing": lambda place: place.symlink_to("/nowhere/x"),
}
# What stores of 4.9.8 and 5.5.1 were seen to do; 5.3.3 was run for the index alone. Of timers the broker around it
# was run, 5.5.1; of a table what reads it, of all three.
SPECIAL: dict[str, dict[str, tuple[str, str]]] = {
    "index/20990101000000000": dict.fromkeys(NO_FILES, (STARTS, REFUSES)),
    "checkpoint": dict.fromkeys(NO_FILES, (REFUSES, REFUSES)),
    "lock": dict.fromkeys(NO_FILES, (CRASHES, CRASHES)),
    "abort": dict.fromkeys(NO_FILES, (STARTS, CRASHES))
    | {"pipe": (STARTS, HANGS), "link to a device": (STARTS, STARTS)},
    "timerwheel": dict.fromkeys(NO_FILES, (STARTS, REFUSES)),
    "config/timercheck": dict.fromkeys(NO_FILES, (STARTS, REFUSES)),
    "config/consumerOffset.json": dict.fromkeys(NO_FILES, (STARTS, STARTS)) | {"pipe": (HANGS, HANGS)},
}


@pytest.mark.parametrize("path", SPECIAL)
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_told_and_does_to_a_start_what_it_does(
    kind: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    (root / path).unlink(missing_ok=True)
    (root / path).parent.mkdir(exist_ok=True)
    NO_FILES[kind](root / path)
    given = given_for("base-5.3.3")
    old, new = SPECIAL[path][kind]
    for version, expected in ("4.9.8", old), ("5.3.3", new), ("5.5.1", new):
        assert simulate(root, broker=version, given=given).outcome.outcome == expected
    is_checked = path not in ("timerwheel", "config/timercheck", "config/consumerOffset.json")
    assert not is_checked or path in {finding.path for finding in storeio.check(root, given=given).findings}


def left(version: str, stage: str, files: Collection[str] = EVERYTHING, **others: Any) -> list[tuple[str, str, str]]:
    """Return path, happening and evidence of what is left."""
    found = leftovers(rules_of(version), stage, files.__contains__, **others)
    return [(each.path, each.happens, each.evidence) for each in found]


@pytest.mark.parametrize("stage", [LOAD_STAGE, RECOVERY_STAGE])
def test_a_store_that_refuses(stage: str) -> None:
    assert left("4.9.8", stage) == []
    assert left("5.3.3", stage) == []
    assert left("5.3.3", stage, timer_wheel=False) == [(DELAY_OFFSETS, EMPTIED, RECORDED)]
    assert left("5.1.4", stage, timer_wheel=False) == [(DELAY_OFFSETS, EMPTIED, DEDUCED)]
    delays, timers = (DELAY_OFFSETS, EMPTIED, RECORDED), (TIMER_CHECK, ZEROED, RECORDED)
    assert left("5.5.1", stage) == [delays, timers]
    assert left("5.5.1", stage, timer_wheel=False) == [delays]
    assert left("5.5.1", stage, log_accepted=False) == [delays, timers, ("abort", DELETED, RECORDED)]
    assert left("5.3.3", stage, log_accepted=False) == []


@pytest.mark.parametrize("version", ["5.3.4", "5.4.0", "5.5.0", "5.6.0"])
def test_versions_that_were_not_run_are_deduced(version: str) -> None:
    expected = [(path, happens, DEDUCED) for path, happens, _ in left("5.5.1", LOAD_STAGE, log_accepted=False)]
    assert left(version, LOAD_STAGE, log_accepted=False) == expected


def test_a_timer_wheel_of_the_wrong_length() -> None:
    delays = (DELAY_OFFSETS, EMPTIED, RECORDED)
    assert left("5.3.3", WHEEL_STAGE) == [delays]
    assert left("5.5.1", WHEEL_STAGE) == [delays, ("abort", DELETED, RECORDED)]


def test_a_table_that_cannot_be_read() -> None:
    assert left("5.3.3", CONFIG_STAGE, failed=TOPICS) == [(FILTERS, EMPTIED, RECORDED)]
    assert left("5.3.3", CONFIG_STAGE, failed=ORDER_INFO) == []
    assert left("4.9.8", CONFIG_STAGE, failed=TOPICS) == [
        (CONSUMER_OFFSETS, EMPTIED, DEDUCED),
        (FILTERS, EMPTIED, DEDUCED),
    ]
    assert left("4.9.8", CONFIG_STAGE, failed=GROUPS) == [(FILTERS, EMPTIED, DEDUCED)]
    delays = (DELAY_OFFSETS, EMPTIED, DEDUCED)
    every = [(path, EMPTIED, RECORDED) for path in LOAD_ORDER]
    assert left("5.5.1", CONFIG_STAGE, failed=TOPICS) == [*every, delays]
    assert left("5.5.1", CONFIG_STAGE, failed=CONSUMER_OFFSETS) == [*every[2:], delays]
    assert every[2:4] == [(CONSUMER_OFFSETS, EMPTIED, RECORDED), (GROUPS, EMPTIED, RECORDED)]


def test_what_is_not_there_loses_nothing_and_a_copy_counts() -> None:
    assert left("5.5.1", LOAD_STAGE, set(), log_accepted=False) == []
    assert left("5.5.1", CONFIG_STAGE, {QUEUE_MAPPING}, failed=CONSUMER_OFFSETS) == []
    assert left("5.5.1", LOAD_STAGE, {f"{DELAY_OFFSETS}.bak"}) == [(DELAY_OFFSETS, EMPTIED, RECORDED)]


def test_other_ends_leave_nothing_or_are_deduced() -> None:
    assert left("5.5.1", START_STAGE) == []
    assert {evidence for _, _, evidence in left("5.5.1", DELAY_STAGE)} == {DEDUCED}


def test_consequences_are_told() -> None:
    delays, timers, abort = leftovers(rules_of("5.5.1"), LOAD_STAGE, EVERYTHING.__contains__, log_accepted=False)
    assert "delivered again" in delays.consequence
    assert f"{DELAY_OFFSETS}.bak" in delays.consequence
    assert "no copy" in timers.consequence
    assert "clean stop" in abort.consequence


# ---- As part of a start


@pytest.mark.parametrize(("name", "case"), REFUSED, ids=[f"{name}:{case['id']}" for name, case in REFUSED])
def test_files_left_equal_those_that_the_broker_left(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    base = golden_data.base_of(name)
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    found, disk = started(root, case["broker"], base)
    assert found.outcome == REFUSES
    assert {path: [disk.size(path), disk.digest(path)[:16]] for path in disk.below(STATED)} == case["files_left"]
    first = disk.below(("commitlog",))[0]
    accepted = disk.size(first) == golden_data.options(base)["clFile"]
    if case["broker"] == "5.5.1" and case["state"] == "abort":
        assert any(each.path == "abort" for each in found.leaves) is not accepted


def test_abort_goes_if_the_first_segment_is_in_the_way(tmp_path: Path) -> None:
    root = store_with(tmp_path, SOUND_FILES, ["truncate", FIRST, 100])
    found, _ = started(root, "5.5.1", "base-5.5.1")
    assert (found.outcome, found.stage) == (REFUSES, LOAD_STAGE)
    assert paths_left(found) == [DELAY_OFFSETS, TIMER_CHECK, "abort"]
    assert paths_left(started(root, "5.3.3", "base-5.5.1")[0]) == []
    assert paths_left(started(root, "5.3.3", "base-5.5.1", timer_wheel=False)[0]) == [DELAY_OFFSETS]


def test_abort_stays_if_a_later_segment_is_in_the_way(tmp_path: Path) -> None:
    root = store_with(tmp_path, SOUND_FILES, ["truncate", LAST, 100])
    assert paths_left(started(root, "5.5.1", "base-5.5.1")[0]) == [DELAY_OFFSETS, TIMER_CHECK]


def test_an_index_that_refuses_does_so_after_recovery(tmp_path: Path) -> None:
    root = store_with(tmp_path, SOUND_FILES, ["mkdir", "index/30000101000000000"])
    found, _ = started(root, "5.5.1", "base-5.5.1")
    assert (found.outcome, found.stage) == (REFUSES, RECOVERY_STAGE)
    assert paths_left(found) == [DELAY_OFFSETS, TIMER_CHECK]


def test_a_start_that_succeeds_leaves_nothing(tmp_path: Path) -> None:
    found, _ = started(store_with(tmp_path, SOUND_FILES), "5.5.1", "base-5.5.1")
    assert (found.outcome, found.stage, found.leaves) == (STARTS, "", [])


@pytest.mark.parametrize(("path", "starts"), [("x/1", False), ("x", True)])
def test_a_batch_queue_without_files_is_one_of_an_unknown_topic(path: str, starts: bool, tmp_path: Path) -> None:
    """Brokers of 5.1.4, 5.3.3 and 5.5.1 refused the first and started on the second; 4.9.8 looks at neither."""
    root = store_with(tmp_path, {}, ["mkdir", f"batchconsumequeue/{path}"])
    outcomes = {version: simulate(root, broker=version).outcome.outcome for version in ("4.9.8", "5.1.4", "5.5.1")}
    assert outcomes == {"4.9.8": STARTS} | dict.fromkeys(("5.1.4", "5.5.1"), STARTS if starts else REFUSES)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_segment_that_is_a_link_to_itself(version: str, tmp_path: Path) -> None:
    """The real brokers were seen to refuse: an empty file to them, too, and none of the right length."""
    root = golden_data.copy_of(f"base-{version}", tmp_path / "store")
    path = golden_data.segment(2)
    (root / path).unlink()
    (root / path).symlink_to((root / path).name)
    found = simulate(root, broker=version)
    assert (found.outcome.outcome, found.unread) == (REFUSES, ())
    assert found.outcome.reason.startswith(f"{path} is 0 bytes long")


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_nobody_looks_below_a_directory_among_segments(version: str, tmp_path: Path) -> None:
    """Nor is what lies there known: this one leads to itself. The real brokers were seen to do so."""
    root = golden_data.copy_of(f"base-{version}", tmp_path / "store")
    (root / "commitlog/self").symlink_to(".")
    found = simulate(root, broker=version, given=given_for(f"base-{version}"))
    assert (found.outcome.outcome, found.unread) == (REFUSES if version == "4.9.8" else STARTS, ())
    storeio.rebuild(root, tmp_path / "made", given=given_for(f"base-{version}"))
    assert (tmp_path / "made/consumequeue").is_dir()

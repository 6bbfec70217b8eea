"""The simulation's fast way over the log leaves what looking at every record by itself leaves, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_data
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from other_stores import CASES as OTHERS
from simulated import SEGMENT, SETUP, disk_of, in_memory, on_lines, setup_of, stores
from storebuilder import StoreBuilder

from storeio.dispatch import Implied
from storeio.kernels import tables as w
from storeio.paths import describe, file_name
from storeio.scan import list_store, read_range
from storeio.simulate import blocks, logscan, skipping
from storeio.simulate.broker import Broker, Setup
from storeio.simulate.consumequeue import ConsumeQueue
from storeio.simulate.disk import Disk
from storeio.simulate.outcome import as_recorded, simulate_start
from storeio.simulate.rules import LINES, rules_of
from storeio.splits import Split, WalkState
from storeio.walk import Walked

CASES = [(name, case) for name in golden_data.CASES for case in golden_data.cases(name)]
SAMPLED = CASES[::24]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walk little at once and take the shortest blocks, so that small stores have seams, too."""
    monkeypatch.setattr(logscan, "MOST_BYTES", 2000)
    monkeypatch.setattr(logscan, "SKIPPED_BYTES", 2000)
    monkeypatch.setattr(logscan, "LEAST_BYTES", 300)
    monkeypatch.setattr(logscan, "MOST_WAIT", 2)
    monkeypatch.setattr(skipping, "LOOK_AHEAD_BYTES", 400)
    monkeypatch.setattr(skipping, "HALVED_BYTES", 500)
    monkeypatch.setattr(blocks, "FEW", 1)


def left_by(disk: Disk, version: str, setup: Setup) -> dict[str, Any]:
    """Return all that a start leaves: outcome, states, and the content of each file that it changed or made."""
    outcome, broker = simulate_start(disk, rules_of(version), setup, digests=False)
    states = [as_recorded(state) for state in (outcome.after_load, outcome.after_start) if state]
    return {
        "outcome": (outcome.outcome, outcome.reason, outcome.start_file),
        "states": states,
        "files": {path: b"".join(p.tobytes() for p in disk.content(path)) for path in disk.files if disk.changed(path)},
        "all": sorted(disk.files),
        "deleted": disk.deleted,
        "made": sorted(disk.made),
        "dispatched": (broker.dispatched.records, broker.dispatched.units),
        "queues": {key: (q.max_physical, q.min_position, q.shifted) for key, q in broker.queues.items()},
        "index": [(f.path, f.begin_ms, f.end_ms, f.begin_offset, f.end_offset, f.count) for f in broker.index.files],
    }


def assert_same(root: Path, options: Mapping[str, Any], version: str) -> None:
    """Compare both ways on one store."""
    setup = setup_of(root, options)
    fast = left_by(disk_of(root), version, setup)
    assert fast == left_by(disk_of(root), version, replace(setup, scalar=True))


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "case", "versions"), on_lines(SAMPLED))
def test_same_on_recorded_damages(name: str, case: dict[str, Any], versions: list[str], tmp_path: Path) -> None:
    base = golden_data.base_of(name)
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    for version in versions:
        assert_same(root, golden_data.options(base), version)


@pytest.mark.share(6)
@pytest.mark.parametrize("name", golden_data.STORES)
@pytest.mark.parametrize("version", LINES.values())
@pytest.mark.parametrize("abort", [False, True])
def test_same_where_queues_are_made_again(name: str, version: str, abort: bool, tmp_path: Path) -> None:
    root = golden_data.copy_of(name, tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    if abort:
        (root / "abort").touch()
        shutil.rmtree(root / "index")
        (root / "checkpoint").unlink(missing_ok=True)
    assert_same(root, golden_data.options(name), version)


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(stores(), st.sampled_from(sorted(LINES.values())), st.booleans())
def test_same_on_random_stores(files: dict[str, bytes], version: str, light: bool) -> None:
    setup = replace(SETUP, multi_dispatch=light, lmq=light)
    fast = left_by(in_memory(files), version, setup)
    assert fast == left_by(in_memory(files), version, replace(setup, scalar=True))


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
@pytest.mark.parametrize("number", [2**59 + 4, 2**60 + 4, 2**62, 2**63 - 1, (2**63 - 1) // 20, (2**63 - 1) // 20 + 1])
def test_same_where_a_position_wraps_around(number: int, version: str) -> None:
    """The position of a number that only damage makes is more than a long holds, and may be below the queue's end."""
    builder = StoreBuilder(segment_bytes=SEGMENT)
    for i in range(12):
        builder.message("t", 0, b"x", queue_offset=number if i == 4 else i)
    files = {f"commitlog/{file_name(base)}": data.ljust(SEGMENT, b"\0") for base, data in builder.segment_files()}
    files |= {"checkpoint": bytes(4096), "abort": b""}
    fast = left_by(in_memory(files), version, SETUP)
    assert fast == left_by(in_memory(files), version, replace(SETUP, scalar=True))
    assert fast["dispatched"][0] == 12


STOPPED = [case for case in OTHERS if case["id"].startswith("stop-")]


@pytest.mark.share(2)
@pytest.mark.parametrize("version", LINES.values())
@pytest.mark.parametrize("case", STOPPED, ids=[f"{case['store']}:{case['id']}" for case in STOPPED])
def test_same_where_all_queues_stop(case: dict[str, Any], version: str, tmp_path: Path) -> None:
    root = golden_data.damaged(case["store"], case["edits"], tmp_path / "store")
    assert_same(root, golden_data.options(case["store"]), version)
    outcome, _ = simulate_start(disk_of(root), rules_of(version), setup_of(root, golden_data.options(case["store"])))
    # With topic_1 alone in the way nothing is dispatched to it, nor anything by 5.0 to 5.3.1 after a clean stop.
    stops = case["id"] == "stop-topic-abort" or (case["id"] == "stop-topic-clean" and version != "5.1.4")
    assert ("takes no messages" in outcome.reason) == stops


def units_of(base: int, sizes: list[int], numbers: list[int]) -> Implied:
    """Return the units of records of these sizes and queue offsets, one behind the other."""
    records = np.zeros((w.RECORD_ROWS, len(sizes)), np.int64)
    records[w.R_POSITION] = np.cumsum([0, *sizes[:-1]])
    records[w.R_SIZE], records[w.R_TAGS_CODE] = sizes, np.arange(len(sizes)) - 3
    split, none = Split("", base, 2**30, 0, 2**30), np.empty((4, 0), np.int64)
    empty = np.empty(0, np.uint8)
    state, queues = WalkState(0), [(b"T", 0)]
    walked = Walked(split, state, state, -1, records, none, none, queues, empty, 0, lambda start, stop: empty)
    return Implied("T", 0, walked, np.arange(len(sizes)), np.array(numbers, np.int64))


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(91, 300), st.integers(-2, 6)), min_size=1, max_size=40),
    st.integers(0, 30),
    st.integers(0, 3000),
)
def test_units_are_put_as_one_by_one(steps: list[tuple[int, int]], number: int, known: int) -> None:
    sizes, numbers = [size for size, _ in steps], []
    for _, step in steps:
        number = max(number + (1 if step > 1 else step), 0)  # mostly the next one
        numbers.append(number)
    implied = units_of(1000, sizes, numbers)
    left = []
    for scalar in (False, True):
        disk = in_memory({})
        broker = Broker(disk, rules_of("5.3.3"), SETUP)
        queue = broker.queue("T", 0)
        assert isinstance(queue, ConsumeQueue)
        queue.max_physical = known
        if scalar:
            codes = implied.column(w.R_TAGS_CODE).tolist()
            rows = zip(implied.physical().tolist(), sizes, codes, numbers, strict=True)
            written = sum(queue.put_unit(*row) for row in rows)
        else:
            blocks.put_units(broker, implied)
            written = broker.dispatched.units.get(("T", 0), 0)
        content = {path: disk.read(path, 0, disk.size(path)).tobytes() for path in disk.files}
        left.append((content, written, queue.max_physical, queue.min_position, queue.shifted, queue.end))
    assert left[0] == left[1]


# ---- What is read


@pytest.mark.parametrize("version", LINES.values())
def test_clean_start_reads_only_the_segments_that_the_rule_names(version: str) -> None:
    name = f"base-{version}" if f"base-{version}" in golden_data.BASES else "base-5.3.3"
    root, options = golden_data.store(name), golden_data.options(name)
    read: dict[str, int] = {}  # up to where each segment was read

    def watched(path: str, start: int, stop: int) -> np.ndarray[Any, Any]:
        if path.startswith("commitlog/") and start < stop:
            read[path] = max(read.get(path, 0), stop)
        return read_range(str(root), path, start, stop)

    disk = Disk(list_store(root).files, watched)
    outcome, broker = simulate_start(disk, rules_of(version), setup_of(root, options), digests=False)
    assert outcome.outcome == "starts"
    segments = sorted(path for path in disk.files if path.startswith("commitlog/"))
    assert len(segments) > 4
    first = outcome.start_file
    walked = {path for path in segments if path >= first}
    assert walked <= read.keys()
    # What lies before is looked at, if at all, for one record at its start.
    assert all(stop <= 64 << 10 for path, stop in read.items() if path not in walked)
    if rules_of(version).clean_start == "the last but two":
        assert first == segments[-3]
        assert read.keys() == set(segments[-3:])
    assert not any(disk.changed(path) for path in segments)
    assert broker.dispatched.records == 0


@pytest.mark.parametrize("abort", [False, True])
def test_of_a_batch_queue_what_lies_behind_its_end_is_not_read(abort: bool) -> None:
    name = "rich-5.5.1"
    root, options = golden_data.store(name), golden_data.options(name)
    read: dict[str, int] = {}  # up to where each file was read

    def watched(path: str, start: int, stop: int) -> np.ndarray[Any, Any]:
        read[path] = max(read.get(path, 0), stop)
        return read_range(str(root), path, start, stop)

    files = list_store(root).files
    disk = Disk([*files, describe("abort", 0)] if abort else files, watched)
    assert simulate_start(disk, rules_of("5.5.1"), setup_of(root, options), digests=False)[0].outcome == "starts"
    assert all(size > 1 << 23 for path in read if path.startswith("batch") for size in [disk.size(path)])
    assert 0 < max(stop for path, stop in read.items() if path.startswith("batch")) < 1 << 16


def test_pinned_bytes_and_written_ones_are_the_same() -> None:
    disk = in_memory({"index/20231114221320000": bytes(range(256)) * 64})
    path = "index/20231114221320000"
    disk.write(path, 4090, b"across the pages")
    head = disk.pin(path, 5000)
    assert bytes(head[4090:4106]) == b"across the pages"
    head[0:3] = 7, 8, 9
    disk.write(path, 3, b"\x0a")
    assert disk.read(path, 0, 6).tolist() == [7, 8, 9, 10, 4, 5]
    assert disk.pin(path, 100) is head

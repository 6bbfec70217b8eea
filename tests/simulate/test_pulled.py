"""What consumers get, told from what the walk over the log saw, is what pulling every message gets.

What a start gives up is the same where usual queues are told many at once, and where each is looked at by itself.
"""

from __future__ import annotations

import functools
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import builts
import golden_data
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from implied import derive
from rebuilds import settings_of
from sampled import sampled
from simulated import SETUP, agreeing_on, disk_of, in_memory, on_lines, setup_of, stores
from storebuilder import StoreBuilder

from storeio.format import queueext as queue_ext
from storeio.kernels.pulls import MOST_MESSAGES, is_decodable
from storeio.paths import describe, file_name
from storeio.rebuild.node import rebuild
from storeio.simulate import losses, units_there
from storeio.simulate.broker import Setup
from storeio.simulate.disk import Disk
from storeio.simulate.losses import Finder
from storeio.simulate.outcome import simulate_start
from storeio.simulate.pull import Consumed, _pulls, consume, decodes
from storeio.simulate.rules import LINES, rules_of
from storeio.simulate.units_there import UnitsThere
from storeio.walk import DEFAULT_DELAYS_MS

pytestmark = pytest.mark.share(2)

CASES = [(name, case) for name in golden_data.CASES for case in golden_data.cases(name)]
SAMPLED = CASES[7::12]
FILE_BYTES = 1000
Pulled = tuple[Consumed, Consumed, int]
"""What consumers get as told and as pulled one by one, and how many messages were told without a pull."""


class Counting(UnitsThere):
    """Counts the messages that need no pull."""

    count = 0

    def pulled(self, key: tuple[str, int], offset: int) -> int:
        found = super().pulled(key, offset)
        self.count += found
        return found


@pytest.fixture(autouse=True)
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read few units at once, so that small queues have seams, too."""
    monkeypatch.setattr(units_there, "PULLED_UNITS", 50)
    monkeypatch.setattr(units_there, "SPREAD_UNITS", 7)


def both_ways(disk: Disk, version: str, setup: Setup) -> Iterator[Pulled]:
    """Yield what consumers get of a store on which the version starts, nothing of another."""
    outcome, broker = simulate_start(disk, rules_of(version), setup, digests=False)
    if outcome.outcome != "starts":
        return
    files = [
        describe(path, file.stored) for path, file in sorted(disk.files.items()) if file.stored and not file.is_dir
    ]
    with patch.object(losses, "UnitsThere", Counting):
        finder = Finder(broker, files, disk.read, agreeing_on(disk))
    there = finder.there
    assert isinstance(there, Counting)
    assert finder.find() == Finder(broker, files, disk.read).find(), "many queues at once, and each by itself"
    told, count = consume(broker, there), there.count
    for key, queue in broker.queues.items():
        asked = {offset for offset, _ in _pulls(broker, key, None)}
        ends = {offset + (found if isinstance(found, int) else 0) for offset, found in _pulls(broker, key, there)}
        assert ends <= asked | {queue.max_offset}, "a pull begins where no consumer asks"
    yield told, consume(broker), count


@pytest.mark.share(5)
@pytest.mark.parametrize(("name", "case", "versions"), on_lines(SAMPLED))
def test_same_on_recorded_damages(name: str, case: dict[str, Any], versions: list[str], tmp_path: Path) -> None:
    base = golden_data.base_of(name)
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    for version in versions:
        for told, pulled, _ in both_ways(disk_of(root), version, setup_of(root, golden_data.options(base))):
            assert told == pulled


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.3.3", "base-5.5.1"])
def test_whole_queues_need_no_pull(name: str) -> None:
    root = golden_data.store(name)
    ((told, pulled, count),) = both_ways(
        disk_of(root), name.partition("-")[2], setup_of(root, golden_data.options(name))
    )
    assert told == pulled
    assert told.messages == count > 0


def test_queues_that_the_start_shifts_need_no_pull(tmp_path: Path) -> None:
    (case,) = (case for case in golden_data.cases("rows-5.5.1") if case["id"] == "23-clean")  # the first segment gone
    base = golden_data.base_of("rows-5.5.1")
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    ((told, pulled, count),) = both_ways(disk_of(root), "5.5.1", setup_of(root, golden_data.options(base)))
    assert told == pulled
    assert told.messages == count > 0


def test_same_where_a_start_puts_other_units_over_those_that_agree(tmp_path: Path) -> None:
    (case,) = (case for case in golden_data.cases("fuzz-5.1.4") if case["id"] == "fuzz-1-36")
    base = golden_data.base_of("fuzz-5.1.4")
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    ((told, pulled, _),) = both_ways(disk_of(root), case["broker"], setup_of(root, golden_data.options(base)))
    assert told == pulled


@pytest.mark.parametrize("kept", [1, 1 << 20])
def test_same_where_few_units_are_kept(kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units_there, "KEPT_UNITS", kept)
    base = golden_data.base_of("rows-5.3.3")
    edits = [
        ["write", "consumequeue/topic_0/0/00000000000000003000", 500, "fffffffffffffffb"],
        ["write", "abort", 0, ""],
    ]
    root = golden_data.damaged(base, edits, tmp_path / "store")
    ((told, pulled, count),) = both_ways(disk_of(root), "5.3.3", setup_of(root, golden_data.options(base)))
    assert told == pulled
    assert told.messages == count > 0


@pytest.mark.parametrize("first", [30, 50, 75])
@pytest.mark.parametrize("last", [76, 100, 149, 400])
def test_what_fills_a_gap_needs_no_pull(first: int, last: int, tmp_path: Path) -> None:
    """Gaps are filled with the unit before them, thousands of times where many messages are lost in a row."""
    store = builts.built(tmp_path, lambda b: [b.message("T", 0, b"x", queue_offset=n) for n in (*range(first), last)])
    rebuild(store.root, tmp_path / "new", given=settings_of(store.builder.settings), parts=("queues",))
    shutil.rmtree(store.root / "consumequeue")
    shutil.move(tmp_path / "new" / "consumequeue", store.root)
    setup = Setup(16384, FILE_BYTES, 50, 200, DEFAULT_DELAYS_MS)
    for version in LINES.values():
        ((told, pulled, count),) = both_ways(disk_of(store.root), version, setup)
        assert told == pulled
        assert told.messages == last + 1
        assert count >= last + 1 - MOST_MESSAGES


@pytest.mark.parametrize("name", [f"{2001:020d}", f"{1990:020d}", f"{7000:020d}", "2000"])
def test_same_where_a_file_is_not_in_its_place(name: str, tmp_path: Path) -> None:
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    file = root / "consumequeue/topic_1/0" / f"{2000:020d}"
    file.rename(file.with_name(name))
    for version in ("4.9.8", "5.5.1"):
        ((told, pulled, count),) = both_ways(disk_of(root), version, setup_of(root, golden_data.options("base-5.5.1")))
        assert told == pulled
        assert count > 0


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_an_answer_with_a_unit_of_two_gigabytes_is_never_full(version: str, tmp_path: Path) -> None:
    """All of the pull throws, also what lies before the unit, as ``broker/test_simulated.py`` asks brokers."""
    unit = ["write", f"consumequeue/topic_1/0/{3000:020d}", 8 * 20 + 8, "7fffffff"]  # unit 158; its file begins at 150
    root = golden_data.damaged(f"base-{version}", [unit], tmp_path / "store")
    setup = setup_of(root, golden_data.options(f"base-{version}"))
    ((told, pulled, _),) = both_ways(disk_of(root), version, setup)
    assert told == pulled
    assert told.stuck == [("topic_1", 0, 150)]


@pytest.mark.parametrize("name", sampled((n for n in golden_data.STORES if n.startswith("ext")), ["ext-5.3.3"]))
def test_same_where_ext_units_are_read(name: str, tmp_path: Path) -> None:
    options, stuck = golden_data.options(name), 0
    (ext,) = (golden_data.store(name) / "consumequeue_ext/topic_0/0").glob("0*")
    written = len(ext.read_bytes().rstrip(b"\0"))
    for address in range(written - 12, written):  # amid the last units: what stands there is no size
        root = golden_data.copy_of(name, tmp_path / str(address))
        (path,) = (root / "consumequeue/topic_0/0").glob("0*0")
        data = bytearray(path.read_bytes())
        data[12 + 20 * 3 : 20 + 20 * 3] = struct.pack(">q", queue_ext.ADDRESS_BASE + address)
        path.write_bytes(data)
        for told, pulled, _ in both_ways(disk_of(root), name.partition("-")[2], setup_of(root, options)):
            assert told == pulled
            stuck += len(told.stuck)
        shutil.rmtree(root)
    assert stuck


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(stores(), st.sampled_from(sorted(LINES.values())), st.integers(0, 2**32))
def test_same_on_random_stores(files: dict[str, bytes], version: str, seed: int) -> None:
    rng = random.Random(seed)
    files = {path: odd_units(rng, data) if path.startswith("consumequeue/") else data for path, data in files.items()}
    for told, pulled, _ in both_ways(in_memory(files), version, SETUP):
        assert told == pulled


def odd_units(rng: random.Random, data: bytes) -> bytes:
    """Return a queue file of which now and then a unit is wrong, or another's, or stands there some times more."""
    units = [data[at : at + 20] for at in range(0, len(data), 20)]
    for _ in range(rng.choice((0, 0, 1, 2))):
        i, odd = rng.randrange(len(units)), bytearray(units[rng.randrange(len(units))])
        odd[rng.randrange(20)] ^= rng.choice((0, 1, 128))
        units[i] = bytes(odd)
    if rng.random() < 0.3:
        i = rng.randrange(len(units))
        units[i + 1 : i + rng.randrange(2, 40)] = [units[i]] * (len(units[i + 1 : i + 30]))
    return b"".join(units)[: len(data)].ljust(len(data), b"\0")


@settings(max_examples=6)
@given(st.integers(0, 2**32), st.sampled_from(sorted(LINES.values())))
def test_same_where_answers_are_full_of_bytes(seed: int, version: str) -> None:
    rng = random.Random(seed)
    builder = StoreBuilder(segment_bytes=4 << 20)
    while builder.end < (3 << 20):
        builder.message("T", 0, body=bytes(rng.choice((9, 900, 9_000, 90_000, 270_000))))
    ((_, log),) = builder.segment_files()
    own = replace(builder.settings, units_per_file=100)
    files = {path: odd_units(rng, bytes(data)) for path, data in derive(builder.records(), own).files.items()}
    files["commitlog/" + file_name(0)] = bytes(log)
    files["checkpoint"] = bytes(4096)
    setup = Setup(4 << 20, 2000, 10, 30, DEFAULT_DELAYS_MS)
    for told, pulled, count in both_ways(in_memory(files), version, setup):
        assert told == pulled
        assert count > 0 or told.messages < 200


@functools.cache
def one_record(body: int, properties: bytes) -> bytes:
    """Return a record as a broker writes it, with a body of zeros."""
    builder = StoreBuilder(segment_bytes=1 << 16)
    builder.message("T", 0, body=bytes(body), properties=properties)
    return builder.records()[0].raw


@settings(max_examples=200)
@given(st.data())
def test_what_is_called_decodable_decodes(data: st.DataObject) -> None:
    record = bytearray(one_record(data.draw(st.integers(0, 40)), data.draw(st.sampled_from([b"", b"a\1b\2"]))))
    assert is_decodable(np.frombuffer(bytes(record), np.uint8), 0, len(record))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(4, len(record) - 1))
        record[at] = data.draw(st.sampled_from([0, 1, 16, 127, 128, 255]))
    record = record[: data.draw(st.integers(len(record) - 2, len(record)))]
    if is_decodable(np.frombuffer(bytes(record), np.uint8), 0, len(record)):
        assert all(decodes(memoryview(bytes(record)), rules_of(version)) for version in LINES.values())

"""Delayed messages that came under other delay levels than are given: their units tell when they are delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import golden_data
import numpy as np
import pytest
from golden_data import given_for, sizes_of

from storeio import audit
from storeio.apply import apply_plan
from storeio.checks.deliver_times import is_deliver_time
from storeio.format import consumequeue
from storeio.planning import plan_store
from storeio.salvage.node import salvage

LEVELS: Final = "3s 7s 11s 1m 1d"
STORED_MS: Final = 1_763_683_032_297


@pytest.mark.parametrize("name", ["rich-4.9.8", "rich-5.5.1", "ext-5.3.3"])
def test_a_sound_store_is_sound_with_other_levels(name: str) -> None:
    """Those of the first are in light queues, too, those of the last have their times in ext files."""
    options = golden_data.options(name)
    lists = {"enableMultiDispatch": str(options.get("set.enableMultiDispatch", "false")).lower()}
    given = {**sizes_of(options), **lists, "messageDelayLevel": LEVELS}
    found = audit.check(golden_data.store(name), given=given, jobs=1)
    codes = {finding.code for finding in found.findings}
    assert (found.exit_code, "CQ_DELAY_LEVEL" in codes) == (0, name != "ext-5.3.3")


def test_a_plan_leaves_deliver_times_as_they_are(tmp_path: Path) -> None:
    """Only the unit that is gone gets the time that its level has now."""
    name = "rich-5.5.1"
    root = golden_data.copy_of(name, tmp_path / "store")
    path = max((root / "consumequeue/SCHEDULE_TOPIC_XXXX").glob("*/*"), key=lambda file: units_in(file))
    before = consumequeue.decode(path.read_bytes())
    level, count = int(path.parent.name) + 1, units_in(path)
    assert count > 2
    path.write_bytes(before[:1].tobytes() + bytes(20) + before[2:].tobytes())
    given = {**given_for(name), "messageDelayLevel": LEVELS, "enableMultiDispatch": "true"}
    found = plan_store(root, tmp_path / "plan.json", broker="5.5.1", given=given, jobs=1)
    assert found.cures
    apply_plan(tmp_path / "plan.json", root)
    after = consumequeue.decode(path.read_bytes())
    assert (after != before).nonzero()[0].tolist() == [1]
    assert after[["physical_offset", "size"]][1] == before[["physical_offset", "size"]][1]
    usual = {1: 1, 2: 5, 3: 10, 4: 30, 5: 60}  # seconds, of brokers' default; levels above the highest are that
    now = {1: 3, 2: 7, 3: 11, 4: 60}
    delays = {n: 60 * (n - 4) for n in range(6, 15)} | {15: 1200, 16: 1800, 17: 3600, 18: 7200} | usual
    assert after["tags_code"][1] - before["tags_code"][1] == 1000 * (now.get(level, 86_400) - delays[level])


def units_in(path: Path) -> int:
    """Return how many units of a queue file are written."""
    return int(np.count_nonzero(consumequeue.decode(path.read_bytes())["size"]))


def test_what_is_no_deliver_time() -> None:
    codes = [STORED_MS, STORED_MS - 1000, STORED_MS + 1001, STORED_MS + 400 * 86_400_000, -(2**63), 2**63 - 1, 4711]
    flipped = [STORED_MS + 5000 ^ 1 << bit for bit in range(63)]
    times = np.array([STORED_MS + 1000, STORED_MS + 86_400_000, *codes, *flipped], np.int64)
    stored = np.full(len(times), STORED_MS, np.int64)
    assert np.flatnonzero(is_deliver_time(times, stored)).tolist() == [0, 1]
    assert not is_deliver_time(times, -times).any()


def test_a_tombstone_is_as_old_as_its_neighbours(tmp_path: Path) -> None:
    """A unit of other levels tells no store time: the message would have come a day before the one in front of it."""
    name = "rich-5.5.1"
    root, options = golden_data.copy_of(name, tmp_path / "store"), golden_data.options(name)
    delayed = [row for row in golden_data.dump(name) if row["topic"] == "SCHEDULE_TOPIC_XXXX"]
    lost = [row for row in delayed if int(row["queue_id"]) in (5, 6, 7)]
    assert len(lost) > 2
    for row in lost:
        base, at = divmod(int(row["phy_offset"]), options["clFile"])
        with (root / f"commitlog/{base * options['clFile']:020d}").open("r+b") as file:
            file.seek(at)
            file.write(bytes(int(row["size"])))
    given = {**sizes_of(options), "messageDelayLevel": LEVELS, "enableMultiDispatch": "true"}
    saved = salvage(root, tmp_path / "new", given=given, jobs=1)
    assert (saved.tombstones, saved.problems) == (len(lost), [])
    assert audit.check(tmp_path / "new", given=given, jobs=1).exit_code == 0

"""Starts of real brokers on stores with everything in them: the prediction equals what each did.

``golden/simulate/other-stores.jsonl.xz`` has a start a line: a store (one of ``golden``, or a tiny one beside the
list), edits as in ``golden_data``, settings in the oracle's words that differ from the store's, and what the broker
made of it. A state names the files that differ from the sound store and those that are gone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, Final

import golden_data
import pytest
from other_stores import CASES, PLACE, store
from simulated import disk_of, setup_of

from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, QUEUE_EXT
from storeio.simulate.broker import Broker
from storeio.simulate.outcome import Outcome, State, simulate_start
from storeio.simulate.pull import THROWS, consume
from storeio.simulate.rules import rules_of

STATED: Final = (COMMITLOG, CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT)
Files = dict[str, tuple[int, str]]


@functools.cache
def files_of(root: Path) -> Files:
    """Return length and digest of the files of log and queues."""
    paths = [p for top in STATED for p in sorted((root / top).rglob("*")) if p.is_file()]
    contents = {str(p.relative_to(root)): p.read_bytes() for p in paths}
    return {path: (len(data), hashlib.sha256(data).hexdigest()[:16]) for path, data in contents.items()}


def simulated(root: Path, case: dict[str, Any]) -> tuple[Outcome, Broker]:
    """Return the prediction for a store with the settings of a case, and the broker after it."""
    packed = PLACE / f"{case['store']}.options.json"
    known = json.loads(packed.read_text()) if packed.exists() else golden_data.options(case["store"])
    setup = setup_of(root, {**known, **case.get("extra", {})})
    return simulate_start(disk_of(root), rules_of(case["broker"]), setup)


def compare(found: State, expected: dict[str, Any], sound: Files) -> None:
    """Compare a predicted state with a recorded one; the oracle makes empty schedule queues of its own."""
    assert (found.min_physical_offset, found.max_physical_offset) == (expected["min"], expected["max"])
    queues = {
        name: list(numbers)
        for name, numbers in found.queues.items()
        if not (name.startswith("SCHEDULE_TOPIC_XXXX") and numbers[2] == -1)
    }
    assert queues == expected["queues"]
    files = {path: (size, digest[:16]) for path, (size, digest) in found.files.items()}
    wanted = {path: known for path, known in sound.items() if path not in expected["gone"]}
    wanted |= {path: (size, digest) for path, (size, digest) in expected["changed"].items()}
    assert files == wanted
    assert sorted([size, digest[:16]] for size, digest in found.index) == expected["index"]


@pytest.mark.share(2)
@pytest.mark.parametrize("case", CASES, ids=[f"{c['store']}:{c['id']}" for c in CASES])
def test_prediction_equals_the_broker(case: dict[str, Any], place: Path, tmp_path: Path) -> None:
    sound = store(case["store"], place)
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    golden_data.apply_edits(root, case["edits"])
    found, broker = simulated(root, case)
    assert found.outcome == case["outcome"], found.reason
    assert found.mode == ("normal" if case["state"] == "clean" else "abnormal")
    for name, state in (("after_load", found.after_load), ("after_start", found.after_start)):
        expected = case.get(name)
        if expected is not None:
            assert state is not None
            compare(state, case["after_load"] if expected == "same" else expected, files_of(sound))
    if "start_file" in case:
        assert found.start_file == f"commitlog/{case['start_file']}"
    if "consumers" in case or case.get("pull_throws"):
        got = consume(broker)
        assert any(status == THROWS for *_, status in got.odd) == bool(case.get("pull_throws"))
        assert got.lacking or not case.get("pull_throws")
        if "consumers" in case:
            assert {"messages": got.messages, "undecodable": got.undecodable} == case["consumers"]


@pytest.mark.parametrize(("case_id", "missed"), [("20005", 22), ("last5-5.3.3-abort@5.1.4", 6)])
def test_units_that_no_pull_comes_to(case_id: str, missed: int, place: Path, tmp_path: Path) -> None:
    """A batch unit with a high offset, and a queue file far away: the broker was seen to deliver none of them."""
    (case,) = (case for case in CASES if case["id"] == case_id and case["store"].startswith("tinymix"))
    root = tmp_path / "store"
    shutil.copytree(store(case["store"], place), root)
    golden_data.apply_edits(root, case["edits"])
    got = consume(simulated(root, case)[1])
    assert (got.missed, got.lacking) == (missed, True)


def test_a_distance_beyond_64_bits_keeps_a_unit_in_the_answer(place: Path, tmp_path: Path) -> None:
    """46 * 2^62 is negative in the broker, so near: it was seen to deliver 73 of 107, the unit at 2^62 the last of its
    queue, which leads behind the queue's end."""
    root = tmp_path / "store"
    shutil.copytree(store("tinymix-5.1.4", place), root)
    third_base = 2 * 46 + 28
    golden_data.apply_edits(root, [["write", f"batchconsumequeue/b1/0/{0:020d}", third_base, f"{2**62:016x}"]])
    got = consume(simulated(root, {"broker": "5.1.4", "store": "tinymix-5.1.4"})[1])
    assert (got.messages, got.undecodable) == (73, 0)


def test_a_batch_unit_far_away_leads_consumers_to_where_they_are(place: Path, tmp_path: Path) -> None:
    """The broker searches 100 and ends at the unit before, which leads to 100. Recorded consumers went on by one."""
    root = tmp_path / "store"
    shutil.copytree(store("tinymix-5.1.4", place), root)
    golden_data.apply_edits(root, [["write", f"batchconsumequeue/b1/0/{1656:020d}", 28, f"{2**62:016x}"]])
    got = consume(simulated(root, {"broker": "5.1.4", "store": "tinymix-5.1.4"})[1])
    assert (got.stuck, got.lacking) == ([("b1", 0, 100)], True)
    assert got.messages - got.unreached <= 107 < got.messages  # there are 107: what recorded consumers got comes again


def test_what_the_cases_cover() -> None:
    assert {case["broker"] for case in CASES} >= {"4.9.8", "5.1.4", "5.3.3", "5.4.0", "5.5.0", "5.5.1"}
    assert {case["outcome"] for case in CASES} >= {"starts", "refuses", "hangs"}
    assert any(case.get("pull_throws") for case in CASES)

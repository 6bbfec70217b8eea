"""What seems to end behind the log for a broker: queues without records, units, keys; what it does, found and cured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import golden_data as golden
import pytest
from golden_data import given_for

from storeio import audit
from storeio.apply import apply_plan
from storeio.planning import plan_store
from storeio.predict.start import simulate
from storeio.report.simulation import render_simulation, simulation_object
from storeio.simulate.predicted import Ahead

pytestmark = pytest.mark.share(2)

QUEUE: Final = "consumequeue/new/0"
FILE: Final = f"{QUEUE}/{0:020d}"
FILLER: Final = "00000000000000007fffffff0000000000000000"
# What lies in the queue, and what check calls it.
LEFT: Final[dict[str, tuple[list[list[Any]], str]]] = {
    "zeros": ([["create", FILE, 1000]], "CQ_UNWRITTEN"),
    "zeros behind others": ([["create", f"{QUEUE}/{4000:020d}", 1000]], "CQ_UNWRITTEN"),
    "zeros in two files": ([["create", FILE, 1000], ["create", f"{QUEUE}/{1000:020d}", 1000]], "CQ_UNWRITTEN"),
    "filler": ([["write", FILE, 0, FILLER * 50]], "CQ_PRE_BLANK"),
    "some filler": ([["create", FILE, 1000], ["write", FILE, 0, FILLER * 3]], "CQ_PRE_BLANK"),
}
VERSIONS: Final = ("4.9.8", "5.3.3", "5.5.1")
ENDLESS: Final = 2**31 - 1  # where a unit of filler seems to end


def given(name: str) -> dict[str, str]:
    return given_for(name)


@pytest.mark.share(2)
@pytest.mark.parametrize("what", LEFT)
@pytest.mark.parametrize("version", VERSIONS)
def test_it_harms_is_found_and_moved_aside(version: str, what: str, tmp_path: Path) -> None:
    name = f"base-{version}"
    edits, code = LEFT[what]
    root = golden.damaged(name, edits, tmp_path / "store")
    found = audit.check(root, given=given(name), jobs=1)
    assert {(f.code, f.topic, f.queue_id) for f in found.findings if f.severity != "info"} == {(code, "new", 0)}
    assert simulate(root, broker=version, given=given(name)).harms
    planned = plan_store(root, tmp_path / "plan.json", broker=version, given=given(name), jobs=1)
    assert planned.cures
    assert {(action.kind, action.risk) for action in planned.plan.actions} == {("move", "derived")}
    assert apply_plan(tmp_path / "plan.json", root).exit_code == 1
    assert audit.check(root, given=given(name), jobs=1).exit_code == 0
    after = simulate(root, broker=version, given=given(name))
    assert not after.harms
    assert after.consumers is not None
    assert after.consumers.undecodable == 0


BATCH: Final = f"batchconsumequeue/new/0/{0:020d}"
BATCH_UNIT: Final = f"{9965:016x}{298:08x}{7:016x}{8:016x}{0:016x}{1:04x}{-1 % 2**32:08x}{0:08x}"


@pytest.mark.parametrize(("unit", "code"), [("00", "BCQ_UNWRITTEN"), (BATCH_UNIT, "BCQ_UNIT_ORPHAN")])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_batch_queue_of_nothing_is_moved_with_its_directory(
    version: str, unit: str, code: str, tmp_path: Path
) -> None:
    """Without its file the directory alone makes a broker refuse, which knows the topic as none of batch queues.

    A broker with batch queues for the topic does not deliver what is put behind a first unit of zeros.
    """
    name = f"base-{version}"
    root = golden.damaged(name, [["create", BATCH, 46 * 300_000], ["write", BATCH, 0, unit]], tmp_path / "store")
    assert simulate(root, broker=version, given=given(name)).harms
    planned = plan_store(root, tmp_path / "plan.json", broker=version, given=given(name), jobs=1)
    assert {f.code for f in planned.before.findings if f.severity != "info"} == {code}
    assert planned.cures, planned.plan.left
    assert [(action.kind, action.path) for action in planned.plan.actions] == [("move", "batchconsumequeue/new/0")]
    assert apply_plan(tmp_path / "plan.json", root).exit_code == 1
    assert audit.check(root, given=given(name), jobs=1).exit_code == 0


def test_zeros_behind_the_units_of_a_queue_are_as_brokers_leave_them(tmp_path: Path) -> None:
    name = "base-5.3.3"
    root = golden.damaged(name, [["create", f"consumequeue/topic_0/0/{5000:020d}", 1000]], tmp_path / "store")
    assert audit.check(root, given=given(name), jobs=1).exit_code == 0
    assert not simulate(root, broker="5.3.3", given=given(name)).harms


@pytest.mark.parametrize("version", VERSIONS)
def test_filler_at_the_end_keeps_new_messages_out(version: str, tmp_path: Path) -> None:
    name = f"rows-{version}"
    for case in golden.cases(name):
        if case["row"] not in ("54A", "54B"):
            continue
        root = golden.damaged(golden.base_of(name), case["edits"], tmp_path / case["id"])
        found = simulate(root, broker=version, given=given(golden.base_of(name)))
        (queue,) = (
            tuple(key.split("/")) for key, (_, _, end) in case["after_start"]["queues"].items() if end == ENDLESS
        )
        assert found.stopped is not None
        assert found.stopped.queues == (Ahead(queue[0], int(queue[1]), ENDLESS),)
        assert (found.stopped.until, found.stopped.every, found.harms) == (ENDLESS, version == "4.9.8", True)
        told = simulation_object(found)["stopped"]
        assert told == {
            "queues": [{"topic": queue[0], "queue_id": int(queue[1]), "until": ENDLESS}],
            "until": ENDLESS,
            "every": version == "4.9.8",
            "keys_until": 0,
            "hidden": [],
            "in_the_way": [],
        }
        assert ("into any queue or the index" in render_simulation(found)) == (version == "4.9.8")


def test_a_unit_that_dispatch_wrote_ahead_keeps_messages_out_of_its_queue_only(tmp_path: Path) -> None:
    """As 4.9.8 does: ``broker/test_simulated.py``. It has passed the log's end by then, and waits for nothing."""
    root = golden.damaged("base-4.9.8", golden.ahead_of_the_log("base-4.9.8"), tmp_path / "store")
    found = simulate(root, broker="4.9.8", given=given("base-4.9.8"))
    assert found.stopped is not None
    assert (found.stopped.queues, found.stopped.every) == ((Ahead("topic_0", 0, found.stopped.until),), False)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_queue_waits_for_its_own_end(version: str, tmp_path: Path) -> None:
    shorter = FILLER[:16] + f"{2**30:08x}" + FILLER[24:]
    edits = [["write", FILE, 0, FILLER * 50], ["write", f"consumequeue/other/1/{0:020d}", 0, shorter * 50]]
    name = f"base-{version}"
    root = golden.damaged(name, edits, tmp_path / "store")
    found = simulate(root, broker=version, given=given(name))
    assert found.stopped is not None
    assert (found.stopped.queues, found.stopped.until) == (
        (Ahead("new", 0, ENDLESS), Ahead("other", 1, 2**30)),
        ENDLESS,
    )
    text = " ".join(render_simulation(found).split())
    apart = [
        f"into {queue} before the log has grown to {end}" in text
        for queue, end in (("new/0", ENDLESS), ("other/1", 2**30))
    ]
    assert apart == [version != "4.9.8"] * 2  # whose dispatch begins at the largest end


# What stands in the way, and which lines load the store nevertheless.
IN_THE_WAY: Final[dict[str, tuple[list[Any], tuple[str, ...]]]] = {
    "a file": (["write", "consumequeue/topic_0/5", 0, "78"], VERSIONS),
    "a directory": (["mkdir", f"consumequeue/topic_0/0/{5000:020d}"], ("5.3.3", "5.5.1")),
}


@pytest.mark.parametrize(("what", "version"), [(what, v) for what in IN_THE_WAY for v in IN_THE_WAY[what][1]])
def test_what_lies_where_the_next_file_of_a_queue_would_be_made(what: str, version: str, tmp_path: Path) -> None:
    """As brokers do: ``broker/test_simulated.py``."""
    name = f"base-{version}"
    edit, _ = IN_THE_WAY[what]
    root = golden.damaged(name, [edit], tmp_path / "store")
    found = simulate(root, broker=version, given=given(name))
    assert (found.outcome.outcome, found.harms) == ("starts", True)
    assert found.stopped is not None
    assert found.stopped.in_the_way == (edit[1],)
    assert "cannot make the next file of a queue where" in " ".join(render_simulation(found).split())
    assert plan_store(root, tmp_path / "plan.json", broker=version, given=given(name), jobs=1).cures


@pytest.mark.parametrize("name", golden.STORES)
def test_sound_stores_take_new_messages(name: str) -> None:
    version = "5.5.1" if name == "upgraded" else name.rpartition("-")[2]
    assert simulate(golden.store(name), broker=version, given=given(name)).stopped is None


def test_an_index_that_seems_to_end_behind_the_log_takes_no_new_keys(tmp_path: Path) -> None:
    name = "base-5.3.3"
    root = golden.copy_of(name, tmp_path / "store")
    last = max((root / "index").iterdir())
    golden.apply_edits(root, [["write", f"index/{last.name}", 24, "0000000100000000"]])
    found = simulate(root, broker="5.3.3", given=given(name))
    assert found.stopped is not None
    assert (found.stopped.queues, found.stopped.keys_until, found.harms) == ((), 1 << 32, True)
    assert "into the index before the log has grown to 4294967296" in " ".join(render_simulation(found).split())
    assert plan_store(root, tmp_path / "plan.json", broker="5.3.3", given=given(name), jobs=1).cures


# A file that is made, and the one that takes what is new then.
HIDING: Final[dict[str, tuple[str, str]]] = {
    "a segment across the last one": (f"commitlog/{311296:020d}", f"commitlog/{311296:020d}"),
    "a segment across the two last ones": (f"commitlog/{294911:020d}", f"commitlog/{294912:020d}"),
    "a second one of its place": (f"commitlog/+{294912:019d}", f"commitlog/{294912:020d}"),
    "a queue's file beside its place": (f"consumequeue/topic_0/0/{4001:020d}",) * 2,
    "a second one of a full place": (f"consumequeue/topic_0/0/+{4000:019d}", f"consumequeue/topic_0/0/{4000:020d}"),
}


@pytest.mark.parametrize("what", HIDING)
def test_new_messages_in_a_file_that_nobody_looks_into(what: str, tmp_path: Path) -> None:
    """As brokers do: ``broker/test_simulated.py``."""
    made, takes = HIDING[what]
    is_log = made.startswith("commitlog")
    root = golden.damaged("base-5.5.1", [["create", made, 32768 if is_log else 1000]], tmp_path / "store")
    found = simulate(root, broker="5.5.1", given=given("base-5.5.1"))
    assert found.stopped is not None
    assert (found.stopped.hidden, found.harms) == ((takes,), True)
    assert f"takes {takes} for the end of" in " ".join(render_simulation(found).split())
    how: dict[str, Any] = {"broker": "5.5.1", "given": given("base-5.5.1"), "jobs": 1}
    tame, risky = (plan_store(root, tmp_path / f"{risk}.json", allow_log=risk, **how) for risk in (False, True))
    assert risky.cures
    assert [(action.kind, action.path) for action in risky.plan.actions] == [("move", made)]
    assert tame.cures != is_log
    assert ("broker 5.5.1: its start still does harm" in tame.plan.left) == is_log


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kept", [1, 7, 9])
def test_a_unit_at_the_log_s_first_byte_is_damage_where_consumers_come_to_it(
    kept: int, version: str, tmp_path: Path
) -> None:
    """Once segments are deleted by hand: a broker gives bytes of the first one left for offset 0, as it was seen to."""
    name = f"base-{version}"
    gone = sorted((golden.store(name) / "commitlog").iterdir())[:-kept]
    root = golden.damaged(name, [["delete", f"commitlog/{path.name}"] for path in gone], tmp_path / "store")
    found = audit.check(root, given=given(name), jobs=1)
    expected = {"CQ_UNIT_ORPHAN"} if kept < 9 else set()  # then the first file of each queue has messages
    assert {f.code for f in found.findings if f.severity != "info"} == expected
    planned = plan_store(root, tmp_path / "plan.json", broker=version, given=given(name), jobs=1)
    assert bool(planned.plan.actions) == bool(expected)
    assert planned.after.exit_code == 0
    assert not planned.predicted_after.harms
    got = planned.predicted_after.consumers
    assert got is not None
    assert (got.messages, got.undecodable) == (planned.after.log.records, 0)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_unit_that_goes_back_in_the_log_is_no_lost_message(goes_on: bool, tmp_path: Path) -> None:
    """Behind a queue's last record, whose units rise in the log; salvage made a tombstone in front of that record."""
    name = "base-5.3.3"
    last = max(int(row["phy_offset"]) + int(row["size"]) for row in golden.dump(name))
    rows = [row for row in golden.dump(name) if (row["topic"], row["queue_id"]) == ("topic_0", "1")]
    base, at = divmod(20 * len(rows), 1000)
    unit = f"{last if goes_on else 0:016x}{last + 4711:08x}{1:016x}"
    edits = [["write", f"consumequeue/topic_0/1/{1000 * base:020d}", at, unit]]
    found = audit.check(golden.damaged(name, edits, tmp_path / "store"), given=given(name), jobs=1)
    assert [f.code for f in found.findings if f.code.startswith("CQ_")] == ["CQ_BEYOND_LOG"]
    lost = [(part.topic, part.queue_id, part.first_queue_offset, part.stop_queue_offset) for part in found.lost]
    assert lost == ([("topic_0", 1, len(rows), len(rows) + 1)] if goes_on else [])

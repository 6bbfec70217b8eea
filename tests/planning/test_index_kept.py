"""A broker that crashed deletes its last index file, though it is sound; a plan tells it not to."""

from __future__ import annotations

import struct
from pathlib import Path

import golden_data
import pytest
from broker.brokers import run
from broker.whole import keys_of, records_of
from golden_data import given_for

from storeio import audit
from storeio.apply import apply_plan
from storeio.planning import Selection, plan_store
from storeio.predict.start import simulate
from storeio.report.broker_lines import render_lines
from storeio.report.planning import render_plan
from storeio.report.simulation import render_simulation, simulation_object

pytestmark = pytest.mark.share(1)
NAME, VERSION = "base-5.5.1", "5.5.1"


def crashed(root: Path) -> Path:
    golden_data.copy_of(NAME, root)
    (root / "abort").touch()
    return root


def entries(root: Path) -> int:
    headers = [path.read_bytes()[:40] for path in (root / "index").iterdir()]
    return sum(struct.unpack_from(">i", header, 36)[0] - 1 for header in headers)


def test_a_start_that_makes_fewer_keys_says_so(tmp_path: Path) -> None:
    root = crashed(tmp_path / "store")
    found = simulate(root, broker=VERSION)
    assert (found.exit_code, found.harms) == (0, False)
    assert found.keys_lost > 0
    assert simulation_object(found)["keys_lost"] == found.keys_lost
    text = " ".join(render_simulation(found).split())
    assert f"gives no message up, but {found.keys_lost} keys of the index" in text
    assert f"storeio plan {root} --broker {VERSION}" in text
    other = simulate(golden_data.store(NAME), broker=VERSION)
    assert other.keys_lost == 0
    assert "give no message up; 5.5.1 loses keys of the index" in " ".join(render_lines([other, found]).split())


def test_a_plan_keeps_them(tmp_path: Path) -> None:
    root = crashed(tmp_path / "store")
    planned = plan_store(root, tmp_path / "plan.json", broker=VERSION, given=given_for(NAME), jobs=1)
    assert planned.cures
    assert {(action.path, action.codes) for action in planned.plan.actions} == {("checkpoint", ("ABORT_PRESENT",))}
    assert f"but {planned.predicted_before.keys_lost} keys" in " ".join(render_plan(planned, "p").split())
    apply_plan(tmp_path / "plan.json", root)
    assert audit.check(root, jobs=1).exit_code == 0
    assert simulate(root, broker=VERSION).keys_lost == 0
    again = plan_store(root, broker=VERSION, given=given_for(NAME), jobs=1)
    assert (again.plan.actions, again.exit_code) == ((), 0)


@pytest.mark.parametrize(
    "select", [Selection(risks=["derived"]), Selection(paths=["index/*"]), Selection(codes=["CQ_MISSING"])]
)
def test_not_if_that_is_not_wanted(select: Selection, tmp_path: Path) -> None:
    root = crashed(tmp_path / "store")
    planned = plan_store(root, broker=VERSION, given=given_for(NAME), select=select, jobs=1)
    assert planned.plan.actions == ()
    assert planned.predicted_after.keys_lost > 0


def test_an_index_that_is_not_whole_is_not_vouched_for(tmp_path: Path) -> None:
    root = crashed(tmp_path / "store")
    last = max((root / "index").iterdir())
    damaged = bytearray(last.read_bytes())
    damaged[3000:3020] = bytes(20)
    last.write_bytes(damaged)
    planned = plan_store(root, broker=VERSION, given=given_for(NAME), select=Selection(paths=["checkpoint"]), jobs=1)
    assert planned.plan.actions == ()


@pytest.mark.broker
def test_a_real_broker_then_finds_all_keys(tmp_path: Path) -> None:
    keys = keys_of(records_of(golden_data.dump(NAME), golden_data.options(NAME)), tags=True)
    root = crashed(tmp_path / "one")
    lost, had = simulate(root, broker=VERSION).keys_lost, entries(root)
    started = run(VERSION, root, golden_data.options(NAME), keys=keys, stop="halt")
    assert lost > 0
    assert entries(root) == had - lost
    assert {key for key in keys if set(keys[key]) - set(started.hits.get(key, ()))}
    root = crashed(tmp_path / "other")
    plan_store(root, tmp_path / "plan.json", broker=VERSION, given=given_for(NAME), jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    started = run(VERSION, root, golden_data.options(NAME), keys=keys, stop="halt")
    # Brokers index the last message once more after a crash.
    assert {key: set(found) for key, found in started.hits.items()} == {key: set(found) for key, found in keys.items()}


@pytest.mark.broker
@pytest.mark.parametrize("gone", [None, -1, 1])
@pytest.mark.parametrize("name", ["rich-4.9.8", "rich-5.5.1"])
def test_no_other_keys_stand_for_those_that_are_lost(name: str, gone: int | None, tmp_path: Path) -> None:
    """Of an older store 5.5.1 indexes tags besides, and a file that was gone is made again: that replaces no key."""
    options, keys = (
        golden_data.options(name),
        keys_of(records_of(golden_data.dump(name), golden_data.options(name)), tags=name.endswith(VERSION)),
    )

    def made(place: Path, *, clean: bool) -> Path:
        root = golden_data.copy_of(name, place)
        if gone is not None:
            sorted((root / "index").iterdir())[gone].unlink()
        if not clean:
            (root / "abort").touch()
            with (root / "checkpoint").open("r+b") as file:
                file.write(bytes(48))
        return root

    lost = simulate(made(tmp_path / "said", clean=False), broker=VERSION, given=given_for(name)).keys_lost
    before = run(VERSION, made(tmp_path / "clean", clean=True), options, keys=keys, stop="halt").hits
    after = run(VERSION, made(tmp_path / "killed", clean=False), options, keys=keys, stop="halt").hits
    assert lost == sum(len(set(before.get(key, ())) - set(after.get(key, ()))) for key in keys) > 0


def test_a_file_that_is_there_twice_loses_its_keys_once(tmp_path: Path) -> None:
    root = crashed(tmp_path / "store")
    once = simulate(root, broker=VERSION).keys_lost
    last = max((root / "index").iterdir())
    for later in (1, 2):
        last.with_name(f"{int(last.name) + later:017d}").write_bytes(last.read_bytes())
    assert simulate(root, broker=VERSION).keys_lost == once > 0


@pytest.mark.parametrize("lost", [b"", bytes(4096), None])
def test_no_checkpoint_is_made_that_takes_keys_of_an_index_that_is_left(lost: bytes | None, tmp_path: Path) -> None:
    """The disk lost the log's tail and the checkpoint: without one, brokers make the index anew, of the whole log."""
    root = crashed(tmp_path / "store")
    with (root / golden_data.segment(9)).open("r+b") as file:  # cut in a record's properties
        file.seek(12288)
        file.write(bytes(32768 - 12288))
    checkpoint = root / "checkpoint"
    checkpoint.write_bytes(lost or b"")
    if lost is None:
        checkpoint.unlink()
    planned = plan_store(root, tmp_path / "plan.json", broker=VERSION, given=given_for(NAME), jobs=1)
    assert planned.predicted_after.keys_lost <= planned.predicted_before.keys_lost
    assert any(text.startswith("checkpoint is left as it is") for text in planned.plan.left)
    assert "checkpoint" not in {action.path for action in planned.plan.actions}
    assert planned.plan.actions

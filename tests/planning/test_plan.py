"""``storeio plan``: what is chosen, what is left, what a plan never does; the damages are made here."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import golden_data
import pytest
from golden_data import given_for, segment
from plans import BASE, QUEUE, contents, cq, files_of
from rebuilds import settings_of
from storebuilder import StoreBuilder

from storeio import cli
from storeio.apply import apply_plan, undo
from storeio.errors import NotAStoreError, UnreadableError, UsageError
from storeio.format import consumequeue
from storeio.plan import from_json, model
from storeio.plan.results import Planned
from storeio.planning import Selection, plan_store
from storeio.planning.output import output_at
from storeio.predict.start import simulate
from storeio.rebuild.node import rebuild
from storeio.results import EXIT_REPAIRED

pytestmark = pytest.mark.share(2)

SEGMENT = 32768
LAST = f"commitlog/{9 * SEGMENT:020d}"
SETS = [word for name, value in given_for(BASE).items() for word in ("--set", f"{name}={value}")]


def planned(edits: list[Any], place: Path, **how: Any) -> Planned:
    """Return the plan for the base store with edits."""
    root = golden_data.damaged(BASE, edits, place / "store")
    return plan_store(root, place / "plan.json", **{"broker": "5.3.3", "given": given_for(BASE), "jobs": 1, **how})


def kinds(found: Planned) -> list[tuple[str, str]]:
    return [(action.kind, action.path) for action in found.plan.actions]


BLANK_AT = (
    max(  # where the blank record of the fourth segment begins
        int(row["phy_offset"]) + int(row["size"])
        for row in golden_data.dump(BASE)
        if int(row["phy_offset"]) < 4 * SEGMENT
    )
    - 3 * SEGMENT
)
LOG_CASES = {
    "short": ([["truncate", LAST, 30000]], [("resize", LAST)]),
    "empty": ([["truncate", LAST, 0]], None),
    "renamed": ([["rename", segment(2), segment(20)]], [("rename", segment(20))]),
    **{
        f"{number} renamed by {off}": (
            [["rename", segment(number), f"commitlog/{number * SEGMENT + off:020d}"]],
            [("rename", f"commitlog/{number * SEGMENT + off:020d}")],
        )
        for number, off in ((2, SEGMENT // 2), (2, -1), (0, 1), (9, SEGMENT // 2), (9, -1), (4, 20 * SEGMENT + 8))
    },
    "dirty tail": ([["write", LAST, 32000, "01020304"]], [("write", LAST)]),
    "blank size": ([["write", segment(3), BLANK_AT, "00000008"]], [("write", segment(3))]),
    "torn tail": ([["zero", LAST, 20000, 12768]], None),
}


@pytest.mark.parametrize("name", LOG_CASES)
def test_the_log_is_only_touched_when_allowed(name: str, tmp_path: Path) -> None:
    edits, expected = LOG_CASES[name]
    (tmp_path / "tame").mkdir()
    (tmp_path / "bold").mkdir()
    tame = planned(edits, tmp_path / "tame")
    assert not any(action.risk == model.LOG or action.path.startswith("commitlog") for action in tame.plan.actions)
    assert tame.before.exit_code == 4
    assert not tame.cures
    bold = planned(edits, tmp_path / "bold", allow_log=True)
    assert bold.cures, bold.plan.left
    if expected is not None:
        assert kinds(bold) == expected


@pytest.mark.parametrize("goal", ["repair", "salvage"])
def test_segments_of_zeros_behind_a_gap_behind_the_end_go_and_others_stay(goal: str, tmp_path: Path) -> None:
    log = sorted(golden_data.store(BASE).glob("commitlog/*"))
    size = log[-1].stat().st_size
    empty, dirty = (f"commitlog/{int(log[-1].name) + n * size:020d}" for n in (2, 4))
    edits: list[golden_data.Edit] = [["create", empty, size], ["create", dirty, size], ["write", dirty, 100, "41"]]
    root = golden_data.damaged(BASE, edits, tmp_path / "store")
    words: dict[str, Any] = {"given": given_for(BASE), "jobs": 1, "goal": "repair"}
    assert not plan_store(root, tmp_path / "no.json", **words).plan.actions
    found = plan_store(root, tmp_path / "plan.json", **{**words, "goal": goal}, allow_log=True)
    assert empty in [action.path for action in found.plan.actions if action.kind == model.MOVE]
    assert found.cures
    assert apply_plan(tmp_path / "plan.json", root, allow_log=True).exit_code == EXIT_REPAIRED
    assert not (root / empty).exists()
    undo(root)
    assert (root / dirty).read_bytes()[100] == 0x41


def test_without_a_log_nothing_is_planned(tmp_path: Path) -> None:
    found = planned([["rmtree", "commitlog"]], tmp_path, allow_log=True)
    assert found.plan.actions == ()
    assert not found.cures
    assert any(text.startswith("LOG_MISSING") for text in found.plan.left)
    assert found.exit_code == 4


def test_a_true_checkpoint_is_withheld_where_it_would_lead_into_damage(tmp_path: Path) -> None:
    """With a true one, recovery begins in the segment before the last and cuts the log at its zeros."""
    (case,) = (case for case in golden_data.cases("rows-5.3.3") if case["id"] == "17-abort")
    found = planned(case["edits"], tmp_path)
    assert found.predicted_before.given_up is not None
    assert found.predicted_after.given_up is not None
    assert found.predicted_before.given_up.messages == found.predicted_after.given_up.messages == 0
    assert not any(action.path == "checkpoint" for action in found.plan.actions)
    assert any(text.startswith("checkpoint is left as it is") for text in found.plan.left)


@pytest.mark.parametrize(
    "broken",
    [
        [["create", "timerwheel", 100]],
        [["write", f"config/topics.json{end}", 0, "7b22"] for end in ("", ".bak")],
        [["write", f"config/delayOffset.json{end}", 0, "7b22"] for end in ("", ".bak")],
    ],
)
def test_a_start_that_tables_refuse_is_judged_as_if_they_were_mended(broken: list[Any], tmp_path: Path) -> None:
    """No plan mends them; whoever does starts the broker on what the plan has left."""
    (case,) = (case for case in golden_data.cases("rows-5.3.3") if case["id"] == "17-abort")
    found = planned([*case["edits"], *broken], tmp_path)
    assert found.predicted_before.outcome.outcome == found.predicted_after.outcome.outcome == "refuses"
    assert not any(action.path == "checkpoint" for action in found.plan.actions)
    assert any(text.startswith("checkpoint is left as it is") for text in found.plan.left)


# Retention has taken three segments, and the file of a queue whose messages they were, the first one at offset 0.
DEAD = [*(["delete", segment(number)] for number in range(3)), ["delete", f"consumequeue/topic_1/1/{0:020d}"]]


def test_sound_units_of_deleted_messages_stay(tmp_path: Path) -> None:
    found = planned([*DEAD, ["zero", cq(3000), 40, 20]], tmp_path)
    assert kinds(found) == [("write", cq(3000))]
    (action,) = found.plan.actions
    assert 40 <= action.position < action.position + action.length <= 60


def test_so_do_those_behind_the_filler_of_a_queue_that_began_above_0(tmp_path: Path) -> None:
    filler = consumequeue.PRE_BLANK.tobytes().hex()
    begun = [["delete", cq(0)], *(["write", cq(1000), 20 * number, filler] for number in range(5))]
    found = planned([*DEAD, *begun, ["zero", cq(3000), 40, 20]], tmp_path)
    assert kinds(found) == [("write", cq(3000))]


def test_files_of_deleted_messages_in_front_of_a_missing_one_give_way(tmp_path: Path) -> None:
    """No log tells what stood in that, and consumers would jump over it."""
    queue = "consumequeue/topic_1/0"
    gone = [["delete", segment(number)] for number in range(6)]
    found = planned([*gone, ["delete", f"{queue}/{1000:020d}"]], tmp_path)
    assert [kind for kind in kinds(found) if kind[1].startswith(queue)] == [("move", f"{queue}/{0:020d}")]
    assert found.cures


def test_damaged_units_of_deleted_messages_give_way(tmp_path: Path) -> None:
    found = planned([*DEAD, ["zero", cq(0), 40, 20]], tmp_path)
    assert kinds(found) == [("move", cq(0)), ("write", cq(1000))]
    assert found.after.exit_code == 0


@pytest.mark.parametrize("unit", [(0, 1, 0), (100, 200, 0)])
def test_behind_a_queue_s_messages_no_unit_is_of_a_deleted_one(unit: tuple[int, int, int], tmp_path: Path) -> None:
    """Brokers take it for the queue's end: 5.5.1 then drops the units in front of it, too."""
    end = sum((row["topic"], row["queue_id"]) == ("topic_0", "0") for row in golden_data.dump(BASE)) * 20 - 4000
    found = planned([*DEAD, ["write", cq(4000), end, struct.pack(">qiq", *unit).hex()]], tmp_path)
    (orphan,) = (f for f in found.before.findings if f.severity != "info")
    assert (orphan.code, orphan.position) == ("CQ_UNIT_ORPHAN", end)
    assert found.after.exit_code == 0
    assert kinds(found) == [("write", cq(4000))]


def test_damaged_ext_units_of_deleted_messages_go(tmp_path: Path) -> None:
    """Brokers refuse a file through which the sizes do not lead, though no message of its queue is left."""
    name, file = "ext-5.3.3", f"consumequeue_ext/SCHEDULE_TOPIC_XXXX/8/{0:020d}"
    edits = [*(["delete", f"commitlog/{base:020d}"] for base in (0, 65536)), ["write", file, 0, "00ff"]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", broker="5.3.3", given=given_for(name), jobs=1)
    assert {f.code for f in found.before.findings if f.severity != "info"} == {"EXT_CHAIN"}
    assert found.cures, found.plan.left
    assert kinds(found) == [("move", file)]


def test_a_lost_queue_behind_retention_begins_with_fillers(tmp_path: Path) -> None:
    found = planned([*DEAD, ["rmtree", QUEUE]], tmp_path)
    assert found.after.exit_code == 0
    (queue,) = (q for q in found.after.queues if (q.topic, q.queue_id) == ("topic_0", 0))
    assert queue.min_queue_offset == 75


def test_units_behind_a_lost_tail_are_cut(tmp_path: Path) -> None:
    found = planned([["delete", LAST]], tmp_path)
    assert found.cures, found.plan.left
    assert ("move", cq(4000)) in kinds(found)
    assert all(action.risk != model.LOG for action in found.plan.actions)


DAMAGES = [
    ["zero", cq(1000), 40, 20],
    ["zero", "consumequeue/topic_1/1/" + "0" * 20, 60, 20],
    ["create", "commitlog/copy", 7],
]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (Selection(), {"commitlog/copy", cq(1000), "consumequeue/topic_1/1/" + "0" * 20}),
        (Selection(queues=(("topic_0", 0),)), {cq(1000)}),
        (Selection(queues=(("topic_1", None),)), {"consumequeue/topic_1/1/" + "0" * 20}),
        (Selection(paths=("commitlog/*",)), {"commitlog/copy"}),
        (Selection(codes=("STRAY_FILE",)), {"commitlog/copy"}),
        (Selection(risks=("derived",)), {cq(1000), "consumequeue/topic_1/1/" + "0" * 20}),
        (Selection(risks=("log",)), set()),
        (Selection(queues=(("topic_0", 1),)), set()),
    ],
)
def test_selection(select: Selection, expected: set[str], tmp_path: Path) -> None:
    found = planned(DAMAGES, tmp_path, select=select)
    assert {action.path for action in found.plan.actions} == expected
    assert found.cures is (select == Selection())


@pytest.mark.parametrize(
    ("select", "with_checkpoint"),
    [
        (Selection(), True),
        (Selection(risks=(model.DERIVED,)), False),
        (Selection(paths=("index/*",)), False),
        (Selection(paths=("index/*", "checkpoint")), True),
        (Selection(codes=("INDEX_HEADER",)), True),
    ],
)
def test_a_new_index_brings_its_checkpoint_along_where_that_is_wanted(
    select: Selection, with_checkpoint: bool, tmp_path: Path
) -> None:
    """The checkpoint names the end of an index file; it is a file of its own, and of another risk."""
    file = min(path.name for path in (golden_data.store(BASE) / "index").iterdir())
    found = planned([["zero", f"index/{file}", 0, 40]], tmp_path, select=select)
    paths = {action.path.partition("/")[0] for action in found.plan.actions}
    assert "index" in paths
    assert ("checkpoint" in paths) is with_checkpoint
    assert {finding.code for finding in found.after.findings} <= {finding.code for finding in found.before.findings}


@pytest.mark.parametrize("damage", [["rmtree", "index"], ["write", "checkpoint", 16, "7f" * 8]])
def test_after_a_crash_recovery_is_told_to_keep_a_whole_index(damage: list[Any], tmp_path: Path) -> None:
    """Its last file, too, which brokers name in the checkpoint only when it is full; the end of that stays sound."""
    found = planned([damage, ["create", "abort", 0]], tmp_path)
    assert found.cures, found.plan.left
    apply_plan(tmp_path / "plan.json", tmp_path / "store")
    kept = simulate(tmp_path / "store", broker="5.3.3", given=given_for(BASE)).disk.deleted
    assert [path for path in kept if path.startswith("index/")] == []


@pytest.mark.parametrize("damage", [["write", "checkpoint", 16, "7f" * 8]])
def test_an_index_that_stays_damaged_is_not_vouched_for(damage: list[Any], tmp_path: Path) -> None:
    first = min((golden_data.store(BASE) / "index").iterdir()).name
    edits = [damage, ["create", "abort", 0], ["write", f"index/{first}", 900, "55" * 60]]
    planned(edits, tmp_path, select=Selection(paths=("checkpoint",)))
    apply_plan(tmp_path / "plan.json", tmp_path / "store")
    kept = simulate(tmp_path / "store", broker="5.3.3", given=given_for(BASE)).disk.deleted
    assert [path for path in kept if path.startswith("index/")] != []


def test_the_store_is_not_touched_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    root = golden_data.damaged(BASE, DAMAGES, tmp_path / "store")
    before = contents(root)
    plan_store(root, tmp_path / "plan.json", broker="5.3.3", given=given_for(BASE))
    assert contents(root) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "plan.json.bytes", "store"]
    assert from_json((tmp_path / "plan.json").read_text()).bytes_length == (tmp_path / "plan.json.bytes").stat().st_size


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.damaged(BASE, DAMAGES, tmp_path / "store")
    words = ["plan", str(root), "--broker", "5.3.3", *SETS]
    assert cli.run([*words, "--out", str(tmp_path / "plan.json")]) == 4
    out = capsys.readouterr().out
    assert out.startswith("CURES: ")
    assert "storeio apply" in out
    assert cli.run([*words, "--json", "-"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["cures"] is True
    assert {action["path"] for action in found["actions"]} == {path for _, path, *_ in DAMAGES}
    assert found["after"]["findings"] == 0
    sound = golden_data.copy_of(BASE, tmp_path / "sound")
    assert cli.run(["plan", str(sound), "--broker", "5.3.3", "--quiet", *SETS]) == 0
    assert capsys.readouterr().out.startswith("NOTHING TO DO: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "STORE/plan.json"], "never written"),
        (["--out", "STORE.gone/plan.json"], "in a directory that is there"),
        (["--code", "NO_SUCH"], "no such finding"),
        (["--queue", "a/b"], "TOPIC/ID"),
        (["--topic", "NO_SUCH"], "--topic NO_SUCH: the store has no such thing"),
        (["--topic", "topic_0", "--queue", "topic_0/9"], "--queue topic_0/9: the store has no such thing"),
        (["--broker", "1.0"], "three numbers"),
        (["--set", "noSuch=1"], "noSuch"),
    ],
)
def test_wrong_use(words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.copy_of(BASE, tmp_path / "store")
    assert cli.run(["plan", str(root), *(word.replace("STORE", str(root)) for word in words)]) == 16
    assert says in capsys.readouterr().err
    assert not (root / "plan.json").exists()


@pytest.mark.parametrize("name", ["q.json", "q.json.bytes"])
def test_a_link_into_the_store_is_no_place_for_a_plan(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_data.damaged(BASE, DAMAGES, tmp_path / "store")
    before = contents(root)
    (tmp_path / name).symlink_to(root / segment(0))
    assert cli.run(["plan", str(root), "--broker", "5.3.3", *SETS, "--out", str(tmp_path / "q.json")]) == 16
    assert "never written" in capsys.readouterr().err
    assert contents(root) == before


def test_links_of_a_plans_name_are_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"kept")
    for name in ("plan.json", "plan.json.bytes"):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    planned(DAMAGES, tmp_path)
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"
    assert from_json((tmp_path / "plan.json").read_text()).bytes_file == "plan.json.bytes"
    assert not (tmp_path / "plan.json.bytes").is_symlink()


def test_what_is_no_file_is_not_replaced_by_a_plan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.json.bytes")
    with pytest.raises(UsageError, match="no plain file"):
        planned(DAMAGES, tmp_path)


def test_a_plan_that_fails_leaves_an_earlier_one_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UnreadableError("the disk is gone")

    first, again = tmp_path / "first", tmp_path / "again"
    for place in (first, again):
        place.mkdir()
    planned(DAMAGES, again)
    kept = contents(again)
    monkeypatch.setattr("storeio.planning.node.finished", fail)
    for place in (first, again):
        root = again / "store" if place == again else golden_data.damaged(BASE, DAMAGES, place / "store")
        with pytest.raises(UnreadableError):
            plan_store(root, place / "plan.json", broker="5.3.3", given=given_for(BASE))
    assert contents(again) == kept
    assert [path.name for path in first.iterdir()] == ["store"]


def test_two_plans_at_once_of_one_name_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes when the first has put its bytes in place and not yet itself."""
    output = output_at(tmp_path / "plan.json")
    others: list[Thread] = []
    plan = planned(DAMAGES, tmp_path).plan
    replaced = Path.replace

    def keep(number: int) -> None:
        scratch = tmp_path / f"scratch{number}"
        scratch.mkdir()
        (scratch / "made").write_text(str(number))
        output.keep(replace(plan, created_ms=number), scratch, scratch / "made")

    def at_once(path: Path, target: Path) -> Path:
        done = replaced(path, target)
        if not others:
            others.append(Thread(target=keep, args=(2,)))
            others[0].start()
            others[0].join(0.3)
        return done

    monkeypatch.setattr(Path, "replace", at_once)
    keep(1)
    others[0].join()
    assert json.loads(output.plan.read_text())["created_ms"] == int(output.bytes.read_text())


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_queues_whose_files_were_swapped_are_what_they_were(version: str, tmp_path: Path) -> None:
    """Units that point at intact records of another queue are no reason to plan twice, and each time otherwise."""
    name = f"ext-{version}"
    one, other = (f"consumequeue/topic_{number}/1/{0:020d}" for number in (0, 2))
    edits = [["rename", one, "swapped"], ["rename", other, one], ["rename", "swapped", other]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    how: dict[str, Any] = {"broker": version, "given": given_for(name) | {"enableConsumeQueueExt": "true"}, "jobs": 1}
    found = plan_store(root, tmp_path / "plan.json", **how)
    assert found.cures, found.plan.left
    apply_plan(tmp_path / "plan.json", root)
    assert files_of(root) == files_of(golden_data.store(name))
    assert not plan_store(root, tmp_path / "again.json", **how).plan.actions


def rebuilds_say(monkeypatch: pytest.MonkeyPatch, said: Iterator[bytes]) -> None:
    """Let each rebuild of a plan say another tags code of one damaged unit, as long as there is one."""

    def rebuild_otherwise(source: Path, into: Path, **how: Any) -> Any:
        built = rebuild(source, into, **how)
        data = next(said, b"")
        with (into / cq(1000)).open("r+b") as file:
            file.seek(52)
            file.write(data)
        return built

    monkeypatch.setattr("storeio.planning.planner.rebuild", rebuild_otherwise)


def test_what_a_later_look_contradicts_is_planned_as_that_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilds_say(monkeypatch, iter([b"\x01" * 8]))
    found = planned(DAMAGES, tmp_path)
    assert found.cures, found.plan.left
    apply_plan(tmp_path / "plan.json", tmp_path / "store")
    assert files_of(tmp_path / "store") == files_of(golden_data.store(BASE))


def test_what_every_look_contradicts_is_left_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilds_say(monkeypatch, (bytes([number % 100 + 1]) * 8 for number in itertools.count()))
    found = planned(DAMAGES, tmp_path)
    assert not found.cures
    assert {action.path for action in found.plan.actions} == {"commitlog/copy", f"consumequeue/topic_1/1/{0:020d}"}
    assert any(sentence.endswith("left for that: queue topic_0/0") for sentence in found.plan.left)


def test_the_scattered_hash_slots_of_a_new_index_file_are_few_actions(tmp_path: Path) -> None:
    """One an action would be two flushes each: of a file of the usual size there are tens of thousands."""
    builder = StoreBuilder(tmp_path / "store", segment_bytes=1 << 16, index_slots=50_000)
    for number in range(150):
        builder.message("t", keys=f"order-{number * 7919}")
    root, given = builder.close(), settings_of(builder.settings)
    (index,) = (root / "index").iterdir()
    before = index.read_bytes()
    shutil.rmtree(root / "index")
    found = plan_store(root, tmp_path / "plan.json", given=given, jobs=1)
    assert found.cures and len([row for row in found.plan.actions if row.path.startswith("index/")]) < 10
    apply_plan(tmp_path / "plan.json", root)
    (new,) = (root / "index").iterdir()
    assert new.read_bytes() == before


def test_a_plan_without_what_was_not_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.damaged(BASE, DAMAGES, tmp_path / "store")
    words = ["plan", str(root), "--broker", "5.3.3", *SETS, "--out", str(tmp_path / "plan.json")]
    assert cli.run([*words, "--path", "nope/*"]) == 4
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("NO PLAN: none of the actions that are asked for cures ")
    assert apply_plan(tmp_path / "plan.json", root).outcome == "nothing"
    with pytest.raises(NotAStoreError):
        apply_plan(tmp_path / "plan.json", tmp_path / "nowhere")


def test_a_place_that_takes_no_file_is_told_with_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.damaged(BASE, DAMAGES, tmp_path / "store")
    assert cli.run(["plan", str(root), "--broker", "5.3.3", *SETS, "--out", "/proc/plan.json"]) == 8
    assert "--out /proc/plan.json: could not be written: " in capsys.readouterr().err


def test_what_keeps_a_plan_makes_the_same_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = [["write", segment(0), 100, "ff"], ["delete", cq(0)]]
    root = golden_data.damaged(BASE, edits, tmp_path / "store")
    for options in ("--broker 5.3.3", "--broker 5.3.3 --allow-log", "--broker 4.9.8 --allow-log --goal salvage"):
        assert cli.run(["plan", str(root), *options.split(), *SETS]) == 4
        assert f"  storeio plan {root} {options} --out plan.json\n" in capsys.readouterr().out


def test_where_the_log_is_gone_nothing_is_said_to_save_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.damaged(BASE, [["rmtree", "commitlog"]], tmp_path / "store")
    assert cli.run(["plan", str(root), "--allow-log", *SETS]) == 4
    assert "salvage" not in capsys.readouterr().out.partition("NEXT")[2]


def test_a_plan_that_is_only_looked_at_leaves_nothing(store: Path, tmp_path: Path) -> None:
    (store / cq(0)).unlink()
    found = plan_store(store, given=given_for(BASE), jobs=1)
    assert (found.cures, found.plan.actions != ()) == (True, True)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]

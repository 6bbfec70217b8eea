"""Plans for queues of a damaged log: no message leaves its queue, and no unit goes that a salvage would ask."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import golden_data
import pytest
from golden_data import given_for
from rebuilds import settings_of, tree
from storebuilder import StoreBuilder

from storeio import findings
from storeio.apply import apply_plan
from storeio.format import commitlog as log
from storeio.planning import Selection, plan_store
from storeio.report.text import verdict_sentence
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

BASES = ("base-4.9.8", "base-5.3.3", "base-5.5.1")
TOPIC, QUEUE_ID, NUMBER = "topic_0", 1, 120
UNITS_A_FILE = 50


def row_of(name: str) -> dict[str, str]:
    """Return the record that is damaged, as a broker decoded it."""
    said = (TOPIC, str(QUEUE_ID), str(NUMBER))
    return next(row for row in golden_data.dump(name) if (row["topic"], row["queue_id"], row["queue_offset"]) == said)


def unit_at(number: int) -> tuple[str, int]:
    """Return file and position of one of the queue's units."""
    base = number - number % UNITS_A_FILE
    return f"consumequeue/{TOPIC}/{QUEUE_ID}/{base * 20:020d}", number % UNITS_A_FILE * 20


def in_record(name: str, at: int, data: bytes) -> list[Any]:
    """Return the edit of the record's bytes."""
    place, size = int(row_of(name)["phy_offset"]), int(golden_data.options(name)["clFile"])
    return ["write", f"commitlog/{place - place % size:020d}", place % size + at, data.hex()]


def in_topic(name: str) -> list[Any]:
    """Return the edit of the last character of its topic."""
    row = row_of(name)
    body = int(row["body_len"])
    return in_record(name, 84 + 4 + body + len(TOPIC), b"9")


DAMAGES = {
    "another queue": lambda name: in_record(name, log.QUEUE_ID_AT, struct.pack(">i", 0)),
    "a new queue": lambda name: in_record(name, log.QUEUE_ID_AT, struct.pack(">i", 77)),
    "a negative queue": lambda name: in_record(name, log.QUEUE_ID_AT, struct.pack(">i", -5)),
    "another number": lambda name: in_record(name, log.QUEUE_OFFSET_AT, struct.pack(">q", 40)),
    "another topic": in_topic,
    "prepared, in no queue": lambda name: in_record(name, log.SYS_FLAG_AT, struct.pack(">i", log.SYS_PREPARED)),
    "rolled back": lambda name: in_record(name, log.SYS_FLAG_AT, struct.pack(">i", log.SYS_ROLLBACK)),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_message_stays_in_its_queue_where_its_record_says_another(name: str, damage: str, tmp_path: Path) -> None:
    elsewhere, at = unit_at(NUMBER - 10)
    edits = [DAMAGES[damage](name), ["write", elsewhere, at + 3, "7f"]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert not found.cures  # the record is damaged still
    assert [action.path for action in found.plan.actions if action.path != "checkpoint"] == [elsewhere]
    assert any(sentence.startswith("LOG_") for sentence in found.plan.left)
    apply_plan(tmp_path / "plan.json", root)
    for number in (NUMBER - 10, NUMBER):
        path, _ = unit_at(number)
        assert (root / path).read_bytes() == (golden_data.store(name) / path).read_bytes()
    assert not (root / f"consumequeue/{TOPIC}/77").exists()
    assert not plan_store(root, tmp_path / "again.json", given=given_for(name), jobs=1).plan.actions


@pytest.mark.parametrize("name", BASES)
def test_a_message_with_a_wrong_number_stays_in_its_queue_though_the_next_one_is_damaged(
    name: str, tmp_path: Path
) -> None:
    """Units are only said to be shifted where those beside them are, at records that tell."""
    queue = [row for row in golden_data.dump(name) if (row["topic"], row["queue_id"]) == (TOPIC, str(QUEUE_ID))]
    place, size = int(queue[NUMBER + 1]["phy_offset"]), int(golden_data.options(name)["clFile"])
    elsewhere, _ = unit_at(NUMBER - UNITS_A_FILE)
    edits = [
        in_record(name, log.QUEUE_OFFSET_AT, struct.pack(">q", NUMBER + 10_000)),
        ["write", f"commitlog/{place - place % size:020d}", place % size, struct.pack(">i", 434).hex()],
        ["delete", elsewhere],
    ]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    for number in (NUMBER - UNITS_A_FILE, NUMBER, NUMBER + 1):
        assert_same(root, name, number)


def test_where_nothing_but_the_record_speaks_the_record_is_believed(tmp_path: Path) -> None:
    name = "base-5.3.3"
    edits = [DAMAGES["a new queue"](name), ["delete", unit_at(NUMBER)[0]]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert any(action.path.startswith(f"consumequeue/{TOPIC}/77/") for action in found.plan.actions)


def zeroed(name: str, rows: Iterable[dict[str, str]]) -> list[Any]:
    """Return the edits that wipe records out."""
    size = int(golden_data.options(name)["clFile"])
    return [
        ["zero", f"commitlog/{place - place % size:020d}", place % size, int(row["size"])]
        for row in rows
        for place in (int(row["phy_offset"]),)
    ]


def assert_same(root: Path, name: str, number: int) -> None:
    path, at = unit_at(number)
    assert (root / path).read_bytes()[at : at + 20] == (golden_data.store(name) / path).read_bytes()[at : at + 20]


@pytest.mark.parametrize("name", BASES)
def test_units_in_front_of_a_queues_first_record_stay(name: str, tmp_path: Path) -> None:
    size = int(golden_data.options(name)["clFile"])
    path, at = unit_at(NUMBER)
    edits = [["zero", f"commitlog/{0:020d}", 0, size], ["write", path, at + 3, "7f"]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert [action.path for action in found.plan.actions] == [path]
    apply_plan(tmp_path / "plan.json", root)
    assert_same(root, name, NUMBER)
    assert_same(root, name, 0)


@pytest.mark.parametrize("name", BASES)
def test_units_behind_a_queues_last_record_stay(name: str, tmp_path: Path) -> None:
    rows = [row for row in golden_data.dump(name) if (row["topic"], row["queue_id"]) == (TOPIC, str(QUEUE_ID))]
    last = int(rows[-1]["queue_offset"])
    path, at = unit_at(NUMBER)
    edits = [*zeroed(name, rows[-2:]), ["write", path, at + 3, "7f"]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert [action.path for action in found.plan.actions] == [path]
    apply_plan(tmp_path / "plan.json", root)
    for number in (NUMBER, last - 1, last):
        assert_same(root, name, number)


def test_units_behind_a_queues_last_record_stay_where_more_point_into_damage_than_a_report_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report folds them into one finding over a range, with sound units in it, too."""
    builder, lost = StoreBuilder(tmp_path / "store"), (3, 5, 7, 9, 11)
    placed = [builder.message("t", body=b"body") for _ in range(12)]
    builder.message("behind")
    root, queue = builder.close(), "consumequeue/t/0/00000000000000000000"
    segment = root / "commitlog" / "00000000000000000000"
    data = bytearray(segment.read_bytes())
    for number in lost:
        at = placed[number].physical_offset
        data[at : at + len(placed[number].raw)] = bytes(len(placed[number].raw))
    segment.write_bytes(data)
    units = bytearray((root / queue).read_bytes())
    units[:20] = bytes(20)
    (root / queue).write_bytes(units)
    monkeypatch.setattr(findings, "MOST_ROWS", 2)
    planned = plan_store(root, tmp_path / "plan.json", given=settings_of(builder.settings), jobs=1)
    written = [row for row in planned.plan.actions if row.path == queue]
    assert written and all(row.position + row.length <= 20 for row in written)


def test_a_queue_all_of_whose_records_are_lost_is_left(tmp_path: Path) -> None:
    name = "base-5.3.3"
    rows = [row for row in golden_data.dump(name) if (row["topic"], row["queue_id"]) == (TOPIC, str(QUEUE_ID))]
    path, at = unit_at(NUMBER)
    root = golden_data.damaged(name, [*zeroed(name, rows), ["write", path, at + 3, "7f"]], tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert not [action.path for action in found.plan.actions if action.path.startswith(f"consumequeue/{TOPIC}/1/")]
    says = f"units point into damage of the log: salvage it first; left for that: queue {TOPIC}/{QUEUE_ID}"
    assert says in found.plan.left


def test_an_index_whose_units_point_into_damage_stays(tmp_path: Path) -> None:
    name = "base-5.3.3"
    row = next(row for row in golden_data.dump(name) if row["keys"] != "null")
    root = golden_data.damaged(name, zeroed(name, [row]), tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1)
    assert "INDEX_UNIT_ORPHAN" in {finding.code for finding in found.before.findings}
    assert not found.plan.actions


def test_a_segment_without_its_first_bytes_gets_no_name_from_what_stands_there(tmp_path: Path) -> None:
    """Its records lie a little off, and what stands where a physical offset would names another segment by chance."""
    name = "base-5.3.3"
    size = int(golden_data.options(name)["clFile"])
    path = f"commitlog/{2 * size:020d}"
    data = (golden_data.store(name) / path).read_bytes()[12:] + bytes(12)
    head = data[:28] + struct.pack(">q", 20 * size)
    root = golden_data.damaged(name, [["write", path, 0, (head + data[36:]).hex()]], tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), jobs=1, allow_log=True)
    assert "LOG_SEGMENT_MISNAMED" in {finding.code for finding in found.before.findings}
    assert not [action for action in found.plan.actions if action.path.startswith("commitlog")]


def true_name_leads_into_damage(name: str) -> list[Any]:
    """Return the edits after which recovery begins in a misnamed segment; under its own name that ends in a cut."""
    size = int(golden_data.options(name)["clFile"])
    places = [int(row["phy_offset"]) for row in golden_data.dump(name)]
    last = max(places) // size * size
    torn = sorted(place for place in places if place >= last)[3]
    return [
        ["rename", f"commitlog/{last - 2 * size:020d}", f"commitlog/{70 * size:020d}"],
        ["write", f"commitlog/{last:020d}", torn % size, struct.pack(">i", 2**31 - 1).hex()],
        ["write", unit_at(NUMBER)[0], unit_at(NUMBER)[1], "00" * 20],
        ["write", "abort", 0, ""],
    ]


def test_a_segment_keeps_its_wrong_name_where_the_true_one_would_lead_recovery_into_damage(tmp_path: Path) -> None:
    """As it is, recovery begins in that segment; else it comes to a torn record in the last one, and cuts there."""
    name = "base-5.5.1"
    root = golden_data.damaged(name, true_name_leads_into_damage(name), tmp_path / "store")
    how: dict[str, Any] = {"broker": "5.5.1", "given": given_for(name), "allow_log": True, "jobs": 1}
    found = plan_store(root, tmp_path / "plan.json", **how)
    assert "are not in place, but intact records hold them elsewhere in the log" in verdict_sentence(found.before)
    assert found.predicted_before.given_up is not None
    assert found.predicted_after.given_up is not None
    assert found.predicted_after.given_up.messages <= found.predicted_before.given_up.messages
    assert found.predicted_after.outcome.after_load is not None
    assert found.predicted_before.outcome.after_load is not None
    cut = [start.outcome.after_load.max_physical_offset for start in (found.predicted_before, found.predicted_after)]
    assert cut[0] == cut[1], "the log is cut"
    assert [action.path for action in found.plan.actions] == [unit_at(NUMBER)[0]]
    assert any(sentence.startswith("commitlog is left as it is") for sentence in found.plan.left)
    apply_plan(tmp_path / "plan.json", root, allow_log=True)
    assert not plan_store(root, tmp_path / "again.json", **how).plan.actions


SHORT_QUEUE = ["truncate", unit_at(0)[0], 500]  # no broker loads a store with a queue's file of another length


def flipped(name: str, back: int) -> list[Any]:
    """Return the edit of a byte of a body, of the fourth record in the last segment but ``back``."""
    size = int(golden_data.options(name)["clFile"])
    places = sorted(int(row["phy_offset"]) for row in golden_data.dump(name))
    base = places[-1] - places[-1] % size - back * size
    at = [place for place in places if place >= base][3] - base + 100
    path = f"commitlog/{base:020d}"
    return ["write", path, at, bytes([(golden_data.store(name) / path).read_bytes()[at] ^ 1]).hex()]


def short_segment(name: str) -> list[Any]:
    """Return the edit that halves the last segment but one."""
    return [
        "truncate",
        f"commitlog/{sorted(p.name for p in (golden_data.store(name) / 'commitlog').iterdir())[-2]}",
        16000,
    ]


REFUSED = {  # brokers refuse all of these; made to start, they come to the damaged record, and cut the log there
    "4.x, a short segment": ("base-4.9.8", lambda name: [short_segment(name)]),
    "4.x, a segment before the last": ("base-4.9.8", lambda name: [flipped(name, 1), SHORT_QUEUE]),
    "4.x, last segment": ("base-4.9.8", lambda name: [flipped(name, 0), SHORT_QUEUE]),
    "5.3, last segment": ("base-5.3.3", lambda name: [flipped(name, 0), SHORT_QUEUE]),
    "5.5, last segment": ("base-5.5.1", lambda name: [flipped(name, 0), SHORT_QUEUE]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_broker_that_refuses_is_not_made_to_cut_off_intact_messages(case: str, tmp_path: Path) -> None:
    name, edits = REFUSED[case]
    root = golden_data.damaged(name, edits(name), tmp_path / "store")
    how: dict[str, Any] = {"broker": name.removeprefix("base-"), "given": given_for(name), "jobs": 1}
    found = plan_store(root, tmp_path / "plan.json", allow_log=True, **how)
    assert found.predicted_before.outcome.outcome == "refuses"
    assert not found.plan.actions
    assert any(" is left as it is: broker" in sentence for sentence in found.plan.left)
    salvaged = plan_store(root, tmp_path / "salvage.json", allow_log=True, goal="salvage", **how)
    assert salvaged.cures, "what is advised does not help"


@pytest.mark.parametrize(
    ("name", "refusing"), [("base-4.9.8", ["create", "commitlog/x", 5]), ("base-5.3.3", SHORT_QUEUE)]
)
def test_a_refusal_that_is_not_selected_hides_no_harm(name: str, refusing: list[Any], tmp_path: Path) -> None:
    """With a true checkpoint recovery begins before the damaged record and cuts there, once something else is gone."""
    future = struct.pack(">3q", 2**61, 2**61, 2**61).hex()
    edits = [flipped(name, 1), ["write", "abort", 0, ""], ["write", "checkpoint", 0, future], refusing]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(
        root, tmp_path / "plan.json", broker=name[5:], given=given_for(name), jobs=1,
        select=Selection(paths=("checkpoint",)),
    )  # fmt: skip
    assert found.predicted_before.outcome.outcome == "refuses"
    assert not found.plan.actions
    assert any(text.startswith("checkpoint is left as it is: broker") for text in found.plan.left)


def test_nor_does_one_hide_what_a_true_name_of_a_segment_leads_to(tmp_path: Path) -> None:
    """Once the queue has its length again, recovery cuts the log at a record that it now passes over."""
    name = "base-5.5.1"
    edits = [*true_name_leads_into_damage(name), SHORT_QUEUE]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(
        root, tmp_path / "plan.json", broker="5.5.1", given=given_for(name), jobs=1, allow_log=True,
        select=Selection(paths=("commitlog/*",)),
    )  # fmt: skip
    assert found.predicted_before.outcome.outcome == "refuses"
    assert not found.plan.actions
    assert any(text.startswith("commitlog is left as it is: broker") for text in found.plan.left)


@pytest.mark.parametrize("name", ["base-5.3.3", "base-5.5.1"])
def test_a_broker_that_refuses_is_made_to_start_where_that_takes_nothing(name: str, tmp_path: Path) -> None:
    """After a clean stop 5.x begins behind the record that was cut off, and keeps the whole log."""
    root = golden_data.damaged(name, [short_segment(name)], tmp_path / "store")
    found = plan_store(
        root, tmp_path / "plan.json", broker=name[5:], given=given_for(name), allow_log=True, jobs=1
    )  # fmt: skip
    assert found.predicted_before.outcome.outcome == "refuses"
    assert found.predicted_after.outcome.outcome == "starts"
    assert [action.kind for action in found.plan.actions] == ["resize"]


@pytest.mark.parametrize("name", ["base-5.3.3", "base-5.5.1"])
def test_a_broker_that_unlinks_segments_before_it_refuses_is_made_to_start(name: str, tmp_path: Path) -> None:
    """Nothing is worse then: 5.x looks at the index behind recovery, which has cut the log at the damaged record."""
    edits = [flipped(name, 1), ["write", "abort", 0, ""], ["zero", "checkpoint", 0, 48], ["mkdir", "index/123"]]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    found = plan_store(root, tmp_path / "plan.json", broker=name[5:], given=given_for(name), jobs=1)
    assert found.predicted_before.outcome.outcome == "refuses"
    assert found.predicted_before.emptied == found.predicted_after.emptied
    assert [(action.kind, action.path) for action in found.plan.actions] == [("move", "index/123")]


def test_a_message_stays_in_a_light_queue_that_its_damaged_list_does_not_name(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", multi_dispatch=True)
    placed = [builder.message("orders", 0, b"body", lmq=("%LMQ%a", "%LMQ%b")) for _ in range(5)]
    root, given = builder.close(), settings_of(builder.settings)
    segment = root / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[data.index(b"%LMQ%a", placed[2].physical_offset) + 5] = ord("c")
    segment.write_bytes(data)
    light = {path: path.read_bytes() for path in (root / "consumequeue").glob("%LMQ%*/0/*")}
    (root / "consumequeue" / "orders" / "0" / f"{0:020d}").write_bytes(bytes(20 * builder.settings.units_per_file))
    found = plan_store(root, tmp_path / "plan.json", given=given)
    apply_plan(tmp_path / "plan.json", root)
    assert {path: path.read_bytes() for path in light} == light
    assert any("%LMQ%a/0" in text and "do not list it" in text for text in found.plan.left)
    again = plan_store(root, tmp_path / "again.json", given=given)
    assert not again.plan.actions


@pytest.mark.parametrize("keys", [None, "key"])
def test_the_only_message_of_a_queue_stays_there_where_its_record_says_another(
    keys: str | None, tmp_path: Path
) -> None:
    builder = StoreBuilder(tmp_path / "store")
    for _ in range(6):
        builder.message("topic_a", 0, b"body", keys="k")
    place = builder.message("topic_a", 1, b"only", keys=keys).physical_offset
    root, given = builder.close(), settings_of(builder.settings)
    segment = root / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[data.index(b"topic_a", place) + 3] = ord("q")
    segment.write_bytes(data)
    kept = [root / "consumequeue" / "topic_a" / "1" / f"{0:020d}", *(root / "index").iterdir()]
    before = [path.read_bytes() for path in kept]
    damaged = root / "consumequeue" / "topic_a" / "0" / f"{0:020d}"
    units = damaged.read_bytes()
    damaged.write_bytes(bytes(len(units)))  # what has nothing to do with it is mended
    found = plan_store(root, tmp_path / "plan.json", given=given)
    apply_plan(tmp_path / "plan.json", root)
    assert [path.read_bytes() for path in kept] == before
    assert damaged.read_bytes() == units
    assert not (root / "consumequeue" / "topqc_a").exists()
    assert any("topic_a/1" in text and "name different queues" in text for text in found.plan.left)
    assert not plan_store(root, tmp_path / "again.json", given=given).plan.actions


def test_a_delayed_message_is_of_the_queue_of_its_level(tmp_path: Path) -> None:
    """A renamed directory is the only one whose units point at the messages, each the only one of its queue."""
    builder = StoreBuilder(tmp_path / "store")
    for level in (1, 3, 16):
        builder.message("t", 0, b"body", delay=level)
        builder.message("t", 0, b"body")
    root, given = builder.close(), settings_of(builder.settings)
    whole = tree(root, "consumequeue")
    (root / "consumequeue/SCHEDULE_TOPIC_XXXX").rename(root / "consumequeue/%RETRY%g")
    assert plan_store(root, tmp_path / "plan.json", given=given, jobs=1).cures
    apply_plan(tmp_path / "plan.json", root)
    assert tree(root, "consumequeue") == whole
    assert not plan_store(root, tmp_path / "again.json", given=given).plan.actions


RICH = "rich-5.3.3"
RICH_SEGMENT = 65536


def queues_in_log_order(root: Path) -> dict[str, bytes]:
    """Return the files of the light and the batch queues."""
    found = [*root.glob("consumequeue/%LMQ%*/*/*"), *root.glob("batchconsumequeue/*/*/*")]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def lost_end() -> list[Any]:
    """Return the edit after which a segment in the middle of the log has its first 11,000 bytes only."""
    return ["truncate", f"commitlog/{9 * RICH_SEGMENT:020d}", 11000]


def damaged_batch() -> list[Any]:
    """Return the edit of the body of a record with inner messages."""
    rows = [row for row in golden_data.dump(RICH) if row["topic"].startswith("bcq_")]
    place = int(rows[len(rows) // 2]["phy_offset"])
    path = f"commitlog/{place - place % RICH_SEGMENT:020d}"
    at = place % RICH_SEGMENT + 90
    return ["write", path, at, bytes([(golden_data.store(RICH) / path).read_bytes()[at] ^ 1]).hex()]


@pytest.mark.parametrize("edit", [lost_end(), damaged_batch()], ids=["the end of a segment is lost", "damaged batch"])
def test_what_stands_in_the_order_of_the_log_stays_where_the_log_is_damaged(edit: list[Any], tmp_path: Path) -> None:
    """Consumers count on the places of units, and get a damaged batch as they get other damaged messages."""
    root = golden_data.damaged(RICH, [edit], tmp_path / "store")
    before = queues_in_log_order(root)
    found = plan_store(root, tmp_path / "plan.json", given=given_for(RICH), jobs=1)
    assert "CQ_UNIT_ORPHAN" not in {finding.code for finding in found.before.findings}
    if found.plan.actions:
        apply_plan(tmp_path / "plan.json", root)
    assert queues_in_log_order(root) == before


def test_a_batch_queue_is_mended_when_the_log_is(tmp_path: Path) -> None:
    first = "batchconsumequeue/bcq_a/0/00000000000000000000"
    root = golden_data.damaged(RICH, [damaged_batch(), ["zero", first, 46, 46]], tmp_path / "store")
    found = plan_store(
        root, tmp_path / "plan.json", given=given_for(RICH), allow_log=True, goal="salvage", broker="5.3.3", jobs=1
    )
    assert found.cures, found.plan.left
    apply_plan(tmp_path / "plan.json", root, allow_log=True)
    assert (root / first).read_bytes() == (golden_data.store(RICH) / first).read_bytes()


# Which files were swapped with those of a light queue: with a list, only a CRC tells that it is as it was.
@pytest.mark.parametrize(
    ("one", "crc", "cures"), [("other", False, True), ("%LMQ%b", True, True), ("%LMQ%b", False, False)]
)
def test_a_light_queue_gives_up_units_of_messages_that_cannot_have_listed_it(
    one: str, crc: bool, cures: bool, tmp_path: Path
) -> None:
    builder = StoreBuilder(tmp_path / "store", multi_dispatch=True, property_crc=crc)
    for name in ("%LMQ%a", "%LMQ%b", "", "%LMQ%b", ""):
        builder.message("orders" if name else "other", 0, b"body", tags="t", lmq=(name,) if name else ())
    root, given = builder.close(), settings_of(builder.settings)
    sound = {path: path.read_bytes() for path in (root / "consumequeue").glob("*/0/*")}
    files = [root / "consumequeue" / topic / "0" / f"{0:020d}" for topic in ("%LMQ%a", one)]
    for path, other in zip(files, reversed(files), strict=True):
        path.write_bytes(sound[other])
    found = plan_store(root, tmp_path / "plan.json", given=given)
    assert found.cures == cures, found.plan.left
    if cures:
        apply_plan(tmp_path / "plan.json", root)
        assert {path: path.read_bytes() for path in sound} == sound


@pytest.mark.parametrize("name", BASES)
def test_what_a_record_said_before_half_of_it_was_cut_off_stays(name: str, tmp_path: Path) -> None:
    """Padded with zeros, what is left of it is a record to brokers: without tags, and with a body that is whole."""
    size = int(golden_data.options(name)["clFile"])
    row = next(
        row for row in golden_data.dump(name) if row["keys"] != "null" and int(row["phy_offset"]) % size > size // 2
    )
    place, length = int(row["phy_offset"]), int(row["size"])
    keeps = place % size + length - 5  # the end of the tags is gone
    root = golden_data.damaged(
        name, [["truncate", f"commitlog/{place - place % size:020d}", keeps]], tmp_path / "store"
    )
    found = plan_store(root, tmp_path / "plan.json", given=given_for(name), allow_log=True, jobs=1)
    saved = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert found.lost == sum(part.stop_queue_offset - part.first_queue_offset for part in saved.lost) > 0
    assert "commitlog" in {action.path.split("/")[0] for action in found.plan.actions}
    assert not [a for a in found.plan.actions if a.path.startswith(("index/", f"consumequeue/{row['topic']}/"))]
    assert any("damaged, and nothing tells what stood there" in text for text in found.plan.left)

"""Queues of which nothing is left: records tell which of them were batch queues and light queues."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import golden_data as golden
import pytest
from audits import unreadable
from golden_data import given_for
from incrementals import COARSE, Kept, age, full, short_youth, timeless
from rebuilds import QUEUES, no_waiting_for_disks, tree
from sampled import sampled

from storeio import audit
from storeio.apply import apply_plan
from storeio.errors import UnreadableError
from storeio.planning.node import plan_store
from storeio.predict.start import AS_FILES, simulate
from storeio.rebuild.node import rebuild
from storeio.results import Audit
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks", "short_youth"]
RICH = ("rich-4.9.8", "rich-5.3.3", "rich-5.5.1")
BATCHES = ("rich-5.3.3", "rich-5.5.1")
TOPICS = ("bcq_a", "bcq_b")
DATABASE_REFUSES = "RocksDB queues, without a file CURRENT: brokers refuse to start on it"


def errors_of(found: Audit) -> Counter[tuple[str, str]]:
    """Return how many errors there are by code and topic."""
    return Counter((f.code, f.topic or "") for f in found.findings if f.severity == "error")


@pytest.mark.parametrize("name", RICH)
@pytest.mark.parametrize("split_bytes", [None, 4096])
def test_a_rebuild_gives_every_queue_that_the_broker_had(name: str, split_bytes: int | None, tmp_path: Path) -> None:
    root = golden.without(name, tmp_path / "store", "consumequeue", "batchconsumequeue", "index", "config")
    result = rebuild(root, tmp_path / "new", given=given_for(name), split_bytes=split_bytes)
    assert tree(tmp_path / "new", *QUEUES) == tree(golden.store(name), *QUEUES)
    assert any("%LMQ%" in path for path in result.files)
    told = [note for note in result.notes if "records hold batches" in note]
    assert told == ([f"{', '.join(TOPICS)}: batch queues, since their records hold batches"] if name in BATCHES else [])


@pytest.mark.share(2)
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("emptied", [False, True])
def test_batch_queues_are_missed_and_planned_as_they_were(name: str, emptied: bool, tmp_path: Path) -> None:
    root = golden.without(name, tmp_path / "store", *([] if emptied else ["batchconsumequeue"]))
    for path in (root / "batchconsumequeue").rglob(f"{0:020d}"):
        path.unlink()
    found = audit.check(root)
    assert {(code, topic) for code, topic in errors_of(found)} == {("BCQ_MISSING", topic) for topic in TOPICS}
    planned = plan_store(root, tmp_path / "plan.json")
    assert errors_of(planned.after) == Counter()
    apply_plan(tmp_path / "plan.json", root)
    assert tree(root, *QUEUES) == tree(golden.store(name), *QUEUES)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sampled(RICH, ["rich-4.9.8", "rich-5.3.3"]))
def test_an_audit_misses_light_queues_that_are_gone_with_all_others(name: str, tmp_path: Path) -> None:
    root = golden.without(name, tmp_path / "store", "consumequeue", "batchconsumequeue")
    given = given_for(name)
    had = {path.split("/")[1] for path in tree(golden.store(name), *QUEUES)}
    assert any(topic.startswith("%LMQ%") for topic in had)
    for split_bytes in (None, 4096, 20_000):
        found = audit.check(root, given=given, split_bytes=split_bytes)
        assert {topic for code, topic in errors_of(found) if code in ("CQ_MISSING", "BCQ_MISSING")} == had, split_bytes
    planned = plan_store(root, tmp_path / "plan.json", given=given)
    assert errors_of(planned.after) == Counter()


def test_what_configuration_or_files_say_is_believed(tmp_path: Path) -> None:
    name = "rich-5.3.3"
    root = golden.without(name, tmp_path / "store", "batchconsumequeue")
    golden.declare(root, {"bcq_a": "BatchCQ", "bcq_b": None})
    missing = {key for key in errors_of(audit.check(root)) if key[0].endswith("_MISSING")}
    assert ("BCQ_MISSING", "bcq_a") in missing and ("CQ_MISSING", "bcq_b") in missing
    (root / "config" / "topics.json").unlink()
    (root / "consumequeue" / "bcq_a" / "0").mkdir(parents=True)
    shutil.copyfile(min(root.glob("consumequeue/[a-z]*/0/0*")), root / "consumequeue" / "bcq_a" / "0" / f"{0:020d}")
    codes = errors_of(audit.check(root))
    assert {code for code, topic in codes if topic == "bcq_b"} == {"BCQ_MISSING"}
    assert "BCQ_MISSING" not in {code for code, topic in codes if topic == "bcq_a"}
    off = golden.without(name, tmp_path / "off", "consumequeue")
    said = {topic for _, topic in errors_of(audit.check(off, given={"enableMultiDispatch": "false"}))}
    assert said and not any(topic.startswith("%LMQ%") for topic in said)


def test_a_declared_topic_without_batches_gets_batch_queues(tmp_path: Path) -> None:
    root = golden.without("base-5.3.3", tmp_path / "store", "consumequeue")
    topics = sorted({queue.topic for queue in audit.check(golden.store("base-5.3.3")).queues})
    golden.declare(root, {topics[0]: "BatchCQ", **dict.fromkeys(topics[1:])})
    missing = {key for key in errors_of(audit.check(root)) if key[0].endswith("_MISSING")}
    assert ("BCQ_MISSING", topics[0]) in missing and ("CQ_MISSING", topics[1]) in missing


def test_a_stray_file_does_not_hide_that_light_queues_are_gone(tmp_path: Path) -> None:
    root = golden.without("rich-5.3.3", tmp_path / "store", "consumequeue")
    missing = errors_of(audit.check(root))
    for path in ("consumequeue/core", "consumequeue/topic_1/core"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")
    assert errors_of(audit.check(root)) == missing
    assert any("%LMQ%" in path for path in rebuild(root, tmp_path / "new").files)


def test_an_unreadable_table_of_topics_ends_a_rebuild_and_is_told_by_an_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.copy_of("rich-5.3.3", tmp_path / "store")
    golden.declare(root, {"bcq_a": "BatchCQ"})
    unreadable(monkeypatch, "config/topics.json")
    with pytest.raises(UnreadableError, match=r"config/topics\.json: Input/output error"):
        rebuild(root, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    found = audit.check(root)
    told = [(f.path, f.detail) for f in found.findings if f.severity == "error"]
    assert (found.exit_code & 8, told) == (8, [("config/topics.json", "Input/output error")])


@pytest.mark.parametrize(
    ("name", "types", "wrong"),
    [
        ("rich-5.5.1", {"bcq_a": "BatchCQ", "bcq_b": "BatchCQ"}, []),
        ("rich-5.5.1", {"bcq_a": "BatchCQ", "bcq_b": None}, ["batchconsumequeue/bcq_b"]),
        ("rich-5.5.1", {"bcq_a": "BatchCQ"}, ["batchconsumequeue/bcq_b"]),
        ("rich-5.3.3", {"bcq_a": "BatchCQ", "bcq_b": "BatchCQ", "topic_1": "BatchCQ"}, ["consumequeue/topic_1"]),
        ("base-4.9.8", {}, []),
    ],
)
def test_queues_of_another_type_than_declared_are_told_where_brokers_refuse_them(
    name: str, types: dict[str, str | None], wrong: list[str], tmp_path: Path
) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    golden.declare(root, types)
    found = audit.check(root)
    assert [f.path for f in found.findings if f.severity == "error"] == wrong
    assert {f.code for f in found.findings if f.severity == "error"} <= {"QUEUE_TYPE"}
    start = simulate(root, broker="5.5.1").outcome
    assert (start.outcome == "refuses") == bool(wrong)


@pytest.mark.parametrize("types", [None, {"topic_0": None, "topic_1": "SimpleCQ"}])
def test_queues_among_the_batch_queues_make_no_batch_queues_of_their_topics(
    types: dict[str, str | None] | None, tmp_path: Path
) -> None:
    """Their units say what they are: a plan that made batch queues of them led to a store that no broker takes."""
    root = golden.copy_of("base-long-5.5.1", tmp_path / "store")
    before = tree(root, "consumequeue")
    if types is not None:
        golden.declare(root, types)
    (root / "consumequeue").rename(root / "batchconsumequeue")
    assert simulate(root, broker="5.5.1").outcome.outcome == "refuses"
    sizes = {"mappedFileSizeConsumeQueue": "1000"}  # no file is left to tell
    assert plan_store(root, tmp_path / "plan.json", given=sizes).cures
    apply_plan(tmp_path / "plan.json", root)
    assert tree(root, "consumequeue") == before
    assert not any((root / "batchconsumequeue").iterdir())
    assert simulate(root, broker="5.5.1").exit_code == 0


@pytest.mark.parametrize("name", sampled(RICH, ["rich-5.5.1"]))
def test_incremental_audits_learn_it_as_full_ones_do(name: str, tmp_path: Path) -> None:
    kept, root = Kept(), golden.copy_of(name, tmp_path / "store")
    steps: Sequence[Sequence[str]] = ([], ["batchconsumequeue"], ["consumequeue"], [], ["index"])
    for gone in steps:
        for path in gone:
            if (root / path).exists():
                shutil.rmtree(root / path)
        age(root)
        found = kept.audit(root, split_bytes=COARSE)
        assert isinstance(found, Audit) and timeless(found) == full(root, COARSE)
    age(root)
    again = kept.audit(root, split_bytes=COARSE)
    assert isinstance(again, Audit) and timeless(again) == full(root, COARSE)
    assert again.reading is not None and again.reading.parts_known == again.reading.parts
    shutil.rmtree(root)
    golden.copy_of(name, root)
    age(root)
    healed = kept.audit(root, split_bytes=COARSE)
    assert isinstance(healed, Audit) and timeless(healed) == full(root, COARSE) and healed.exit_code == 0


@pytest.mark.parametrize(
    ("types", "path"),
    [(None, "batchconsumequeue/x"), (None, "batchconsumequeue/topic_0"), ({"x": "BatchCQ"}, "consumequeue/x")],
)
def test_an_empty_directory_of_another_type_goes(
    types: dict[str, str | None] | None, path: str, tmp_path: Path
) -> None:
    """Brokers from 5.0 on refuse to start with it, as they know of no batch queues of the topic, or of no others."""
    root = golden.copy_of("base-5.5.1", tmp_path / "store")
    (root / path / "1").mkdir(parents=True)
    if types is not None:
        golden.declare(root, types)
    assert simulate(root, broker="5.5.1").outcome.outcome == "refuses"
    assert [(f.code, f.path) for f in audit.check(root).findings if f.severity == "error"] == [("QUEUE_TYPE", path)]
    assert plan_store(root, tmp_path / "plan.json").cures
    apply_plan(tmp_path / "plan.json", root)
    assert (audit.check(root).exit_code, simulate(root, broker="5.5.1").outcome.outcome) == (0, "starts")


@pytest.mark.parametrize("place", ["consumequeue", "consumequeue_rocksdb"])
def test_queues_that_are_in_a_database_are_not_missed(place: str, tmp_path: Path) -> None:
    """No part of a database is read, and none is taken for a queue."""
    root = golden.without("rich-5.5.1", tmp_path / "store", "consumequeue", "batchconsumequeue")
    (root / place).mkdir()
    for name in ("CURRENT", "IDENTITY", "LOCK", "LOG", "MANIFEST-000005", "OPTIONS-000007", "000012.sst", "000013.log"):
        (root / place / name).write_text("MANIFEST-000005\n")
    found = audit.check(root, jobs=1)
    assert (found.exit_code, found.checks["queue_units"]) == (0, 0)
    assert [(f.path, f.detail) for f in found.findings if f.code == "UNSUPPORTED_LAYOUT"] == [
        (f"{place}/CURRENT", "RocksDB queues")
    ]
    planned = plan_store(root, tmp_path / "plan.json", jobs=1)
    assert (planned.plan.actions, planned.plan.left) == ((), ())
    assert planned.predicted_after.not_simulated == (f"{place}/CURRENT: RocksDB queues{AS_FILES}",)
    assert any("storeType=default" in note for note in rebuild(root, tmp_path / "new", jobs=1).notes)
    saved = salvage(root, tmp_path / "saved", jobs=1)
    assert {topic.deleted for topic in saved.topics} == {None}
    assert any("defaultRocksDB that has lost its database" in note for note in saved.notes)
    assert not (tmp_path / "saved" / place / "CURRENT").exists()


@pytest.mark.parametrize("with_others", [True, False])
def test_a_database_without_its_first_file_is_still_one(with_others: bool, tmp_path: Path) -> None:
    """5.3.3 and 5.5.1 refused to start on such; without any file the settings tell."""
    root = golden.without("rich-5.5.1", tmp_path / "store", "consumequeue", "batchconsumequeue")
    given = {} if with_others else {"storeType": "defaultRocksDB"}
    for name in ("IDENTITY", "MANIFEST-000005", "OPTIONS-000007", "000012.sst") if with_others else ():
        (root / "consumequeue").mkdir(exist_ok=True)
        (root / "consumequeue" / name).write_text("rocks")
    found = audit.check(root, given=given, jobs=1)
    assert found.exit_code == 0
    told = [(f.path, f.detail) for f in found.findings if f.code == "UNSUPPORTED_LAYOUT"]
    assert told == ([("consumequeue/000012.sst", DATABASE_REFUSES)] if with_others else [])
    planned = plan_store(root, tmp_path / "plan.json", given=given, jobs=1)
    assert (planned.plan.actions, len(planned.predicted_after.not_simulated)) == ((), 1)
    assert planned.predicted_after.given_up is None


@pytest.mark.parametrize("database", ["topics", "rdb", "metadata"])
def test_a_table_beside_a_database_of_topics_tells_nothing(database: str, tmp_path: Path) -> None:
    root = golden.copy_of("rich-5.5.1", tmp_path / "store")
    golden.declare(root, {"topic_0": None})
    before = audit.check(root, jobs=1)
    assert {code for code, _ in errors_of(before)} == {"QUEUE_TYPE"}
    (root / "config" / database).mkdir()
    (root / "config" / database / "CURRENT").write_text("MANIFEST-000005\n")
    after = audit.check(root, jobs=1)
    assert after.exit_code == 0
    assert [f.detail for f in after.findings if f.code == "UNSUPPORTED_LAYOUT"] == ["topics and offsets in RocksDB"]
    found = simulate(root, given=given_for("rich-5.5.1"), whole_log=False)
    assert found.not_simulated == (f"config/{database}/CURRENT: topics and offsets in RocksDB",)
    assert found.outcome.outcome == "starts"

"""Stores after a plan was applied: real brokers start on them, keep the log, and deliver and find everything."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import golden_data
import pytest
from golden_data import given_for
from plans import CASES, planned
from storebuilder import StoreBuilder

from broker.brokers import Key, run
from broker.whole import assert_whole, broker_accepts, keys_of, messages_of, records_of
from storeio.apply import apply_plan, undo
from storeio.errors import NotAppliedError, UsageError
from storeio.planning import plan_store

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

SAMPLE: Final = ("36B-clean", "41A-abort", "46-clean", "52A-clean", "38-clean")
VERSIONS: Final = ("4.9.8", "5.3.3", "5.5.1")


def repaired(name: str, case: dict[str, Any], place: Path) -> Path:
    """Return a store that was damaged, planned for and repaired."""
    found = planned(name, case, place)
    if found.plan.actions:
        apply_plan(place / "plan.json", place / "store")
    return place / "store"


def digest(root: Path) -> str:
    """Return what tells one repaired store from another: everything in it; index files by content."""
    found = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = str(path.relative_to(root))
        found.update(b"" if name.startswith("index/") else name.encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def assert_accepted(name: str, case: dict[str, Any], root: Path) -> None:
    """Start the broker that wrote a store on it, as after a clean stop and as after a crash with nothing to rely on."""
    base = golden_data.base_of(name)
    options, dump = golden_data.options(base), golden_data.dump(base)
    records = records_of(dump, options)
    end = max(record["physical_offset"] + int(record["size"]) for record in records)
    tags = case["broker"] in ("5.4.0", "5.5.1")
    broker_accepts(root, case["broker"], options, messages_of(records), keys_of(records, tags=tags), log_end=end)


@pytest.mark.share(2)
@pytest.mark.parametrize("case_id", SAMPLE)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_accepts_what_was_repaired(version: str, case_id: str, tmp_path: Path) -> None:
    found = [(name, case) for name, case in CASES if name == f"rows-{version}" and case["id"] == case_id]
    ((name, case),) = found
    assert_accepted(name, case, repaired(name, case, tmp_path))


@pytest.mark.parametrize("version", VERSIONS)
def test_under_a_running_broker_nothing_is_applied(version: str, tmp_path: Path) -> None:
    """Apply and undo refuse, and the broker delivers and finds everything as if nobody had asked."""
    base = f"base-{version}"
    options, records = golden_data.options(base), records_of(golden_data.dump(base), golden_data.options(base))
    (case,) = (case for name, case in CASES if name == f"rows-{version}" and case["id"] == "46-clean")
    planned(f"rows-{version}", case, tmp_path)
    root = golden_data.copy_of(base, tmp_path / "running")
    refused = []

    def try_it() -> None:
        for attempt in (lambda: apply_plan(tmp_path / "plan.json", root), lambda: undo(root)):
            with pytest.raises((NotAppliedError, UsageError)) as caught:
                attempt()
            refused.append(str(caught.value))

    keys = keys_of(records, tags=version == "5.5.1")
    started = run(version, root, options, keys=keys, meanwhile=try_it)
    assert "broker" in refused[0]
    assert len(refused) == 2
    assert not (tmp_path / "running.storeio").exists() or not any((tmp_path / "running.storeio").iterdir())
    assert_whole(started, messages_of(records), keys)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_crash_the_repaired_index_has_every_key(version: str, tmp_path: Path) -> None:
    """A recovery deletes files that end later than the checkpoint says, and fills new ones from its start file on."""
    name = f"base-{version}"
    options, records = golden_data.options(name), records_of(golden_data.dump(name), golden_data.options(name))
    root = golden_data.without(name, tmp_path / "store", "index")
    (root / "abort").touch()
    plan_store(root, tmp_path / "plan.json", broker=version, given=given_for(name), jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    keys = keys_of(records, tags=version == "5.5.1")
    started = run(version, root, options, keys=keys, stop="halt")
    assert started.outcome == "starts", started.reason
    found = {key: tuple(sorted(set(offsets))) for key, offsets in started.hits.items()}  # the last record's twice
    assert found == keys


@pytest.mark.parametrize("version", VERSIONS)
def test_a_light_queue_under_a_higher_name_gets_its_numbers_back(version: str, tmp_path: Path) -> None:
    name = f"rich-{version}"
    options, records = golden_data.options(name), records_of(golden_data.dump(name), golden_data.options(name))
    root = golden_data.copy_of(name, tmp_path / "store")
    file = root / f"consumequeue/%LMQ%a1/0/{0:020d}"
    file.rename(file.with_name(f"{4000:020d}"))
    with pytest.raises(AssertionError, match="not delivered"):
        broker_accepts(root, version, options, messages_of(records), {}, states=("clean",))
    plan_store(root, tmp_path / "plan.json", broker=version, given=given_for(name), jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    broker_accepts(root, version, options, messages_of(records), keys_of(records, tags=version == "5.5.1"))


@pytest.mark.parametrize(
    ("change", "which", "name"),
    [(Path.rename, 0, "20991231235959999"), (Path.rename, -1, "1"), (shutil.copyfile, -1, "20991231235959999")],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_queries_from_a_time_on_find_all_keys_again(
    version: str, change: Callable[[Path, Path], object], which: int, name: str, tmp_path: Path
) -> None:
    """Index files out of the log's order by their names keep them from getting to the end; copies find all twice."""
    builder = StoreBuilder(tmp_path / "store", step_ms=1000)
    keys = {
        ("t", f"U{number}"): (builder.message("t", 0, b"body", unique_key=f"U{number}").physical_offset,)
        for number in range(500)
    }
    root = builder.close()
    file = sorted((root / "index").iterdir())[which]
    change(file, file.with_name(name))
    options = {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200}

    def hits() -> Mapping[Key, tuple[int, ...]]:
        copy = shutil.copytree(root, tmp_path / "copy")
        found = run(version, copy, options, keys=keys, stop="halt").hits
        shutil.rmtree(copy)
        return found

    found = hits()
    assert sum(found.get(key, ()) != places for key, places in keys.items()) > 100
    given = {
        "mappedFileSizeCommitLog": "16384", "mappedFileSizeConsumeQueue": "1000", "maxHashSlotNum": "50",
        "maxIndexNum": "200",
    }  # fmt: skip
    plan_store(root, tmp_path / "plan.json", broker=version, given=given, jobs=1)
    apply_plan(tmp_path / "plan.json", root)
    assert hits() == keys

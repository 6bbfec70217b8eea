"""Each recorded cleaning: the forecast equals what the real broker deleted, run by run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_data
import pytest
from simulated import disk_of, setup_of

from storeio.errors import UsageError
from storeio.simulate.broker import Broker
from storeio.simulate.clock import HOUR_MS, Due, deletion_hours, due_times
from storeio.simulate.progress import consumer_progress
from storeio.simulate.recover import recover
from storeio.simulate.reput import start
from storeio.simulate.retention import (
    HOUR,
    MANUAL,
    SPACE,
    Cleaning,
    Conditions,
    as_recorded,
    cleaning_of,
    forecast,
    used_ratio,
)
from storeio.simulate.rules import rules_of

CASES = [(version, case) for version in golden_data.RETENTION for case in golden_data.retention(version)]
NOW_MS = 1_800_000_000_000
BASE = "base-5.3.3"


def started(root: Path, version: str, options: dict[str, Any]) -> Broker:
    """Return the broker of a version after its start on a store."""
    broker = Broker(disk_of(root), rules_of(version), setup_of(root, options))
    broker.load_files()
    recover(broker)
    start(broker)
    return broker


def sound(version: str = "5.3.3") -> Broker:
    """Return the broker of a version after its start on the sound store."""
    return started(golden_data.store(BASE), version, golden_data.options(BASE))


def segments(broker: Broker) -> list[str]:
    return [file.path for file in broker.log.files]


def conditions(ages: dict[str, float], *, hour: int = 4, **others: Any) -> Conditions:
    """Return conditions with segments that are so many hours old."""
    mtimes = {path: NOW_MS - int(hours * HOUR_MS) for path, hours in ages.items()}
    return Conditions(NOW_MS, hour, mtimes, **others)


@pytest.mark.parametrize(("version", "case"), CASES, ids=[f"{version}:{case['id']}" for version, case in CASES])
def test_forecast_equals_the_broker(version: str, case: dict[str, Any], tmp_path: Path) -> None:
    base = f"base-{version}"
    root = golden_data.damaged(base, case["edits"], tmp_path / "store")
    broker = started(root, version, golden_data.options(base))
    hour = 4 if case["hour"] == "matches" else 5
    used = round(1000 * case["disk_used_ratio"])
    ratio = used_ratio(used, 1000 - used)
    found = conditions(case["age_hours"], hour=hour, manual=case["manual"], disk_used_ratio=ratio)
    before = {"commitlog": broker.disk.below(("commitlog",)), "consumequeue": broker.disk.below(("consumequeue",))}
    assert {**before, "index": len(broker.index.files)} == case["before"]
    settings = cleaning_of({name: str(value) for name, value in case["settings"].items()})
    cycles = forecast(broker, settings, [found] * len(case["cycles"]))
    assert [as_recorded(cycle) for cycle in cycles] == case["cycles"]


def test_no_file_is_older_than_its_fresh_forerunner_and_the_last_stays() -> None:
    broker = sound()
    paths = segments(broker)
    every = conditions(dict.fromkeys(paths, 100.0))
    first, second = forecast(broker, Cleaning(files_per_run=4), [every, every])
    assert first.deleted[:4] == tuple(paths[:4])
    assert first.deleted_bytes == sum(32768 if path.startswith("commitlog") else 1000 for path in first.deleted)
    assert first.reasons == (HOUR,)
    assert second.commitlog == tuple(paths[8:])
    (third,) = forecast(broker, Cleaning(), [every])
    assert third.commitlog == (paths[-1],)


def test_4_9_8_deletes_ten_a_run_whatever_is_set() -> None:
    assert Cleaning(files_per_run=2).under(rules_of("4.9.8")).files_per_run == 10
    assert Cleaning(files_per_run=2).under(rules_of("5.0.0")).files_per_run == 2


@pytest.mark.parametrize(
    ("version", "ratio", "percent", "left", "any_age"),
    [
        ("4.9.8", 0.86, 75, 1, True),  # above diskMaxUsedSpaceRatio and nearly full
        ("5.3.3", 0.86, 75, 1, True),
        ("4.9.8", 0.86, 95, 10, False),  # nearly full alone is no reason in 4.x
        ("5.3.3", 0.86, 95, 1, True),
        ("4.9.8", 0.80, 75, 10, False),  # space is a reason, but no file is old enough
        ("5.3.3", 0.80, 75, 10, False),
        ("5.3.3", 0.85, 95, 10, False),
        ("5.3.3", -1.0, 95, 10, False),
    ],
)
def test_a_nearly_full_disk_takes_young_files(
    version: str, ratio: float, percent: int, left: int, any_age: bool
) -> None:
    broker = sound(version)
    (cycle,) = forecast(broker, Cleaning(max_used_percent=percent), [conditions({}, hour=9, disk_used_ratio=ratio)])
    assert len(cycle.commitlog) == left
    assert cycle.any_age is any_age


def test_age_matters_on_a_full_disk_where_forcing_is_off() -> None:
    (cycle,) = forecast(sound(), Cleaning(forcible=False), [conditions({}, disk_used_ratio=0.99)])
    assert (cycle.deleted, cycle.any_age, cycle.reasons) == ((), False, (HOUR, SPACE))


def test_hour_with_a_full_disk_takes_young_files_in_4_x_too() -> None:
    full = conditions({}, hour=4, disk_used_ratio=0.88)
    (cycle,) = forecast(sound("4.9.8"), Cleaning(max_used_percent=95), [full])
    assert cycle.reasons == (HOUR,)
    assert len(cycle.commitlog) == 1


def test_the_queues_partition_counts_too() -> None:
    found = conditions({}, hour=9, disk_used_ratio=0.1, queue_used_ratio=0.89)
    assert len(forecast(sound(), Cleaning(), [found])[0].commitlog) == 1
    assert len(forecast(sound("4.9.8"), Cleaning(), [found])[0].commitlog) == 1


def test_a_deletewhen_that_is_no_number_stops_deletion_for_space_as_well() -> None:
    broker = sound()
    full = conditions({}, hour=9, disk_used_ratio=0.99, manual=True)
    (cycle,) = forecast(broker, Cleaning(delete_when="04;x"), [full])
    assert cycle.deleted == ()
    assert "'x' is no number" in cycle.stopped


def test_queues_are_cleaned_to_the_log_s_min_though_nothing_expired(tmp_path: Path) -> None:
    edits = [["delete", f"commitlog/{n * 32768:020d}"] for n in range(5)]
    root = golden_data.damaged(BASE, edits, tmp_path / "store")
    broker = started(root, "5.3.3", golden_data.options(BASE))
    idle = conditions({}, hour=9)
    first, second = forecast(broker, Cleaning(), [idle, idle])
    assert first.reasons == ()
    assert first.deleted
    assert all(path.startswith("consumequeue/") for path in first.deleted)
    assert second.deleted == ()


def test_an_operator_s_wish_needs_no_hour() -> None:
    broker = sound()
    (cycle,) = forecast(broker, Cleaning(), [conditions({segments(broker)[0]: 73.0}, hour=9, manual=True)])
    assert cycle.reasons == (MANUAL,)
    assert cycle.min_physical_offset == 32768


def test_settings_come_from_a_broker_conf() -> None:
    found = cleaning_of({"deleteWhen": "03;15", "fileReservedTime": "48", "diskMaxUsedSpaceRatio": "99", "other": "x"})
    assert (found.delete_when, found.reserved_hours) == ("03;15", 48)
    assert found.under(rules_of("5.3.3")).max_used_percent == 95
    with pytest.raises(UsageError, match="fileReservedTime=3d"):
        cleaning_of({"fileReservedTime": "3d"})


def test_used_ratio_is_rounded_up_to_whole_percents() -> None:
    assert used_ratio(751, 249) == 0.76
    assert used_ratio(75, 25) == 0.75
    assert used_ratio(0, 0) == -1


def test_segments_become_deletable_in_the_hour_and_in_order() -> None:
    day = 24 * HOUR_MS
    mtimes = {"a": day + 5 * HOUR_MS, "b": day, "c": 2 * day + 3 * HOUR_MS + 1, "d": 0}
    found = due_times("abcd", mtimes, reserved_hours=24, delete_when="04")
    assert found == [
        Due("a", 2 * day + 5 * HOUR_MS, 3 * day + 4 * HOUR_MS),
        Due("b", 2 * day, 3 * day + 4 * HOUR_MS),  # old before, but a holds it up
        Due("c", 3 * day + 3 * HOUR_MS + 1, 3 * day + 4 * HOUR_MS),
        Due("d", day, None),
    ]


def test_deletable_times_follow_the_broker_s_time_zone() -> None:
    (found, _) = due_times("ab", {"a": 0, "b": 0}, reserved_hours=0, delete_when="04", zone_offset_ms=8 * HOUR_MS)
    assert found.deletable_ms == 20 * HOUR_MS
    (half, _) = due_times("ab", {"a": 0, "b": 0}, reserved_hours=0, delete_when="04", zone_offset_ms=11 * HOUR_MS // 2)
    assert half.deletable_ms == 45 * HOUR_MS // 2
    (inside, _) = due_times("ab", {"a": 0, "b": 0}, reserved_hours=0, delete_when="00", now_ms=HOUR_MS // 2)
    assert inside.deletable_ms == HOUR_MS // 2
    (never, _) = due_times("ab", {"a": 0, "b": 0}, reserved_hours=0, delete_when=";")
    assert never.deletable_ms is None


@pytest.mark.parametrize(
    ("delete_when", "hours"),
    [("04", [4]), ("4;16;", [4, 16]), ("", []), (" 4", []), ("25", []), ("4;x;5", [4]), (";4", [])],
)
def test_hours_are_those_that_java_reads(delete_when: str, hours: list[int]) -> None:
    assert deletion_hours(delete_when) == hours


def test_what_no_group_has_consumed_is_told() -> None:
    broker = sound()
    old = conditions(dict.fromkeys(segments(broker)[:3], 100.0))
    progress = consumer_progress(b'{"offsetTable":{"topic_0@a":{0:70,1:60},"topic_1@a":{0:0,1:100}}}')
    first, second = forecast(broker, Cleaning(), [old, old], progress)
    assert [(row.group, row.topic, row.queue_id, row.first, row.stop) for row in first.unread] == [
        ("", "topic_0", 0, 70, 75),
        ("a", "topic_0", 0, 70, 75),
        ("", "topic_1", 0, 0, 64),
        ("a", "topic_1", 0, 0, 64),
    ]
    assert second.unread == ()

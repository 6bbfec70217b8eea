"""Spark gives what the node gives, row by row: audits of every golden store and of damaged ones, and records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from datasources import expected_rows, forged_store

from storeio import audit
from storeio.report import table_rows
from storeio.results import Audit
from udfs import checks
from udfs.checks import audit_stores
from udfs.datasource import read_records, register
from udfs.options import NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = 14  # every so-manieth recorded damage
SPLIT_BYTES = 4096  # the base stores' segments have eight splits then
GONE = {  # whose logs are walked twice
    "no batch queues": ("rich-5.3.3", ("batchconsumequeue",)),
    "no queues": ("rich-5.5.1", ("batchconsumequeue", "consumequeue")),
}
LISTS = ("rows-4.9.8", "rows-5.3.3", "rows-5.5.1", "fuzz-5.1.4", "fuzz-5.4.0", "fuzz-long-5.5.1")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return damaged stores by name: a sample of each list, one with forged records in bodies, two that lost queues."""
    place = tmp_path_factory.mktemp("damaged")
    found = {"forged": forged_store(place / "forged")}
    for number, name in enumerate(LISTS):
        for case in golden.cases(name)[number::SAMPLE]:
            target = place / f"{name}-{len(found)}"
            found[f"{name} {case['id']}"] = golden.damaged(golden.base_of(name), case["edits"], target)
    for name, (base, gone) in GONE.items():
        found[name] = golden.without(base, place / f"gone-{len(found)}", *gone)
    return found


def rows_of(result: Audit | Exception) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of an audit, less what differs from call to call."""
    assert isinstance(result, Audit), result
    result.started_ms, result.seconds = 0, 0.0
    return table_rows(result, run_id="")


def test_audits_are_equal(spark: SparkSession, damaged: dict[str, Path]) -> None:
    stores = {name: golden.store(name) for name in golden.STORES} | damaged
    plans = [audit.prepare(str(root), split_bytes=SPLIT_BYTES) for root in stores.values()]
    results = dict(zip(stores, audit_stores(spark, plans), strict=True))
    assert len(stores) > 50
    for name, root in stores.items():
        assert rows_of(results[name]) == rows_of(audit.check(root, split_bytes=SPLIT_BYTES)), name


def test_driver_and_workers_look_at_files_alike(
    spark: SparkSession, damaged: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [root for name, root in damaged.items() if name not in GONE][:: len(damaged) // 3]
    plans = [audit.prepare(str(root), split_bytes=SPLIT_BYTES) for root in stores]
    jobs: list[str] = []
    on_workers = checks.on_workers
    monkeypatch.setattr(checks, "on_workers", lambda *given: jobs.append(given[3].name) or on_workers(*given))
    expected = [rows_of(audit.check(root, split_bytes=SPLIT_BYTES)) for root in stores]
    both = [audit.FILES_PHASE, audit.LOG_PHASE]
    for limit, carried, run in ((0, checks.CARRIED_BYTES, both), (0, 0, both), (1000, 0, [audit.LOG_PHASE])):
        monkeypatch.setattr(checks, "LOCAL_FILES", limit)
        monkeypatch.setattr(checks, "CARRIED_BYTES", carried)  # 0: sent once, ahead of the tasks
        jobs.clear()
        assert [rows_of(result) for result in audit_stores(spark, plans)] == expected
        assert jobs == run


def test_records_are_equal(spark: SparkSession, damaged: dict[str, Path]) -> None:
    """One job for all stores, with each way to find where a split begins."""
    register(spark)
    roots = [*map(golden.store, golden.BASES[::2]), *list(damaged.values())[:: len(damaged) // 6]]
    options = {"split_bytes": str(5 * SPLIT_BYTES), "stale": "true"}  # five segments' eighths: three tasks a segment
    frames = [
        read_records(spark, str(root), **options)
        if number % 2
        else spark.read.format(NAME).options(path=str(root), **options).load()
        for number, root in enumerate(roots)
    ]
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.union(frame)
    rows = iter([row.asDict() for row in joined.collect()])
    for root in roots:
        for wanted in expected_rows(root, stale=True):
            assert next(rows) == wanted, root
    assert next(rows, None) is None

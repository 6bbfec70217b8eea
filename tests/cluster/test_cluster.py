"""Jobs on a standalone cluster whose parts are killed while they work: results are those of the node."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from rebuilds import QUEUES, contents, no_waiting_for_disks, tree

from cluster.standalone import Cluster, Job, kill
from jobs import audit_store, tables
from storeio import audit
from storeio.rebuild.node import rebuild
from storeio.replay import Provenance, messages
from storeio.report import TABLES, audit_object, table_rows
from storeio.salvage.node import salvage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_waiting_for_disks"]
pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long]

CASE = "22-clean"  # a segment in the middle is deleted
FREE = ("started_ms", "seconds", "arguments", "into")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a sound store and a damaged one."""
    edits = next(case["edits"] for case in golden.cases("rows-5.5.1") if case["id"] == CASE)
    place = tmp_path_factory.mktemp("stores")
    return [golden.copy_of("rich-4.9.8", place / "sound"), golden.damaged("base-5.5.1", edits, place / "damaged")]


def timeless(row: Row) -> Row:
    """Return what of a row or report does not differ from call to call."""
    return {name: part for name, part in row.items() if name not in FREE}


def sorted_rows(rows: Sequence[Row]) -> list[str]:
    """Return rows as a list that can be compared."""
    return sorted(repr(timeless(row)) for row in rows)


def assert_tables_are_the_nodes(spark: SparkSession, where: Path, stores: list[Path], *run_ids: str) -> None:
    """Compare the rows of all runs with those of the node's own audits; no row is there twice."""
    expected: dict[str, list[Row]] = {name: [] for name in TABLES}
    for one in map(audit.check, stores):
        for run_id in run_ids:
            for name, rows in table_rows(one, run_id=run_id).items():
                expected[name] += rows
    assert expected["lost_messages"]
    for name in TABLES:
        found = tables.finished(spark, str(where), name).collect()
        assert sorted_rows([row.asDict() for row in found]) == sorted_rows(expected[name]), name


def assert_json_is_the_nodes(job: Job, stores: list[Path]) -> None:
    """Compare what an audit job printed with the node's own audits."""
    said = [timeless(json.loads(line)) for line in job.out.read_text().splitlines()]
    assert said == [timeless(audit_object(audit.check(store))) for store in stores]


def words_of(stores: list[Path], where: Path, run_id: str) -> list[str]:
    """Return the arguments of an audit job."""
    return ["--store", *map(str, stores), "--tables", str(where), "--run-id", run_id, "--json", "-"]


def test_audit_whose_driver_and_then_a_worker_are_killed(
    cluster: Cluster, stores: list[Path], tmp_path: Path, spark: SparkSession
) -> None:
    """The driver at the worst moment: the rows of all tables are there, and the run is not listed yet."""
    where = tmp_path / "tables"
    words = words_of(stores, where, "first")
    cluster.ask("hold-runs")
    job = cluster.submit("audit_store", *words)
    kill(cluster.held("runs", job))
    os.killpg(job.process.pid, signal.SIGKILL)
    assert job.finish() == -signal.SIGKILL
    assert_json_is_the_nodes(job, stores)  # of a cluster that nothing has happened to; reports come before tables
    assert not spark.read.format("delta").load(str(where / "lost_messages")).filter("run_id = 'first'").isEmpty()
    assert not (where / "runs").exists()
    assert audit_store.main([*words_of(stores, where, "other")[:-2], "--quiet"]) == 4
    listed = tables.finished(spark, str(where), "lost_messages").select("run_id").distinct().collect()
    assert [row.run_id for row in listed] == ["other"]

    cluster.calm()
    cluster.ask("hold-audit")
    again = cluster.submit("audit_store", *words)
    cluster.lose_worker_of(cluster.held("audit", again))
    assert again.finish() == 4, again.said()
    assert cluster.state()["aliveworkers"] == 1
    assert_json_is_the_nodes(again, stores)
    assert_tables_are_the_nodes(spark, where, stores, "first", "other")
    shipped = {path.name for path in (cluster.place / "work").rglob("storeio*")}
    assert shipped == {cluster.wheel.name}  # all of storeio that executors have


def test_rebuild_goes_on_when_processes_are_lost(
    cluster: Cluster, tmp_path: Path, spark: SparkSession, no_waiting_for_disks: None
) -> None:
    """A Python worker dies while it spills, another in the middle of a file; then an executor and its worker."""
    names = ("rich-5.5.1", "ext-5.3.3", "base-4.9.8")
    roots = [golden.store(name) for name in names]
    cluster.ask("die-spill")
    cluster.ask("die-write")
    words = ["--store", *map(str, roots), "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    job = cluster.submit("rebuild_queues", *words, "--split-bytes", "8192", "--json", "-")
    cluster.ask("hold-write")
    cluster.lose_worker_of(cluster.held("write", job))
    assert job.finish() == 0, job.said()
    assert cluster.had("died-spill")
    assert cluster.had("died-write")
    assert cluster.state()["aliveworkers"] == 1
    for root in roots:
        rebuild(root, tmp_path / "node" / root.name, split_bytes=8192)
        made = tree(tmp_path / "new" / root.name)
        assert made == tree(tmp_path / "node" / root.name)
        assert {path: data for path, data in made.items() if path.split("/")[0] in QUEUES} == tree(root, *QUEUES)
        assert contents(made, "index") == contents(tree(root, "index"), "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "node", "tables"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(names)
    found = tables.finished(spark, str(tmp_path / "tables"), "rebuilds").collect()
    assert sorted((row.store, row.exit_code) for row in found) == sorted((str(root), 0) for root in roots)


def test_messages_of_a_salvage_whose_worker_is_killed(
    cluster: Cluster, stores: list[Path], tmp_path: Path, spark: SparkSession
) -> None:
    """It dies in the middle of a segment of the new store: no message is missing, and none is there twice."""
    cluster.ask("die-messages")
    words = ["--store", str(stores[1]), "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    job = cluster.submit("salvage_store", *words, "--messages", "--quiet")
    assert job.finish() == 4, job.said()
    assert cluster.had("died-messages")
    result = salvage(stores[1], tmp_path / "node", jobs=1)
    assert tree(tmp_path / "new") == tree(tmp_path / "node")
    expected = list(messages(Provenance.of(result), tmp_path / "node"))
    found = tables.finished(spark, str(tmp_path / "tables"), "salvaged_messages").drop("run_id").toArrow().to_pylist()
    assert sorted(found, key=itemgetter("physical_offset")) == expected

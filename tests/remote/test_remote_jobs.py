"""The jobs over an object server: the reports, tables and bytes of the local disk, and no secret in any of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from rebuilds import tree
from remote.objects import QUOTED_SECRET, SECRET, Fault, Objects, Proxy

import storeio
from jobs import audit_store, profile_store, rebuild_queues, tables
from jobs.declared import AUDITED_PARTS, FINDING_HISTORY
from storeio.audit import AuditPlan, prepare
from storeio.errors import UnreadableError
from storeio.fingerprints import YOUNG_NS
from storeio.rebuild.node import rebuild
from storeio.remote.listing import COMPLETE
from storeio.report import audit_object
from storeio.scan import failed_since
from udfs.checks import Phase, on_workers
from udfs.datasource import StoreSource, read_records
from udfs.schemas import INDEX_UNITS, RECORDS, UNITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.share(2)]
STORE = "base-5.3.3"
SPLIT_BYTES = "16384"


@pytest.fixture(scope="module")
def root(objects: Objects) -> Iterator[str]:
    """Yield the URI of a damaged store, through a proxy that answers one request in nine with 503."""
    objects.put_store(golden.store(STORE), "store")
    proxy = Proxy(objects.target, lambda request: 503 if request.number % 9 == 4 else None)
    yield objects.uri("store", proxy.endpoint)
    proxy.stop()


def test_audit_and_tables(root: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(tmp_path / "tables")
    words = ["--store", root, "--tables", where, "--run-id", "one", "--records", "--split-bytes", SPLIT_BYTES]
    assert audit_store.main([*words, "--json", str(tmp_path / "told.json")]) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    local = audit_object(storeio.check(golden.store(STORE), split_bytes=int(SPLIT_BYTES)))
    apart = ("store", "started_ms", "seconds")
    assert {k: v for k, v in told.items() if k not in apart} == {k: v for k, v in local.items() if k not in apart}
    runs = tables.rows_with(spark, where, "runs", {})
    assert [row["store"] for row in runs] == [told["store"]]
    assert sum(row["valid"] for row in tables.rows_with(spark, where, "records", {})) == local["log"]["records"]
    said = capsys.readouterr()
    for text in (repr(runs), said.out, said.err, (tmp_path / "told.json").read_text()):
        assert SECRET not in text
        assert QUOTED_SECRET not in text


@pytest.mark.long
def test_incremental_audits_keep_no_secret_and_know_the_store_again(
    root: str, tmp_path: Path, spark: SparkSession
) -> None:
    where = str(tmp_path / "tables")
    time.sleep(max(0.0, YOUNG_NS / 1e9 + 1))  # what was put a moment ago is not believed to be the same
    told = []
    for run_id in ("one", "two"):
        words = ["--store", root, "--tables", where, "--run-id", run_id, "--incremental", "--recheck", "0"]
        assert audit_store.main([*words, "--quiet", "--json", str(tmp_path / "told.json")]) == 0
        told.append(json.loads((tmp_path / "told.json").read_text())["reading"])
    assert told[0]["parts_known"] == 0
    assert told[1]["parts_known"] == told[1]["parts"] > 0
    for name in (*tables.TABLES, AUDITED_PARTS, FINDING_HISTORY):
        if tables.exists(spark, where, name):
            text = repr(spark.read.format("delta").load(tables.path_of(where, name)).collect())
            assert SECRET not in text, name
            assert QUOTED_SECRET not in text, name


def test_what_workers_could_not_read_is_told_to_the_driver(
    objects: Objects, proxied: Callable[[Fault], Proxy], spark: SparkSession
) -> None:
    objects.put_store(golden.store(STORE), "store")
    proxy = proxied(lambda request: 500 if request.path == "store/checkpoint" and request.method == "GET" else None)
    plan = prepare(objects.uri("store", proxy.endpoint, retries="0"))

    def look(plan: AuditPlan, path: str) -> int:
        try:
            return len(plan.read(path, 0, 8))
        except UnreadableError:
            return 0  # as one who can go without

    phase: Phase[str, int] = Phase("look", look, lambda _: 1)
    assert on_workers(spark.sparkContext, [plan], [["checkpoint", "checkpoint"]], phase) == [[0, 0]]
    assert [text.partition(": ")[0] for text in failed_since(plan.listing)] == ["checkpoint"]


def test_data_source(root: str, spark: SparkSession) -> None:
    columns = ("physical_offset", "topic", "queue_id", "queue_offset", "body")
    frames = [
        read_records(spark, place, columns=columns, body="true", split_bytes="65536").orderBy("physical_offset")
        for place in (root, str(golden.store(STORE)))
    ]
    rows: list[list[Any]] = [frame.collect() for frame in frames]
    assert rows[0] == rows[1]
    assert rows[0]


@pytest.mark.parametrize(("what", "kind"), [(RECORDS, "commitlog"), (UNITS, "consumequeue"), (INDEX_UNITS, "index")])
def test_data_source_tells_what_changed(what: str, kind: str, objects: Objects) -> None:
    objects.put_store(golden.store(STORE), "store")
    source = StoreSource({"path": objects.uri("store"), "what": what, "split_bytes": SPLIT_BYTES})
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    assert any(batch for part in partitions for batch in reader.read(part))
    file = next(path for path in sorted((golden.store(STORE) / kind).rglob("*")) if path.is_file())
    path = file.relative_to(golden.store(STORE)).as_posix()
    objects.put(f"store/{path}", file.read_bytes() + b"x")  # times of the server are whole seconds
    with pytest.raises(UnreadableError, match=f"{path}: changed while it was read"):
        for part in partitions:
            list(reader.read(part))


@pytest.mark.long
def test_rebuild_and_profile(root: str, objects: Objects, tmp_path: Path) -> None:
    words = ["--store", root, "--tables", str(tmp_path / "tables"), "--quiet", "--json", str(tmp_path / "told.json")]
    assert rebuild_queues.main([*words, "--into", objects.uri("new")]) == 0
    rebuild(golden.store(STORE), tmp_path / "local")
    built = objects.tree("new")
    del built[COMPLETE]
    assert built == tree(tmp_path / "local")
    assert SECRET not in (tmp_path / "told.json").read_text()
    assert profile_store.main(words) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["records"] == storeio.check(golden.store(STORE)).log.records
    assert told["store"].startswith("s3://***@")

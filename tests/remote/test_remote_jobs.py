"""The jobs over an object server: the reports, tables and bytes of the local disk, and no secret in any of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
from rebuilds import tree
from remote.objects import QUOTED_SECRET, SECRET, Objects, Proxy

import storeio
from jobs import audit_store, profile_store, rebuild_queues, tables
from storeio.rebuild.node import rebuild
from storeio.remote.reading import COMPLETE
from storeio.report import audit_object
from udfs.datasource import read_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")
STORE = "base-5.3.3"
SPLIT_BYTES = "8192"


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
    runs = tables.finished(spark, where, "runs").collect()
    assert [row.store for row in runs] == [told["store"]]
    assert tables.finished(spark, where, "records").filter("valid").count() == local["log"]["records"]
    said = capsys.readouterr()
    for text in (repr(runs), said.out, said.err, (tmp_path / "told.json").read_text()):
        assert SECRET not in text
        assert QUOTED_SECRET not in text


def test_data_source(root: str, spark: SparkSession) -> None:
    columns = ("physical_offset", "topic", "queue_id", "queue_offset", "body")
    frames = [
        read_records(spark, place, columns=columns, body="true", split_bytes="65536").orderBy("physical_offset")
        for place in (root, str(golden.store(STORE)))
    ]
    rows: list[list[Any]] = [frame.collect() for frame in frames]
    assert rows[0] == rows[1]
    assert rows[0]


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

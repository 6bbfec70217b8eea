"""The salvage job: files, report and JSON are those of the node, whatever the split size; rows in tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
import salvages
from rebuilds import no_waiting_for_disks, sizes_of, tree

from jobs import salvage_store, tables
from storeio.errors import UsageError
from storeio.report.salvaging import salvaged_object
from storeio.salvage.node import salvage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_waiting_for_disks"]
pytestmark = pytest.mark.usefixtures("spark")
NAME = "base-5.3.3"
FREE = ("started_ms", "seconds", "into", "settings")


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in found.items() if name not in FREE}


@pytest.mark.parametrize("split_bytes", [4096, 1 << 20])
def test_as_on_one_node(split_bytes: int, tmp_path: Path, spark: SparkSession) -> None:
    sizes = sizes_of(golden.options(NAME))
    damages = [salvages.damaged(NAME, seed, tmp_path / f"store-{seed}") for seed in range(4)]
    words = ["--store", *(str(damage.root) for damage in damages), "--into", str(tmp_path / "new")]
    words += [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    words += ["--tables", str(tmp_path / "tables"), "--split-bytes", str(split_bytes), "--quiet"]
    code = salvage_store.main([*words, "--json", str(tmp_path / "told.json")])
    told = [json.loads(line) for line in (tmp_path / "told.json").read_text().splitlines()]
    lost = codes = 0
    for damage, said in zip(damages, told, strict=True):
        result = salvage(damage.root, tmp_path / "node" / damage.root.name, given=sizes, jobs=1)
        there = tree(tmp_path / "new" / damage.root.name)
        here = tree(tmp_path / "node" / damage.root.name)
        assert here == there
        assert timeless(said) == json.loads(json.dumps(timeless(salvaged_object(result))))
        lost, codes = lost + len(result.lost), codes | result.exit_code
    assert code == codes
    frame = tables.finished(spark, str(tmp_path / "tables"), "salvage_lost")
    assert frame.count() == lost
    assert tables.finished(spark, str(tmp_path / "tables"), "salvages").count() == len(damages)


def test_donors(tmp_path: Path) -> None:
    damage = salvages.damaged(NAME, 2, tmp_path / "store")
    words = ["--store", str(damage.root), "--donor", str(golden.store(NAME)), "--into", str(tmp_path / "new")]
    words += ["--set", f"mappedFileSizeCommitLog={damage.segment_bytes}", "--tables", str(tmp_path / "tables")]
    assert salvage_store.main([*words, "--quiet"]) == 0
    for path in (golden.store(NAME) / "commitlog").iterdir():
        assert (tmp_path / "new" / "commitlog" / path.name).read_bytes() == path.read_bytes()


def test_wrong_use(tmp_path: Path) -> None:
    words = ["--store", "a", "b", "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    with pytest.raises(UsageError, match="--donor"):
        salvage_store.main([*words, "--donor", "c"])
    with pytest.raises(UsageError, match="three numbers"):
        salvage_store.main([*words, "--broker", "1.0"])

"""The salvage job: files, report and JSON are those of the node, whatever the split size; rows in tables."""

from __future__ import annotations

import json
import random
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest
import salvages
from golden_data import given_for
from rebuilds import no_waiting_for_disks, tree
from sampled import seeds

from jobs import salvage_store, tables
from storeio import audit
from storeio.codes import DOUBT_CODES
from storeio.errors import UsageError
from storeio.replay import Provenance, messages
from storeio.report.salvaging import salvaged_object
from storeio.salvage.chosen import Choice
from storeio.salvage.decide import decide
from storeio.salvage.node import salvage
from storeio.salvage.survey import survey
from udfs.checks import WorkersError, conclude_stores

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
    sizes = given_for(NAME)
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
    for name, count in (("salvage_lost", lost), ("salvages", len(damages))):
        assert len(tables.rows_with(spark, str(tmp_path / "tables"), name, {})) == count


def test_chosen_messages(tmp_path: Path, spark: SparkSession) -> None:
    """The job takes the same choice, and its table has the messages that the function yields."""
    damages = [salvages.damaged("rich-5.5.1", seed, tmp_path / f"store-{seed}") for seed in (1, 4)]
    words = ["--store", *(str(damage.root) for damage in damages), "--into", str(tmp_path / "new"), "--quiet"]
    words += ["--set", f"mappedFileSizeCommitLog={damages[0].segment_bytes}", "--tables", str(tmp_path / "tables")]
    salvage_store.main([*words, "--messages", "--topic", "topic_1", "--topic", "bcq_a"])
    there = tables.finished(spark, str(tmp_path / "tables"), "salvaged_messages").drop("run_id").toArrow().to_pylist()
    choice = Choice(frozenset({("topic_1", None), ("bcq_a", None)}))
    given = damages[0].given
    here = []
    for damage in damages:
        place = tmp_path / "node" / damage.root.name
        result = salvage(damage.root, place, given=given, choice=choice, jobs=1)
        here += list(messages(Provenance.of(result), place))
        assert tree(tmp_path / "new" / damage.root.name) == tree(place)
    key = itemgetter("store", "physical_offset")
    assert sorted(there, key=key) == sorted(here, key=key)
    assert {row["topic"] for row in there} == {"topic_1", "bcq_a"}


@pytest.mark.parametrize("first", seeds(1, 24))
def test_decisions_are_those_of_the_node_whatever_the_splits(first: int, spark: SparkSession, tmp_path: Path) -> None:
    """Damaged stores of all versions audited by workers in splits of chance: every patch is the node's."""
    chance = random.Random(first)
    damages = [
        salvages.damaged(name, 1000 * (first + 1) + i, tmp_path / f"store-{i}") for i, name in enumerate(golden.STORES)
    ]
    splits = [chance.choice((1, 700, 4096, 20_000, 1 << 20)) for _ in damages]
    plans = [
        audit.prepare(
            str(damage.root), given=damage.given, split_bytes=max(split, damage.segment_bytes // 50), kept=DOUBT_CODES
        )
        for damage, split in zip(damages, splits, strict=True)
    ]
    found = conclude_stores(spark, plans)
    for damage, there in zip(damages, found, strict=True):
        assert isinstance(there, audit.Concluded), there
        here = audit.look_at_store(damage.root, given=damage.given, jobs=1, kept=DOUBT_CODES)
        assert decide(survey(here)) == decide(survey(there)), damage.kinds


def test_donors(tmp_path: Path) -> None:
    damage = salvages.damaged(NAME, 2, tmp_path / "store")
    words = ["--store", str(damage.root), "--donor", str(golden.store(NAME)), "--into", str(tmp_path / "new")]
    words += ["--set", f"mappedFileSizeCommitLog={damage.segment_bytes}", "--tables", str(tmp_path / "tables")]
    assert salvage_store.main([*words, "--quiet"]) == 0
    for path in (golden.store(NAME) / "commitlog").iterdir():
        assert (tmp_path / "new" / "commitlog" / path.name).read_bytes() == path.read_bytes()


def test_lost_workers_leave_nothing_and_the_same_call_works_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise WorkersError("Spark could not finish the commitlog: gone")

    words = ["--store", str(golden.store(NAME)), "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    words += ["--run-id", "one", "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(salvage_store, "conclude_stores", lost)
        assert salvage_store.main(words) == 8
    assert list(tmp_path.iterdir()) == []
    assert salvage_store.main(words) == 0


def test_wrong_use(tmp_path: Path) -> None:
    words = ["--store", "a", "b", "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    with pytest.raises(UsageError, match="--donor"):
        salvage_store.main([*words, "--donor", "c"])
    with pytest.raises(UsageError, match="three numbers"):
        salvage_store.main([*words, "--broker", "1.0"])

"""The repair job's predictions: those of the node, for many stores and broker lines at once, in one table."""

from __future__ import annotations

import json
import pickle
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import pytest

from jobs import plan_repair, tables
from jobs.declared import ACTIONS, SIMULATIONS
from storeio.apply import apply_plan
from storeio.commands.console import terminal_width
from storeio.config import Given
from storeio.errors import UsageError
from storeio.plan import from_json
from storeio.planning import Selection, plan_store
from storeio.predict.start import simulate
from storeio.report.planning import render_plan
from storeio.report.simulation import simulation_object
from storeio.simulate.rules import LINES, NEWEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.share(2)

SIZES = ("maxHashSlotNum=200", "maxIndexNum=800")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a sound store, and one that some broker lines cut."""
    edits = next(case["edits"] for case in golden.cases("rows-4.9.8") if case["id"] == "6-clean")
    place = tmp_path_factory.mktemp("stores")
    return [golden.copy_of("base-5.3.3", place / "sound"), golden.damaged("base-4.9.8", edits, place / "damaged")]


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps({name: part for name, part in found.items() if name != "seconds"}))


def test_all_lines_of_two_stores(spark: SparkSession, stores: list[Path], tmp_path: Path) -> None:
    words = ["--simulate", "--store", *map(str, stores), "--broker", "all", "--tables", str(tmp_path / "tables")]
    words += ["--set", SIZES[0], "--set", SIZES[1], "--json", str(tmp_path / "out.json"), "--run-id", "one"]
    assert plan_repair.main(words) == 4
    lines = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert len(lines) == 2 * len(LINES)
    given = dict(size.split("=") for size in SIZES)
    for line in lines:
        node = simulation_object(simulate(line["store"], broker=line["broker"], given=given))
        assert timeless(line) | {"settings": None} == timeless(node) | {"settings": None}
    rows = tables.rows_with(spark, str(tmp_path / "tables"), SIMULATIONS, {})
    lost = {(row["store"], row["line"]): row["given_up"] for row in rows}
    assert lost[str(stores[1]), "4.9.x"] == lost[str(stores[1]), "5.0.0-5.3.1"] == 110
    assert {lost[str(stores[0]), name] for name in LINES} == {0}
    with pytest.raises(UsageError, match="run one is finished"):
        plan_repair.main(words)


def test_a_store_that_is_none_stops_no_other(
    spark: SparkSession, stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    words = ["--simulate", "--store", str(tmp_path / "nowhere"), str(stores[0]), "--tables", str(tmp_path / "tables")]
    assert plan_repair.main([*words, "--json", "-"]) == 16
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["exit_code"] == 16
    assert second["outcome"] == "starts"


@pytest.mark.parametrize(("work", "word"), [("predict", "--simulate"), ("make", "--into=plans")])
def test_lost_workers_are_told_of_each_store_and_the_same_call_may_be_made_again(
    work: str, word: str, stores: list[Path], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark

    def lost(_: object) -> None:
        raise ValueError("gone")

    monkeypatch.setattr(plan_repair, work, lost)
    monkeypatch.chdir(tmp_path)
    words = ["--store", *map(str, stores), "--tables", str(tmp_path / "tables"), "--json", "out.json", word]
    for _ in range(2):
        assert plan_repair.main([*words, "--run-id", "one"]) == 8
        told = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
        assert [(line["store"], line["exit_code"]) for line in told] == [(str(store), 8) for store in stores]
        assert all(line["error"].endswith("ValueError: gone") for line in told)


def test_an_error_that_nobody_expected_is_one_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unsendable(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} is not {two}")

    def surprised(*_: object, **__: object) -> None:
        raise Unsendable(1, 2)

    for work in ("plan_store", "simulate"):
        monkeypatch.setattr(plan_repair, work, surprised)
    wish = plan_repair.Wish("s", str(tmp_path / "plan"), None, Given(), Selection(), False)
    for found in (plan_repair.make(wish), plan_repair.predict(plan_repair.Start("s", NEWEST, Given(), None, 1 << 31))):
        assert str(pickle.loads(pickle.dumps(found)).error) == "Unsendable: 1 is not 2"


def test_plans_of_two_stores(
    spark: SparkSession, stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node").mkdir()
    edits = [["zero", "consumequeue/topic_0/0/00000000000000001000", 40, 20], ["write", "commitlog/copy", 0, "00"]]
    damaged = golden.damaged("base-5.3.3", edits, tmp_path / "hurt")
    words = ["--store", str(stores[0]), str(damaged), "--into", str(tmp_path / "plans"), "--broker", "5.3.3"]
    words += ["--tables", str(tmp_path / "tables"), "--json", str(tmp_path / "out.json"), "--run-id", "one"]
    words += ["--set", SIZES[0], "--set", SIZES[1]]
    assert plan_repair.main(words) == 4
    sound, hurt = (json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines())
    assert (sound["actions"], sound["cures"], sound["exit_code"]) == ([], True, 0)
    assert hurt["cures"] is True
    plan = from_json((tmp_path / "plans" / "hurt.plan.json").read_text())
    assert [(a.kind, a.path) for a in plan.actions] == [(a["kind"], a["path"]) for a in hurt["actions"]]
    rows = tables.rows_with(spark, str(tmp_path / "tables"), ACTIONS, {})
    rows.sort(key=itemgetter("number"))
    assert [(r["kind"], r["path"], r["outcome"]) for r in rows] == [(a.kind, a.path, "planned") for a in plan.actions]
    told, given = capsys.readouterr().out, dict(size.split("=") for size in SIZES)
    reports = []
    for root, name in ((stores[0], "sound"), (damaged, "hurt")):
        planned = plan_store(root, tmp_path / "node" / name, broker="5.3.3", given=given)
        reports.append(render_plan(planned, str(tmp_path / "plans" / f"{name}.plan.json"), width=terminal_width()))
    assert told == "\n".join(reports)
    assert [text.split(":")[0] for text in reports] == ["NOTHING TO DO", "CURES"]
    with pytest.raises(UsageError, match="run one is finished"):
        plan_repair.main([*words, "--into", str(tmp_path / "others")])
    assert not (tmp_path / "others").exists()
    more = ["--into", str(tmp_path / "others"), "--run-id", "two", "--json", "-"]
    assert plan_repair.main([*words, *more]) == 4
    out, err = capsys.readouterr()
    assert [json.loads(line)["exit_code"] for line in out.splitlines()] == [0, 4]
    assert plan_repair.main([*words, "--into", str(tmp_path / "third"), "--run-id", "three", "--quiet"]) == 4
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["NOTHING TO DO", "CURES"]
    assert err.endswith(f"run two is in {tmp_path / 'tables'}\n")
    assert apply_plan(tmp_path / "plans" / "hurt.plan.json", damaged).exit_code == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--into is needed"),
        (["--into", "STORE/plans"], "never written"),
        (["--code", "X", "--into", "p"], "no such"),
        (["--into", "STORE/checkpoint"], "never written"),
        (["--into", __file__], "is not a directory"),
    ],
)
def test_wrong_plans(words: list[str], says: str, stores: list[Path], tmp_path: Path) -> None:
    given = [word.replace("STORE", str(stores[0])) for word in words]
    with pytest.raises(UsageError, match=says):
        plan_repair.main(["--store", str(stores[0]), "--tables", str(tmp_path / "tables"), *given])


def test_plans_have_names_that_plans_may_have(tmp_path: Path) -> None:
    roots = ["/data/a\tb", "/data/c\\d", "/data/e.f"]
    names = [Path(path).name for path in plan_repair.plan_files(roots, str(tmp_path))]
    assert names == ["a_b.plan.json", "c_d.plan.json", "e.f.plan.json"]
    with pytest.raises(UsageError, match="two stores are named"):
        plan_repair.plan_files(["/data/a\tb", "/other/a_b"], str(tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--simulate", "--into", "plans"], "--into: goes with plans"),
        (["--simulate", "--topic", "T"], "--topic: goes with plans"),
        (["--simulate", "--allow-log"], "--allow-log: goes with plans"),
        (["--into", "plans", "--heap", "8g"], "--heap: goes with --simulate"),
        (["--into", "plans", "--whole-log"], "--whole-log: goes with --simulate"),
    ],
)
def test_options_without_effect_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        plan_repair.main(["--store", str(tmp_path), "--tables", str(tmp_path / "tables"), *words])
    assert not list(tmp_path.iterdir())

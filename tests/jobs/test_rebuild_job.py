"""The rebuild job: the bytes, report, JSON and exit codes of the node, and rows in tables."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_data as golden
import numpy as np
import pytest
from rebuilds import QUEUES, contents, irregular_log, tree, with_hole

from jobs import rebuild_queues, tables
from storeio.errors import UsageError
from storeio.output.staging import Staging
from storeio.rebuild.cuts import CutFile, Cuts
from storeio.rebuild.index import Before
from storeio.rebuild.lay import FileLaid
from storeio.rebuild.layout import FileSizes
from storeio.rebuild.node import rebuild
from storeio.rebuild.placement import Placed
from storeio.rebuild.shares import Orders, OutFile, orders_of
from storeio.rebuild.tally import Names, Tally
from storeio.remote.failures import note
from storeio.report.rebuilding import rebuilt_object
from udfs import laying
from udfs.checks import MOST_ITEMS, WorkersError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.share(2)]
SPLIT_BYTES = 4096
LOST = ("rich-4.9.8", "rich-5.3.3")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return every store of a broker, two that lost their queues, one whose oldest messages retention has deleted, with
    all that some queues had, and one with every trouble."""
    place = tmp_path_factory.mktemp("stores")
    builder = irregular_log(place / "irregular")
    with_hole(builder, place / "irregular")
    gone = [golden.without(name, place / f"lost-{name}", "consumequeue", "batchconsumequeue") for name in LOST]
    expired = golden.copy_of("rich-5.5.1", place / "expired")
    for segment in sorted((expired / "commitlog").iterdir())[:13]:
        segment.unlink()
    return [*map(golden.store, golden.STORES), *gone, expired, place / "irregular"]


@pytest.fixture(scope="module")
def run(stores: list[Path], tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Return where one run of all stores is: ``new``, ``tables``, ``report.json``."""
    place = tmp_path_factory.mktemp("run")
    nowhere = str(place / "nowhere")
    words = ["--store", *map(str, stores), nowhere, "--into", str(place / "new"), "--tables", str(place / "tables")]
    words += ["--run-id", "first", "--split-bytes", str(SPLIT_BYTES), "--quiet", "--json", str(place / "report.json")]
    assert rebuild_queues.main(words) == 4 | 16  # of the irregular store, and of the one that is none
    return place


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in found.items() if name not in ("started_ms", "seconds", "into")}


def test_files_and_json_are_those_of_the_node(stores: list[Path], run: Path, tmp_path: Path) -> None:
    said = {found["store"]: found for found in map(json.loads, (run / "report.json").read_text().splitlines())}
    assert len(said) == len(stores) + 1
    assert (said[str(run / "nowhere")]["exit_code"], said[str(run / "nowhere")]["verdict"]) == (16, None)
    for root in stores:
        result = rebuild(root, tmp_path / root.name, split_bytes=SPLIT_BYTES)
        assert tree(run / "new" / root.name) == tree(tmp_path / root.name)
        assert timeless(said[str(root)]) == json.loads(json.dumps(timeless(rebuilt_object(result))))
    assert {p.name for p in (run / "new").iterdir()} == {root.name for root in stores}
    assert [queue for queue in said[str(stores[-2])]["queues"] if not queue["units"] and queue["kept"]]
    odd = [queue for queue in said[str(stores[-1])]["queues"] if queue["gaps"]]
    assert odd
    assert odd[0]["kept"]


@pytest.mark.parametrize("name", golden.STORES)
def test_files_are_those_of_the_broker(name: str, run: Path) -> None:
    made, root = run / "new" / name, golden.store(name)
    assert tree(made, *QUEUES) == tree(root, *QUEUES)
    assert contents(tree(made, "index"), "index") == contents(tree(root, "index"), "index")
    assert {path.split("/")[0] for path in tree(made)} <= {*QUEUES, "index", "checkpoint"}


def test_tables_hold_the_run(stores: list[Path], run: Path, spark: SparkSession) -> None:
    rows = {row["store"]: row for row in tables.rows_with(spark, str(run / "tables"), "rebuilds", {})}
    assert {store: row["exit_code"] for store, row in rows.items()} == {
        **{str(root): 0 for root in stores[:-1]}, str(stores[-1]): 4, str(run / "nowhere"): 16,
    }  # fmt: skip
    assert "no such directory" in rows[str(run / "nowhere")]["error"]
    queues = tables.rows_with(spark, str(run / "tables"), "rebuilt_queues", {})
    for root in stores:
        found = json.loads(rows[str(root)]["json"])
        values = itemgetter("topic", "queue_id", "units", "missing")
        mine = sorted(values(queue) for queue in queues if queue["store"] == str(root))
        assert mine == sorted(
            (q["topic"], q["queue_id"], q["units"], sum(b - a for a, b in q["gaps"])) for q in found["queues"]
        )
        assert rows[str(root)]["files"] == len(tree(run / "new" / root.name))


def test_a_finished_run_is_not_run_again(stores: list[Path], run: Path, tmp_path: Path) -> None:
    words = ["--store", str(stores[0]), "--into", str(tmp_path / "new"), "--tables", str(run / "tables")]
    with pytest.raises(UsageError, match="choose another"):
        rebuild_queues.main([*words, "--run-id", "first", "--quiet"])
    assert list(tmp_path.iterdir()) == []


def test_one_store_goes_into_the_directory_itself_in_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden.store("rich-5.5.1")
    words = ["--store", str(root), "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    assert rebuild_queues.main([*words, "--only", "checkpoint", "--only", "queues", "--topic", "bcq_a"]) == 0
    assert capsys.readouterr().out.startswith("REBUILT IN PART: ")
    names = frozenset({("bcq_a", None)})
    rebuild(root, tmp_path / "node", queues=names, parts=("checkpoint", "queues"))
    assert tree(tmp_path / "new") == tree(tmp_path / "node")


@pytest.mark.parametrize(
    ("words", "names", "parts"),
    [
        (["--only", "queues"], None, ("queues",)),
        (["--topic", "topic_0"], frozenset({("topic_0", None)}), ("queues",)),
        (["--queue", "topic_1/0"], frozenset({("topic_1", 0)}), ("queues",)),
    ],
)
def test_without_keys_and_beside_a_store_without_records(
    words: list[str], names: Names | None, parts: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is to be cut into index files: of neither store, or not of the empty one, in which no queue is found."""
    roots = [golden.store("base-5.3.3"), tmp_path / "empty"]
    (roots[1] / "commitlog").mkdir(parents=True)
    common = ["--store", *map(str, roots), "--tables", str(tmp_path / "tables")]
    for more, arguments in ((words, {"queues": names, "parts": parts}), ([], {})):
        place = tmp_path / ("part" if more else "whole")
        has_all = not (more and names)
        assert rebuild_queues.main([*common, "--into", str(place / "job"), *more]) == (0 if has_all else 16)
        assert (place / "job" / "empty").exists() == has_all
        out, err = capsys.readouterr()
        assert out.startswith("REBUILT") and out.count("\n\nREBUILT") == has_all
        assert re.search(rf"^run .* is in {tmp_path / 'tables'}$", err, re.MULTILINE)
        for root in roots if has_all else roots[:1]:
            assert rebuild(root, place / "node" / root.name, **arguments).exit_code == 0
            assert tree(place / "job" / root.name) == tree(place / "node" / root.name)


def test_an_error_that_nobody_expected_is_one_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = [golden.store("base-5.3.3"), golden.store("base-4.9.8")]

    def odd(tally: Tally, *rest: Any) -> Any:
        if tally.plan.root == str(roots[0]):
            raise ValueError("odd")
        return orders_of(tally, *rest)

    monkeypatch.setattr("udfs.rebuild.orders_of", odd)
    words = ["--store", *map(str, roots), "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    assert rebuild_queues.main([*words, "--quiet"]) == 8
    assert f"{roots[0]}: unexpected ValueError: odd" in capsys.readouterr().err
    rebuild(roots[1], tmp_path / "node")
    assert tree(tmp_path / "new" / roots[1].name) == tree(tmp_path / "node")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [roots[1].name]


@pytest.mark.parametrize("wanted", [".writing", "consumequeue/*/*"])
def test_what_workers_cannot_write_is_one_stores(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file lies in the way where one store's splits are spilled, or where its queues go."""
    roots = [golden.store("base-5.3.3"), golden.store("base-4.9.8")]
    make_directory = Staging.make_directory

    def in_the_way(staging: Staging, path: str) -> None:
        make_directory(staging, path)
        if staging.place.name == roots[0].name and fnmatch(path, wanted):
            (staging.partial / path).rmdir()
            (staging.partial / path).write_bytes(b"")

    monkeypatch.setattr(Staging, "make_directory", in_the_way)
    words = ["--store", *map(str, roots), "--into", str(tmp_path / "new"), "--tables", str(tmp_path / "tables")]
    assert rebuild_queues.main([*words, "--quiet", "--json", str(tmp_path / "told")]) == 8
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert {found["store"]: found["exit_code"] for found in told} == {str(roots[0]): 8, str(roots[1]): 0}
    assert re.search(f"{roots[0]}: .*: could not be written: Not a directory", capsys.readouterr().err)
    rebuild(roots[1], tmp_path / "node")
    assert tree(tmp_path / "new" / roots[1].name) == tree(tmp_path / "node")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [roots[1].name]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["--into", "STORE/new"], "never written"),
        (["--into", "nosuch://bucket/new"], "nosuch"),
        (["--into", "NEW", "--queue", "orders"], "TOPIC/ID"),
        (["--into", "NEW", "--json", "NEW/x.json"], "must be new or empty"),
        (["--into", "NEW", "--tables", "NEW/t"], "lies inside"),
        (["--into", "NEW", "--store", "s3://bucket/store", "gs://bucket/store"], "two of them have one name"),
    ],
)
def test_wrong_use(changes: list[str], says: str, tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    filled = [word.replace("NEW", str(tmp_path / "new")).replace("STORE", str(root)) for word in changes]
    with pytest.raises(UsageError, match=says):
        rebuild_queues.main(["--tables", str(tmp_path / "t"), "--store", str(root), *filled])
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_lost_workers_leave_nothing_and_the_same_call_works_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(*_: Any) -> None:
        assert list(tmp_path.glob("made/new.*.partial"))
        raise WorkersError("Spark could not finish the commitlog: gone")

    root = golden.store("base-5.3.3")
    words = ["--store", str(root), "--into", str(tmp_path / "made" / "new"), "--tables", str(tmp_path / "tables")]
    words += ["--run-id", "one", "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(rebuild_queues, "rebuild_stores", lost)
        assert rebuild_queues.main(words) == 8
    assert "gone" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert rebuild_queues.main(words) == 0


def test_names_of_several_stores() -> None:
    where = rebuild_queues.targets_of(["/data/a/store", "/data/b/store"], Path("/new"))
    assert where == {"/data/a/store": Path("/new/a-store"), "/data/b/store": Path("/new/b-store")}
    assert rebuild_queues.targets_of(["/data/a", "b"], Path("/new"))["b"] == Path("/new/b")
    assert rebuild_queues.targets_of(["/data/a/store"], Path("/new")) == {"/data/a/store": Path("/new")}


def orders_with(weights: list[tuple[int, bool]]) -> Orders:
    """Return orders for files of these weights; those that are true are of the index."""
    queue = ("consumequeue", "t", 0)
    files = [
        OutFile(str(n), weight, weight, None if of_index else queue, cut_file() if of_index else None)
        for n, (weight, of_index) in enumerate(weights)
    ]
    return Orders(FileSizes(20, 20, 20, 100), {queue: Placed([])}, files, Cuts(), np.empty((2, 0), np.int64), [])


def cut_file() -> CutFile:
    return CutFile("index/0", Before(), 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_files_are_shared_out(seed: int) -> None:
    chance = random.Random(seed)
    top = chance.choice((1, 1000, 10**9))
    stores = [
        orders_with([(chance.randrange(top), chance.random() < 0.2) for _ in range(chance.randrange(70))])
        if chance.random() < 0.8
        else None
        for _ in range(3)
    ]
    share = chance.choice((1, 5000, 10**9, 10**12))
    tasks = laying.tasks_of(stores, share)
    found = [[(store, file) for store, parcel in task for file in parcel.files] for task in tasks]
    everything = [(store, file) for store, of in enumerate(stores) if of for file in of.files]
    assert sorted((store, int(file.path)) for group in found for store, file in group) == [
        (store, int(file.path)) for store, file in everything
    ]
    for group in found:
        assert 0 < len(group) <= MOST_ITEMS
        heaviest = max(file.weight for _, file in group)
        assert sum(file.weight for _, file in group) <= min(share, laying.PARCEL_BYTES) + heaviest
    indexes = [any(file.index for _, file in group) for group in found]
    assert indexes == sorted(indexes, reverse=True)


def test_what_a_worker_could_not_read_goes_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "consumequeue/t/0/00000000000000000000: Input/output error"
    out = OutFile("consumequeue/t/0/00000000000000000000", 20, 20)

    def lay_parcel(*_: Any) -> Iterator[tuple[OutFile, FileLaid]]:
        note("/store", why)
        yield out, FileLaid()
        yield out, FileLaid()

    monkeypatch.setattr(laying, "lay_parcel", lay_parcel)
    parcel: Any = None
    found = list(laying.lay_files([("/store", parcel)], [(0, parcel)]))
    assert [(store, laid.failed) for store, laid in found] == [(0, [why]), (0, [])]

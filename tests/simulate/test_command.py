"""``storeio simulate``: exit codes, JSON in the shape of a recorded start, text, and the predicted store as files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import golden_data
import pytest
from golden_data import given_for
from rebuilds import tree
from simulated import disk_of, recorded, setup_of

from storeio import cli
from storeio.errors import WriteError
from storeio.predict.start import AS_FILES, simulate
from storeio.scan import list_store
from storeio.simulate.outcome import simulate_start
from storeio.simulate.rules import LINES, rules_of

pytestmark = pytest.mark.share(2)

SIZES = {
    "maxHashSlotNum": 200,
    "maxIndexNum": 800,
    "mappedFileSizeCommitLog": 32768,
    "mappedFileSizeConsumeQueue": 1000,
}
SETS = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
CASES = (
    ("rows-4.9.8", "6-clean", 4), ("rows-5.3.3", "1-clean", 0), ("rows-5.3.3", "1-abort", 0),
    ("rows-5.3.3", "26-clean", 4), ("rows-5.5.1", "38-clean", 0), ("rows-5.5.1", "40z-abort", 4),
    ("rows-4.9.8", "23-clean", 4), ("rows-4.9.8", "12-clean", 4), ("rows-5.3.3", "30-clean", 4),
)  # fmt: skip


def case_of(name: str, case_id: str) -> dict[str, Any]:
    (found,) = (case for case in golden_data.cases(name) if case["id"] == case_id)
    return found


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a store of which 4.9.8 unlinks the last segment."""
    return golden_data.damaged("base-4.9.8", case_of("rows-4.9.8", "6-clean")["edits"], tmp_path / "store")


def test_harm_behind_a_refusal_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the start says that is made when what refuses is gone."""
    edits = [["create", "timerwheel", 100], ["rmtree", "consumequeue/topic_0/0"]]
    root = golden_data.damaged("base-5.5.1", edits, tmp_path / "store")
    assert cli.run(["simulate", str(root)]) == 4
    text = " ".join(capsys.readouterr().out.split())
    assert cli.run(["simulate", str(root), "--json", "-"]) == 4
    refused = json.loads(capsys.readouterr().out)
    (root / "timerwheel").unlink()
    assert cli.run(["simulate", str(root), "--json", "-"]) == 4
    started = json.loads(capsys.readouterr().out)
    assert (refused["outcome"], refused["loses"], started["once_mended"]) == ("refuses", None, None)
    assert refused["once_mended"] == {key: started[key] for key in refused["once_mended"]}
    (loss,) = started["loses"]
    assert f"ONCE THAT IS MENDED (all else as it is now) - LOSES: broker 5.5.1 starts on {root}" in text
    assert f"gives up {loss['messages']} intact messages" in text


@pytest.mark.parametrize(("name", "case_id", "exit_code"), CASES)
def test_json_has_the_shape_of_a_record(
    name: str, case_id: str, exit_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_of(name, case_id)
    root = golden_data.damaged(golden_data.base_of(name), case["edits"], tmp_path / "store")
    code = cli.run(["simulate", str(root), "--broker", case["broker"], "--json", "-", *SETS])
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    assert code == exit_code
    assert (found["broker"], found["outcome"]) == (case["broker"], case["outcome"])
    assert found["mode"] == ("normal" if case["state"] == "clean" else "abnormal")
    for state in ("after_load", "after_start"):
        if case[state] is not None:
            assert recorded(found[state]) == recorded(case[state])
    if case.get("consumers"):
        assert found["consumers"]["messages"] == case["consumers"]["messages"]
        assert found["consumers"]["undecodable"] == case["consumers"]["undecodable"]
    if case["outcome"] != "starts":
        assert found["reason"]
        assert found["loses"] is None


def test_into_is_the_store_that_the_broker_leaves(damaged: Path, tmp_path: Path) -> None:
    case = case_of("rows-4.9.8", "6-clean")
    target = tmp_path / "after"
    assert cli.run(["simulate", str(damaged), "--broker", "4.9.8", "--into", str(target), "--quiet", *SETS]) == 4
    files = {
        str(p.relative_to(target)): [p.stat().st_size, hashlib.sha256(p.read_bytes()).hexdigest()[:16]]
        for p in sorted(target.rglob("*"))
        if p.is_file()
    }
    expected = case["after_start"]["files"]
    assert {
        path: facts for path, facts in files.items() if path.split("/")[0] in ("commitlog", "consumequeue")
    } == expected
    assert sorted(facts for path, facts in files.items() if path.startswith("index/")) == sorted(
        case["after_start"]["index"]
    )
    assert (target / "config").is_dir() == (damaged / "config").is_dir()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_into_is_a_store_that_the_next_start_goes_on_with(version: str, tmp_path: Path) -> None:
    root, once, twice = (
        golden_data.copy_of(f"base-{version}", tmp_path / "store"),
        tmp_path / "once",
        tmp_path / "twice",
    )
    for gone in ("index", "consumequeue"):
        shutil.rmtree(root / gone)
    for name in ("abort", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    for source, target in ((root, once), (once, twice)):
        cli.run(["simulate", str(source), "--broker", version, "--into", str(target), "--quiet", *SETS])
    assert (once / "abort").exists()  # what a killed broker leaves
    assert (once / "checkpoint").read_bytes() == bytes(4096)
    names = sorted(path.name for path in (once / "index").iterdir())
    assert names
    assert all(name.isdecimal() and len(name) == 17 for name in names)  # others are passed over
    (once / "abort").unlink()  # after a clean stop the index counts as it is
    shutil.rmtree(twice)
    cli.run(["simulate", str(once), "--broker", version, "--into", str(twice), "--quiet", *SETS])
    assert tree(twice, "index") == tree(once, "index")
    assert tree(twice, "commitlog", "consumequeue") == tree(once, "commitlog", "consumequeue")


@pytest.mark.parametrize("where", ["inside", "full"])
def test_into_never_goes_over_anything(
    where: str, damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = damaged / "after" if where == "inside" else tmp_path / "full"
    if where == "full":
        target.mkdir()
        (target / "mine").touch()
    before = sorted(damaged.rglob("*"))
    assert cli.run(["simulate", str(damaged), "--into", str(target), *SETS]) == 16
    assert "--into" in capsys.readouterr().err
    assert sorted(damaged.rglob("*")) == before


def test_all_lines_side_by_side(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", str(damaged), "--broker", "all", *SETS]) == 4
    out = capsys.readouterr().out
    assert out.startswith("CHOOSE: only 5.3.2-5.3.3, 5.3.4, 5.4.0, 5.5.0, 5.5.1 can be started")
    assert sum(line.startswith(("  4.9.x", "  5.")) for line in out.splitlines()) == len(LINES)
    assert all(len(line) <= 80 for line in out.splitlines() if str(damaged) not in line)


@pytest.mark.parametrize(
    ("case_id", "first", "then"),
    [
        (
            "4-clean",
            "DO NOT START: every broker line harms {}; none does less than the others.",
            "what one of them does",
        ),
        ("26-clean", "DO NOT START: every broker line harms {}; none starts.", "what one of them does"),
        ("39-clean", "CHOOSE: only 4.9.x can be started on {} without harm.", "the worst of them"),
    ],
)
def test_no_line_is_said_to_do_least_or_worst_of_those_that_do_the_same(
    case_id: str, first: str, then: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_data.damaged("base-5.3.3", case_of("rows-5.3.3", case_id)["edits"], tmp_path / "store")
    assert cli.run(["simulate", str(root), "--broker", "all", *SETS]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(first.format(root))
    assert f"{then}, in full" in out


def test_text_has_the_worst_first(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", str(damaged), "--broker", "4.9.8", *SETS]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("LOSES: broker 4.9.8 starts on ")
    order = [out.index(word) for word in ("110 intact messages", "GIVEN UP", "ISSUED TWICE", "DELETED", "NEXT")]
    assert order == sorted(order)
    after = out.partition(" NEXT ")[2]
    assert 0 <= after.index("--broker all") < after.index(f"storeio check {damaged}") < after.index("storeio plan ")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--broker", "5.3"], 16, "three numbers"),
        (["--broker", "3.2.6"], 16, "nothing is known"),
        (["--heap", "2 GiB"], 16, "--heap"),
        (["--set", "noSuchSetting=1"], 16, "noSuchSetting"),
        (["--retention", "--whole-log"], 16, "--retention"),
        (["--json", "STORE/x.json"], 16, "never written"),
        (["--broker", "all", "--into", "x"], 16, "one version"),
    ],
)
def test_wrong_use(words: list[str], code: int, says: str, damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", str(damaged), *(word.replace("STORE", str(damaged)) for word in words)]) == code
    assert says in capsys.readouterr().err


def test_not_a_store_stops_no_other(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", str(tmp_path / "nowhere"), str(damaged), "--broker", "5.3.3", "--quiet", "--json", "-", *SETS]
    assert cli.run(words) == 16
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["exit_code"], first["verdict"]) == (16, None)
    assert second["outcome"] == "starts"


def test_heap_decides_what_a_4_x_broker_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of("rows-4.9.8", "12-clean")
    root = golden_data.damaged("base-4.9.8", case["edits"], tmp_path / "store")
    assert cli.run(["simulate", str(root), "--broker", "4.9.8", *SETS]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("NO START: broker 4.9.8 dies at start")
    assert "java.lang.OutOfMemoryError: Java heap space" in out
    cli.run(["simulate", str(root), "--broker", "4.9.8", "--heap", "8g", "--quiet", *SETS])
    assert capsys.readouterr().out.startswith("LOSES: ")


@pytest.mark.parametrize(("claimed", "survives"), [("54000000", True), ("55000000", False)])
def test_a_record_has_to_fit_into_two_thirds_of_the_heap(claimed: str, survives: bool, tmp_path: Path) -> None:
    """Both sizes were tried with a real broker and a heap of 2 GiB."""
    root = golden_data.copy_of("ext-4.9.8", tmp_path / "store")
    golden_data.apply_edits(root, [["write", "commitlog/00000000000000393216", 28725, claimed]])
    outcome, _ = simulate_start(disk_of(root), rules_of("4.9.8"), setup_of(root, golden_data.options("ext-4.9.8")))
    assert outcome.outcome == ("starts" if survives else "crashes")


def test_retention(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = damaged / "commitlog" / f"{0:020d}"
    os.utime(old, (1_000_000_000, 1_000_000_000))
    assert cli.run(["simulate", str(damaged), "--broker", "5.3.3", "--retention", "--json", "-", *SETS]) == 0
    found = json.loads(capsys.readouterr().out)
    gone = {path for run in [found["now"], *found["next"]] for path in run["deleted"]}
    assert f"commitlog/{old.name}" in gone
    assert found["due"][-1]["deletable_ms"] is None
    assert cli.run(["simulate", str(damaged), "--broker", "5.3.3", "--retention", *SETS]) == 0
    assert "the last one never" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["simulate", str(damaged), "--broker", "5.3.3", "--retention", "--quiet", *SETS]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_broker_that_has_no_heap_for_a_record_cleans_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_data.copy_of("ext-4.9.8", tmp_path / "store")
    words = ["simulate", str(root), "--broker", "4.9.8", "--heap", "1k", "--quiet"]
    for more in ([], ["--retention"]):
        assert cli.run([*words, *more]) == 4
        assert capsys.readouterr().out.startswith("NO START: ")


def test_what_is_not_simulated_is_never_called_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    words = ["simulate", str(root), "--broker", "5.3.3", *SETS]
    assert cli.run(words) == 0
    assert capsys.readouterr().out.startswith("SAFE: ")
    assert cli.run([*words, "--set", "duplicationEnable=false"]) == 0
    assert capsys.readouterr().out.startswith("SAFE: ")
    assert cli.run([*words, "--set", "duplicationEnable=true"]) == 8
    out = capsys.readouterr().out
    assert out.startswith("UNSURE: ")
    assert "- duplicationEnable=true" in out
    (root / "consumequeue" / "CURRENT").write_text("MANIFEST-000001")
    assert cli.run([*words, "--json", "-"]) & 8
    assert json.loads(capsys.readouterr().out)["not_simulated"] == [f"consumequeue/CURRENT: RocksDB queues{AS_FILES}"]
    (root / "consumequeue" / "CURRENT").unlink()
    (root / "compaction" / "compactionLog" / "topic_1" / "x").mkdir(parents=True)  # 5.1.4 and 5.5.1 refused to start
    assert cli.run([*words, "--json", "-"]) & 8
    assert json.loads(capsys.readouterr().out)["not_simulated"] == ["compaction/compactionLog: compacted topics"]
    shutil.rmtree(root / "compaction")
    (root / "epochFileCheckpoint").write_text("0\n1\n1-0\n")
    assert cli.run([*words, "--json", "-"]) & 8
    (told,) = json.loads(capsys.readouterr().out)["not_simulated"]
    assert told.startswith("epochFileCheckpoint: of controller mode")


CONF = """# as many are written
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
brokerRole = SYNC_MASTER
deleteWhen = 04
namesrvAddr = 10.0.0.1:9876
storePathRootDir = /data/rocketmq/store
storePathCommitLog = /data/rocketmq/store/commitlog
aclEnable = true
mapedFileSizeCommitLog = 65536
"""


def test_a_usual_broker_conf_leaves_a_prediction_sure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF)
    words = ["simulate", str(root), "--broker", "5.3.3", *SETS, "--conf", str(conf)]
    assert cli.run([*words, "--json", "-"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["not_simulated"] == []
    assert "did you mean mappedFileSizeCommitLog?" in found["settings"]["mapedFileSizeCommitLog"]["source"]
    assert said.err.count("\n") == 1
    assert said.err.startswith("storeio: mapedFileSizeCommitLog: ")
    assert cli.run([*words, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "setting",
    [
        "brokerRole=SLAVE", "enableAcceleratedRecovery=true", "checkCommitLogOffsetOnRecover=true",
        "recoverConcurrently=true", "enableControllerMode=true", "configManagerVersion=v2",
        "indexFileWriteEnable=false",
        "messageStorePlugIn=a.B", "storePathCommitLog=/other/commitlog", "storeType=defaultRocksDB",
        "forceVerifyPropCRC=true",
    ],
)  # fmt: skip
def test_settings_that_are_not_modelled_are_named(
    setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    (tmp_path / "broker.conf").write_text(f"{setting}\n")
    words = [str(root), "--broker", "5.3.3", *SETS, "--conf", str(tmp_path / "broker.conf")]
    assert cli.run(["simulate", *words]) == 8
    out = capsys.readouterr().out
    assert out.startswith("UNSURE: ")
    assert setting in out
    for more in ([], ["--retention"]):
        assert cli.run(["simulate", *words, *more, "--json", "-"]) == 8
        (unsure,) = json.loads(capsys.readouterr().out)["not_simulated"]
        assert unsure.startswith(setting)


@pytest.mark.parametrize(("name", "code"), [("base-5.3.3", 0), ("ext-5.3.3", 8)])
def test_writing_past_mappings_matters_to_queue_ext_files_only(name: str, code: int) -> None:
    given = {**given_for(name), "writeWithoutMmap": "true"}
    found = simulate(golden_data.store(name), broker="5.3.3", given=given)
    assert found.exit_code == code
    assert [text.partition("=")[0] for text in found.not_simulated] == ["writeWithoutMmap"] * (code // 8)


def test_a_plan_says_what_its_start_does_not_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    words = ["plan", str(root), "--broker", "5.3.3", *SETS, "--set", "brokerRole=SLAVE"]
    cli.run(words)
    out = " ".join(capsys.readouterr().out.split())
    assert "gives nothing up, as far as this can be simulated." in out
    assert "- not simulated: brokerRole=SLAVE" in out
    cli.run([*words, "--json", "-"])
    assert json.loads(capsys.readouterr().out)["not_simulated"][0].startswith("brokerRole=SLAVE")


@pytest.mark.parametrize("target", ["full", "store/new", "s3://bucket/new"])
def test_json_of_what_cannot_be_written_says_so(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    into = target if "://" in target else str(tmp_path / target)
    assert cli.run(["simulate", str(root), "--broker", "5.3.3", *SETS, "--into", into, "--json", "-"]) == 16
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["exit_code"], found["broker"]) == (16, "5.3.3")
    assert "--into" in found["error"]


def test_json_of_a_write_that_fails_late_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: object) -> None:
        raise WriteError("no space left on device")

    monkeypatch.setattr("storeio.predict.into.write_into", full)
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    words = ["simulate", str(root), "--broker", "5.3.3", *SETS, "--into", str(tmp_path / "new"), "--json", "-"]
    assert cli.run(words) == 8
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["exit_code"] == 8


@pytest.mark.parametrize("told", [True, False])
def test_into_leaves_out_what_holes_hold(
    told: bool, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may claim more than any disk has room for; where the system does not tell of holes, less of it."""
    length = 1 << 40 if told else 40 << 20
    for name in ("lock", "consumequeue/topic_1/1/00000000000000004000"):
        os.truncate(damaged / name, length)
        with (damaged / name).open("r+b") as file:
            file.seek(length // 2 + 5000)
            file.write(b"x" * 5000)
    if not told:
        monkeypatch.delattr(os, "SEEK_DATA")
    target = tmp_path / "after"
    assert cli.run(["simulate", str(damaged), "--into", str(target), "--quiet", *SETS]) == 4
    for name in ("lock", "consumequeue/topic_1/1/00000000000000004000"):
        status = (target / name).stat()
        assert status.st_size == length
        assert status.st_blocks * 512 < 20 << 20
        with (target / name).open("rb") as file, (damaged / name).open("rb") as source:
            for start in (0, length // 2):
                file.seek(start)
                source.seek(start)
                assert file.read(1 << 16) == source.read(1 << 16)


def test_into_says_before_that_there_is_no_room(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    assert cli.run(["simulate", str(damaged), "--into", str(tmp_path / "after"), *SETS]) == 8
    assert "no space" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("words", [[], ["--retention"]])
def test_cancelled_it_keeps_what_was_predicted(
    words: list[str], damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first store's line is in the file, and that the second one was cancelled; a third is not begun."""
    other = golden_data.copy_of("base-4.9.8", tmp_path / "other")
    target, name = tmp_path / "told.jsonl", "retention.list_store" if words else "start.list_store"
    real = list_store

    def listed(root: Any) -> Any:
        if str(root) == str(other):
            raise KeyboardInterrupt
        return real(root)

    monkeypatch.setattr(f"storeio.predict.{name}", listed)
    stores = [str(damaged), str(other), str(tmp_path / "none")]
    code = cli.run(["simulate", *stores, "--broker", "4.9.8", *words, *SETS, "--json", str(target), "--quiet"])
    first, second = map(json.loads, target.read_text().splitlines())
    assert (first["store"], second["store"], second["broker"]) == (str(damaged), str(other), "4.9.8")
    assert (code, second["exit_code"], second["verdict"]) == (first["exit_code"] | 32, 32, None)
    assert capsys.readouterr().err == f"storeio: {other}: cancelled{'' if words else ' before anything was read'}\n"


def test_a_file_that_goes_while_the_predicted_store_is_written(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/x")

    monkeypatch.setattr(shutil, "copystat", gone)
    assert cli.run(["simulate", str(damaged), "--broker", "4.9.8", *SETS, "--into", str(tmp_path / "new")]) == 8
    assert "checkpoint: No such file or directory" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]

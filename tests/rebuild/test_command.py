"""``storeio rebuild``: options, JSON, text and exit codes; and the verb as a function."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from golden_data import given_for
from rebuilds import no_waiting_for_disks, tree
from storebuilder import StoreBuilder

import storeio
from storeio import cli
from storeio.commands.console import Meter
from storeio.rebuild.node import rebuild

pytestmark = pytest.mark.share(2)

__all__ = ["no_waiting_for_disks"]
NAME = "rich-5.5.1"
SETS = [word for key, value in given_for(NAME).items() for word in ("--set", f"{key}={value}")]
KEYS = {
    "tool", "version", "store", "into", "started_ms", "seconds", "crc_engine", "settings", "verdict", "exit_code",
    "partly", "log", "queues", "index", "left_out", "findings", "notes", "failed", "files", "written_bytes",
}  # fmt: skip


def call(into: Path, *words: str, store: Path | None = None) -> int:
    return cli.run(["rebuild", str(store or golden.store(NAME)), "--into", str(into), *words])


def test_json_is_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path / "new", "--json", "-", *SETS) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert set(found) == KEYS
    assert (found["verdict"], found["exit_code"], found["into"]) == ("rebuilt", 0, str(tmp_path / "new"))
    assert found["log"]["records"] == len(golden.dump(NAME))
    assert sorted(found["files"]) == sorted(tree(tmp_path / "new"))
    assert found["index"]["files"] == sum(path.startswith("index/") for path in found["files"])
    kinds = {queue["topic"]: queue["kind"] for queue in found["queues"]}
    assert {topic for topic, kind in kinds.items() if kind == "bcq"} == {"bcq_a", "bcq_b"}
    audit = {(q.topic, q.queue_id): q for q in storeio.check(golden.store(NAME)).queues if q.kind == "cq"}
    for queue in (queue for queue in found["queues"] if queue["kind"] == "cq"):
        same = audit[queue["topic"], queue["queue_id"]]
        assert (queue["min_queue_offset"], queue["max_queue_offset"]) == (same.min_queue_offset, same.max_queue_offset)
    assert found["written_bytes"] > 20 * sum(queue["units"] for queue in found["queues"])


def test_text_begins_with_the_word_and_ends_with_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path / "new", *SETS) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith("REBUILT: 43 queues, 3 index files, a checkpoint from 1,657 records of ")
    assert "and 23 more queues; --json FILE has all" in out
    make, *moves = out.splitlines()[-9:]
    assert make.startswith("  mkdir ")
    assert [line.split()[0] for line in moves] == ["mv"] * 8
    assert all(len(line) <= 80 for line in out.splitlines() if "/" not in line)


@pytest.mark.parametrize("asked", [("--topic", "none"), ("--queue", "topic_0/99")])
def test_a_queue_that_the_store_has_nowhere_is_wrong_use(
    asked: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path / "new", *asked, *SETS) == 16
    assert f"{' '.join(asked)}: the store has no such thing" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "tops", "says"),
    [
        (["--only", "index"], {"index"}, "REBUILT IN PART: 3 index files from "),
        (["--only", "checkpoint"], {"checkpoint"}, "REBUILT IN PART: a checkpoint from "),
        (["--only", "checkpoint", "--only", "index"], {"checkpoint", "index"}, "REBUILT IN PART: "),
        (["--only", "queues"], {"consumequeue", "batchconsumequeue"}, "REBUILT IN PART: 43 queues from "),
        (["--topic", "bcq_a"], {"batchconsumequeue"}, "REBUILT IN PART: "),
        (["--queue", "bcq_a/0"], {"batchconsumequeue"}, "REBUILT IN PART: 1 queue from "),
    ],
)
def test_parts_are_parts_of_the_whole(
    words: list[str], tops: set[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path / "part", "--quiet", *words, *SETS) == 0
    assert capsys.readouterr().out.startswith(says)
    rebuild(golden.store(NAME), tmp_path / "all", given=given_for(NAME))
    part, whole = tree(tmp_path / "part"), tree(tmp_path / "all")
    assert {path.split("/")[0] for path in part} == tops
    assert {path: whole[path] for path in part} == part
    if words[0] == "--only":
        assert part.keys() == {path for path in whole if path.split("/")[0] in tops}
    else:
        assert {path.split("/")[1] for path in part} == {"bcq_a"}


def test_a_damaged_log_is_4_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = StoreBuilder(tmp_path / "store")
    for number in (0, 1, 2, 5, 6, 7, 8):
        builder.message("t", 3, b"x" * 50, queue_offset=number)
    root = builder.close()
    words = ["--set", "mappedFileSizeConsumeQueue=1000", "--json", str(tmp_path / "j")]
    assert call(tmp_path / "new", *words, store=root) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("DOUBTFUL: 1 queue, ")
    assert "but the numbers of 1 queue jump or repeat." in out
    assert "t/3 lacks 3 to 4" in out
    found = json.loads((tmp_path / "j").read_text())
    (queue,) = found["queues"]
    assert (queue["gaps"], queue["filled"], queue["replaced"], found["verdict"]) == ([[3, 5]], 2, 0, "doubtful")
    assert "mv " not in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--queue", "orders"], "TOPIC/ID"),
        (["--queue", "orders/x"], "TOPIC/ID"),
        (["--queue", "orders/-1"], "TOPIC/ID"),
        (["--topic", "a", "--only", "index"], "--only queues"),
        (["--only", "log"], "log"),
        (["--set", "noSuchSetting=1"], "noSuchSetting"),
        (["--set", "maxIndexNum=1", "--set", "maxHashSlotNum=5"], "maxIndexNum=1: must be 2 or more"),
        (["--json", "NEW/x.json"], "must be new or empty"),
        (["--json", "STORE/x.json"], "never written"),
        (["--jobs", "0"], "--jobs"),
        (["--broker", "newest"], "newest"),
    ],
)
def test_wrong_use(words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = golden.copy_of("base-5.3.3", tmp_path / "store")
    filled = [word.replace("NEW", str(tmp_path / "new")).replace("STORE", str(store)) for word in words]
    assert call(tmp_path / "new", *filled, store=store) == 16
    assert says in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_no_store_is_16(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path / "new", "--json", "-", store=tmp_path / "nowhere") == 16
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["exit_code"]) == (None, 16)
    assert list(tmp_path.iterdir()) == []


def test_cancelled_is_32_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(self: Meter, progress: Any) -> None:
        self.last = progress
        if progress.done_bytes > progress.total_bytes // 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Meter, "update", interrupt)
    assert call(tmp_path / "new", "--split-bytes", "4096", *SETS) == 32
    assert "cancelled after" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_went_wrong_inside_is_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr("storeio.rebuild.node.rebuild", broken)
    assert call(tmp_path / "new") == 8
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("first", ["", "import storeio.rebuild; ", "from storeio.rebuild import derive; "])
def test_the_verb_is_a_function(first: str, tmp_path: Path) -> None:
    call = f"storeio.rebuild({str(golden.store(NAME))!r}, {str(tmp_path / 'x')!r})"
    script = f"{first}import storeio; print({call}.records)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(len(golden.dump(NAME)))

"""Salvage of chosen messages, and the messages one by one: against the slow decoder's reading of all that is saved."""

from __future__ import annotations

import base64
import errno
import json
import os
import random
import shutil
from pathlib import Path

import golden_data as golden
import pyarrow.parquet as pq
import pytest
import salvages
from rebuilds import no_waiting_for_disks
from sampled import seeds

from storeio import audit, cli
from storeio.inspect.bodies import decoded
from storeio.replay import COLUMNS, Provenance, messages
from storeio.report.salvaging import MARK
from storeio.salvage.chosen import Choice
from storeio.salvage.fillers import is_filler
from storeio.salvage.node import salvage
from storeio.salvaged import Salvaged

__all__ = ["no_waiting_for_disks"]
pytestmark = pytest.mark.usefixtures("no_waiting_for_disks")
STORES = ("base-4.9.8", "rich-5.3.3", "rich-5.5.1")
Saved = dict[int, salvages.Original]


def real(root: Path, segment_bytes: int) -> Saved:
    """Return the records of a salvaged log that are no fillers."""
    found = salvages.records_of(root, segment_bytes)
    return {at: one for at, one in found.items() if not is_filler(one.head.topic, one.head.sys_flag, body_of(one))}


def body_of(one: salvages.Original) -> bytes:
    stop = one.head.properties_at - one.head.position - 2 - len(one.head.topic)
    stop -= 1 if len(one.head.topic) <= 127 else 2
    return one.raw[stop - one.head.body_length : stop]


def some_choice(chance: random.Random, saved: Saved) -> Choice:
    """Return a choice that meets at least one record."""
    one = saved[chance.choice(sorted(saved))]
    topic, queue_id = one.name
    later = max(other.head.store_ms for other in saved.values())
    since = one.head.store_ms if chance.random() < 0.5 else None
    until = chance.randint(one.head.store_ms, later) if chance.random() < 0.5 else None
    queues = offsets = None
    if chance.random() < 0.7 or since is until is None:
        queues = frozenset({(topic, queue_id if chance.random() < 0.5 else None)})
        if chance.random() < 0.5:
            offsets = (max(one.head.batch_base - chance.randint(0, 5), 0), one.head.batch_base + chance.randint(0, 5))
    return Choice(queues, False, since, until, offsets)


def expected(saved: Saved, choice: Choice) -> Saved:
    """Return what is to be kept, told record by record."""
    kept: dict[tuple[str, int], tuple[int, int]] = {}
    single: set[int] = set()
    for at, one in saved.items():
        topic, queue_id = one.name
        low, high = one.head.batch_base, one.head.batch_base + max(one.head.batch_size, 1)
        named = choice.queues is None or {(topic, None), (topic, queue_id)} & choice.queues
        since = choice.since_ms is None or one.head.store_ms >= choice.since_ms
        until = choice.until_ms is None or one.head.store_ms <= choice.until_ms
        there = choice.queue_offsets is None or (low <= choice.queue_offsets[1] and high > choice.queue_offsets[0])
        if named and since and until and there:
            if one.numbers:
                old = kept.get(one.name, (low, high))
                kept[one.name] = min(low, old[0]), max(high, old[1])
            else:
                single.add(at)
    for at, one in saved.items():
        low, high = kept.get(one.name, (0, 0))
        if one.numbers and one.numbers.start < high and one.numbers.stop > low:
            single.add(at)
    return {at: saved[at] for at in single}


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("name", STORES)
def test_what_is_chosen_is_kept_and_nothing_else(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    given = damage.given
    whole = salvage(damage.root, tmp_path / "whole", given=given, jobs=1)
    saved = real(tmp_path / "whole", damage.segment_bytes)
    choice = some_choice(random.Random(seed), saved)
    result = salvage(damage.root, tmp_path / "new", given=given, choice=choice, jobs=1)
    left = expected(saved, choice)
    now = real(tmp_path / "new", damage.segment_bytes)
    assert {at: one.raw for at, one in now.items()} == {at: one.raw for at, one in left.items()}, choice
    assert result.problems == []
    assert result.records == len(left) - result.tombstones
    assert result.left_out == whole.records - result.records
    assert result.verdict == ("lossy" if result.lost or result.dropped or result.unnamed else "part")
    after = audit.check(tmp_path / "new", given=given, jobs=1)
    assert after.exit_code == 0, (choice, [f for f in after.findings if f.severity != "info"][:5])
    mark = json.loads((tmp_path / "new" / MARK).read_text())
    assert (mark["left_out"], mark["verdict"], mark["chosen"]) == (result.left_out, result.verdict, choice.sentence())


def check_messages(rows: list[dict[str, object]], saved: Saved, result: Salvaged) -> None:
    """Compare rows with the records of the new log, field by field."""
    lost = {(p.topic, p.queue_id, n) for p in result.lost for n in range(p.first_queue_offset, p.stop_queue_offset)}
    true = {at: one for at, one in saved.items() if not any((*one.name, n) in lost for n in one.numbers)}
    assert [row["physical_offset"] for row in rows] == sorted(true)
    for row in rows:
        assert [*row] == [name for name, _, _ in COLUMNS]
        at = row["physical_offset"]
        assert isinstance(at, int)
        head = true[at].head
        assert (row["topic"], row["queue_id"]) == true[at].name
        assert (row["queue_offset"], row["size"], row["sys_flag"]) == (head.queue_offset, head.size, head.sys_flag)
        assert (row["born_timestamp_ms"], row["store_timestamp_ms"]) == (head.born_ms, head.store_ms)
        assert row["body"] == decoded(body_of(true[at]), head.sys_flag).data
        assert json.loads(str(row["properties"])) == head.pairs
        assert row["keys"] == head.pairs.get("KEYS")
        assert row["real_topic"] == head.pairs.get("REAL_TOPIC", row["topic"])


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_first_bytes_that_a_file_lost_are_told(gone: int, tmp_path: Path) -> None:
    """A size begins with zeros: with the file back in its place they stand there, though no source has them."""
    root = golden.copy_of("base-4.9.8", tmp_path / "store")
    segment = root / "commitlog" / "00000000000000032768"
    before = segment.read_bytes()
    segment.write_bytes(before[gone:])
    result = salvage(root, tmp_path / "new", jobs=1)
    size = before[:4].hex()
    assert size.startswith("0000")
    assert size[4:6] != "00"  # so that without three bytes the size is another one, not one that has a byte less
    old = size[2 * gone :] if gone < 3 else "000000" + size[6:]
    assert [(r.physical_offset, r.field, r.old, r.new) for r in result.restored] == [(32768, "size", old, size)]
    assert result.lost == []
    assert (tmp_path / "new" / "commitlog" / segment.name).read_bytes() == before
    first = next(row for row in messages(Provenance.of(result), tmp_path / "new") if row["physical_offset"] == 32768)
    assert first["found"] == "restored"


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(3, 30))
@pytest.mark.parametrize("name", STORES)
def test_messages(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    given = damage.given
    result = salvage(damage.root, tmp_path / "new", given=given, jobs=1)
    rows = list(messages(Provenance.of(result), tmp_path / "new"))
    check_messages(rows, real(tmp_path / "new", damage.segment_bytes), result)
    assert {row["physical_offset"] for row in rows if row["found"] == "restored"} == {
        record.physical_offset for record in result.restored
    }
    for row in rows:  # what is not restored stands in its source as it is told
        if row["found"] != "restored":
            source, position = Path(str(row["source"])), row["source_position"]
            assert isinstance(position, int)
            raw = (damage.root / source).read_bytes()[position : position + int(str(row["size"]))]
            at = row["physical_offset"]
            assert isinstance(at, int)
            new = tmp_path / "new" / "commitlog" / f"{at // damage.segment_bytes * damage.segment_bytes:020d}"
            assert new.read_bytes()[at % damage.segment_bytes :][: len(raw)] == raw


def test_files_of_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON lines, Parquet and the function tell the same; a file appears whole."""
    damage = salvages.damaged("rich-5.5.1", 4, tmp_path / "store")
    size = f"mappedFileSizeCommitLog={damage.segment_bytes}"
    told = []
    for i, name in enumerate(("one.jsonl", "two.parquet")):
        words = ["salvage", str(damage.root), "--into", str(tmp_path / f"new{i}"), "--set", size, "--json", "-"]
        code = cli.run([*words, "--messages", str(tmp_path / name)])
        told.append(json.loads(capsys.readouterr().out))
        assert code == told[-1]["exit_code"]
    lines = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    rows = pq.read_table(tmp_path / "two.parquet").to_pylist()
    for line in lines:
        line["body"] = base64.b64decode(line["body"])
        line["properties"] = json.dumps(line["properties"])
    assert lines == rows
    assert [one["messages"]["count"] for one in told] == [len(rows)] * 2
    assert len(rows) == told[0]["log"]["records"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new0", "new1", "one.jsonl", "store", "two.parquet"]


def test_a_file_of_messages_whose_name_is_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    words = ["salvage", str(golden.store("base-5.5.1")), "--into", str(tmp_path / "new"), "--quiet"]
    assert cli.run([*words, "--messages", name]) == 0
    with open(name, "rb") as file:
        assert pq.read_table(file).num_rows == 850


def test_deleted_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Told by topics.json, or by the missing directory, and chosen by --deleted."""
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    size = int(golden.options("base-5.3.3")["clFile"])
    records = salvages.records_of(root, size)
    topics = sorted({one.name[0] for one in records.values()})
    gone = next(topic for topic in topics if (root / "consumequeue" / topic).is_dir())
    shutil.rmtree(root / "consumequeue" / gone)
    words = ["salvage", str(root), "--set", f"mappedFileSizeCommitLog={size}", "--into"]
    cli.run([*words, str(tmp_path / "one")])
    out = capsys.readouterr().out
    assert "DELETED TOPICS" in out
    assert gone in out.partition("DELETED TOPICS")[2]
    cli.run([*words, str(tmp_path / "two"), "--deleted", "--json", "-"])
    told = json.loads(capsys.readouterr().out)
    assert [topic["topic"] for topic in told["topics"] if topic["deleted"]] == [gone]
    assert {one.name[0] for one in real(tmp_path / "two", size).values()} == {gone}
    cli.run([*words, str(tmp_path / "none"), "--deleted", "--topic", next(t for t in topics if t != gone), "--quiet"])
    assert not real(tmp_path / "none", size)
    assert cli.run([*words, str(tmp_path / "nothing"), "--topic", "none"]) == 16
    assert "--topic none: the store has no such thing" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    (root / "config").mkdir(exist_ok=True)
    kept = {topic: {"topicName": topic} for topic in topics[1:]}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": kept}))
    cli.run([*words, str(tmp_path / "three"), "--json", "-"])
    told = json.loads(capsys.readouterr().out)
    assert [topic["topic"] for topic in told["topics"] if topic["deleted"]] == topics[:1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queue-offset", "5"], "--topic or --queue"),
        (["--topic", "T", "--queue-offset", "9..5"], "ends before"),
        (["--topic", "T", "--queue-offset", "x"], "neither N nor N..M"),
        (["--topic", "T", "--queue-offset", "1_0..+1_2"], "neither N nor N..M"),
        (["--topic", "T", "--queue-offset=-5..-3"], "begin at 0"),
        (["--topic", "T", "--queue-offset", f"{2**63}.."], f"no number is above {2**63 - 1}"),
        (["--since", "2026"], "a whole date is needed"),
        (["--since", "yesterday"], "ISO 8601"),
        (["--since", "2026-01-02", "--until", "2026-01-01"], "ends before"),
        (["--queue", "T"], "TOPIC/ID"),
        (["--messages", "m.txt"], ".jsonl"),
        (["--messages", "s3://bucket/m.jsonl"], "local disk"),
    ],
)
def test_wrong_choices(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden.store("base-4.9.8")
    assert cli.run(["salvage", str(root), "--into", str(tmp_path / "new"), *words]) == 16
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_messages_are_not_written_into_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden.copy_of("base-4.9.8", tmp_path / "store")
    for place in (root / "m.jsonl", tmp_path / "new" / "m.jsonl"):
        assert cli.run(["salvage", str(root), "--into", str(tmp_path / "new"), "--messages", str(place)]) == 16
        assert "lies inside" in capsys.readouterr().err


def test_no_file_of_messages_that_only_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("storeio.output.whole_file.flush", full)
    place = tmp_path / "taken.jsonl"
    root = golden.store("base-4.9.8")
    size = f"mappedFileSizeCommitLog={golden.options('base-4.9.8')['clFile']}"
    words = ["salvage", str(root), "--into", str(tmp_path / "new"), "--set", size, "--messages", str(place)]
    assert cli.run(words) == 8
    assert "could not be written" in capsys.readouterr().out.partition("NOT DONE")[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]
    place.mkdir()
    assert cli.run([*words[:3], str(tmp_path / "other"), *words[4:]]) == 16
    assert "is no file in a directory that is there" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()

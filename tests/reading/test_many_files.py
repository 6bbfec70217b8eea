"""Many small files in one call: what it says is what reading them one by one says, and of all else it says nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled import sampled

from storeio import audit
from storeio.audit import AuditPlan, FileReport
from storeio.format.consumequeue import UNIT_BYTES
from storeio.paths import CONSUMEQUEUE
from storeio.predict.start import simulate
from storeio.reading import many_files
from storeio.reading.many_files import MOST_BYTES, Pieces, agreeing, summaries_of
from storeio.results import EXIT_SOUND, Audit
from storeio.scan import data_stop

Piece = tuple[bytes, int, int, int, bytes]
"""Topic, queue id, number in the file's name, position in the file, and what should stand there."""

DAMAGED = ("rows-4.9.8", "rows-5.5.1", "fuzz-5.1.4", "fuzz-5.3.3")


def pieces_of(rows: list[Piece]) -> Pieces:
    """Return pieces, their topics and bytes one behind the other."""
    table = np.zeros((many_files.PIECE_ROWS, len(rows)), np.int64)
    topic_at = expected_at = 0
    for k, (topic, queue_id, base, start, expected) in enumerate(rows):
        table[:, k] = topic_at, len(topic), queue_id, base, start, expected_at, len(expected)
        topic_at += len(topic)
        expected_at += len(expected)
    names = np.frombuffer(b"".join(row[0] for row in rows), np.uint8)
    return Pieces(names, table, np.frombuffer(b"".join(row[4] for row in rows), np.uint8))


def put(root: Path, topic: str, queue_id: int, base: int, data: bytes) -> Path:
    """Write a queue file."""
    path = root / CONSUMEQUEUE / topic / str(queue_id) / f"{base:020d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_pieces_that_stand_where_they_should_are_told(tmp_path: Path) -> None:
    put(tmp_path, "topic|%$+-_9", 0, 0, b"0123456789")
    put(tmp_path, "t", 1234567890123456789, 600, b"abcdef")
    rows: list[Piece] = [
        (b"topic|%$+-_9", 0, 0, 0, b"0123456789"),
        (b"topic|%$+-_9", 0, 0, 9, b"9"),
        (b"topic|%$+-_9", 0, 0, 9, b"8"),
        (b"topic|%$+-_9", 0, 0, 9, b"9\0"),
        (b"t", 1234567890123456789, 600, 1, b"bcd"),
        (b"t", 1234567890123456789, 601, 1, b"bcd"),
        (b"t", 123, 600, 1, b"bcd"),
        (b"u", 1234567890123456789, 600, 1, b"bcd"),
    ]
    assert agreeing(str(tmp_path), pieces_of(rows)).tolist() == [True, True, *[False] * 2, True, *[False] * 3]
    path, start, stop, data = pieces_of(rows).piece(4)
    assert (path, start, stop) == ("consumequeue/t/1234567890123456789/00000000000000000600", 1, 4)
    assert data.tobytes() == b"bcd"


def test_topics_that_no_broker_makes_lead_nowhere(tmp_path: Path) -> None:
    """They come from damaged bytes; and a name that is another one's place is not its place."""
    put(tmp_path, "t", 0, 0, b"bytes")
    put(tmp_path, "", 0, 0, b"bytes")
    put(tmp_path, "\u00fc", 0, 0, b"bytes")
    put(tmp_path, "t.", 0, 0, b"bytes")
    names = [b"t/../t", b"./t", b"", b".", b"..", b"t\0", "\u00fc".encode(), b"t.", b"t" * 5000, b"/t", b" t"]
    rows: list[Piece] = [(name, 0, 0, 0, b"bytes") for name in names]
    rows += [(b"t", -1, 0, 0, b"bytes"), (b"t", 0, -1, 0, b"bytes"), (b"t", 0, 0, -1, b"bytes"), (b"t", 0, 0, 0, b"")]
    assert not agreeing(str(tmp_path), pieces_of(rows)).any()
    assert agreeing(str(tmp_path), pieces_of([(b"t", 0, 0, 0, b"bytes")])).all()


def test_tables_that_reach_outside_say_nothing(tmp_path: Path) -> None:
    put(tmp_path, "t", 0, 0, b"bytes")
    sound = pieces_of([(b"t", 0, 0, 0, b"bytes")])
    for row, value in [(0, -1), (0, 1), (1, 2), (5, -1), (5, 1), (6, -1), (6, 6), (6, 2**62), (4, 2**62)]:
        table = sound.table.copy()
        table[row] = value
        assert not agreeing(str(tmp_path), replace(sound, table=table)).any()


def test_what_is_no_file_is_neither_waited_for_nor_believed(tmp_path: Path) -> None:
    for topic in ("pipe", "directory", "gone", "link"):
        put(tmp_path, topic, 0, 0, b"bytes").unlink()
    place = tmp_path / CONSUMEQUEUE
    os.mkfifo(place / "pipe" / "0" / f"{0:020d}")
    (place / "directory" / "0" / f"{0:020d}").mkdir()
    (place / "link" / "0" / f"{0:020d}").symlink_to("/dev/zero")
    rows: list[Piece] = [(name, 0, 0, 0, bytes(5)) for name in (b"pipe", b"directory", b"gone", b"link")]
    assert not agreeing(str(tmp_path), pieces_of(rows)).any()
    files = [(f"{CONSUMEQUEUE}/{row[0].decode()}/0/{0:020d}", 5, UNIT_BYTES) for row in rows]
    assert not summaries_of(str(tmp_path), files)[1].any()


@given(st.lists(st.tuples(st.sampled_from(["", "hole", "filler", "unit", "noise"]), st.integers(0, 300)), max_size=6))
def test_a_summary_is_that_of_all_bytes(tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, int]]) -> None:
    chance = np.random.default_rng(len(parts))
    root = tmp_path_factory.mktemp("store")
    path = put(root, "t", 0, 0, b"")
    with path.open("wb") as file:
        for what, count in parts:
            if what == "hole":
                file.seek(count * 1000, os.SEEK_CUR)
            elif what == "noise":
                file.write(chance.integers(0, 256, count, np.uint8).tobytes())
            elif what:
                size = 2**31 - 1 if what == "filler" else 100
                physical = 0 if what == "filler" else count * 100
                file.write((physical.to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(8)) * count)
        file.truncate()
    plan = plan_of(root)
    (task,) = audit.file_tasks(plan)
    # Asked first: in memory, what was read is no hole any more.
    stop = data_stop(str(root), task.file.path, task.file.size)
    rows, known = summaries_of(str(root), [(task.file.path, task.file.size, UNIT_BYTES)])
    expected = audit.run_file_task(plan, task)
    assert audit.run_file_tasks(plan, [task]) == [expected]
    assert known.tolist() == [task.file.size > 0 and stop <= MOST_BYTES]
    if known.all():
        assert expected.summary is not None
        assert rows[0, 0] == expected.summary.used_bytes


def plan_of(root: Path) -> AuditPlan:
    """Return the plan of a store without a log."""
    return audit.prepare(str(root))


def test_a_file_that_shrank_is_left_to_who_can_say_so(tmp_path: Path) -> None:
    path = put(tmp_path, "t", 0, 0, b"x" * 40)
    plan = plan_of(tmp_path)
    path.write_bytes(b"x" * 20)
    (report,) = audit.run_file_tasks(plan, audit.file_tasks(plan))
    assert report == FileReport(report.file, failed=report.failed)
    assert "became shorter than 40 bytes" in report.failed


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sampled((*golden.STORES, *DAMAGED), (*golden.STORES[::3], *DAMAGED[::2])))
def test_an_audit_says_the_same_without(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in golden.STORES:
        roots = [golden.store(name)]
    else:
        cases = golden.cases(name)[3::11]
        roots = [
            golden.damaged(golden.base_of(name), case["edits"], tmp_path / str(number))
            for number, case in enumerate(cases)
        ]
    for root in roots:
        with_it = audit.check(root, jobs=1, split_bytes=7000)
        with monkeypatch.context() as patch:
            patch.setattr(many_files, "addresses", lambda: None)
            without = audit.check(root, jobs=1, split_bytes=7000)
        assert facts(with_it) == facts(without)


def facts(found: Audit) -> Audit:
    """Return the audit without its times."""
    return replace(found, started_ms=0, seconds=0.0)


def test_most_queues_of_a_sound_store_are_looked_at_so(monkeypatch: pytest.MonkeyPatch) -> None:
    root = golden.store("base-5.5.1")
    asked: list[np.ndarray] = []
    plan = audit.look_at_store(root).plan
    real = many_files.agreeing
    monkeypatch.setattr(many_files, "agreeing", lambda root, pieces: asked.append(real(root, pieces)) or asked[-1])
    for split in plan.splits:
        audit.audit_split(plan, split)
    assert sum(len(each) for each in asked) > 0
    assert all(each.all() for each in asked)
    asked.clear()
    assert simulate(root, digests=False).exit_code == EXIT_SOUND
    assert sum(len(each) for each in asked) > 0
    assert all(each.all() for each in asked)

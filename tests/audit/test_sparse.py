"""Sparse files: they claim more zeros than anybody could read, so what is read is bounded by what they hold."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import golden_data as golden
import numpy as np
import pytest

import storeio
from storeio import audit, cli
from storeio.checks.leftover import Leftover
from storeio.checks.queue_files import Queue, QueueFile
from storeio.checks.segments import view_log
from storeio.checks.uncovered import judge_uncovered
from storeio.config import infer_config
from storeio.findings import condense
from storeio.inspect.filelist import files
from storeio.inspect.indexunits import entries_of
from storeio.inspect.logwalk import walk_segment
from storeio.inspect.queueunits import units
from storeio.inspect.reader import Reader
from storeio.kernels import tables as w
from storeio.plan.model import RESIZE
from storeio.planning import derived, plan_store
from storeio.predict.start import simulate
from storeio.reading import local_files
from storeio.scan import list_store
from storeio.splits import DEFAULT_SPLIT_BYTES, merge_spans

pytestmark = pytest.mark.share(2)

CLAIMED = 1 << 40
SMALL = 1 << 22
MOST_READ = 3 << 30
QUEUE = "consumequeue/topic_0/0/00000000000000004000"
SEGMENT = "commitlog/00000000000000163840"
EXT = "consumequeue_ext/topic_1/0/00000000000000000000"

Grown = Callable[[str, str, int], Path]


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail, and not hang, where holes are read."""
    real, left = local_files.read_bytes, [MOST_READ]

    def counted(root: str, path: str, start: int, stop: int, *, populate_to: int | None = None) -> local_files.Bytes:
        left[0] -= max((stop if populate_to is None else min(populate_to, stop)) - start, 0)
        assert left[0] > 0, f"{path}: {stop - start} bytes at {start}"
        return real(root, path, start, stop, populate_to=populate_to)

    monkeypatch.setattr(local_files, "read_bytes", counted)


@pytest.fixture
def grown(tmp_path: Path) -> Grown:
    """Return what gives a copy of a sound store with one file made longer, or made, by a hole."""

    def make(name: str, path: str, length: int) -> Path:
        root = golden.copy_of(name, tmp_path / f"{length}-{len(list(tmp_path.iterdir()))}")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
        os.truncate(root / path, length)
        return root

    return make


def no_holes_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the system tell of no hole."""
    monkeypatch.delattr(os, "SEEK_DATA")
    monkeypatch.delattr(os, "SEEK_HOLE")


@pytest.mark.parametrize("path", [QUEUE, QUEUE.replace("4000", "5000")])
def test_units_of_a_sparse_queue_file(path: str, grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(length: int) -> tuple[list[Any], list[Any]]:
        reader = Reader(grown("base-5.5.1", path, length))
        (view,) = (view for view in files(reader) if view.path == path)
        assert view.details["units"] == length // 20
        found = [unit for unit in units(reader, topic="topic_0", queue_id=0) if unit.path == path]
        assert sum(unit.count for unit in found if unit.state != "ragged") == length // 20
        assert {unit.state for unit in found[:-1]} <= {"written", "zero"}
        facts = [(unit.position, unit.state, unit.physical_offset, unit.why) for unit in found]
        return [view.details.get("used"), view.details.get("last_queue_offset")], facts

    large = looked_at(CLAIMED)
    with monkeypatch.context() as patch:
        no_holes_told(patch)
        small = looked_at(SMALL + (CLAIMED - SMALL) % 20)
    assert large[0] == small[0]
    assert large[1][:-1] == small[1][:-1]
    assert (large[1][-1][1], small[1][-1][1]) == ("ragged", "ragged")


def test_units_behind_a_hole_are_found(grown: Grown) -> None:
    root = grown("base-5.5.1", QUEUE, CLAIMED)
    at = CLAIMED // 2 // 20
    with (root / QUEUE).open("r+b") as file:
        file.seek(at * 20)
        file.write((1000).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8))
    reader = Reader(root)
    (view,) = (view for view in files(reader) if view.path == QUEUE)
    assert view.details["used"] == at + 1
    found = [unit for unit in units(reader, topic="topic_0", queue_id=0) if unit.path == QUEUE]
    assert [(unit.position, unit.physical_offset) for unit in found if unit.state == "written"][-1] == (at * 20, 1000)
    assert sum(unit.count for unit in found if unit.state != "ragged") == CLAIMED // 20


@pytest.mark.parametrize("path", [SEGMENT, "commitlog/00000000000000294912", "commitlog/00000000000000327680"])
@pytest.mark.parametrize("holes_told", [True, False])
def test_records_of_a_sparse_segment(
    path: str, holes_told: bool, grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk that passes over holes tells the same as one that reads them."""

    def walked(length: int) -> tuple[list[list[int]], list[list[int]]]:
        reader = Reader(grown("base-5.5.1", path, length))
        (segment,) = (each for each in reader.segments() if each.path == path)
        parts = [stretch.walked for stretch in walk_segment(reader, segment)]
        records = np.concatenate([part.records[[w.R_POSITION, w.R_SIZE]] for part in parts], axis=1)
        spans = merge_spans([part.spans for part in parts])
        assert spans[w.SPAN_STOP, -1] == length
        spans[w.SPAN_STOP, -1] = 0
        return records.tolist(), spans.tolist()

    if not holes_told:
        no_holes_told(monkeypatch)
    large = walked(CLAIMED if holes_told else 3 * DEFAULT_SPLIT_BYTES)
    no_holes_told(monkeypatch) if holes_told else None
    assert large == walked(SMALL)


def test_a_place_in_a_sparse_segment_says_what_is_there(grown: Grown, capsys: pytest.CaptureFixture[str]) -> None:
    path = "commitlog/00000000000000294912"
    root = grown("base-5.5.1", path, CLAIMED)
    assert cli.run(["inspect", str(root), "--at", str(294912 + CLAIMED // 2)]) == 0
    assert "lies in zero bytes" in capsys.readouterr().err


def test_a_record_behind_a_hole_is_found(grown: Grown) -> None:
    path = "commitlog/00000000000000294912"
    root = grown("base-5.5.1", path, CLAIMED)
    at = CLAIMED // 2 + 4096
    moved = bytearray(golden.store("base-5.5.1").joinpath(path).read_bytes()[25771:])  # the last one: no other is newer
    del moved[int.from_bytes(moved[:4], "big") :]
    moved[28:36] = (294912 + at).to_bytes(8, "big")
    with (root / path).open("r+b") as file:
        file.seek(at)
        file.write(moved)
    reader = Reader(root)
    (segment,) = (each for each in reader.segments() if each.path == path)
    places = [int(n) for stretch in walk_segment(reader, segment) for n in stretch.walked.records[w.R_POSITION]]
    assert places[-1] == at


def test_the_slots_of_a_sparse_index_are_looked_for_where_it_holds_something(grown: Grown) -> None:
    name = min(p.name for p in golden.store("base-5.5.1").glob("index/*"))
    path = f"index/{name}"
    large, small = (
        [
            (entry.path, entry.number, entry.physical_offset)
            for entry in entries_of(Reader(grown("base-5.5.1", path, length)), with_record=False)
        ]
        for length in (16840 + CLAIMED // 20 * 20, 16840 + 20 * 1000)
    )
    assert large == small
    assert any(entry[0] != path for entry in large)


@pytest.mark.parametrize("path", [EXT, EXT.replace("00000000000000000000", "00000000000000100000")])
def test_an_audit_of_a_sparse_ext_file(path: str, grown: Grown) -> None:
    def looked_at(length: int) -> tuple[list[tuple[str, str]], dict[str, int]]:
        found = storeio.check(grown("ext-5.5.1", path, length))
        (report,) = (r for r in _reports(found.store) if r.file.path == path)
        assert sum(report.classes.values()) == length
        return [(f.code, f.path) for f in found.findings], {k: n for k, n in report.classes.items() if k != "zero"}

    assert looked_at(CLAIMED) == looked_at(SMALL)


def with_unit(root: Path, path: str, at: int, unit: bytes) -> Path:
    """Write a unit into a file, perhaps behind a hole."""
    with (root / path).open("r+b") as file:
        file.seek(at)
        file.write(unit)
    return root


UNIT = (1000).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8)
BATCH_UNIT = UNIT + bytes(26)
UNITS = "consumequeue/topic_{}/0/00000000000000000000"
BATCH = "batchconsumequeue/bcq_a/0/00000000000000000000"


@pytest.mark.parametrize(
    ("name", "path", "unit", "setting", "length"),
    [
        (
            "rich-5.5.1",
            "consumequeue/topic_1/0/00000000000000000000",
            UNIT,
            "mappedFileSizeConsumeQueue",
            2_000_000_000,
        ),
        (
            "rich-5.5.1",
            "consumequeue/topic_9/0/00000000000000000000",
            UNIT,
            "mappedFileSizeConsumeQueue",
            2_000_000_000,
        ),
        ("rich-5.5.1", BATCH, BATCH_UNIT, "mapperFileSizeBatchConsumeQueue", 46 * 4_000_000),
    ],
    ids=["queue", "queue without records", "batch queue"],
)
def test_an_audit_of_units_behind_a_hole(
    name: str, path: str, unit: bytes, setting: str, length: int, grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros that are holes are judged as zeros that are read."""
    monkeypatch.setattr(local_files, "read_bytes", none_above(64 << 20))

    def looked_at(length: int) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
        root = with_unit(grown(name, path, length), path, length - 100 * len(unit), unit)
        found = storeio.check(root, given={setting: str(length)})
        (file,) = (file for file in found.files if file.path == path)
        assert sum(file.classes.values()) == length
        facts = [(f.code, f.path, length - (f.position or 0) if f.code.endswith("TAIL") else f.position, f.detail)
                 for f in found.findings if f.path == path]  # fmt: skip
        return facts, {kind: count for kind, count in file.classes.items() if kind != "zero"}

    large, small = looked_at(length), looked_at(length // 100)
    assert large == small
    assert any(code.endswith(("CQ_DIRTY_TAIL", "ORPHAN")) for code, *_ in large[0])


def test_units_in_front_of_a_hole_and_behind_it() -> None:
    """A hole between units that records have is told as one that is read."""
    size, count = 1_000_000 * 20, 1_000_000
    data = np.zeros(size, np.uint8)
    data[:20] = data[-20:] = np.frombuffer(UNIT, np.uint8)
    file = QueueFile("consumequeue/t/0/00000000000000000000", 0, size, size, 0, count - 1)
    queue = Queue("consumequeue", "t", 0, size, (file,))
    asked = []

    def read(path: str, start: int, stop: int) -> local_files.Bytes:
        asked.append(stop - start)
        return data[start:stop]

    def judged(stretches: list[tuple[int, int]]) -> Leftover:
        view = view_log([], 1 << 20)
        covered = [(0, 1), (count - 1, count)]
        return judge_uncovered(queue, covered, [], view, read, lambda *_: "", lambda *_: stretches)

    told, total = judged([(0, 4096), (size - 4096, size)]), sum(asked)
    assert total < size // 2
    untold = judged([(0, size)])
    assert condense(told.findings) == condense(untold.findings)
    assert [(f.code, f.count) for f in condense(told.findings)] == [("CQ_HOLE", count - 2)]
    assert told.classes == untold.classes


def none_above(most: int) -> Callable[..., local_files.Bytes]:
    """Return a read that fails where more is asked for at once."""
    real = local_files.read_bytes

    def read(root: str, path: str, start: int, stop: int, **more: Any) -> local_files.Bytes:
        assert min(stop, more.get("populate_to") or stop) - start <= most, f"{path}: {stop - start} bytes at {start}"
        return real(root, path, start, stop, **more)

    return read


@pytest.mark.parametrize("which", [min, max])
def test_an_audit_of_an_index_file_with_something_behind_a_hole(
    which: Callable[[list[str]], str], grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "read_bytes", none_above(64 << 20))
    path = "index/" + which([place.name for place in golden.store("base-5.5.1").glob("index/*")])

    def looked_at(length: int) -> list[tuple[str, int | None]]:
        root = with_unit(grown("base-5.5.1", path, length), path, length // 2, b"x")
        found = storeio.check(root)
        (file,) = (file for file in found.files if file.path == path)
        assert sum(file.classes.values()) == length
        return [(f.code, f.count) for f in found.findings if f.path == path]

    assert looked_at(CLAIMED) == looked_at(SMALL)


@pytest.mark.parametrize("at", [SMALL // 2, SMALL - 50])
def test_an_audit_of_an_ext_file_with_something_behind_a_hole(
    at: int, grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "read_bytes", none_above(64 << 20))

    def looked_at(length: int) -> list[tuple[Any, ...]]:
        root = with_unit(grown("ext-5.5.1", EXT, length), EXT, length - SMALL + at, b"xyz")
        found = storeio.check(root)
        (file,) = (file for file in found.files if file.path == EXT)
        assert sum(file.classes.values()) == length
        return [(f.code, length - (f.position or 0), f.length) for f in found.findings if f.code == "EXT_CHAIN"]

    assert looked_at(CLAIMED) == looked_at(SMALL)
    assert looked_at(CLAIMED)


def test_a_file_longer_than_any_of_a_broker_tells_no_size(grown: Grown) -> None:
    root = grown("base-5.5.1", "consumequeue/topic_9/0/00000000000000000000", CLAIMED // 20 * 20)
    for place in root.glob("consumequeue/topic_[!9]*"):
        shutil.rmtree(place)
    assert infer_config(list_store(root)).queue_file_bytes == 300_000 * 20


def test_an_inspection_of_a_segment_with_something_far_behind_its_blank_record(
    grown: Grown, capsys: pytest.CaptureFixture[str]
) -> None:
    """All records are shown, as without it; that the rest was not looked at is said, and told by the exit code."""
    length = CLAIMED
    sound = golden.store("base-5.5.1")
    assert cli.run(["inspect", str(sound), "--records", "--json"]) == 0
    wanted = capsys.readouterr().out
    root = with_unit(grown("base-5.5.1", SEGMENT, length), SEGMENT, length // 2, b"x")
    assert cli.run(["inspect", str(root), "--records", "--json"]) == 8
    shown = capsys.readouterr()
    assert shown.out == wanted
    assert SEGMENT in shown.err


def _reports(root: str) -> list[audit.FileReport]:
    plan = audit.prepare(root)
    return [audit.run_file_task(plan, task) for task in audit.file_tasks(plan)]


def test_an_inspection_of_a_sparse_ext_file(grown: Grown) -> None:
    large, small = (
        {view.path: view.summary for view in files(Reader(grown("ext-5.5.1", EXT, length)))}
        for length in (CLAIMED, SMALL)
    )
    assert large == small


def test_a_simulated_start_takes_no_digest_of_what_a_sparse_file_claims(grown: Grown) -> None:
    path = f"index/{min(place.name for place in golden.store('base-5.5.1').glob('index/*'))}"
    outcome = simulate(grown("base-5.5.1", path, CLAIMED), broker="5.5.1").outcome
    assert outcome.after_load is not None
    assert (CLAIMED, "") in outcome.after_load.index
    assert all(digest for size, digest in outcome.after_load.index if size != CLAIMED)


@pytest.mark.parametrize("path", ["config/topics.json", "config/consumerOffset.json", "config/delayOffset.json"])
def test_a_table_has_the_length_that_a_broker_makes_of_it(path: str, grown: Grown) -> None:
    """It takes the length as an int: of a multiple of 4 GiB nothing is left, and from 2 GiB on it is negative."""
    assert simulate(grown("base-5.5.1", path, CLAIMED), broker="5.5.1").outcome.outcome == "starts"
    root = grown("base-5.5.1", path, 3 << 30)
    (root / f"{path}.bak").write_text("[")
    assert simulate(root, broker="5.5.1").outcome.outcome == "refuses"


def test_of_a_table_too_large_to_look_at_nothing_is_said(grown: Grown) -> None:
    root = grown("base-5.5.1", "config/topics.json", (256 << 20) + 1)
    (root / "config/topics.json.bak").write_text("[")
    found = simulate(root, broker="5.5.1")
    assert found.outcome.outcome == "starts"
    assert [text.rpartition(": ")[2] for text in found.not_simulated] == [
        "it has more than 256 MiB, and is not looked at"
    ]


def test_a_salvage_leaves_holes_out(grown: Grown, tmp_path: Path) -> None:
    root = grown("base-5.5.1", "config/x.json", CLAIMED)
    with (root / "config/x.json").open("r+b") as file:
        file.seek(CLAIMED // 2)
        file.write(b"here")
    storeio.salvage(root, tmp_path / "new")
    copied = tmp_path / "new" / "config/x.json"
    assert copied.stat().st_size == CLAIMED
    assert copied.stat().st_blocks * 512 < SMALL
    with copied.open("rb") as file:
        file.seek(CLAIMED // 2)
        assert file.read(4) == b"here"


def test_a_plan_leaves_what_it_can_take_no_digest_of(grown: Grown, tmp_path: Path) -> None:
    root = grown("base-5.5.1", QUEUE, CLAIMED)
    (root / QUEUE.replace("/0/", "/1/")).write_bytes(b"x" * 1000)
    found = plan_store(root, tmp_path / "plan.json", jobs=1)
    assert any(QUEUE in text and "truncate" in text for text in found.plan.left)
    assert not any(action.path == QUEUE and action.kind == RESIZE for action in found.plan.actions)
    assert any("/topic_0/1/" in action.path for action in found.plan.actions)


def test_a_plan_compares_no_holes_of_what_it_builds_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk, looked = derived.CHUNK, []
    for name, places in (("old", [5]), ("new", [5, 3 * chunk - 2, 6 * chunk + 9])):
        with (tmp_path / name).open("wb") as file:
            for place in places:
                file.seek(place)
                file.write(b"here")
            file.truncate(100 * chunk)
    real = derived._ranges

    def counted(old: derived.Bytes, new: derived.Bytes, near: int = derived.NEAR) -> list[tuple[int, int]]:
        looked.append(len(old))
        return real(old, new, near)

    monkeypatch.setattr(derived, "_ranges", counted)
    last = [(3 * chunk - 2, 3 * chunk), (3 * chunk, 3 * chunk + 2), (6 * chunk + 9, 6 * chunk + 13)]
    assert derived._used(tmp_path / "new", 3) == [(5, 9), *last]
    draft: Any = SimpleNamespace(store=SimpleNamespace(root=tmp_path))
    found = list(derived._differences(draft, "old", tmp_path / "new"))
    assert found == [(low, b"here"[: high - low] if low != 3 * chunk else b"re") for low, high in last]
    assert sum(looked) < chunk  # of 200


def test_of_a_file_with_many_differences_those_of_a_page_are_one_action(tmp_path: Path) -> None:
    new = bytearray(6 * derived.CHUNK)
    few, many = range(0, 300 * derived.MANY, 300), range(0, len(new) // 2, 300)
    (tmp_path / "old").write_bytes(new)
    draft: Any = SimpleNamespace(store=SimpleNamespace(root=tmp_path))
    for places in (few, many):
        for place in (*places, len(new) - 1):
            new[place] = 1
        (tmp_path / "new").write_bytes(new)
        found = list(derived._differences(draft, "old", tmp_path / "new", 0, len(new) - 1))
        assert len(found) == (len(places) if places is few else 3)
        written = bytearray(len(new))
        for low, data in found:
            assert len(data) <= derived.CHUNK
            written[low : low + len(data)] = data
        assert written[:-1] == new[:-1]


def test_json_of_an_inspection_is_whole(grown: Grown, capsys: pytest.CaptureFixture[str]) -> None:
    root = grown("base-5.5.1", QUEUE, CLAIMED)
    assert cli.run(["inspect", str(root), "--json"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if QUEUE in line)
    assert json.loads(line)["size"] == CLAIMED
